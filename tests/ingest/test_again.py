"""The same bytes again, grown, rotated, packed or of another host."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.ingest.tables import raw, read, rows

STEM = b"".join(b"Mar  2 04:%02d:%02d qx-01 kernel: usb 1-1: device %d\n" % (n // 60 % 60, n % 60, n) for n in range(300))
FIRST = STEM + b"Mar  2 05:00:00 qx-01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.\n"
GROWN = FIRST + b"Mar  2 05:10:00 qx-01 kernel: NVRM: Xid (PCI:0000:5e:00): 48, pid=812, DBE\n"
BARE = b"[ 9000.250000] NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus.\n"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


def test_twice_changes_nothing(db: Path, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_bytes(GROWN)
    read(db, [[tmp_path / "kern.log"]])
    before = raw(db)
    second, third = read(db, [[tmp_path / "kern.log"], [tmp_path / "kern.log"] * 2])
    assert (second.unchanged, third.unchanged, raw(db)) == (1, 2, before)


def test_a_zone_named_later_moves_what_was_read(db: Path, tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_bytes(GROWN)
    read(db, [[path]])
    assumed = rows(db, "events")
    (moved,) = read(db, [[path]], zone="+02:00")
    stated = rows(db, "events")
    assert (moved.replaced, moved.unchanged) == (1, 0)
    assert [(a["ts"] - b["ts"]).total_seconds() for a, b in zip(assumed, stated, strict=True)] == [7200, 7200]
    (again,) = read(db, [[path]], zone="+02:00")
    (unsaid,) = read(db, [[path]])
    assert (again.unchanged, unsaid.unchanged, rows(db, "events")) == (1, 1, stated)
    assert read(db, [[path], [path]], zone="Europe/Berlin")[1].unchanged == 1


@pytest.mark.parametrize("one_call", [True, False])
@pytest.mark.parametrize("old_first", [True, False])
def test_a_log_that_grew_replaces_its_rows(db: Path, tmp_path: Path, one_call: bool, old_first: bool) -> None:
    (tmp_path / "day1.log").write_bytes(FIRST)
    (tmp_path / "day2.log").write_bytes(GROWN)
    names = ["day1.log", "day2.log"] if old_first else ["day2.log", "day1.log"]
    paths = [tmp_path / name for name in names]
    read(db, [paths] if one_call else [[p] for p in paths])
    assert [(r["code"], r["line_first"]) for r in rows(db, "events")] == [("xid.79", 301), ("xid.48", 302)]
    assert len(rows(db, "sources")) == 1


def test_a_rotated_copy_counts_nothing_twice(db: Path, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_bytes(GROWN)
    (tmp_path / "kern.log.1").write_bytes(FIRST)
    (tmp_path / "kern.log.2.gz").write_bytes(gzip.compress(GROWN))
    read(db, [[tmp_path / "kern.log"], [tmp_path / "kern.log.1", tmp_path / "kern.log.2.gz"], [tmp_path / "kern.log.2.gz"]])
    assert len(rows(db, "events")) == 2
    assert len(rows(db, "sources")) == 1


def test_quiet_logs_that_begin_alike_are_two(db: Path, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(STEM + b"one end\n" * 100)
    (tmp_path / "b.log").write_bytes(STEM + b"another end\n" * 200)
    read(db, [[tmp_path / "a.log", tmp_path / "b.log"]])
    assert len(rows(db, "sources")) == 2


def test_equal_bytes_of_two_hosts_are_two_sources(db: Path, tmp_path: Path) -> None:
    for host in ("qx-01", "qx-02"):
        (tmp_path / f"{host}.dmesg").write_bytes(BARE)
        (tmp_path / host).mkdir()
        (tmp_path / host / "dmesg").write_bytes(BARE + BARE)
    read(db, [[tmp_path / "qx-01.dmesg", tmp_path / "qx-02.dmesg"]])
    assert len(rows(db, "sources")) == 2
    read(db, [[tmp_path / "qx-01.dmesg", tmp_path / "qx-02.dmesg"]])
    assert len(rows(db, "sources")) == 2
    read(db, [[tmp_path / "qx-01", tmp_path / "qx-02"]])
    assert {r["name_part"] for r in rows(db, "sources")} == {"qx-01", "qx-02"}
