"""Years, zones and coverage of whole sources."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.ingest.tables import read, rows
from triage.dating import RUNS, Runs, Thinned

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=812, GPU has fallen off the bus."


def utc(*parts: int) -> datetime:
    """A time as the database gives it back."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc,arg-type]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


def write(folder: Path, text: str, name: str = "kern.log", mtime: datetime = datetime(2026, 7, 20, tzinfo=UTC)) -> Path:
    path = folder / name
    path.write_text(text)
    os.utime(path, (mtime.timestamp(), mtime.timestamp()))
    return path


@pytest.mark.parametrize(
    ("line", "zone", "want"),
    [
        (f"Jul  3 14:00:00 qx-01 kernel: {XID}", "Europe/Berlin", utc(2026, 7, 3, 12)),
        (f"Jan  3 14:00:00 qx-01 kernel: {XID}", "Europe/Berlin", utc(2026, 1, 3, 13)),
        (f"Jul  3 14:00:00 qx-01 kernel: {XID}", "+05:30", utc(2026, 7, 3, 8, 30)),
        (f"2026-07-03T14:00:00 qx-01 kernel: {XID}", "-0800", utc(2026, 7, 3, 22)),
        (f"2026-03-29T01:59:59 qx-01 kernel: {XID}", "Europe/Berlin", utc(2026, 3, 29, 0, 59, 59)),
        (f"2026-03-29T03:00:00 qx-01 kernel: {XID}", "Europe/Berlin", utc(2026, 3, 29, 1)),
        (f"Mar 29 03:00:00 qx-01 kernel: {XID}", "Europe/Berlin", utc(2026, 3, 29, 1)),
        (f"2026-07-03T14:00:00Z qx-01 kernel: {XID}", "Europe/Berlin", utc(2026, 7, 3, 14)),
        (f"2026-07-03T14:00:00.5+02:00 qx-01 kernel: {XID}", "America/New_York", utc(2026, 7, 3, 12, 0, 0, 500000)),
        (f"2026-07-03T14:00:00 qx-01 kernel: {XID}", None, utc(2026, 7, 3, 14)),
    ],
)
def test_a_stated_zone_moves_stamps_without_one(db: Path, tmp_path: Path, line: str, zone: str | None, want: datetime) -> None:
    read(db, [[write(tmp_path, line + "\n")]], zone=zone)
    (event,) = rows(db, "events")
    (covered,) = rows(db, "coverage")
    assert (event["ts"], event["ts_last"], event["ts_near"]) == (want, want, want)
    assert (covered["first"], covered["last"]) == (want, want)


def test_a_stated_zone_moves_the_records_of_a_scheduler(db: Path, tmp_path: Path) -> None:
    table = "JobID|JobName|State|NodeList|Submit|Start|End|ExitCode\n"
    table += "4711|pretrain|FAILED|qx-[01-02]|2026-07-02T03:00:00|2026-07-02T04:00:00|2026-07-02T05:00:00|1:0\n"
    read(db, [[write(tmp_path, table, "sacct.txt")]], zone="Europe/Berlin")
    (job,) = rows(db, "job_records")
    assert (job["start"], job["end"]) == (utc(2026, 7, 2, 2), utc(2026, 7, 2, 3))


def test_the_year_turns_within_a_log(db: Path, tmp_path: Path) -> None:
    months = ["Oct", "Nov", "Dec", "Jan", "Feb"]
    lines = [f"{month} {day:2d} 04:00:00 qx-01 kernel: {XID}" for month in months for day in (3, 17)]
    read(db, [[write(tmp_path, "\n".join(lines) + "\n", mtime=datetime(2026, 2, 20, tzinfo=UTC))]])
    found = sorted(r["ts"] for r in rows(db, "events"))
    assert found[0] == utc(2025, 10, 3, 4)
    assert found[-1] == utc(2026, 2, 17, 4)
    (covered,) = rows(db, "coverage")
    assert (covered["first"], covered["last"]) == (found[0], found[-1])


def test_an_event_two_new_years_before_the_end(db: Path, tmp_path: Path) -> None:
    """The lines without events tell how many years lie between."""
    quiet = [f"{month}  3 04:00:00 qx-01 kernel: usb 1-1: quiet" for month in ("Apr", "Aug", "Dec", "Mar", "Jul", "Nov", "Feb")]
    text = "\n".join([quiet[0], f"May  1 00:00:00 qx-01 kernel: {XID}", *quiet[1:]]) + "\n"
    read(db, [[write(tmp_path, text, mtime=datetime(2026, 2, 20, tzinfo=UTC))]])
    (event,) = rows(db, "events")
    assert event["ts"] == utc(2024, 5, 1)


def test_hosts_of_a_central_log(db: Path, tmp_path: Path) -> None:
    """Forty hosts in turn, no event: each is covered nearly from end to end."""
    times = [f"{n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}" for n in range(40_000)]
    lines = [f"2026-07-01T{time}Z qx-{n * 7 % 40:02d} kernel: usb 1-1: quiet {n}" for n, time in enumerate(times)]
    read(db, [[write(tmp_path, "\n".join(lines) + "\n", "syslog")]])
    covered = {r["host"]: r for r in rows(db, "coverage")}
    assert set(covered) == {f"qx-{n:02d}" for n in range(40)}
    assert {r["family"] for r in covered.values()} == {"kernel"}
    assert max(r["first"] for r in covered.values()) < utc(2026, 7, 1, 0, 10)
    assert min(r["last"] for r in covered.values()) > utc(2026, 7, 1, 11)


def test_a_quiet_log_is_covered(db: Path, tmp_path: Path) -> None:
    lines = [f"[{n}.000100] usb 1-1: quiet" for n in range(1000)]
    read(db, [[write(tmp_path, "\n".join(lines) + "\n", "qx-01.dmesg")]])
    (covered,) = rows(db, "coverage")
    assert (covered["family"], covered["first"], covered["sampled"]) == ("kernel", None, True)


def test_memory_of_stamps_is_bounded() -> None:
    runs, kept, day = Runs(), Thinned(), 86_400_000_000
    for n in range(200_000):
        runs.of(63_072_000_000_000 + n % 2 * 5 * day, n)
        kept.add(1_700_000_000_000_000 + n)
    assert len(runs.days) <= RUNS
    stamps = kept.stamps()
    assert len(stamps) < 1100
    assert (min(stamps), max(stamps)) == (1_700_000_000_000_000, 1_700_000_000_199_999)
