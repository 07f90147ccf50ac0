"""P(e2 | e1): how often one kind of GPU fault is followed by another within 5 s, on the same GPU or on another of the host.

Source: NCSA Delta.
"""

from __future__ import annotations

import polars as pl

FAMILIES = ("gpu", "host")
SILENT = ("fact", "recovery", "operator", "noise")


def propagation(bursts: pl.DataFrame, within_s: float = 5.0) -> list[dict[str, object]]:
    """Rows first, then, n_first, same_gpu, other_gpu, p_same_gpu, p_other_gpu, p, median_lag_s; pairs that never occurred are left out.

    A burst of the same code counts as following only on another GPU. Faults without a device follow on the host: `p` counts them too.
    """
    base = bursts.filter(pl.col("family").is_in(FAMILIES) & ~pl.col("role").is_in(SILENT) & pl.col("host").is_not_null())
    base = base.filter(pl.col("first").is_not_null()).select("host", "device", "code", "first").with_row_index("burst")
    pairs = _followers(base, within_s)
    totals = base.group_by("code").agg(n_first=pl.len())
    same = pl.col("device").is_not_null() & (pl.col("device") == pl.col("device_then"))
    each = pairs.group_by("burst", "code", "code_then").agg(
        same_gpu=same.fill_null(False).any(),
        other_gpu=(pl.col("device") != pl.col("device_then")).fill_null(False).any(),
        lag=pl.col("lag").min(),
    )
    sums = each.group_by("code", "code_then").agg(pl.col("same_gpu", "other_gpu").sum(), any=pl.len(), median_lag_s=pl.col("lag").median())
    rows = sums.join(totals, on="code").sort(["any", "code", "code_then"], descending=[True, False, False])
    return [_row(row) for row in rows.iter_rows(named=True)]


def _followers(base: pl.DataFrame, within_s: float) -> pl.DataFrame:
    """Pairs of bursts of a host whose second starts within the window: joined by time slot, so that floods stay cheap."""
    slot = pl.col("first").dt.epoch("us") // int(within_s * 1e6)
    first = base.with_columns(slot=slot)
    then = pl.concat([first, first.with_columns(slot=pl.col("slot") - 1)]).rename(
        {"burst": "id_then", "device": "device_then", "code": "code_then", "first": "first_then"}
    )
    pairs = first.join(then, on=["host", "slot"]).filter(pl.col("burst") != pl.col("id_then"))
    lag = (pl.col("first_then") - pl.col("first")).dt.total_microseconds() / 1e6
    later = pairs.with_columns(lag=lag).filter(pl.col("lag").is_between(0.0, within_s))
    return later.filter((pl.col("code") != pl.col("code_then")) | (pl.col("device") != pl.col("device_then")).fill_null(False))


def _row(row: dict[str, int | float | str]) -> dict[str, object]:
    total = int(row["n_first"])
    return {
        "first": row["code"],
        "then": row["code_then"],
        "n_first": total,
        "same_gpu": row["same_gpu"],
        "other_gpu": row["other_gpu"],
        "p_same_gpu": int(row["same_gpu"]) / total,
        "p_other_gpu": int(row["other_gpu"]) / total,
        "p": int(row["any"]) / total,
        "median_lag_s": row["median_lag_s"],
    }
