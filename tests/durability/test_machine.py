"""A full disk, a read-only folder, two writers, files that change while they are read, a clock that jumps."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.durability import kills, logs
from triage import desk
from triage.desk import Setup

LINE = "2026-03-02T0{h}:{m:02d}:{s:02d}.000000+00:00 du-001 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid={n}, GPU has fallen off the bus.\n"


def line(n: int) -> str:
    return LINE.format(h=n // 3600, m=n // 60 % 60, s=n % 60, n=n)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return logs.write(tmp_path_factory.mktemp("durable") / "logs", 8 << 20, 20)


@pytest.fixture(scope="module")
def calm(folder: Path) -> Path:
    """A database of an undisturbed run."""
    path = folder.parent / "calm.duckdb"
    kills.finish("ingest", folder, "--db", path)
    return path


@contextmanager
def mounted(place: Path, options: str) -> Iterator[Path]:
    """A file system of its own, in memory; the test is skipped where none can be mounted."""
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "triage-test", str(place)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no file system of our own can be mounted: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB of its own."""
    with mounted(tmp_path / "disk", "size=1m") as place:
        yield place


def resize(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def refused(*words: object) -> str:
    """The one line of a command that ends with 2."""
    done = kills.start(*words)
    _, error = done.communicate()
    assert done.returncode == 2, error.decode()
    assert error.decode().startswith("triage: ") and error.count(b"\n") == 1, error.decode()
    return error.decode()


@pytest.mark.parametrize("room", ["300k", "700k", "1m", "2m"])
def test_a_full_disk(room: str, disk: Path, folder: Path, calm: Path) -> None:
    db = disk / "fleet.duckdb"
    resize(disk, room)
    assert "no room left" in refused("ingest", folder, "--db", db)
    resize(disk, "64m")
    kills.opens(db)
    kills.finish("ingest", folder, "--db", db)
    assert kills.digests(db) == kills.digests(calm)


def test_a_disk_that_is_full_again_and_again(disk: Path, folder: Path, calm: Path) -> None:
    db = disk / "fleet.duckdb"
    for room in ("400k", "800k", "1600k", "2400k"):
        resize(disk, room)
        refused("ingest", folder, "--db", db)
    resize(disk, "64m")
    kills.finish("ingest", folder, "--db", db)
    assert kills.digests(db) == kills.digests(calm)


def test_a_report_that_finds_no_room_leaves_the_old_one(disk: Path, calm: Path) -> None:
    out = disk / "report.md"
    kills.finish("report", "--last", "--db", calm, "--out", out)
    old = out.read_text().replace("_who runs this incident_", "ada runs it")
    out.write_text(old)
    (disk / "filler").write_bytes(b"x" * 4096)
    resize(disk, f"{(len(old) // 4096 + 3) * 4}k")
    assert "cannot be written" in refused("report", "--last", "--db", calm, "--out", out, "--format", "html")
    assert out.read_text() == old
    assert sorted(p.name for p in disk.iterdir()) == ["filler", "report.md"]


def test_output_to_a_full_disk_is_one_line(calm: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*kills.PROGRAM, "incidents", "--db", str(calm), "--format", "json"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr and b"No space left" in done.stderr


def test_temporary_files_that_find_no_room(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kern.log.tar.gz"
    big = tmp_path / "kern.log"
    big.write_text("".join(line(n) for n in range(40_000)))
    subprocess.run(["tar", "-czf", str(path), "-C", str(tmp_path), "kern.log"], check=True)
    monkeypatch.setenv("TMPDIR", str(disk))
    error = refused("ingest", path, "--db", tmp_path / "t.duckdb")
    assert "No space left" in error or "no room left" in error


def test_a_read_only_folder(tmp_path: Path, folder: Path) -> None:
    with mounted(tmp_path / "ro", "ro,size=1m") as place:
        assert "cannot be written" in refused("ingest", folder, "--db", place / "t.duckdb")
        assert "cannot be written" in refused("report", "--last", "--db", _small(tmp_path), "--out", place / "r.md")


def test_a_database_on_a_read_only_file_system_is_read(tmp_path: Path) -> None:
    db = _small(tmp_path)
    place = tmp_path / "ro"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "triage-test", str(place)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no file system of our own can be mounted: {made.stderr.strip()}")
    try:
        (place / "t.duckdb").write_bytes(db.read_bytes())
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        kills.finish("incidents", "--db", place / "t.duckdb")
        assert "cannot be written" in refused("ingest", tmp_path / "small", "--db", place / "t.duckdb")
    finally:
        subprocess.run(["umount", str(place)], check=False)


def _small(tmp_path: Path) -> Path:
    (tmp_path / "small").mkdir(exist_ok=True)
    (tmp_path / "small" / "du-001.kern.log").write_text("".join(line(n) for n in range(20)))
    db = tmp_path / "small.duckdb"
    desk.ingest(Setup(str(db)), [str(tmp_path / "small")])
    return db


def test_two_writers(tmp_path: Path, folder: Path, calm: Path) -> None:
    """The second one ends with one line, or comes after the first; either way the rows are right."""
    db = tmp_path / "both.duckdb"
    both = [kills.start("ingest", folder, "--db", db) for _ in range(2)]
    ends = []
    for one in both:
        _, error = one.communicate()
        ends.append(one.returncode)
        assert one.returncode == 0 or (one.returncode == 2 and b"in use by another process" in error and error.count(b"\n") == 1), error
    assert 0 in ends
    assert kills.digests(db) == kills.digests(calm)


def _while_it_changes(path: Path, change: object, tmp_path: Path) -> Path:
    """Ingest a file again and again while a thread changes it; then once more when it rests."""
    db, stop = tmp_path / "t.duckdb", threading.Event()

    def work() -> None:
        while not stop.is_set():
            change(path)  # type: ignore[operator]
            time.sleep(0.002)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(8):
            desk.ingest(Setup(str(db)), [str(path.parent)])
    finally:
        stop.set()
        worker.join()
    desk.ingest(Setup(str(db)), [str(path.parent)])
    return db


def _rows(db: Path) -> list[tuple[object, ...]]:
    from triage.store import Store

    with Store(str(db), write=False) as store:
        return sorted(store.frame("events").select("line_first", "code", "message", "ts").rows())


def _whole(folder: Path, tmp_path: Path) -> list[tuple[object, ...]]:
    fresh = tmp_path / "fresh.duckdb"
    desk.ingest(Setup(str(fresh)), [str(folder)])
    return _rows(fresh)


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "du-001.kern.log"
    path.parent.mkdir()
    path.write_text("".join(line(n) for n in range(2000)))
    count = iter(range(2000, 10_000))

    def grow(file: Path) -> None:
        with file.open("a") as out:
            text = line(next(count))
            out.write(text[:40])  # a reader may see half a line
            out.flush()
            out.write(text[40:])

    assert _rows(_while_it_changes(path, grow, tmp_path)) == _whole(path.parent, tmp_path)


def test_a_file_that_shrinks_or_is_rotated_while_it_is_read(tmp_path: Path) -> None:
    """Nothing crashes, and what is there at the end is in the database; so may be what was there before."""
    path = tmp_path / "logs" / "du-001.kern.log"
    path.parent.mkdir()
    path.write_text("".join(line(n) for n in range(2000)))
    turns = iter(range(1, 1 << 30))

    def turn(file: Path) -> None:
        n = next(turns)
        if n % 3 == 0:
            os.replace(file, file.with_name("du-001.kern.log.1"))
            file.write_text(line(n))
        elif n % 3 == 1:
            os.truncate(file, file.stat().st_size // 2)
        else:
            with file.open("a") as out:
                out.write("".join(line(m) for m in range(n, n + 50)))

    db = _while_it_changes(path, turn, tmp_path)
    assert {row[2] for row in _whole(path.parent, tmp_path)} <= {row[2] for row in _rows(db)}


def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Now is the last stamp of the data: the machine's own clock, forwards or back, is in no row."""
    (tmp_path / "logs").mkdir()
    text = "".join(line(n) for n in range(50))
    (tmp_path / "logs" / "du-001.kern.log").write_text(text + text.replace("2026-03-02T00", "2026-03-01T23"))  # it went back in the log
    (tmp_path / "logs" / "du-002.kern.log").write_text(
        "".join(f"Mar  {2 + n % 2} 04:00:{n:02d} du-002 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid={n}\n" for n in range(40))
    )
    os.utime(tmp_path / "logs" / "du-002.kern.log", (1_772_500_000, 1_772_500_000))
    found = []
    for days in (0, -20_000, 3650):
        moved = (datetime.now() + timedelta(days=days)).timestamp() if days > -20_000 else 1.0  # noqa: DTZ005
        monkeypatch.setattr(time, "time", lambda at=moved: at)
        db = tmp_path / f"{days}.duckdb"
        desk.ingest(Setup(str(db)), [str(tmp_path / "logs")])
        found.append(kills.digests(db))
    assert found[0] == found[1] == found[2]
