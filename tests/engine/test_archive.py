"""A history that does not fit is read from disk in parts: the same tables, and no more bursts in memory than the parts that are held."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.bench import inputs
from triage import archive, incidents, pipeline
from triage.desk import read
from triage.history import Burst
from triage.publications import TABLES
from triage.rulebook import Rulebook
from triage.store import Store

EVENTS = 2000
ROOT = Path(__file__).parents[2]
TELL = "atexit.register(lambda: print(pathlib.Path('/proc/self/status').read_text(), file=sys.stderr))"
PROGRAM = (sys.executable, "-c", f"import atexit, pathlib, sys; {TELL}; from triage.cli import app_main; app_main()")
LARGE_MB = 105
"""What 36,000 more events may cost: some 70 MB of buffers that fill once; held one and all they took 140 MB."""


@pytest.fixture
def store(book: Rulebook, tmp_path: Path) -> Iterator[Store]:
    inputs.write_events(tmp_path / "kern.log", EVENTS)
    with Store(str(tmp_path / "t.duckdb")) as made:
        read(made, [str(tmp_path / "kern.log")], book, None)
        yield made


def tables(store: Store) -> dict[str, pl.DataFrame]:
    return {name: store.frame(name) for name in ("bursts", *TABLES, "recurrence")}


def test_small_parts_give_the_same_tables(store: Store, book: Rulebook, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tables(store)
    assert whole["bursts"].height > 0.9 * EVENTS
    for module, name, value in ((archive, "HELD", 2), (pipeline, "PART", 40), (incidents, "KEPT", 0), (pipeline, "CHUNK", 10)):
        monkeypatch.setattr(module, name, value)
    store.set_meta("built", "")
    pipeline.refresh(store, book)
    assert all(whole[name].equals(made) for name, made in tables(store).items())


def test_bursts_are_let_go(store: Store, book: Rulebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "HELD", 4)
    monkeypatch.setattr(pipeline, "PART", 100)
    counts: list[int] = []
    history = pipeline.load(store, book)
    for number, _ in enumerate(pipeline.decided(history, book)):
        if number % 20 == 0:
            gc.collect()
            counts.append(sum(type(thing) is Burst for thing in gc.get_objects()))
    assert len(counts) > 3
    assert max(counts) < 0.4 * EVENTS


def test_equal_places_are_equal_bursts(store: Store, book: Rulebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "PART", 100)
    bursts = pipeline.load(store, book).bursts
    rows = store.frame("bursts").rows(named=True)
    assert [b.place for b in bursts] == list(range(len(rows)))
    for place in (0, len(rows) // 2, len(rows) - 1):
        one, row = bursts[place], rows[place]
        same: dict[str, Any] = {
            name: getattr(one, name) for name in ("burst_id", "code", "host", "device", "count", "message", "line", "seq")
        }
        assert same == {name: row[name] for name in same}
    with pytest.raises(IndexError):
        bursts[len(rows)]


def _peak_mb(folder: Path, events: int) -> float:
    """The peak of a whole `triage ingest` of so many distinct events, as the kernel tells the process itself."""
    file = folder / f"{events}.log"
    inputs.write_events(file, events)
    command = [*PROGRAM, "ingest", str(file), "--db", f"{file}.duckdb"]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stderr
    return int(told.split("VmHWM:")[1].split()[0]) / 1024


def test_events_that_differ_cost_little_memory(tmp_path: Path) -> None:
    few, many = _peak_mb(tmp_path, 4_000), _peak_mb(tmp_path, 40_000)
    assert many - few < LARGE_MB, f"{few:.0f} MB for 4,000 events, {many:.0f} MB for 40,000"
