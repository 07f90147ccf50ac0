"""Two outlier detectors over the hosts' features, as a second opinion on the ranking; shown, never decisive."""

from __future__ import annotations

import numpy as np
import polars as pl

FEATURES = ("rate", "decayed", "n_7", "n_30", "xid_cnt", "gpus_hit", "out_count", "multi_node_node_fails", "single_node_node_fails")
LEAST_HOSTS = 20


def opinions(table: pl.DataFrame, share: float, seed: int) -> pl.DataFrame:
    """host, detectors: how many of isolation forest and ECOD put the host among the `share` most unusual; null below 20 hosts.

    Only hosts with some failure can be unusual in the way that matters here.
    """
    if table.height < LEAST_HOSTS or not table["count"].sum():
        return table.select("host", detectors=pl.lit(None, pl.Int64))
    votes = np.zeros(table.height, dtype=np.int64)
    matrix = np.log1p(table.select(pl.col(FEATURES).cast(pl.Float64).fill_null(0.0)).to_numpy())
    matrix = matrix[:, matrix.std(axis=0) > 0]
    if not matrix.shape[1]:
        return table.select("host", detectors=pl.lit(0, pl.Int64))
    keep = max(1, round(share * table.height))
    for scores in _scores(matrix, seed):
        votes += scores >= np.sort(scores)[-keep]
    votes[table["count"].to_numpy() <= 0] = 0
    return table.select("host").with_columns(detectors=pl.Series(votes))


def _scores(matrix: np.ndarray, seed: int) -> list[np.ndarray]:
    from pyod.models.ecod import ECOD
    from pyod.models.iforest import IForest

    found = []
    for detector in (IForest(n_estimators=100, random_state=seed, n_jobs=1), ECOD(n_jobs=1)):
        detector.fit(matrix)
        found.append(np.asarray(detector.decision_scores_, dtype=np.float64))
    return found
