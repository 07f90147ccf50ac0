"""Read by workers, a database holds what one process writes: every table, row for row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.dask import folders
from tests.dask.folders import digests
from triage.desk import Setup, ingest
from triage.faults import InputFault
from triage.schema import TABLES

pytest.importorskip("distributed")


def one(db: Path, *paths: Path) -> dict[str, Any]:
    return ingest(Setup(str(db)), [str(p) for p in paths])


Many = Callable[..., dict[str, Any]]


@pytest.fixture
def many(address: str, tmp_path: Path) -> Many:
    """An ingest by the workers of a scheduler that runs already."""

    def read(db: Path, *paths: Path, spool: Path = tmp_path / "spool") -> dict[str, Any]:
        return ingest(Setup(str(db)), [str(p) for p in paths], dask=address, spool=str(spool))

    return read


def told(data: dict[str, Any]) -> dict[str, Any]:
    """What an ingest reports, without what depends on the clock and on who read."""
    return {k: v for k, v in data.items() if k not in ("seconds", "db", "spool", "reused")}


def test_all_stories_give_the_same_tables(tmp_path: Path, stories: list[Path]) -> None:
    logs = [str(story / "logs") for story in stories]
    here = ingest(Setup(str(tmp_path / "one.duckdb")), logs)
    there = ingest(Setup(str(tmp_path / "many.duckdb")), logs, dask="local[2]")
    assert digests(tmp_path / "many.duckdb") == digests(tmp_path / "one.duckdb")
    assert told(there) == told(here)
    assert there["reused"] == 0


def test_a_folder_of_all_sorts_gives_the_same_tables_and_reasons(many: Many, tmp_path: Path) -> None:
    logs = folders.write(tmp_path / "logs")
    here, there = one(tmp_path / "one.duckdb", logs), many(tmp_path / "many.duckdb", logs, spool=tmp_path / "spool")
    assert digests(tmp_path / "many.duckdb") == digests(tmp_path / "one.duckdb")
    assert told(there) == told(here)
    assert {Path(s["path"]).name for s in there["skipped"]} >= {"noise.bin", "cut.log.gz", ".hidden"}
    assert there["totals"]["events"] > 100
    assert there["totals"]["rejects"] > 10
    again = many(tmp_path / "many.duckdb", logs, spool=tmp_path / "spool")
    assert (again["sources"], again["unchanged"], again["reused"]) == ([], len(here["sources"]) + here["unchanged"], again["reused"])
    assert again["reused"] >= len(here["sources"])
    assert digests(tmp_path / "many.duckdb") == digests(tmp_path / "one.duckdb")


def test_logs_that_grow_between_two_runs(many: Many, tmp_path: Path) -> None:
    logs, one_db, many_db = folders.write(tmp_path / "logs", lines=400, hosts=4), tmp_path / "one.duckdb", tmp_path / "many.duckdb"
    one(one_db, logs)
    many(many_db, logs)
    with (logs / "qx-00.kern.log").open("ab") as log:
        log.write(b"Mar  4 01:00:00 qx-00 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.\n")
    (logs / "qx-01.kern.log").rename(logs / "qx-01.kern.log.1")
    here, there = one(one_db, logs), many(many_db, logs)
    assert told(there) == told(here)
    assert there["replaced"] == 1
    assert digests(many_db) == digests(one_db)


def test_an_empty_database_is_filled_from_what_was_landed(many: Many, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, spool = folders.write(tmp_path / "logs", lines=300, hosts=3), tmp_path / "spool"
    many(tmp_path / "a.duckdb", logs, spool=spool)
    monkeypatch.setattr("triage.dispatch.assembled", lambda *_: pytest.fail("a worker was started"))
    (logs / "noise.bin").unlink()
    many(tmp_path / "b.duckdb", logs, spool=spool)
    assert digests(tmp_path / "b.duckdb") == digests(tmp_path / "a.duckdb")


def test_a_part_that_was_damaged_is_read_again(many: Many, tmp_path: Path) -> None:
    logs, spool = folders.write(tmp_path / "logs", lines=300, hosts=3), tmp_path / "spool"
    many(tmp_path / "a.duckdb", logs, spool=spool)
    for part in (spool / "events").rglob("*.parquet"):
        part.write_bytes(part.read_bytes()[:-1])
    again = many(tmp_path / "b.duckdb", logs, spool=spool)
    assert again["reused"] == 0
    assert digests(tmp_path / "b.duckdb") == digests(tmp_path / "a.duckdb")


def test_what_the_user_named_and_cannot_be_read_is_an_error(many: Many, tmp_path: Path) -> None:
    folders.write(tmp_path / "logs", lines=10, hosts=1)
    binary = tmp_path / "logs" / "noise.bin"
    with pytest.raises(InputFault) as here:
        one(tmp_path / "one.duckdb", binary)
    with pytest.raises(InputFault) as there:
        many(tmp_path / "many.duckdb", binary)
    assert str(there.value) == str(here.value)


def test_the_parquet_is_parted_by_day_and_family_and_has_the_columns_of_the_tables(many: Many, tmp_path: Path) -> None:
    logs, spool = folders.write(tmp_path / "logs", lines=500, hosts=3), tmp_path / "spool"
    many(tmp_path / "t.duckdb", logs, spool=spool)
    days = {p.name for p in (spool / "events").iterdir()}
    assert {"day=2026-03-02", "day=2026-03-03"} <= days
    assert {p.name for p in (spool / "events" / "day=2026-03-02").iterdir()} == {"family=gpu", "family=network", "family=scheduler"}
    with duckdb.connect() as connection:
        read = f"read_parquet('{spool}/events/**/*.parquet', hive_partitioning = true)"
        names = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {read}").fetchall()]
        wrong = connection.execute(f"SELECT count(*) FROM {read} WHERE ts_near::DATE <> day").fetchone()
    assert set(names) == {*TABLES["events"].names, "day"}
    assert wrong == (0,)
