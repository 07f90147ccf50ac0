"""Chains of retries, and what failures cost others: preemptions that a requeued job set off."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from triage.job_failure import KEY, failed

RETRY_GAP = timedelta(minutes=30)
AUTOMATIC = timedelta(minutes=15)
SURVIVED = timedelta(minutes=60)
INSTIGATOR = timedelta(minutes=30)
NEAR_REQUEUE = timedelta(minutes=5)
CAP_H = 0.5
STOP = 3


def chains(jobs: pl.DataFrame, incidents: pl.DataFrame) -> list[dict[str, object]]:
    """Retry chains: attempts of one user, job name and size, each started at most 30 min after the previous one failed.

    automatic   median gap of at most 15 min; success: the last attempt outlives an hour or completed
    stop        3 failures in a row with the same class and first host: a further retry is unlikely to help
    Source: definitions of our own, after the 504-GPU report and NVRx's stop rule.
    """
    named = jobs.filter(pl.col("start").is_not_null()).with_columns(task=pl.coalesce("name", "job_id"))
    key = ["user", "task", "nodes"]
    told = incidents.filter(pl.col("job_id").is_not_null()).select(
        *KEY, mark=pl.concat_str("class", pl.col("hosts").list.first(), ignore_nulls=True)
    )
    rows = named.join(told.unique(KEY), on=KEY, how="left").sort(*key, "start")
    gap = pl.col("start") - pl.col("end").shift().over(key)
    follows = failed().shift().over(key).fill_null(False) & (gap <= RETRY_GAP).fill_null(False) & (gap >= timedelta(0)).fill_null(False)
    rows = rows.with_columns(gap=pl.when(follows).then(gap), chain=(~follows).cast(pl.Int64).cum_sum())
    same = (pl.col("mark") == pl.col("mark").shift()) & failed() & failed().shift()
    rows = rows.with_columns(again=same.fill_null(False).over("chain"))
    found = rows.group_by("chain", maintain_order=True).agg(
        pl.col("user", "task", "nodes").first(),
        jobs=pl.col("job_id").unique(maintain_order=True),
        attempts=pl.len(),
        median_gap=pl.col("gap").median(),
        start=pl.col("start").first(),
        end=pl.col("end").last(),
        state=pl.col("state").last(),
        length=(pl.col("end") - pl.col("start")).last(),
        gpu_hours_lost=pl.col("gpu_hours_lost").sum(),
        again=_longest("again"),
    )
    return [_chain(row) for row in found.filter(pl.col("attempts") > 1).sort("start").iter_rows(named=True)]


def _longest(flag: str) -> pl.Expr:
    """Length of the longest run of true values."""
    return (
        pl.col(flag)
        .cast(pl.Int64)
        .cum_sum()
        .sub(pl.when(~pl.col(flag)).then(pl.col(flag).cast(pl.Int64).cum_sum()).forward_fill().fill_null(0))
        .max()
    )


def _chain(row: dict[str, object]) -> dict[str, object]:
    gap, length, start, end = row["median_gap"], row["length"], row["start"], row["end"]
    lived = length is None or (isinstance(length, timedelta) and length >= SURVIVED)
    again = int(str(row["again"]))
    return {
        "user": row["user"],
        "name": row["task"],
        "nodes": row["nodes"],
        "jobs": row["jobs"],
        "attempts": row["attempts"],
        "automatic": isinstance(gap, timedelta) and gap <= AUTOMATIC,
        "median_gap_s": gap.total_seconds() if isinstance(gap, timedelta) else None,
        "success": lived or row["state"] == "COMPLETED",
        "same_failures_in_row": again + 1 if again else 1,
        "stop": again + 1 >= STOP,
        "start": f"{start}Z".replace(" ", "T"),
        "end": f"{end}Z".replace(" ", "T") if end else None,
        "gpu_hours_lost": row["gpu_hours_lost"],
    }


def preemption_cost(labels: pl.DataFrame, job_hosts: pl.DataFrame) -> dict[str, object]:
    """Goodput lost in GPU-hours, min(run time, 30 min) x GPUs: first order by infrastructure failures, second order by preemptions that
    a failed and requeued job caused.

    Instigator: the preemptor, where it failed in the 30 min before; without a preemptor's id, a requeued attempt that started on one of
    the hosts within 5 min. Source: Meta, HPCA 2025; the link is of our own.
    """
    ran = ((pl.col("end") - pl.col("start")).dt.total_microseconds() / 3.6e9).clip(0, CAP_H)
    priced = labels.filter(pl.col("end").is_not_null()).with_columns(cost=ran * pl.col("gpus"))
    first = priced.filter(pl.col("infra"))
    out = priced.filter(pl.col("state").fill_null("").str.starts_with("PREEMPTED"))
    second = pl.concat([_by_preemptor(out, priced), _by_place(out, labels, job_hosts)]).unique(KEY, keep="first", maintain_order=True)
    one, two = float(first["cost"].sum() or 0.0), float(second["cost"].sum() or 0.0)
    worst = second.group_by("instigator").agg(preemptions=pl.len(), gpu_hours=pl.col("cost").sum())
    return {
        "first_order_gpu_hours": one,
        "second_order_gpu_hours": two,
        "second_order_share": two / (one + two) if one + two > 0 else None,
        "preemptions": out.height,
        "preemptions_by_failed_jobs": second.height,
        "instigators": worst.sort(["gpu_hours", "instigator"], descending=[True, False]).head(10).to_dicts(),
    }


def _by_preemptor(out: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    fallen = ended.filter(failed()).select(preemptor="job_id", fell="end")
    pairs = out.join(fallen, on="preemptor")
    since = pl.col("end") - pl.col("fell")
    return pairs.filter((since >= timedelta(0)) & (since <= INSTIGATOR)).select(*KEY, "cost", instigator="preemptor").unique(KEY)


def _by_place(out: pl.DataFrame, labels: pl.DataFrame, job_hosts: pl.DataFrame) -> pl.DataFrame:
    again = labels.filter((pl.col("attempt") > 0) & pl.col("start").is_not_null()).select(*KEY, begun="start")
    starts = job_hosts.join(again, on=KEY).select("host", "begun", instigator="job_id")
    nameless = out.filter(pl.col("preemptor").is_null()).select(*KEY, "end", "cost").join(job_hosts.select(*KEY, "host"), on=KEY)
    pairs = nameless.join(starts, on="host")
    since = pl.col("begun") - pl.col("end")
    near = pairs.filter((since >= -NEAR_REQUEUE) & (since <= NEAR_REQUEUE) & (pl.col("instigator") != pl.col("job_id")))
    return near.select(*KEY, "cost", "instigator").unique(KEY)
