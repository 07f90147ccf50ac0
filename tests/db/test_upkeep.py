"""triage db: what is said of a database, that every fault is found, and that what goes and what stays is what was said."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.dask.folders import digests
from tests.engine.stories import story
from triage import upkeep
from triage.cli import app_main
from triage.desk import Setup, ingest, opened
from triage.faults import Fault
from triage.schema import TABLES
from triage.store import Store

ROOT = Path(__file__).resolve().parents[2]
LATER = (
    "2026-08-20T10:00:00.000000+00:00 n9 kernel: usb 1-1: new high-speed USB device number 4 using xhci_hcd\n"
    "2026-08-20T10:49:05.000000+00:00 n9 kernel: NVRM: Xid (PCI:0000:5e:00): 48, pid=7, name=x, DBE\n"
)
BOTH = LATER.replace("2026-08-20", "2026-05-02").replace("n9", "n8") + LATER.replace("n9", "n8")


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Three months: a story of June, a host of August, and one file that reaches from May to August."""
    logs = story(tmp_path / "logs")
    (logs / "n9.kern.log").write_text(LATER)
    (logs / "n8.kern.log").write_text(BOTH)
    (logs / "inventory.csv").write_text("host,rack\nn1,r1\nn8,r2\n")
    path = str(tmp_path / "t.duckdb")
    ingest(Setup(path), [str(logs)])
    return path


def rows(db: str, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(db, read_only=True) as connection:
        return connection.execute(query).fetchall()


def change(db: str, *statements: str) -> None:
    with duckdb.connect(db) as connection:
        for statement in statements:
            connection.execute(statement)


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["triage", *words])
    with pytest.raises(SystemExit) as left:
        app_main()
    return int(left.value.code or 0)


def test_info_counts_what_is_there(db: str) -> None:
    data = upkeep.info(Setup(db))
    assert {row["table"]: row["rows"] for row in data["tables"]} == {t: rows(db, f"SELECT count(*) FROM {t}")[0][0] for t in TABLES}
    assert (data["version"], data["analysis"], data["again"], data["log_bytes"]) == (data["reads"], "fresh", None, 0)
    assert data["sources"] | {"bytes": 0, "lines": 0} == {
        "sources": 8, "bytes": 0, "lines": 0, "undated": 1, "first": "2026-05-02T10:00:00Z", "last": "2026-08-20T10:49:05Z",
    }  # fmt: skip
    assert data["bytes"] == Path(db).stat().st_size


def test_info_says_that_the_analysis_is_stale(db: str, tmp_path: Path) -> None:
    with Store(db) as store:
        store.set_meta("built", "of yesterday")
    assert upkeep.info(Setup(db))["analysis"] == "stale"


def test_another_version_is_refused_with_the_way_out_and_left_alone(db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(db, "UPDATE meta SET value = '0' WHERE name = 'schema'", "DROP TABLE spares", "ALTER TABLE events DROP COLUMN attrs")
    before = rows(db, "SELECT * FROM information_schema.columns")
    for tried in (
        lambda: Store(db),
        lambda: Store(db, write=False),
        lambda: upkeep.check(Setup(db)),
        lambda: upkeep.compact(Setup(db), None),
    ):
        with pytest.raises(Fault, match=r"schema version 0, this program reads .*triage ingest PATH\.\.\. --db NEW") as raised:
            tried()
        assert "\n" not in str(raised.value)
    assert rows(db, "SELECT * FROM information_schema.columns") == before
    again = upkeep.info(Setup(db))["again"]
    assert again == f"triage ingest {tmp_path / 'logs'} --db NEW"
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, *again.split()[1:]) == 0
    assert rows("NEW", "SELECT count(*) FROM sources") == [(8,)]


def test_a_sound_database_has_no_fault(db: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert upkeep.check(Setup(db))["faults"] == []
    assert command(monkeypatch, "db", "check", "--db", db) == 0
    assert "no fault in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("DELETE FROM sources WHERE path LIKE '%n8.kern.log'", "events: rows of a source that is not there: 2"),
        ("DELETE FROM coverage; INSERT INTO coverage (source_id) VALUES ('x')", "coverage: rows of a source that is not there: 1"),
        ("INSERT INTO sources SELECT * FROM sources LIMIT 1", "sources: 1 value(s) of its key (source_id) are there more than once"),
        ("DELETE FROM incidents", "findings: rows of an incident that is not there"),
        ("DELETE FROM decisions", "incidents: without a decision"),
        ("DELETE FROM bursts", "incident_bursts: bursts that are not there"),
        ("DELETE FROM events", "bursts: rows whose first event is not there"),
        ("DELETE FROM jobs", "job_hosts: attempts that are not there"),
        ("ALTER TABLE spares DROP COLUMN why", "spares: column why is not there, not VARCHAR"),
        ("ALTER TABLE jobs ALTER nodes TYPE VARCHAR", "jobs: column nodes is VARCHAR, not BIGINT"),
        ("DROP TABLE IF EXISTS templates", "templates: column incident_id is not there"),
    ],
)
def test_every_fault_is_found(
    db: str, statement: str, fault: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(db) as store:
        built = store.meta("built")
    change(db, *statement.split("; "))
    with duckdb.connect(db) as connection:  # as if nothing had happened
        ids = [row[0] for row in connection.execute("SELECT source_id FROM sources ORDER BY source_id").fetchall()]
    if len(ids) == 8:
        assert rows(db, "SELECT value FROM meta WHERE name = 'built'") == [(built,)]
    assert any(fault in line for line in upkeep.check(Setup(db))["faults"]), upkeep.check(Setup(db))["faults"]
    assert command(monkeypatch, "db", "check", "--db", db) == 2
    assert fault in capsys.readouterr().out


def test_a_damaged_block_is_found(db: str) -> None:
    """A byte changed anywhere in the file is a fault in a line, or is where nothing is kept."""
    whole = Path(db).read_bytes()
    found = 0
    for at in range(16_384, len(whole), max(1, len(whole) // 12)):
        Path(db).write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            found += bool(upkeep.check(Setup(db))["faults"])
        except Fault as fault:
            assert "\n" not in str(fault)
            found += 1
    assert found > 0


def test_expire_drops_old_sources_and_the_old_rows_of_others(db: str, tmp_path: Path) -> None:
    trial = upkeep.expire(Setup(db), "2026-08-01T00:00:00Z", None, dry_run=True)
    before = digests(db)
    assert digests(db) == before
    done = upkeep.expire(Setup(db), "2026-08-01T00:00:00Z", None, dry_run=False)
    assert done | {"dry_run": True} == trial
    assert {Path(s["path"]).name for s in done["sources"]} == {"n1.kern.log", "n2.kern.log", "n3.kern.log", "sacct.txt", "slurm-8842.out"}
    assert (done["left"], done["undated"]) == (3, 1)
    assert rows(db, "SELECT min(ts), count(*) FROM events WHERE host = 'n8'")[0][1] == 1
    assert rows(db, "SELECT count(*) FROM coverage WHERE first < '2026-08-01'") == [(0,)]
    assert rows(db, "SELECT host FROM host_records ORDER BY host") == [("n1",), ("n8",)]
    assert rows(db, "SELECT count(*) FROM jobs") == [(0,)]
    assert upkeep.check(Setup(db))["faults"] == []
    fresh = str(tmp_path / "fresh.duckdb")
    logs = tmp_path / "logs"
    ingest(Setup(fresh), [str(logs / "n9.kern.log"), str(logs / "inventory.csv")])
    assert {h for (h,) in rows(db, "SELECT DISTINCT host FROM bursts")} == {"n8", "n9"}
    assert rows(db, "SELECT * FROM events WHERE host = 'n9'") == rows(fresh, "SELECT * FROM events WHERE host = 'n9'")


def test_keep_counts_back_from_the_last_stamp(db: str) -> None:
    assert upkeep.expire(Setup(db), None, "30d", dry_run=True)["before"] == "2026-07-21T10:49:05Z"


def test_expire_twice_changes_nothing_more(db: str) -> None:
    upkeep.expire(Setup(db), "2026-08-01T00:00:00Z", None, dry_run=False)
    before = digests(db)
    again = upkeep.expire(Setup(db), "2026-08-01T00:00:00Z", None, dry_run=False)
    assert (again["rows"], again["sources"], digests(db)) == ({}, [], before)


def test_what_was_expired_comes_back_with_its_file(db: str, tmp_path: Path) -> None:
    before = digests(db)
    upkeep.expire(Setup(db), "2026-08-21T00:00:00Z", None, dry_run=False)
    assert rows(db, "SELECT count(*) FROM sources") == [(1,)]
    ingest(Setup(db), [str(tmp_path / "logs")])
    assert digests(db) == before


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("expire",), "say what goes"),
        (("expire", "--keep", "30d", "--before", "2026-01-01T00:00:00Z"), "say what goes"),
        (("expire", "--keep", "soon"), "is no duration"),
        (("expire", "--before", "soon"), "is no time"),
        (("compact", "--out", "there.duckdb"), "exists; name a new file"),
        (("compact", "--out", "no/such/there.duckdb"), "its folder does not exist"),
        (("info", "--db", "none.duckdb"), "no such database"),
        (("check", "--db", "none.duckdb"), "no such database"),
        (("compact", "--db", "none.duckdb"), "no such database"),
        (("expire", "--keep", "1d", "--db", "none.duckdb"), "no such database"),
        (("info", "--db", "text.txt"), "not a triage database"),
    ],
)
def test_mistakes_are_one_line(
    db: str, words: tuple[str, ...], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.duckdb").write_text("")
    (tmp_path / "text.txt").write_text("hello\n" * 4000)
    left = {path.name for path in tmp_path.iterdir()}
    assert command(monkeypatch, "db", *words, *(() if "--db" in words else ("--db", db))) == 2
    error = capsys.readouterr().err
    assert fault in error
    assert error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == left


def test_compact_keeps_every_row_and_gives_room_back(db: str) -> None:
    change(db, "INSERT INTO rejects SELECT 'x', range, 'xid', 'cut', md5(range::VARCHAR) FROM range(400000)")
    change(db, "UPDATE events SET attrs = md5(event_id)", "CHECKPOINT", "DELETE FROM rejects WHERE source_id = 'x'")
    before = digests(db)
    meta = rows(db, "SELECT * FROM meta ORDER BY ALL")
    data = upkeep.compact(Setup(db), None)
    assert data["after"] < data["before"] / 2
    assert (digests(db), rows(db, "SELECT * FROM meta ORDER BY ALL")) == (before, meta)
    assert [p.name for p in Path(db).parent.iterdir() if "compact" in p.name] == []
    with opened(Setup(db)) as after:
        assert after.store.rows("totals")


def test_a_backup_is_a_copy_while_others_read(db: str, tmp_path: Path) -> None:
    before = digests(db)
    holder = "import sys, duckdb\nc = duckdb.connect(sys.argv[1], read_only=True)\nprint('held', flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holder, db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline().strip() == "held"
        upkeep.compact(Setup(db), str(tmp_path / "backup.duckdb"))
        shutil.copy(db, tmp_path / "plain.duckdb")
        with pytest.raises(Fault, match="in use by another process"):
            upkeep.compact(Setup(db), None)
        reader.communicate()
    for copy in ("backup.duckdb", "plain.duckdb"):
        assert digests(tmp_path / copy) == before
        assert upkeep.check(Setup(str(tmp_path / copy)))["faults"] == []
    assert digests(db) == before


def test_compact_killed_at_any_moment_leaves_the_database_whole(db: str, tmp_path: Path) -> None:
    imports = "import sys\nfrom triage import upkeep\nfrom triage.desk import Setup\n"
    program = imports + "print('ready', flush=True)\nupkeep.compact(Setup(sys.argv[1]), None)"
    before = digests(db)
    for after in (0.0, 0.02, 0.05, 0.1, 0.2):
        process = subprocess.Popen([sys.executable, "-c", program, db], cwd=ROOT, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert digests(db) == before
    upkeep.compact(Setup(db), None)
    assert digests(db) == before
    assert [p.name for p in tmp_path.iterdir() if "compact" in p.name] == []


def test_compact_does_not_lose_what_is_not_ours(db: str) -> None:
    change(db, "CREATE TABLE notes AS SELECT 1 AS n")
    with pytest.raises(Fault, match=r"tables that are not ours \(notes\)"):
        upkeep.compact(Setup(db), None)
    assert rows(db, "SELECT * FROM notes") == [(1,)]
