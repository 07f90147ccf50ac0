"""Where run time went: measured ETTR per run, its sliding hour, and GPU-hours per phase with what no log shows as `unknown`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

import polars as pl

from triage.job_failure import KEY, failed
from triage.schema import TABLES

RESTART_S = 300.0
"""Restart overhead where no step line shows it (Meta's assumption)."""
LONG_RUN = timedelta(hours=24)
RUN_BREAK = timedelta(hours=24)
OVERLAP = timedelta(minutes=1)
"""A successor may be stamped this much before the end of what it follows; more is a run of its own beside it."""
STALL_STEPS, STALL_FLOOR_S = 10.0, 600.0
BIN = "10m"
BINS_PER_HOUR = 6
STEP_COLUMNS = ("job_id", "attempt", "ts_near", "code", "seq", "duration_s", "state")


def step_spans(events: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Time between successive steps of an attempt: job_id, attempt, at (its end), seconds, kind (train | rework | stalled).

    events   rows of train.step with job_id, attempt, ts_near, seq; one line a step is kept, however many ranks print it
    rework   the step had been reached before by the job; stalled: over 10 median steps and 10 min
    """
    steps = events.filter((pl.col("code") == "train.step") & pl.col("seq").is_not_null() & pl.col("ts_near").is_not_null())
    steps = steps.join(jobs.select(KEY).unique(), on=KEY, how="semi")
    once = steps.group_by(*KEY, "seq").agg(at=pl.col("ts_near").min()).sort("job_id", "at", "seq")
    reached = pl.col("seq").cum_max().shift().over("job_id")
    seconds = (pl.col("at") - pl.col("at").shift().over(KEY)).dt.total_microseconds() / 1e6
    spans = once.with_columns(seconds=seconds, redone=(pl.col("seq") <= reached).fill_null(False)).drop_nulls("seconds")
    usual = pl.col("seconds").median().over(KEY)
    stalled = pl.col("seconds") > pl.max_horizontal(usual * STALL_STEPS, pl.lit(STALL_FLOOR_S))
    kind = pl.when(stalled).then(pl.lit("stalled")).when("redone").then(pl.lit("rework")).otherwise(pl.lit("train"))
    return spans.select(*KEY, "at", "seconds", kind=kind)


@dataclass(frozen=True, slots=True)
class Digest:
    """What all steps and saves come to: `sums` per attempt (first, final, checkpoint and seconds by kind), `hours` per job."""

    sums: pl.DataFrame
    hours: list[dict[str, object]]


def digest(parts: Iterable[pl.DataFrame], jobs: pl.DataFrame) -> Digest:
    """Steps and saves of all attempts, part by part, so that no more than a part is in memory; a job lies whole in one part."""
    sums, hours = [], []
    for events in chain(parts, [no_steps()]):
        spans = step_spans(events, jobs)
        sums.append(_sums(events, spans))
        hours += sliding(spans)
    return Digest(pl.concat(sums), sorted(hours, key=lambda row: str(row["job_id"])))


def no_steps() -> pl.DataFrame:
    """No event, with the columns that are read of events."""
    types = TABLES["events"].dtypes()
    return pl.DataFrame(schema={name: types[name] for name in STEP_COLUMNS})


def _sums(events: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    steps = events.filter(pl.col("code") == "train.step").group_by(KEY).agg(first=pl.col("ts_near").min(), final=pl.col("ts_near").max())
    saves = events.filter((pl.col("code") == "train.checkpoint") & ~pl.col("state").fill_null("").str.contains("(?i)load"))
    saving = saves.group_by(KEY).agg(checkpoint=pl.col("duration_s").sum())
    kinds = spans.group_by(KEY).agg(**{k: pl.col("seconds").filter(pl.col("kind") == k).sum() for k in ("train", "rework", "stalled")})
    return steps.join(saving, on=KEY, how="full", coalesce=True).join(kinds, on=KEY, how="left")


def attempts(jobs: pl.DataFrame, sums: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """One row per started attempt with seconds per phase: queue, startup, train, checkpoint, rework, stalled, tail, unknown.

    sums of `digest`; tail is the time from the last step to the end. Without any step the whole attempt is unknown.
    """
    rows = jobs.filter(pl.col("start").is_not_null()).with_columns(stop=pl.col("end").fill_null(now)).join(sums, on=KEY, how="left")
    known = pl.col("first").is_not_null()
    rows = rows.with_columns(
        pl.col("train", "rework", "stalled", "checkpoint").fill_null(0.0),
        queue=_seconds("submit", "start"),
        startup=pl.when(known).then(_seconds("start", "first")).otherwise(0.0),
        tail=pl.when(known).then(_seconds("final", "stop")).otherwise(0.0),
        unknown=pl.when(known).then(0.0).otherwise(_seconds("start", "stop")),
        seen=known,
    )
    # a save that blocks lies between two steps: its time is not training
    saved = pl.min_horizontal("checkpoint", "train")
    return rows.with_columns(checkpoint=saved, train=pl.col("train") - saved)


PHASES = ("queue", "startup", "train", "checkpoint", "rework", "stalled", "tail", "unknown")


def phases(rows: pl.DataFrame) -> list[dict[str, object]]:
    """GPU-hours and share per phase; attempts whose GPUs are not known count as one GPU each and are told apart."""
    weight = pl.col("gpus").fill_null(1).cast(pl.Float64) / 3600.0
    sums = rows.select(**{name: (pl.col(name).fill_null(0.0) * weight).sum() for name in PHASES})
    total = sum(float(sums[name].item()) for name in PHASES)
    return [
        {"phase": name, "gpu_hours": float(sums[name].item()), "share": float(sums[name].item()) / total if total else None}
        for name in PHASES
    ]


def ettr(rows: pl.DataFrame, hours: list[dict[str, object]]) -> dict[str, object]:
    """The `ettr` of `triage stats`: R / (Q + R + U) per run, over all runs, over runs of 24 h and more (Meta), and sliding hours.

    A run is the attempts of one job, or successive jobs of one user, name and size each begun within 24 h of the failed one before.
    Productive time is what step lines show, else run time less the restart overhead and what was lost since the last checkpoint.
    """
    table = _runs(rows)
    whole = float(table["wall_s"].sum() or 0.0)
    long = table.filter(pl.col("wall_s") >= LONG_RUN.total_seconds())
    top = table.sort(["gpu_hours", "run"], descending=[True, False]).head(20)
    return {
        "overall": float(table["productive_s"].sum() or 0.0) / whole if whole > 0 else None,
        "mean_of_long_runs": _mean(long["ettr"]),
        "runs": table.height,
        "long_runs": long.height,
        "measured_from_steps": table.filter(pl.col("basis") == "steps").height,
        "by_run": [_run(row) for row in top.iter_rows(named=True)],
        "sliding_hour": hours,
    }


def _runs(rows: pl.DataFrame) -> pl.DataFrame:
    """Runs with wall_s, productive_s, ettr, gpu_hours and basis (steps | checkpoints)."""
    key = ["user", "task", "nodes"]
    rows = rows.with_columns(task=pl.coalesce("name", "job_id"), lost=_lost()).sort(*key, "start")
    begun = pl.coalesce("submit", "start")
    same = (pl.col("job_id") == pl.col("job_id").shift().over(key)).fill_null(False)
    wait = begun - pl.col("stop").shift().over(key)
    after = (failed().shift().over(key) & (wait >= -OVERLAP) & (wait <= RUN_BREAK)).fill_null(False)
    ran = _seconds("start", "stop")
    kept = pl.when("seen").then(pl.col("train")).otherwise((ran - pl.min_horizontal(ran, pl.lit(RESTART_S)) - pl.col("lost")).clip(0))
    rows = rows.with_columns(run=(~(same | after)).cast(pl.Int64).cum_sum(), kept=kept, begun=begun)
    runs = rows.group_by("run", maintain_order=True).agg(
        pl.col("user", "task").first(),
        jobs=pl.col("job_id").unique(maintain_order=True),
        attempts=pl.len(),
        gpus=pl.col("gpus").max(),
        start=pl.col("begun").min(),
        end=pl.col("stop").max(),
        productive_s=pl.col("kept").sum(),
        steps=pl.col("seen").all(),
        gpu_hours=(_seconds("start", "stop") * pl.col("gpus").fill_null(1) / 3600.0).sum(),
    )
    wall = _seconds("start", "end")
    return (
        runs.filter(wall > 0)
        .with_columns(wall_s=wall, basis=pl.when("steps").then(pl.lit("steps")).otherwise(pl.lit("checkpoints")))
        .with_columns(ettr=(pl.col("productive_s") / pl.col("wall_s")).clip(0, 1))
    )


def _lost() -> pl.Expr:
    """Seconds undone by the end of an attempt: what the cost says, else half an hour at most for a failure (Meta's assumption)."""
    priced = pl.col("gpu_hours_lost") / pl.when(pl.col("gpus") > 0).then("gpus") * 3600.0
    assumed = pl.when(failed()).then(pl.min_horizontal(_seconds("start", "stop"), pl.lit(1800.0))).otherwise(0.0)
    return pl.when(pl.col("basis") == "checkpoint").then(priced.fill_null(assumed)).otherwise(assumed)


def sliding(spans: pl.DataFrame) -> list[dict[str, object]]:
    """Share of productive time in sliding hours (10 min apart) of each job whose steps are logged: job_id, hours, least, median, last."""
    done = spans.filter(pl.col("kind") == "train").with_columns(begun=pl.col("at") - pl.duration(microseconds=pl.col("seconds") * 1e6))
    if not done.height:
        return []
    slots = done.with_columns(slot=pl.datetime_ranges(pl.col("begun").dt.truncate(BIN), "at", BIN)).explode("slot")
    inside = pl.min_horizontal("at", pl.col("slot").dt.offset_by(BIN)) - pl.max_horizontal("begun", "slot")
    bins = slots.group_by("job_id", "slot").agg(seconds=inside.dt.total_microseconds().clip(0).sum() / 1e6)
    # the first and the last bin are cut off by the log's own ends
    ends = bins.group_by("job_id").agg(low=pl.col("slot").min().dt.offset_by(BIN), high=pl.col("slot").max().dt.offset_by("-" + BIN))
    full = ends.filter(pl.col("low") <= pl.col("high")).select("job_id", slot=pl.datetime_ranges("low", "high", BIN)).explode("slot")
    grid = full.join(bins, on=["job_id", "slot"], how="left").with_columns(pl.col("seconds").fill_null(0.0)).sort("job_id", "slot")
    hour = grid.with_columns(share=pl.col("seconds").rolling_sum(BINS_PER_HOUR).over("job_id") / 3600.0).drop_nulls("share")
    found = hour.group_by("job_id", maintain_order=True).agg(
        hours=pl.len(), least=pl.col("share").min(), median=pl.col("share").median(), last=pl.col("share").last()
    )
    return found.to_dicts()


def _run(row: dict[str, object]) -> dict[str, object]:
    shown = ("jobs", "user", "task", "attempts", "gpus", "gpu_hours", "wall_s", "productive_s", "ettr", "basis")
    return {name: row[name] for name in shown}


def _seconds(start: str, end: str) -> pl.Expr:
    return ((pl.col(end) - pl.col(start)).dt.total_microseconds() / 1e6).clip(0)


def _mean(values: pl.Series) -> float | None:
    mean = values.mean()
    return float(mean) if isinstance(mean, int | float) else None
