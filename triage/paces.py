"""How fast a job went: step times before and after, one slow rank or all, NaN and stalls. Pure; needs step lines or dumps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from triage.history import Step

MIN_STEPS = 8
SIDE = 3
SPREAD_FACTOR = 4.0


@dataclass(frozen=True, slots=True)
class Change:
    """A lasting change of the step time. `share` is (after - before) / before; `step` is the first slow one."""

    before_s: float
    after_s: float
    share: float
    step: Step


def step_change(steps: Sequence[Step], least: float) -> Change | None:
    """The point after which steps are slower by at least the share `least`, for good, beyond the noise of the steps before.

    Every split with three or more steps on both sides is judged by medians; the split with the smallest spread around its two medians wins.
    """
    timed = [s for s in _one_rank(steps) if s.duration_s]
    if len(timed) < MIN_STEPS:
        return None
    timed = timed[-2000:]
    values = [s.duration_s or 0.0 for s in timed]
    at = _best_split(values)
    if at is None:
        return None
    before, after = median(values[:at]), median(values[at:])
    noise = median(abs(v - before) for v in values[:at]) or before * 1e-3
    share = (after - before) / before
    lasting = sum(v > before + noise for v in values[at:]) >= 0.8 * (len(values) - at)
    if share < least or after - before < SPREAD_FACTOR * noise or not lasting:
        return None
    return Change(before, after, share, timed[at])


def _one_rank(steps: Sequence[Step]) -> list[Step]:
    """Steps of the rank that printed most of them, in order; evaluation and warm-up steps stay in."""
    by_rank: defaultdict[int | None, list[Step]] = defaultdict(list)
    for step in steps:
        by_rank[step.rank].append(step)
    best = max(by_rank.values(), key=len, default=[])
    return best


def _best_split(values: Sequence[float]) -> int | None:
    """Index that splits `values` into two parts with the least absolute spread around their means; None when no split helps."""
    total = len(values)
    sums, squares = [0.0], [0.0]
    for value in values:
        sums.append(sums[-1] + value)
        squares.append(squares[-1] + value * value)

    def spread(low: int, high: int) -> float:
        count = high - low
        return squares[high] - squares[low] - (sums[high] - sums[low]) ** 2 / count

    splits = range(SIDE, total - SIDE + 1)
    best = min(splits, key=lambda k: spread(0, k) + spread(k, total), default=None)
    return best if best is not None and spread(0, best) + spread(best, total) < spread(0, total) else None


def slow_ranks(steps: Sequence[Step], mild: float) -> list[tuple[int, float]]:
    """Ranks whose own step time lies `mild` or more above the median of all ranks, worst first: (rank, share)."""
    times: defaultdict[int, list[float]] = defaultdict(list)
    for step in steps:
        if step.rank is not None and step.duration_s:
            times[step.rank].append(step.duration_s)
    typical = {rank: median(values) for rank, values in times.items() if len(values) >= SIDE}
    if len(typical) < 4:
        return []
    middle = median(typical.values())
    slow = [(rank, value / middle - 1) for rank, value in typical.items() if value >= middle * (1 + mild)]
    return sorted(slow, key=lambda item: -item[1])


def compute_share(slowest_s: float, fastest_s: float, base_s: float) -> float | None:
    """P = (Tmax - Tmin) / (Tmax - Tbase) of CCL-D: near 1 computation, near 0 communication; None when nothing is slow."""
    if slowest_s <= base_s:
        return None
    return max(0.0, min(1.0, (slowest_s - fastest_s) / (slowest_s - base_s)))
