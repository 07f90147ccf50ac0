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
TRAIN, REWORK, STALLED = "train", "rework", "stalled"
STALL_STEPS, STALL_FLOOR_S = 10.0, 600.0
BIN_US = 600_000_000
BINS_PER_HOUR = 6
HOURS = {"job": pl.UInt32, "hours": pl.Int64, "least": pl.Float64, "median": pl.Float64, "last": pl.Float64}
STEP_COLUMNS = ("job_id", "attempt", "ts_near", "code", "seq", "duration_s", "state")


@dataclass(frozen=True, slots=True)
class Digest:
    """What all steps and saves come to: `sums` per attempt (first, final, checkpoint and seconds by kind), `hours` per job."""

    sums: pl.DataFrame
    hours: list[dict[str, object]]


def digest(parts: Iterable[pl.DataFrame], jobs: pl.DataFrame) -> Digest:
    """Steps and saves of all attempts, part by part, so that no more than a part is in memory; a job lies whole in one part.

    Attempts and jobs are numbers in here: millions of rows are grouped several times.
    """
    runs = jobs.select(KEY).unique().sort(KEY).with_row_index("run")
    runs = runs.with_columns(job=pl.col("job_id").rank("dense"))
    sums, hours = [], []
    for events in chain(parts, [no_steps()]):
        numbered = events.join(runs, on=KEY).select("run", "job", "code", "state", "seq", "duration_s", at="ts_near")
        spans = step_spans(numbered)
        sums.append(_sums(numbered, spans))
        hours.append(sliding(spans))
    named = runs.unique("job", keep="first").select("job", "job_id")
    told = pl.concat(hours).join(named, on="job").sort("job_id").select("job_id", "hours", "least", "median", "last")
    return Digest(runs.drop("job").join(pl.concat(sums), on="run").drop("run"), told.to_dicts())


def no_steps() -> pl.DataFrame:
    """No event, with the columns that are read of events."""
    types = TABLES["events"].dtypes()
    return pl.DataFrame(schema={name: types[name] for name in STEP_COLUMNS})


def step_spans(events: pl.DataFrame) -> pl.DataFrame:
    """Time between successive steps of an attempt: run, job, at (its end), seconds, kind (train | rework | stalled).

    events   rows with run (number of the attempt), job (of the job), at, code, seq; one line a step is kept, however many ranks print it
    rework   the step had been reached before by the job; stalled: over 10 median steps and 10 min
    """
    steps = events.filter((pl.col("code") == "train.step") & pl.col("seq").is_not_null() & pl.col("at").is_not_null())
    once = steps.group_by("run", "job", "seq").agg(pl.col("at").min()).sort("job", "at", "seq")
    reached = pl.col("seq").cum_max().shift().over("job")
    seconds = (pl.col("at") - pl.col("at").shift().over("run")).dt.total_microseconds() / 1e6
    spans = once.with_columns(seconds=seconds, redone=(pl.col("seq") <= reached).fill_null(False)).drop_nulls("seconds")
    usual = spans.group_by("run").agg(usual=pl.col("seconds").median())
    stalled = pl.col("seconds") > pl.max_horizontal(pl.col("usual") * STALL_STEPS, pl.lit(STALL_FLOOR_S))
    kind = pl.when(stalled).then(pl.lit(STALLED)).when("redone").then(pl.lit(REWORK)).otherwise(pl.lit(TRAIN))
    return spans.join(usual, on="run", maintain_order="left").select("run", "job", "at", "seconds", kind=kind)


def _sums(events: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    steps = events.filter(pl.col("code") == "train.step").group_by("run").agg(first=pl.col("at").min(), final=pl.col("at").max())
    saves = events.filter((pl.col("code") == "train.checkpoint") & ~pl.col("state").fill_null("").str.contains("(?i)load"))
    saving = saves.group_by("run").agg(checkpoint=pl.col("duration_s").sum())
    seconds = {str(kind): pl.col("seconds").filter(pl.col("kind") == kind).sum() for kind in (TRAIN, REWORK, STALLED)}
    kinds = spans.group_by("run").agg(**seconds)
    return steps.join(saving, on="run", how="full", coalesce=True).join(kinds, on="run", how="left")


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


def sliding(spans: pl.DataFrame) -> pl.DataFrame:
    """Share of productive time in sliding hours (10 min apart) of each job whose steps are logged: job, hours, least, median, last."""
    done = spans.filter(pl.col("kind") == TRAIN).with_columns(begun=pl.col("at") - pl.duration(microseconds=pl.col("seconds") * 1e6))
    if not done.height:
        return pl.DataFrame(schema=HOURS)
    bins = _bins(done)
    # the first and the last bin are cut off by the log's own ends
    ends = bins.group_by("job").agg(low=pl.col("slot").min() + 1, high=pl.col("slot").max() - 1)
    full = ends.filter(pl.col("low") <= pl.col("high")).select("job", slot=pl.int_ranges("low", pl.col("high") + 1)).explode("slot")
    grid = full.join(bins, on=["job", "slot"], how="left").with_columns(pl.col("seconds").fill_null(0.0)).sort("job", "slot")
    hour = grid.with_columns(share=pl.col("seconds").rolling_sum(BINS_PER_HOUR).over("job") / 3600.0).drop_nulls("share")
    found = hour.group_by("job").agg(
        hours=pl.len().cast(pl.Int64), least=pl.col("share").min(), median=pl.col("share").median(), last=pl.col("share").last()
    )
    return found.select(HOURS.keys())


def _bins(done: pl.DataFrame) -> pl.DataFrame:
    """Seconds of training in each slot of ten minutes of a job: job, slot (its number since 1970), seconds."""
    low, high = (pl.col(c).dt.epoch("us") for c in ("begun", "at"))
    timed = done.select("job", low=low, high=high).with_columns(slot=pl.col("low") // BIN_US, last=pl.col("high") // BIN_US)
    within = timed.filter(pl.col("slot") == pl.col("last"))
    across = timed.filter(pl.col("slot") < pl.col("last")).with_columns(slot=pl.int_ranges("slot", pl.col("last") + 1)).explode("slot")
    inside = pl.min_horizontal("high", (pl.col("slot") + 1) * BIN_US) - pl.max_horizontal("low", pl.col("slot") * BIN_US)
    parts = pl.concat([within, across]).with_columns(seconds=inside.clip(0) / 1e6)
    return parts.group_by("job", "slot").agg(pl.col("seconds").sum())


def _run(row: dict[str, object]) -> dict[str, object]:
    shown = ("jobs", "user", "task", "attempts", "gpus", "gpu_hours", "wall_s", "productive_s", "ettr", "basis")
    return {name: row[name] for name in shown}


def _seconds(start: str, end: str) -> pl.Expr:
    return ((pl.col(end) - pl.col(start)).dt.total_microseconds() / 1e6).clip(0)


def _mean(values: pl.Series) -> float | None:
    mean = values.mean()
    return float(mean) if isinstance(mean, int | float) else None
