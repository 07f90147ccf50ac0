"""kill -9 at random moments of ingest, analysis and a watch: the database opens, and a second run ends as an undisturbed one."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.durability import kills, logs

# (kills, bytes, hosts); the large one takes an hour on two cores
SIZES = [
    pytest.param(5, 20 << 20, 30, id="5 of 20 MB"),
    pytest.param(100, 500 << 20, 200, id="100 of 500 MB", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("times", "size", "hosts"), SIZES)
def test_killed_ingest(times: int, size: int, hosts: int, tmp_path: Path) -> None:
    folder, calm, db = logs.write(tmp_path / "logs", size, hosts), tmp_path / "calm.duckdb", tmp_path / "killed.duckdb"
    whole = kills.finish("ingest", folder, "--db", calm)
    wanted, draw, hits = kills.digests(calm), random.Random(size), 0
    assert wanted["events"][0] > 1000
    for turn in range(times):
        kills.clear(db)
        after = kills.moment(draw, whole)
        hits += kills.kill(after, "ingest", folder, "--db", db)
        kills.opens(db)
        again = kills.finish("ingest", folder, "--db", db)
        assert kills.digests(db) == wanted, f"kill {turn} after {after:.2f} s"
        print(f"kill {turn + 1}: after {after:.2f} s of {whole:.2f}, {hits} hit, second run {again:.1f} s", flush=True)
        whole = (whole + again) / 2  # the machine may be busier now than at the start
    assert hits >= times // 2


@pytest.mark.slow
def test_killed_again_and_again(tmp_path: Path) -> None:
    """Runs that never end by themselves: each goes on from what the one before left."""
    folder, calm, db = logs.write(tmp_path / "logs", 10 << 20, 20), tmp_path / "calm.duckdb", tmp_path / "killed.duckdb"
    whole, draw = kills.finish("ingest", folder, "--db", calm), random.Random(3)
    for _ in range(4):
        kills.kill(kills.moment(draw, whole), "ingest", folder, "--db", db)
        kills.opens(db)
    kills.finish("ingest", folder, "--db", db)
    assert kills.digests(db) == kills.digests(calm)


@pytest.mark.parametrize(
    "command", ["incidents", *(pytest.param(c, marks=pytest.mark.slow) for c in ("report --last --format html", "stats"))]
)
def test_killed_analysis(command: str, tmp_path: Path) -> None:
    """A stale analysis is rebuilt by whatever reads next; killed in it, the next one rebuilds it."""
    folder, calm, db = logs.write(tmp_path / "logs", 4 << 20, 20), tmp_path / "calm.duckdb", tmp_path / "killed.duckdb"
    kills.finish("ingest", folder, "--db", calm)
    wanted, draw = kills.digests(calm), random.Random(command)
    for _ in range(3):
        shutil.copy(calm, db)
        _make_stale(db)
        kills.kill(draw.uniform(0.8, 2.0), *command.split(), "--db", db)
        kills.opens(db)
        kills.finish("incidents", "--db", db)
        assert kills.digests(db) == wanted


def _make_stale(db: Path) -> None:
    from triage.store import Store

    with Store(str(db)) as store:
        store.set_meta("built", "something else")


def test_killed_watch(tmp_path: Path) -> None:
    folder, calm, db = logs.write(tmp_path / "logs", 6 << 20, 20), tmp_path / "calm.duckdb", tmp_path / "killed.duckdb"
    kills.finish("ingest", folder, "--db", calm)
    draw = random.Random(11)
    for _ in range(3):
        kills.kill(draw.uniform(0.8, 4.0), "watch", folder, "--db", db, "--every", "50ms")
        kills.opens(db)
    kills.finish("watch", folder, "--db", db, "--for", "1s")
    kills.finish("ingest", folder, "--db", db)
    own = {"meta": (0, "")}  # what was spoken last is kept there
    assert kills.digests(db) | own == kills.digests(calm) | own
