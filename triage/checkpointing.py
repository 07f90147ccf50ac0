"""Checkpoint intervals, the waste at them, and continue-or-restart; closed forms over seconds.

M is the mean time between failures of the job, C the time for which a save blocks training, t the time until it is durable,
R the restart time and T the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

LEAST_GAPS = 10
CLUSTERED = 0.85
"""A Weibull shape below this is told: 0.58 to 0.71 have been measured on HPC systems, 1 is what the formulas assume."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Inputs of `triage checkpoint`, in seconds; `durable_s` None: a save is durable when it ends."""

    mtbf_s: float
    save_s: float
    durable_s: float | None = None
    restart_s: float = 900.0

    def __post_init__(self) -> None:
        for name, value in {"mtbf": self.mtbf_s, "save": self.save_s}.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be above 0")
        for name, value in {"durable": self.durable_s or 0.0, "restart": self.restart_s}.items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must not be negative")

    @property
    def delay_s(self) -> float:
        """Time until a save is durable."""
        return self.save_s if self.durable_s is None else self.durable_s


def young_s(costs: Costs) -> float:
    """T = sqrt(2 C M). Source: Young, 1974."""
    return math.sqrt(2.0 * costs.save_s * costs.mtbf_s)


def daly_s(costs: Costs) -> float:
    """T = sqrt(2CM) (1 + sqrt(C/2M)/3 + (C/2M)/9) - C where C < 2M, else M. Source: Daly, 2006."""
    ratio = costs.save_s / (2.0 * costs.mtbf_s)
    if ratio >= 1:
        return costs.mtbf_s
    return young_s(costs) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - costs.save_s


def waste(costs: Costs, interval_s: float) -> float:
    """Share of time lost at an interval, C/T + (T/2 + t + R)/M, at most 1. Source: Young, with the durability delay."""
    return min(1.0, costs.save_s / interval_s + (interval_s / 2.0 + costs.delay_s + costs.restart_s) / costs.mtbf_s)


def flashrecovery_total_s(failures: float, period_s: float, interval_s: float, restart_s: float, save_s: float) -> float:
    """Time lost over a period, F(T) = m (s0 + T/2) + (d/T) k0. Source: FlashRecovery."""
    return failures * (restart_s + interval_s / 2.0) + period_s / interval_s * save_s


def flashrecovery_best_s(failures: float, period_s: float, save_s: float) -> float:
    """T = sqrt(2 d k0 / m), the least of F; Young's with M = d/m and C = k0. Source: FlashRecovery."""
    return math.sqrt(2.0 * period_s * save_s / failures)


def meta_v2_waste(costs: Costs, interval_s: float) -> float:
    """1 - ETTR v2 with N r_f = 1/M. Source: Meta, HPCA 2025, v2."""
    kept = max(0.0, 1.0 - (costs.restart_s + interval_s / 2.0) / costs.mtbf_s)
    return 1.0 - kept / (1.0 + costs.save_s / interval_s)


def gemini_wasted_s(save_s: float, per_s: float, fetch_s: float) -> float:
    """Time lost per failure, t_ckpt + 1/(2f) + t_rtvl, for f saves a second to memory of other hosts. Source: Gemini, SOSP 2023."""
    return save_s + 1.0 / (2.0 * per_s) + fetch_s


def gemini_recovery(hosts: int, copies: int, failures: int) -> float:
    """Chance that `failures` hosts lost at once leave every shard a copy: groups of `copies` hosts keep each other's.

    Counts the failure sets that hold no whole group. Source: Gemini.
    """
    if copies < 1 or hosts % copies or not 0 <= failures <= hosts:
        raise ValueError("hosts must be a multiple of copies and failures at most hosts")
    group = [math.comb(copies, k) for k in range(copies)]
    ways = [1]
    for _ in range(hosts // copies):
        ways = [
            sum(group[k] * ways[total - k] for k in range(copies) if 0 <= total - k < len(ways)) for total in range(len(ways) + copies - 1)
        ]
    return (ways[failures] if failures < len(ways) else 0) / math.comb(hosts, failures)


def checkpoint(costs: Costs) -> dict[str, object]:
    """The JSON of `triage checkpoint`: interval and waste by method."""
    young, daly = young_s(costs), daly_s(costs)
    flash = flashrecovery_best_s(1.0, costs.mtbf_s, costs.save_s)
    lost = flashrecovery_total_s(1.0, costs.mtbf_s, flash, costs.restart_s, costs.save_s)
    rows = (
        ("young", young, waste(costs, young)),
        ("daly", daly, waste(costs, daly)),
        ("flashrecovery", flash, min(1.0, lost / costs.mtbf_s)),
        ("meta_v2", young, meta_v2_waste(costs, young)),
    )
    return {
        "inputs": {**asdict(costs), "durable_s": costs.delay_s},
        "rows": [{"method": method, "interval_s": interval, "waste": share, **losses(costs, interval)} for method, interval, share in rows],
    }


def losses(costs: Costs, interval_s: float) -> dict[str, object]:
    """Work that one failure undoes, expected and at worst, and which part of the waste is the largest: saving, rework or restarting."""
    parts = {
        "saving": costs.save_s / interval_s,
        "rework": interval_s / 2.0 / costs.mtbf_s,
        "restarting": (costs.delay_s + costs.restart_s) / costs.mtbf_s,
    }
    return {
        "expected_loss_s": interval_s / 2.0 + costs.delay_s,
        "worst_loss_s": interval_s + costs.delay_s,
        "dominates": max(parts, key=lambda name: parts[name]),
    }


def bandwidth(costs: Costs, size_gb: float) -> dict[str, float | None]:
    """GB/s that a save of a size asks for: out of the GPUs while training stands, and to where it is durable."""
    return {"blocking_gb_s": size_gb / costs.save_s, "durable_gb_s": size_gb / costs.delay_s if costs.delay_s else None}


def weibull_shape(gaps_s: Sequence[float]) -> float | None:
    """Shape of a Weibull fit of the gaps between failures; None for fewer than 10. Below 1 failures cluster."""
    from scipy.stats import weibull_min

    positive = [gap for gap in gaps_s if gap > 0]
    if len(positive) < LEAST_GAPS:
        return None
    return float(weibull_min.fit(positive, floc=0)[0])


def failover(interval_s: float, slowdown: float, detect_s: float = 0.0, elapsed_s: float | None = None) -> dict[str, object]:
    """The JSON of `triage failover`: continuing at `slowdown` times the step time wins iff t > ((k-1) T - T_d) / k.

    t is the time since the last checkpoint; half the interval where it is not given. A negative threshold: continuing always wins.
    Source: ReCCL; the start-up time of a restart is not in it.
    """
    if not (interval_s > 0 and slowdown >= 1 and detect_s >= 0 and (elapsed_s is None or elapsed_s >= 0)):
        raise ValueError("interval must be above 0, slowdown at least 1, detect and elapsed not negative")
    threshold = ((slowdown - 1.0) * interval_s - detect_s) / slowdown
    elapsed = interval_s / 2.0 if elapsed_s is None else elapsed_s
    return {
        "threshold_s": threshold,
        "continue": elapsed > threshold,
        "inputs": {
            "interval_s": interval_s,
            "slowdown": slowdown,
            "detect_s": detect_s,
            "elapsed_s": elapsed,
            "elapsed_from": "half the interval" if elapsed_s is None else "stated",
        },
    }


def measured(events: pl.DataFrame, jobs: pl.DataFrame, failures: int, run_s: float) -> dict[str, float | None]:
    """Inputs that the data shows, in seconds, None where it does not: `mtbf_s`, `save_s`, `restart_s`, and the `interval_s` in use.

    events    rows of train.checkpoint and train.step with job_id, ts_near, code, duration_s
    jobs      attempts, for the time from start to first step
    failures  infrastructure failures in `run_s` seconds of job run time
    """
    import polars as pl

    saves = events.filter(pl.col("code") == "train.checkpoint").sort("job_id", "ts_near")
    gaps = saves.select(gap=(pl.col("ts_near") - pl.col("ts_near").shift().over("job_id")).dt.total_microseconds() / 1e6)["gap"]
    return {
        "mtbf_s": run_s / failures if failures else None,
        "save_s": _median(saves["duration_s"]),
        "restart_s": _median(start_delays(events, jobs)["delay_s"]),
        "interval_s": _median(gaps),
    }


def start_delays(events: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Seconds from the start of each attempt to its first training step: job_id, attempt, delay_s."""
    import polars as pl

    steps = events.filter(pl.col("code") == "train.step").select("job_id", at="ts_near").drop_nulls()
    spans = jobs.select("job_id", "attempt", "start", pl.col("end").fill_null(pl.datetime(9999, 1, 1))).drop_nulls("start")
    inside = spans.join(steps, on="job_id").filter(pl.col("at").is_between("start", "end"))
    first = inside.group_by("job_id", "attempt").agg(pl.col("at").min(), pl.col("start").first()).sort("job_id", "attempt")
    return first.select("job_id", "attempt", ((pl.col("at") - pl.col("start")).dt.total_microseconds() / 1e6).alias("delay_s"))


def _median(values: pl.Series) -> float | None:
    value = values.drop_nulls().median()
    return float(value) if isinstance(value, int | float) else None
