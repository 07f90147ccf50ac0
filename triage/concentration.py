"""Do few hosts hold more failures than chance gives them? And would the ranking have found the next ones?

Source of the measures: HeaRank. A raw share says nothing: 500 hosts with 0.2 failures each put 60 % of them on a tenth of the hosts by
chance alone, so the share of a Monte-Carlo null with the same exposure stands beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

Matrix = npt.NDArray[np.float64]


def concentration(table: pl.DataFrame, seed: int = 20, rounds: int = 2000, top: float = 0.1) -> dict[str, object]:
    """Share of failures on the top tenth of hosts, its null with exposure, p-value and chi-square dispersion.

    table: host, failures (whole), days (exposure). Shares are null without failures.
    """
    held = table.filter(pl.col("days") > 0)
    n, days = held["failures"].to_numpy().astype(np.int64), held["days"].to_numpy().astype(np.float64)
    total, keep = int(n.sum()), max(1, math.ceil(top * n.size))
    base: dict[str, object] = {"hosts": int(n.size), "failures": total, "top_hosts": keep if n.size else 0}
    if total == 0 or n.size < 2:
        return {"top10_share": None, "null_share": None, "p_value": None, **base, "dispersion": None}
    chance = np.random.default_rng(seed).multinomial(total, days / days.sum(), size=rounds)
    null = np.sort(chance, axis=1)[:, -keep:].sum(axis=1) / total
    share = float(np.sort(n)[-keep:].sum()) / total
    return {
        "top10_share": share,
        "null_share": float(null.mean()),
        "null_p99": float(np.quantile(null, 0.99)),
        "p_value": float((1 + (null >= share - 1e-12).sum()) / (rounds + 1)),
        **base,
        "dispersion": dispersion(n.astype(np.float64), days, chance.astype(np.float64)),
    }


def dispersion(counts: Matrix, days: Matrix, chance: Matrix) -> dict[str, float | int]:
    """X2 = sum (n - mu e)^2 / (mu e) with df = hosts - 1; `p_simulated` from the null draws, for sparse counts."""
    from scipy.stats import chi2

    expected = counts.sum() * days / days.sum()
    x2 = float(((counts - expected) ** 2 / expected).sum())
    drawn = ((chance - expected) ** 2 / expected).sum(axis=1)
    simulated = float((1 + (drawn >= x2).sum()) / (drawn.size + 1))
    return {"chi2": x2, "df": counts.size - 1, "p_value": float(chi2.sf(x2, counts.size - 1)), "p_simulated": simulated}


@dataclass(frozen=True, slots=True)
class Backtest:
    """warm_days before the first cut-off, one cut-off a `step_days`, failures of the next `ahead_days` to be found.

    half_life_days weighs the past; `pull_days` of the fleet's rate are added to each host, as shrinkage.
    """

    warm_days: int = 14
    step_days: int = 7
    ahead_days: int = 7
    half_life_days: float = 14.0
    pull_days: float = 14.0
    share: float = 0.05


def backtest(episodes: pl.DataFrame, job_hosts: pl.DataFrame, now: datetime, asked: Backtest | None = None) -> dict[str, object]:
    """Rolling cut-offs over all the data: capture of the next failures on the top 5 %, lift and AUC, with and without history.

    The score at a cut-off is the decayed failures over the decayed exposure, shrunk to the fleet; `without_history` knows only how busy
    a host was lately. Null where no cut-off has both failures and hosts without.
    """
    asked = asked or Backtest()
    grid = _grid(episodes, job_hosts, now)
    if grid is None:
        return _summary([], [], asked)
    counts, days = grid
    full, blind = [], []
    for cut in range(asked.warm_days, counts.shape[1] - asked.ahead_days + 1, asked.step_days):
        ahead = counts[:, cut : cut + asked.ahead_days].sum(axis=1)
        weight = 0.5 ** ((cut - 1 - np.arange(cut)) / asked.half_life_days)
        past, exposed = counts[:, :cut] @ weight, days[:, :cut] @ weight
        mean = past.sum() / max(float(exposed.sum()), 1e-9)
        score = (past + mean * asked.pull_days) / (exposed + asked.pull_days)
        if ahead.sum() > 0:
            full.append(_judged(score, ahead, asked.share))
            blind.append(_judged(exposed, ahead, asked.share))
    return _summary(full, blind, asked)


def _grid(episodes: pl.DataFrame, job_hosts: pl.DataFrame, now: datetime) -> tuple[Matrix, Matrix] | None:
    """Failures and allocated days of each host on each day up to `now`."""
    spans = job_hosts.select("host", "start", end=pl.col("end").fill_null(now)).drop_nulls().filter(pl.col("start") < now)
    firsts = [t for t in (spans["start"].min(), episodes["ts"].min()) if isinstance(t, datetime)]
    if not firsts:
        return None
    first, width = min(firsts), max(1, math.ceil((now - min(firsts)) / timedelta(days=1)))
    names = pl.concat([spans["host"], episodes["host"]]).unique().sort()
    place = pl.DataFrame({"host": names}).with_row_index("row")
    counts, days = np.zeros((names.len(), width)), np.zeros((names.len(), width))
    heavy = episodes.filter((pl.col("weight") >= 0.5) & (pl.col("ts") < now)).join(place, on="host")
    age = ((heavy["ts"] - first).dt.total_microseconds() / 8.64e10).to_numpy()
    np.add.at(counts, (heavy["row"].to_numpy(), age.astype(np.int64)), 1.0)
    held = spans.join(place, on="host")
    begin = ((held["start"] - first).dt.total_microseconds() / 8.64e10).to_numpy()
    end = np.minimum(((held["end"] - first).dt.total_microseconds() / 8.64e10).to_numpy(), width)
    _fill(days, held["row"].to_numpy(), begin, end)
    return counts, np.minimum(days, 1.0)


def _fill(days: Matrix, row: npt.NDArray[np.uint32], begin: Matrix, end: Matrix) -> None:
    """Add each interval to the days that it touches."""
    for day in range(days.shape[1]):
        part = np.minimum(end, day + 1) - np.maximum(begin, day)
        live = part > 0
        np.add.at(days[:, day], row[live], part[live])


def _judged(score: Matrix, ahead: Matrix, share: float) -> tuple[float, float, float | None]:
    """Failures caught on the top share of hosts (ties shared out), all failures, AUC of failing hosts against the others."""
    from scipy.stats import rankdata

    keep = max(1, round(share * score.size))
    edge = np.sort(score)[-keep]
    above, tied = score > edge, score == edge
    caught = float(ahead[above].sum() + ahead[tied].sum() * (keep - above.sum()) / tied.sum())
    bad = ahead > 0
    if bad.all():
        return caught, float(ahead.sum()), None
    rank = rankdata(score)
    wins = rank[bad].sum() - bad.sum() * (bad.sum() + 1) / 2
    return caught, float(ahead.sum()), float(wins / (bad.sum() * (~bad).sum()))


def _summary(
    full: list[tuple[float, float, float | None]], blind: list[tuple[float, float, float | None]], asked: Backtest
) -> dict[str, object]:
    figures = _figures(full, asked.share)
    return {
        **figures,
        "without_history": _figures(blind, asked.share),
        "cutoffs": len(full),
        "failures": round(sum(total for _, total, _ in full)),
        "ahead_days": asked.ahead_days,
    }


def _figures(judged: list[tuple[float, float, float | None]], share: float) -> dict[str, float | None]:
    total = sum(all_ for _, all_, _ in judged)
    areas = [area for _, _, area in judged if area is not None]
    capture = sum(caught for caught, _, _ in judged) / total if total else None
    return {
        "capture_at_5pct": capture,
        "lift": capture / share if capture is not None else None,
        "auc": sum(areas) / len(areas) if areas else None,
    }
