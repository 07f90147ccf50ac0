"""Processes that read give what this one would, whatever happens to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ingest.tables import FAMILIES, raw, read
from triage import desk, hands, reading
from triage.dialects import dialects
from triage.faults import Fault, InputFault
from triage.ingest import Options, Report, ingest
from triage.sources import find
from triage.spool import HELD
from triage.store import Store

SAMPLES = Path(__file__).parents[2] / "samples"
OPTIONS = Options(FAMILIES, dialects=dialects())
XID = "2026-03-02T04:00:{:02d}.{:06d}+00:00 qx-01 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid={}, name=x\n"


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hands, "LARGE", 0)
    monkeypatch.setattr(hands, "LEAST", 1)


def apart(db: Path, *paths: Path) -> Report:
    found = find([str(p) for p in paths])
    with hands.started(found.sources) as processes, Store(str(db)) as store:
        assert processes
        return ingest(store, found, OPTIONS, read_all=reading.ByHands(processes))


@pytest.fixture
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder


def test_the_rows_are_those_of_one_process(tmp_path: Path) -> None:
    odd = tmp_path / "odd!name.log"
    odd.write_text(XID.format(0, 0, 1))
    paths = [odd, *(SAMPLES / name for name in ("flight", "xid", "slurmctld", "nccl")), SAMPLES / "cases" / "gpu-off-the-bus" / "logs"]
    read(tmp_path / "one.duckdb", [paths])
    apart(tmp_path / "two.duckdb", *paths)
    assert raw(tmp_path / "two.duckdb") == raw(tmp_path / "one.duckdb")


def test_many_rows_come_over_files_that_are_removed(tmp_path: Path, own_tmp: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text("".join(XID.format(n // 1000, n % 1000 * 1000, n) for n in range((HELD + 3) * 4096)))
    read(tmp_path / "one.duckdb", [[log]])
    apart(tmp_path / "two.duckdb", log)
    assert raw(tmp_path / "two.duckdb") == raw(tmp_path / "one.duckdb")
    assert list(own_tmp.iterdir()) == []


def test_a_log_that_grew_replaces_its_rows(tmp_path: Path) -> None:
    log, db = tmp_path / "kern.log", tmp_path / "t.duckdb"
    lines = [XID.format(n, 0, n) for n in range(40)]
    log.write_text("".join(lines[:30]))
    apart(db, log)
    log.write_text("".join(lines))
    report = apart(db, log)
    assert (report.replaced, report.sources[0]["events"]) == (1, 40)


def test_what_is_named_and_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 64)
    with pytest.raises(InputFault, match="binary data of no known kind"):
        apart(tmp_path / "t.duckdb", tmp_path / "a.bin")
    report = apart(tmp_path / "t.duckdb", tmp_path)
    assert (str(tmp_path / "a.bin"), "binary data of no known kind") in report.skipped


def test_a_process_that_is_killed_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kern.log").write_text(XID.format(0, 0, 1))
    dies = (sys.executable, "-c", "import os, pickle, sys; pickle.load(sys.stdin.buffer); os.kill(os.getpid(), 9)")
    monkeypatch.setattr(hands, "COMMAND", dies)
    with pytest.raises(Fault, match=r"kern\.log: the process that read it was killed"):
        apart(tmp_path / "t.duckdb", tmp_path / "kern.log")


def test_no_process_to_be_had_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kern.log").write_text(XID.format(0, 0, 1))
    monkeypatch.setattr(hands, "COMMAND", (str(tmp_path / "no-such-program"),))
    with hands.started(find([str(tmp_path)]).sources) as processes:
        assert processes == []


def test_the_current_folder_is_not_searched_for_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pickle", "polars", "hyperscan", "triage"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "kern.log").write_text(XID.format(0, 0, 1))
    monkeypatch.chdir(tmp_path)
    assert apart(tmp_path / "t.duckdb", tmp_path / "kern.log").sources[0]["events"] == 1
    assert not (tmp_path / "ran").exists()


def test_a_process_ends_with_its_parent() -> None:
    program = "import subprocess, time; from triage.hands import COMMAND; "
    program += "print(subprocess.Popen(COMMAND, stdin=subprocess.PIPE).pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the process outlived its parent")


def test_only_much_to_read_is_worth_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    one, two = tmp_path / "a.log", tmp_path / "b.log"
    one.touch()
    for size, paths, some in ((0, 2, False), (hands.LARGE - 1, 2, False), (hands.LARGE, 2, True), (hands.LARGE, 1, False)):
        two.touch()
        os.truncate(two, size)
        with hands.started(find([str(p) for p in (two, one)[:paths]]).sources) as processes:
            assert bool(processes) == some


def test_the_commands_use_them(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(XID.format(0, 0, 1))
    setup = desk.Setup(db=str(tmp_path / "t.duckdb"))
    assert desk.ingest(setup, [str(tmp_path / "kern.log")])["events"] == 1
    assert desk.now(desk.Setup(), [str(tmp_path / "kern.log")], None, None, None).data["rejects"] == 0
