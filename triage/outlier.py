"""Who differs from the peers: hosts by what they say (isolation forest, or median and MAD of few), iterations by their order of lines.

After L4: a vector per host of log1p(count) of each template and the places of its first and last line; 200 trees, seeded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from statistics import fmean, median, pstdev

FOREST_FROM, TREES, SEED = 8, 200, 20
MAD_CUT, MAD_SCALE = 3.5, 1.4826  # Iglewicz and Hoaglin, 1993
FOREST_CUT = 0.5  # Liu, Ting and Zhou, 2008: scores well above a half are anomalies
SIGMAS, LEAST_ITERATIONS = 3.0, 11  # of fewer none can lie 3 standard deviations from the mean
MOST_LINES, MOST_ITERATIONS, MEDIAN_OF = 100, 2000, 64


def hosts(vectors: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Hosts that differ from the others, with how far: multiples of the MAD of the hosts' distances, or forest scores in 0..1.

    Of fewer than three hosts none differs. Vectors have equal lengths.
    """
    names = sorted(vectors)
    rows = [list(vectors[n]) for n in names]
    if len(names) < 3 or not rows[0]:
        return {}
    scores = _forest(rows) if len(names) >= FOREST_FROM else _distances(rows)
    floor = FOREST_CUT if len(names) >= FOREST_FROM else 0.0
    middle = median(scores)
    spread = MAD_SCALE * median(abs(s - middle) for s in scores)
    far = [(n, s) for n, s in zip(names, scores, strict=True) if s > floor and s - middle > max(MAD_CUT * spread, 1e-6)]
    return {n: round(s, 3) for n, s in far} if len(far) * 3 <= len(names) else {}


def _forest(rows: Sequence[Sequence[float]]) -> list[float]:
    import numpy as np
    from pyod.models.iforest import IForest

    forest = IForest(n_estimators=TREES, random_state=SEED).fit(np.asarray(rows, dtype=float))
    return [float(s) for s in -forest.detector_.score_samples(np.asarray(rows, dtype=float))]


def _distances(rows: Sequence[Sequence[float]]) -> list[float]:
    """Sum over columns of the distance to the median, in each column's MAD (at least a tenth, for columns that are all alike)."""
    total = [0.0] * len(rows)
    for column in zip(*rows, strict=True):
        middle = median(column)
        spread = max(MAD_SCALE * median(abs(v - middle) for v in column), 0.1)
        for place, value in enumerate(column):
            total[place] += abs(value - middle) / spread
    return total


def iterations(sequences: Sequence[Sequence[int]]) -> list[tuple[int, float, float]]:
    """Iterations that run unlike the median one: (index, distance 0..1, standard deviations above the mean), farthest first.

    sequences  the templates of each iteration's lines, in order; the median one has the least summed distance to a spread of the others
    """
    if len(sequences) < LEAST_ITERATIONS:
        return []
    step = -(-len(sequences) // MOST_ITERATIONS)
    kept = {at: tuple(sequences[at][:MOST_LINES]) for at in range(0, len(sequences), step)}
    known = Counter(kept.values())
    central = _median_of(known)
    away = {sequence: _distance(central, sequence) for sequence in known}
    distances = [away[s] for s in kept.values()]
    mean, deviation = fmean(distances), pstdev(distances)
    if deviation == 0:
        return []
    far = [(at, away[s], (away[s] - mean) / deviation) for at, s in kept.items() if away[s] > mean + SIGMAS * deviation]
    return sorted(far, key=lambda f: (-f[1], f[0]))


def _median_of(known: Mapping[tuple[int, ...], int]) -> tuple[int, ...]:
    """Of the most frequent kinds of iteration the one that is nearest to all of them."""
    common = sorted(known.items(), key=lambda item: (-item[1], item[0]))[:MEDIAN_OF]
    return min(common, key=lambda item: (sum(n * _distance(item[0], other) for other, n in common), item[0]))[0]


def _distance(one: Sequence[int], other: Sequence[int]) -> float:
    return 0.0 if one == other else 1.0 - SequenceMatcher(None, one, other, autojunk=False).ratio()
