"""How failures go with the age of hosts and with their own past: bathtub, shrinking intervals, memory rows left."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from triage.exposure import Burn, burn_in, clip, first_seen, overlap
from triage.reliability import poisson_interval

WEEKS, LAST_INCIDENT = 8, 20
SPENT_ROWS = 10
"""Remapped rows above which five of six hosts regressed. Source: SuperBench."""


def bathtub(
    episodes: pl.DataFrame, job_hosts: pl.DataFrame, host_states: pl.DataFrame, since: datetime, until: datetime, burn: Burn
) -> list[dict[str, object]]:
    """Failures per 1,000 allocated host-days by the age of a host: weeks since it joined, and a row for those of unknown age.

    Only hosts that joined after the data began have an age; the others are `older`. episodes: host, ts, weight.
    """
    seen = first_seen(job_hosts, host_states)
    joined = burn_in(seen, burn).select("host", joined="start")
    inside = (pl.col("weight") >= 0.5) & (pl.col("ts") > since) & (pl.col("ts") <= until)
    heavy = episodes.filter(inside).join(joined, on="host", how="left")
    used = clip(job_hosts, since, until)
    rows = []
    for week in range(WEEKS + 1):
        low = pl.col("joined") + timedelta(weeks=week)
        high = low + (timedelta(weeks=1) if week < WEEKS else until - since)
        days = _days(overlap(used, joined.select("host", start=low, end=high)))
        failed = heavy.filter((pl.col("ts") >= low) & (pl.col("ts") < high)).height
        rows.append(_age(f"week {week + 1}" if week < WEEKS else "later", days, failed))
    rows.append(_age("older", _days(used.join(joined, on="host", how="anti")), heavy.filter(pl.col("joined").is_null()).height))
    return [row for row in rows if row["host_days"]]


def _days(spans: pl.DataFrame) -> float:
    return float(spans.select(((pl.col("end") - pl.col("start")).dt.total_microseconds() / 8.64e10).sum()).item() or 0.0)


def _age(age: str, days: float, failed: int) -> dict[str, object]:
    low, high = poisson_interval(failed)
    per = 1000.0 / days if days else 0.0
    return {"age": age, "host_days": days, "failures": failed, "per_1000_host_days": failed * per, "interval": [low * per, high * per]}


def shrink(episodes: pl.DataFrame) -> list[dict[str, object]]:
    """The wait for the k-th failure of a host after the one before: incident, hosts, mean and median days, and the ratio to its first wait.

    Source: SuperBench, 719 h to the first incident and 152 h to the twentieth.
    """
    heavy = episodes.filter(pl.col("weight") >= 0.5).sort("host", "ts")
    gap = (pl.col("ts") - pl.col("ts").shift()).dt.total_microseconds() / 8.64e10
    gaps = heavy.with_columns(incident=pl.int_range(1, pl.len() + 1).over("host"), gap=gap.over("host")).drop_nulls("gap")
    ratio = gaps.with_columns(ratio=pl.col("gap") / pl.col("gap").first().over("host"))
    rows = ratio.filter(pl.col("incident") <= LAST_INCIDENT).group_by("incident")
    return (
        rows.agg(
            hosts=pl.len(),
            mean_days=pl.col("gap").mean(),
            median_days=pl.col("gap").median(),
            median_ratio_to_first=pl.col("ratio").median(),
        )
        .sort("incident")
        .to_dicts()
    )


def redundancy(bursts: pl.DataFrame) -> list[dict[str, object]]:
    """Spare memory rows that GPUs have used up: host, device, remaps, failed, state; GPUs that need an act first."""
    hits = bursts.filter(pl.col("code").is_in(["xid.63", "xid.64"]) & pl.col("host").is_not_null())
    rows = hits.group_by("host", "device").agg(remaps=(pl.col("code") == "xid.63").sum(), failed=(pl.col("code") == "xid.64").sum())
    state = (
        pl.when(pl.col("failed") > 0)
        .then(pl.lit("no row left: replace"))
        .when(pl.col("remaps") > SPENT_ROWS)
        .then(pl.lit("many rows used: validate or replace"))
        .otherwise(pl.lit("rows left"))
    )
    worst = rows.with_columns(state=state).sort(["failed", "remaps", "host", "device"], descending=[True, True, False, False])
    return worst.head(50).to_dicts()
