"""Time `triage stats`, `lemons` and `spares` over a made-up fleet: 1,000 hosts, 90 days, ten million events. Prints, asserts nothing.

    python tests/bench/fleet_bench.py [--hosts 1000] [--days 90] [--events 10000000] [--db FILE]

Jobs, states, incidents and lemons are those of `triage drill --fleet`; steps, checkpoints and floods of Xid lines fill up the events. Each
command runs in a process of its own; peak is the largest resident set that the kernel saw for it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from triage import drills_fleet, recurrence, rulebook
from triage.drills_fleet import FRAMES, START, Fleet, Recipe
from triage.pipeline import stamp_of
from triage.schema import TABLES
from triage.store import Store

ROOT = Path(__file__).resolve().parents[2]
STEP_SHARE, BURST_SHARE, CHUNK = 0.7, 0.03, 1_000_000
CODES = ("xid.63", "xid.95", "xid.74", "pcie.aer_corrected", "mem.ce", "ib.link_down")
COMMANDS = (("stats",), ("lemons",), ("spares",), ("stats", "--window", "28d"), ("lemons", "--top", "20"), ("spares", "--job-nodes", "64"))


def fill(db: Path, recipe: Recipe, events: int) -> None:
    """A database of the fleet; its analysis is marked as fresh."""
    fleet = drills_fleet.generate(1, recipe)
    rng = np.random.default_rng(1)
    book = rulebook.load()
    with Store(str(db)) as store, store.transaction():
        store.extend("sources", _sources(fleet))
        for name in FRAMES:
            store.extend(name, _whole(name, fleet.frames[name]))
        store.extend("bursts", _whole("bursts", _bursts(fleet, rng, int(events * BURST_SHARE))))
        store.extend("coverage", _coverage(fleet))
        for part in _events(fleet, rng, events):
            store.extend("events", part)
        frames = [store.frame(name) for name in FRAMES]
        store.replace("recurrence", recurrence.build(*frames, now=fleet.now, params=recurrence.Params(second_opinion=False)))
        store.set_meta("built", stamp_of(store, book))


def _whole(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with every column of its table."""
    types = TABLES[name].dtypes()
    lacking = [pl.lit(None, dtype).alias(column) for column, dtype in types.items() if column not in frame.columns]
    return frame.with_columns(lacking).select(types.keys()).cast(types)  # type: ignore[arg-type]


def _sources(fleet: Fleet) -> pl.DataFrame:
    row = {"source_id": "s0", "path": "/var/log/collected/all.log", "first_ts": START, "last_ts": fleet.now, "lines": 1, "events": 1}
    return _whole("sources", pl.DataFrame([row]))


def _coverage(fleet: Fleet) -> pl.DataFrame:
    seen = fleet.frames["hosts"].select(
        "host", family=pl.lit("kernel"), first=pl.lit(START), last=pl.lit(fleet.now), source_id=pl.lit("s0")
    )
    return _whole("coverage", seen)


def _times(fleet: Fleet, rng: np.random.Generator, number: int) -> pl.Series:
    span = int((fleet.now - START).total_seconds() * 1e6)
    return (pl.Series(rng.integers(0, span, number)) + _micros(START)).cast(pl.Datetime("us"))


def _micros(at: datetime) -> int:
    return int((at - datetime(1970, 1, 1)).total_seconds() * 1_000_000)  # noqa: DTZ001


def _bursts(fleet: Fleet, rng: np.random.Generator, number: int) -> pl.DataFrame:
    """Warnings and faults under which jobs went on."""
    at = _times(fleet, rng, number)
    code = pl.Series(rng.choice(CODES, number))
    hosts = fleet.frames["hosts"]["host"].to_numpy()
    rows = pl.DataFrame({"host": rng.choice(hosts, number), "code": code, "first": at, "last": at, "count": rng.integers(1, 60, number)})
    return rows.with_columns(
        burst_id=pl.concat_str(pl.lit("w"), pl.int_range(number)),
        device=pl.lit("0000:3b:00"),
        family=pl.when(pl.col("code") == "ib.link_down").then(pl.lit("network")).otherwise(pl.lit("gpu")),
        role=pl.when(pl.col("code").is_in(["xid.95", "xid.74", "ib.link_down"])).then(pl.lit("root")).otherwise(pl.lit("precursor")),
        layer=pl.lit("gpu"),
        source_id=pl.lit("s0"),
        line=pl.int_range(number),
    )


def _events(fleet: Fleet, rng: np.random.Generator, events: int) -> Iterator[pl.DataFrame]:
    """Chunks of events: steps and checkpoints of the attempts, then floods of Xid lines."""
    jobs = fleet.frames["jobs"].with_columns(stop=pl.col("end").fill_null(fleet.now)).filter(pl.col("stop") > pl.col("start"))
    seconds = (jobs["stop"] - jobs["start"]).dt.total_seconds().to_numpy()
    gap = max(1.0, seconds.sum() / (events * STEP_SHARE))
    done = 0
    for part in jobs.with_columns(n=pl.Series((seconds / gap).astype(np.int64))).iter_slices(4000):
        steps = part.select("job_id", "attempt", "start", seq=pl.int_ranges(0, pl.col("n"))).explode("seq").drop_nulls("seq")
        when = pl.col("start") + pl.duration(microseconds=(pl.col("seq") * gap * 1e6).cast(pl.Int64))
        save = pl.col("seq") % 50 == 49
        code = pl.when(save).then(pl.lit("train.checkpoint")).otherwise(pl.lit("train.step"))
        rows = steps.with_columns(ts=when, ts_near=when, code=code)
        rows = rows.with_columns(family=pl.lit("training"), duration_s=pl.lit(3.6), state=pl.when(save).then(pl.lit("saved")))
        yield _numbered(rows, done)
        done += rows.height
    while done < events:
        size = min(CHUNK, events - done)
        at = _times(fleet, rng, size)
        rows = pl.DataFrame({"ts": at, "ts_near": at, "host": rng.choice(fleet.frames["hosts"]["host"].to_numpy(), size)})
        rows = rows.with_columns(code=pl.lit("xid.63"), family=pl.lit("gpu"), device=pl.lit("0000:3b:00"), message=pl.lit("Row Remapper"))
        yield _numbered(rows, done)
        done += size


def _numbered(rows: pl.DataFrame, first: int) -> pl.DataFrame:
    line = pl.int_range(first, first + rows.height)
    named = rows.with_columns(
        event_id=pl.concat_str(pl.lit("s0:"), line, pl.lit(":0")), source_id=pl.lit("s0"), line_first=line, line_last=line
    )
    return _whole("events", named)


def measure(db: Path) -> None:
    """Wall time and peak memory of each command."""
    print(f"{'command':28} {'seconds':>8} {'CPU s':>6} {'peak MB':>8} {'lines':>6}")
    for command in COMMANDS:
        began = time.perf_counter()
        run = (sys.executable, "-c", "from triage.cli import app_main; app_main()", *command, "--db", str(db), "--format", "text")
        child = subprocess.Popen(
            run, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        lines = len(child.stdout.read().splitlines())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        failed = f"  exit {child.returncode}" if child.returncode else ""
        wall, cpu = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
        print(f"{' '.join(command):28} {wall:8.1f} {cpu:6.1f} {usage.ru_maxrss / 1024:8.0f} {lines:6}{failed}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--db", type=Path, help="keep the database here; one that is there already is used as it is")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        db = asked.db or Path(scratch) / "fleet.duckdb"
        if not db.exists():
            with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # a child's peak begins with the memory of its parent
                apart.submit(fill, db, Recipe(hosts=asked.hosts, days=asked.days), asked.events).result()
        measure(db)


if __name__ == "__main__":
    main()
