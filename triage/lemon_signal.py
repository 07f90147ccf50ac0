"""Signals shown beside a host's rank: Meta's seven with their percentiles, and HeaRank-like recency features."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from triage.blame import Records
from triage.exposure import OUT_OF_SERVICE

META = (
    "excl_jobid_count",
    "xid_cnt",
    "tickets",
    "out_count",
    "multi_node_node_fails",
    "single_node_node_fails",
    "single_node_node_failure_rate",
)
"""Meta's names. `tickets` is never in logs; `excl_jobid_count` only where submissions were recorded."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """When one of Meta's signals scores, and how fast the past fades."""

    percentile: float = 0.99
    minimum: float = 2.0
    half_life_days: float = 14.0


def meta(names: pl.DataFrame, records: Records, charges: pl.DataFrame, exclusions: pl.DataFrame | None, cuts: Cuts) -> pl.DataFrame:
    """Meta's seven signals per host, `meta_score` and `<signal>_pct`; `charges` and the records are cut to the window.

    A signal scores when it reaches the fleet's percentile and the minimum (the rate: with so many failures). Exclusions alone score
    nothing: they did not go along with failure. Source: Meta, HPCA 2025; the thresholds are not published.
    """
    out = records.host_states.filter(pl.col("state").str.contains(OUT_OF_SERVICE))
    xids = records.bursts.filter(pl.col("code").str.starts_with("xid."))
    parts = [
        xids.group_by("host").agg(xid_cnt=pl.col("code").n_unique()),
        out.group_by("host").agg(out_count=pl.struct("state", "start").n_unique()),
        _node_fails(charges),
        _single_runs(records.jobs, records.job_hosts),
    ]
    table = names
    for part in parts:
        table = table.join(part, on="host", how="left")
    table = table.with_columns(pl.exclude("host").fill_null(0))
    table = _with_exclusions(table, exclusions).with_columns(
        tickets=pl.lit(None, pl.Int64),
        single_node_node_failure_rate=(pl.col("single_node_node_fails") / pl.col("single_runs").clip(1)).clip(0, 1),
    )
    return _scored(table, cuts)


def _node_fails(charges: pl.DataFrame) -> pl.DataFrame:
    counted = charges.filter((pl.col("weight") > 0) & pl.col("job_id").is_not_null())
    several = pl.col("nodes") > 1
    return counted.group_by("host").agg(
        multi_node_node_fails=several.fill_null(False).sum(), single_node_node_fails=(~several).fill_null(False).sum()
    )


def _single_runs(jobs: pl.DataFrame, job_hosts: pl.DataFrame) -> pl.DataFrame:
    single = jobs.filter(pl.col("nodes") == 1).select("job_id", "attempt")
    return job_hosts.join(single, on=["job_id", "attempt"]).group_by("host").agg(single_runs=pl.len())


def _with_exclusions(table: pl.DataFrame, exclusions: pl.DataFrame | None) -> pl.DataFrame:
    if exclusions is None:
        return table.with_columns(excl_jobid_count=pl.lit(None, pl.Int64))
    counts = exclusions.group_by("host").agg(excl_jobid_count=pl.col("job_id").n_unique())
    return table.join(counts, on="host", how="left").with_columns(pl.col("excl_jobid_count").fill_null(0))


def _scored(table: pl.DataFrame, cuts: Cuts) -> pl.DataFrame:
    rate = "single_node_node_failure_rate"
    high = {
        name: pl.col(name) >= pl.max_horizontal(pl.lit(cuts.minimum), pl.col(name).quantile(cuts.percentile))
        for name in META
        if name != rate
    }
    high[rate] = (pl.col(rate) >= pl.col(rate).quantile(cuts.percentile)) & (pl.col("single_node_node_fails") >= cuts.minimum)
    score = pl.sum_horizontal(*(flag.fill_null(False).cast(pl.Int64) for flag in high.values()))
    lone = high["excl_jobid_count"].fill_null(False) & (score == 1)
    share = [(pl.col(n).rank("max") / pl.col(n).count()).round(3).alias(f"{n}_pct") for n in META]
    return table.with_columns(*share, meta_score=pl.when(lone).then(0).otherwise(score))


def recency(episodes: pl.DataFrame, bursts: pl.DataFrame, charges: pl.DataFrame, now: datetime, cuts: Cuts) -> pl.DataFrame:
    """Per host that was ever charged, over all history: n_7, n_30, n_90, decayed, days_since_last, gaps, distinct
    codes, GPUs and users. Source: the features that HeaRank names. `bursts` may stand for a `number` of them each.
    """
    age = (now - pl.col("ts")).dt.total_microseconds() / 8.64e10
    gap = (pl.col("ts") - pl.col("ts").shift()).dt.total_microseconds() / 8.64e10
    counts = {f"n_{d}": (age <= d).sum() for d in (7, 30, 90)}
    table = (
        episodes.sort("host", "ts")
        .group_by("host", maintain_order=True)
        .agg(
            **counts,
            decayed=(pl.col("weight") * 0.5 ** (age / cuts.half_life_days)).sum(),
            days_since_last=age.min(),
            gap_min_days=gap.min(),
            gap_median_days=gap.median(),
            gap_ratio=gap.drop_nulls().last() / gap.drop_nulls().first(),
            first_episode=pl.col("ts").first(),
        )
    )
    held = (
        charges.filter(pl.col("weight") > 0)
        .group_by("host")
        .agg(gpus_hit=pl.col("device").drop_nulls().n_unique(), users=pl.col("user").drop_nulls().n_unique())
    )
    number = pl.col("number").sum() if "number" in bursts.columns else pl.len()
    warned = bursts.filter(pl.col("role").is_in(["precursor", "noise"])).group_by("host").agg(precursors=number)
    return table.join(held, on="host", how="left").join(warned, on="host", how="full", coalesce=True)


def strikes(episodes: pl.DataFrame, now: datetime, within: timedelta, decay: timedelta) -> pl.DataFrame:
    """host, strikes: most counted episodes inside any `within` of the last `decay`.

    Source: Guard (3 in 7 days are permanent) and Aurora (per episode); the decay is ours.
    """
    recent = episodes.filter((pl.col("ts") > now - decay) & (pl.col("weight") >= 0.5)).select("host", "ts").sort("host", "ts")
    pairs = recent.join(recent.rename({"ts": "other"}), on="host")
    near = pairs.filter((pl.col("other") >= pl.col("ts")) & (pl.col("other") < pl.col("ts") + within))
    return near.group_by("host", "ts").agg(n=pl.len()).group_by("host").agg(strikes=pl.col("n").max())
