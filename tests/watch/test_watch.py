"""A watch: growth, rotation, truncation, restart, a kill, pipes, and the user's command."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.watch.tables import agree, read, rows_of, stored, whole
from triage.desk import Answer, Setup
from triage.faults import Fault
from triage.store import Store
from triage.watch import Order, Progress, Watch, key_of
from triage.watch_notice import VARIABLE, Notice, line_of, words_of

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-c", "from triage.cli import app_main; app_main()")
QUIET = "Mar  2 04:{:02d}:{:02d} gpu-7 systemd[1]: Started session {} of user ada.\n"
LOST = "Mar  2 05:11:07 gpu-7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
NVLINK = "Mar  2 05:40:09 gpu-7 kernel: NVRM: Xid (PCI:0000:4c:00): 74, pid=811, name=python3, NVLink: fatal error detected on link 3\n"


def quiet(start: int, count: int) -> str:
    return "".join(QUIET.format(n // 60 % 60, n % 60, n) for n in range(start, start + count))


class Heard:
    """A voice and a listener that remember."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.told: list[bool] = []
        self.notes: list[str] = []
        self.listened: list[Any] = []

    def verdict(self, answer: Answer, told: bool) -> None:
        self.answers.append(answer.data)
        self.told.append(told)

    def again(self, answer: Answer) -> None:
        return None

    def status(self, seen: Progress) -> None:
        return None

    def note(self, text: str) -> None:
        self.notes.append(text)

    def tell(self, answer: Any) -> None:
        self.listened.append(answer)

    @property
    def classes(self) -> list[str]:
        return [a["verdict"]["class"] for a in self.answers]


class Stepped:
    """A watch whose looks the test takes."""

    def __init__(self, watch: Watch, heard: Heard) -> None:
        self.watch, self.heard = watch, heard

    def look(self, first: bool = False, last: bool = False) -> None:
        self.watch._attend(first, last)

    def rows(self) -> dict[str, list[str]]:
        self.look(last=True)
        assert self.watch._memory is not None
        return rows_of(self.watch._memory)


@contextmanager
def watching(*paths: Path, db: Path | None = None, live: int = 64 << 10) -> Iterator[Stepped]:
    heard = Heard()
    watch = Watch(Setup(str(db) if db else None), Order(tuple(map(str, paths)), live=live), heard, heard)
    with watch._opened():
        stepped = Stepped(watch, heard)
        stepped.look(first=True)
        yield stepped


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize("lines", [20, 4000], ids=["read again", "read on"])
def test_a_line_that_lands_changes_the_verdict(tmp_path: Path, lines: int) -> None:
    log = tmp_path / "gpu-7.log"
    append(log, quiet(0, lines))
    with watching(tmp_path) as step:
        append(log, quiet(lines, 3))
        step.look()
        assert step.heard.classes == ["none"]
        append(log, LOST[:40])
        step.look()
        append(log, LOST[40:])
        step.look()
        assert step.heard.classes == ["none", "T04"]
        assert len(step.heard.listened) == 1
        append(log, quiet(lines, 5))
        step.look()
        assert len(step.heard.answers) == 2
        agree(step.rows(), whole([tmp_path]))


def test_new_files_and_folders_are_found(tmp_path: Path) -> None:
    with watching(tmp_path) as step:
        assert step.heard.classes == ["none"]
        (tmp_path / "deep").mkdir()
        append(tmp_path / "deep" / "kern.log", quiet(0, 3) + LOST)
        step.look()
        assert step.heard.classes == ["none", "T04"]
        (tmp_path / "more.log.gz").write_bytes(gzip.compress((quiet(60, 3) + NVLINK).encode()))
        step.look()
        agree(step.rows(), whole([tmp_path]))


@pytest.mark.parametrize("lines", [20, 4000], ids=["read again", "read on"])
@pytest.mark.parametrize("named", [False, True], ids=["folder", "file"])
def test_rotation_by_renaming(tmp_path: Path, lines: int, named: bool) -> None:
    log, old = tmp_path / "kern.log", tmp_path / "kern.log.1"
    append(log, quiet(0, lines))
    with watching(log if named else tmp_path) as step, log.open("a") as writer:
        step.look()
        log.rename(old)
        writer.write(LOST)  # the daemon has not heard of it yet
        writer.flush()
        step.look()
        writer.write(NVLINK)
        writer.flush()
        append(log, quiet(lines, lines))
        step.look()
        assert "T04" in step.heard.classes
        agree(step.rows(), whole([log, old]))


@pytest.mark.parametrize("lines", [20, 4000], ids=["read again", "read on"])
@pytest.mark.parametrize("named", [False, True], ids=["folder", "file"])
def test_rotation_by_copy_and_truncation(tmp_path: Path, lines: int, named: bool) -> None:
    log, old = tmp_path / "kern.log", tmp_path / "kern.log.1"
    append(log, quiet(0, lines))
    with watching(log if named else tmp_path) as step:
        append(log, LOST)
        shutil.copy2(log, old)
        os.truncate(log, 0)
        append(log, quiet(lines, 5))
        step.look()
        append(log, quiet(lines + 5, 5))
        step.look()
        assert "T04" in step.heard.classes
        agree(step.rows(), whole([log, old]))


def test_a_file_that_is_cut_and_longer_at_the_next_look_is_read_anew(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    append(log, quiet(0, 3000))
    with watching(tmp_path) as step:
        os.truncate(log, 0)
        append(log, quiet(3000, 3000) + LOST)
        step.look()
        assert step.heard.classes == ["none", "T04"]
        assert len(step.rows()["sources"]) == 2


def test_rotation_that_packs(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    append(log, quiet(0, 4000) + LOST)
    with watching(tmp_path) as step:
        (tmp_path / "kern.log.1.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
        append(log, quiet(4000, 9))
        step.look()
        agree(step.rows(), whole([tmp_path]))


def test_a_file_that_moves_to_another_hosts_name(tmp_path: Path) -> None:
    log = tmp_path / "incoming.dmesg"
    append(log, "[   12.345678] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    with watching(tmp_path) as step:
        log.rename(tmp_path / "gpu-7.dmesg")
        step.look()
        agree(step.rows(), whole([tmp_path]))


def test_a_named_log_may_go_and_come_but_is_there_at_the_start(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    append(log, quiet(0, 5))
    with watching(log) as step:
        log.unlink()
        step.look()
        append(log, LOST)
        step.look()
        assert step.heard.classes == ["none", "T04"]
    for missing in (tmp_path / "typo.log", tmp_path / "*.txt"):
        with pytest.raises(Fault, match="no such file"), watching(missing):
            pass
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Fault, match="triage watch -"), watching(tmp_path / "pipe"):
        pass


def test_documents_and_archives_are_read_as_wholes(tmp_path: Path) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "w-0", "namespace": "ml"}, "spec": {"nodeName": "kn-7"}, "status": {"phase": "Running"}}
    text = json.dumps({"kind": "List", "items": [pod] * 2000})
    with watching(tmp_path) as step:
        (tmp_path / "pods.json").write_text(text[:200_000])
        step.look()
        (tmp_path / "pods.json").write_text(text)
        append(tmp_path / "deep.log", LOST)
        with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "deep.log", "n1/kern.log")
        step.look()
        agree(step.rows(), whole([tmp_path]))


def test_a_terminal_gets_a_screen(tmp_path: Path) -> None:
    append(tmp_path / "kern.log", LOST.replace("bus.", "bus. \x1b]0;owned\x07"))
    ours, theirs = os.openpty()
    process = subprocess.Popen([*PROGRAM, "watch", str(tmp_path), "--for", "1s"], cwd=ROOT, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end was closed
        while part := os.read(ours, 65536):
            shown += part
    assert process.wait() == 0
    assert b"T04" in shown and b"watching 1 file(s)" in shown
    assert b"\x1b]0;" not in shown
    os.close(ours)


def test_restart_completes_and_does_not_repeat_itself(tmp_path: Path) -> None:
    log, db = tmp_path / "kern.log", tmp_path / "w.duckdb"
    append(log, quiet(0, 4000) + LOST)
    with watching(log, db=db) as step:
        assert step.heard.told == [False]
    append(log, quiet(4000, 10))
    with watching(log, db=db) as step:
        assert step.heard.told == [True]
        assert not step.heard.listened
        append(log, NVLINK)
        step.look(last=True)
    agree(stored(db), whole([log]))


def test_others_may_use_the_database_between_two_looks(tmp_path: Path) -> None:
    log, other, db = tmp_path / "a" / "kern.log", tmp_path / "b.log", tmp_path / "w.duckdb"
    log.parent.mkdir()
    append(log, quiet(0, 10))
    append(other, NVLINK)
    with watching(log.parent, db=db) as step:
        with Store(str(db)) as store:
            read(store, [other])
        append(log, LOST)
        step.look(last=True)
    agree(stored(db), whole([log, other]))


def test_a_database_in_use_is_waited_for(tmp_path: Path) -> None:
    log, db = tmp_path / "kern.log", tmp_path / "w.duckdb"
    append(log, quiet(0, 10))
    holder = f"from triage.store import Store\nimport sys\nwith Store({str(db)!r}):\n print('held', flush=True)\n sys.stdin.read()"
    with watching(log, db=db) as step:
        with subprocess.Popen([sys.executable, "-c", holder], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None and other.stdin is not None
            other.stdout.readline()
            append(log, LOST)
            step.look()
            assert step.heard.classes == ["none"]
            assert "in use by another process" in step.heard.notes[0]
            other.stdin.close()
        step.look()
        assert step.heard.classes == ["none", "T04"]


def test_hostile_files_cost_a_note(tmp_path: Path) -> None:
    append(tmp_path / "kern.log", LOST)
    (tmp_path / "core.log").write_bytes(bytes(range(32)) * 9000)
    (tmp_path / "cut.log.gz").write_bytes(gzip.compress(os.urandom(9000))[:50])
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    (tmp_path / "long.log").write_bytes(b"NVRM: Xid " * 200_000)
    with watching(tmp_path) as step:
        append(tmp_path / "long.log", "\x1b]0;owned\x07" + LOST)
        step.look(last=True)
        assert "T04" in step.heard.classes
        assert any("core.log" in note for note in step.heard.notes)
        assert any("gone.log" in note for note in step.heard.notes)


def start(*words: str, **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, "watch", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def heard_line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline())
    return line


def test_a_kill_loses_nothing(tmp_path: Path) -> None:
    logs, db = tmp_path / "logs", tmp_path / "w.duckdb"
    logs.mkdir()
    append(logs / "kern.log", quiet(0, 6000))
    process = start(str(logs), "--db", str(db), "--format", "json", "--every", "50ms")
    assert heard_line(process)["verdict"]["class"] == "none"
    for n in range(40):
        append(logs / "kern.log", quiet(6000 + n, 30) + LOST.replace("05:11", f"05:{n:02d}"))
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    append(logs / "kern.log", quiet(9000, 30) + NVLINK)
    with start(str(logs), "--db", str(db), "--for", "1s") as second:
        assert second.wait() == 0, second.stderr
    agree(stored(db), whole([logs]))


def test_a_pipe_is_kept_beside_the_database(tmp_path: Path) -> None:
    db = tmp_path / "w.duckdb"
    first = start("-", "--db", str(db), "--format", "json", stdin=subprocess.PIPE)
    assert first.stdin is not None
    heard_line(first)
    first.stdin.write((quiet(0, 30) + LOST).encode())
    first.stdin.flush()
    assert heard_line(first)["verdict"]["class"] == "T04"
    time.sleep(1)  # that it was spoken is stored once it was
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = start("-", "--db", str(db), "--format", "json", stdin=subprocess.PIPE)
    assert heard_line(second)["told"]
    second.communicate(NVLINK.encode(), timeout=60)
    assert second.returncode == 0
    kept = list((tmp_path / "w.duckdb.stdin").iterdir())
    assert "".join(p.read_text() for p in sorted(kept)) == quiet(0, 30) + LOST + NVLINK
    agree(stored(db), whole(kept))


def test_a_pipe_that_ends_ends_the_watch() -> None:
    done = start("-", stdin=subprocess.PIPE)
    out, error = done.communicate(LOST.encode(), timeout=60)
    assert (done.returncode, error) == (0, b"")
    assert b"T04" in out
    assert b"$ scontrol update nodename=gpu-7" in out


def test_a_signal_ends_it_in_order(tmp_path: Path) -> None:
    append(tmp_path / "kern.log", LOST)
    process = start(str(tmp_path), "--format", "json")
    heard_line(process)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (0, b"")


NOTED = """\
#!/bin/sh
cat > "$1/line"
printf '%s' "$#" > "$1/count"
cp "$TRIAGE_ANSWER" "$1/answer.json"
"""
HOSTILE = "Mar  2 05:11:07 gpu-7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, `touch owned`; $(touch owned) \x1b[2J\n"


def test_the_users_command_gets_log_text_on_its_input_only(tmp_path: Path) -> None:
    logs, out, command = tmp_path / "logs", tmp_path / "out put", tmp_path / "tell me"
    logs.mkdir()
    out.mkdir()
    command.write_text(NOTED)
    command.chmod(0o755)
    process = start(str(logs), "--notify", f"'{command}' '{out}'", "--for", "5s", "--format", "json")
    heard_line(process)
    append(logs / "kern.log", HOSTILE)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")
    line = (out / "line").read_text()
    assert line.count("\n") == 1 and "\x1b" not in line
    assert (out / "count").read_text() == "1"
    assert json.loads((out / "answer.json").read_text())["verdict"]["class"] == "T04"
    assert not list(tmp_path.rglob("owned")) and not (ROOT / "owned").exists()


def test_a_command_that_fails_or_hangs_costs_a_note() -> None:
    answer = {"verdict": {"summary": "two\nlines \x1b[31m of a log"}}
    assert line_of(answer).count("\n") == 0 and "\x1b" not in line_of(answer)
    for command, said in (("sh -c 'echo no room >&2; exit 7'", "exit 7: no room"), ("sleep 60", "ended after")):
        notice = Notice(command, limit_s=0.5)
        notice.tell(answer)
        notice.close()
        assert said in notice.failures[0]
    assert VARIABLE == "TRIAGE_ANSWER"


@pytest.mark.parametrize("command", ["", "no-such-program-anywhere x", "unfinished 'quote"])
def test_a_command_that_cannot_be_is_refused_at_the_start(command: str) -> None:
    with pytest.raises(Fault, match="--notify"):
        words_of(command)


def test_more_lines_of_the_same_are_no_new_verdict() -> None:
    verdict: dict[str, Any] = {"class": "T04", "symptom": 1, "manifestation": "none", "action": "none", "confidence": "probable"}
    data: dict[str, Any] = {"verdict": verdict | {"summary": "3"}, "jobs": []}
    data["suspects"] = [{"host": "a", "device": None, "role": "culprit", "score": 1}]
    again = {**data, "verdict": verdict | {"summary": "4"}}
    assert key_of(data) == key_of(again)
    assert key_of(data) != key_of({**data, "suspects": []})
