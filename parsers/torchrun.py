"""torchrun's failure blocks and the error files of its workers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from parsers import clocks, exceptions
from parsers.contract import Benign, Document, DocumentDialect, Event, Line, LineDialect, Quality, RankRecord, Record, Reject, Window
from parsers.json_fields import load

# exitcode  : -9 (pid: 22107)  (SIGKILL)
_EXIT = re.compile(r"exitcode {0,8}: (-?\d{1,6}) \(pid: (\d{1,10})\)")
_HEAD = re.compile(r"^\s{0,8}\[(\d{1,7})\]:\s{0,8}$")
_TIME = re.compile(r"^\s{0,12}time {1,8}: (\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)")
_HOST = re.compile(r"^\s{0,12}host {1,8}: (\S{1,255})")
# rank      : 3 (local_rank: 3)
_RANK = re.compile(r"^\s{0,12}rank {1,8}: (\d{1,7}) \(local_rank: (\d{1,5})\)")
_FILE = re.compile(r"^\s{0,12}error_file: ?(\S{1,400})")
_TRACE = re.compile(r"^\s{0,12}traceback ?: ([^\n]{1,300})")
_FIRST = "Root Cause (first observed failure)"
_ERROR = re.compile(r"^\s{1,12}((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}?(?:Error|Exception)): ?([^\n]{0,2000})")


def _moment(day: str, clock: str) -> int | None:
    stamp = clocks.parse_stamp(f"{day}T{clock}")
    return None if stamp is None or stamp.ts is None else stamp.ts // clocks.SECOND * clocks.SECOND


def _same(line: Line, near: Line) -> bool:
    return near.rank == line.rank and near.label == line.label


def _child(window: Window) -> tuple[Event, int | None]:
    """The child's lines above its exit code, and its local rank."""
    line = window.line
    made, local, head = Event("torch.rank_exit", "", line.number, line.number), None, False
    for near in window.before(12):
        if not _same(line, near):
            continue
        if head:
            made.severity = "first_observed" if _FIRST in near.text else None
            break
        if found := _RANK.match(near.text):
            made.rank, local = int(found[1]), int(found[2])
        elif found := _HOST.match(near.text):
            made.host = None if found[1].startswith("localhost") else found[1]
        elif found := _TIME.match(near.text):
            made.ts, made.ts_quality = _moment(found[1], found[2]), Quality.EXACT
        elif _HEAD.match(near.text):
            head = True
        else:
            break
        made.line_first = near.number
    return made, local


def _below(window: Window, made: Event) -> Iterator[Event]:
    """Error file and traceback of the child; with a traceback in the block, its last line is the rank's exception."""
    inside, frame = False, None
    for near in (other for other in window.after(60) if _same(window.line, other)):
        if found := _FILE.match(near.text):
            made.attrs["error_file"] = found[1]
        elif found := _TRACE.match(near.text):
            inside = "Traceback (most recent call last)" in found[1]
            made.attrs["traceback"] = found[1].strip()
        elif not inside or not near.text.startswith(" "):
            return
        elif place := re.search(r'File "([^"\n]{1,400})", line (\d{1,7})', near.text):
            frame = f"{place[1]}:{place[2]}"
        elif said := _ERROR.match(near.text):
            raised = exceptions.event(near, said[1], said[2])
            if raised:
                raised.rank, raised.host, raised.ts, raised.ts_quality = made.rank, made.host, made.ts, made.ts_quality
                raised.attrs |= {"frame": frame} if frame else {}
                yield raised
            return
        made.line_last = near.number


def _block(window: Window, exit_code: int, pid: int) -> Iterator[Record]:
    made, local = _child(window)
    raised = list(_below(window, made))
    if made.rank is None:
        return
    made.pid = pid
    made.exit_code, made.signal = (exit_code, None) if exit_code >= 0 else (None, -exit_code)
    how = f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"
    made.message = f"rank {made.rank} ended with {how}"
    made.state = how
    yield made
    yield RankRecord(made.rank, made.line_first, "torchrun", made.host, local_rank=local, pid=pid)
    yield from raised


# [default] Worker group FAILED. 2/3 attempts left; will restart worker group
_RESTART = re.compile(r"Worker group (\w{1,20})\. (\d{1,4})/(\d{1,4}) attempts left")


# failed (exitcode: -9) local_rank: 3 (pid: 41002) of binary: /usr/bin/python3
_FAILED = re.compile(r"failed \(exitcode: (-?\d{1,6})\) local_rank: (\d{1,5}) \(pid: (\d{1,10})\) of binary")
# [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=3'] exits with return code = -9
_RETURNED = re.compile(r"\] exits with return code = (-?\d{1,6})\b")
_LOCAL = re.compile(r"--local[_-]rank[= ](\d{1,5})")
# mpirun noticed that process rank 3 with PID 41002 on node gpu-1 exited on signal 9 (Killed).
_NOTICED = re.compile(
    r"noticed that process rank (\d{1,7}) with PID (\d{1,10}) on node ([A-Za-z0-9][\w.-]{0,252}) exited on signal (\d{1,3})\b"
)
#   Process name: [[61245,1],3]     and below it     Exit code:    1
_NAMED = re.compile(r"Process name: \[\[\d{1,9},\d{1,9}\],(\d{1,7})\]")
_CODE = re.compile(r"Exit code: {1,8}(\d{1,5})\b")
_REACH = 120


def _noticed(line: Line, found: re.Match[str]) -> Iterator[Record]:
    rank, pid, host, signal = int(found[1]), int(found[2]), found[3].rstrip("."), int(found[4])
    how = f"signal {signal}"
    said = f"rank {rank} ended with {how}"
    yield Event("torch.rank_exit", said, line.number, host=host, rank=rank, pid=pid, signal=signal, state=how)
    yield RankRecord(rank, line.number, "mpirun", host, pid=pid)


def _named(window: Window, found: re.Match[str]) -> Iterable[Record]:
    line = window.line
    for near in window.after(2):
        if code := _CODE.search(near.text[:200]):
            rank, how = int(found[1]), f"exit code {int(code[1])}"
            made = Event("torch.rank_exit", f"rank {rank} ended with {how}", line.number, near.number, rank=rank, state=how)
            made.exit_code = int(code[1])
            return (made,) if made.exit_code else ()
    return ()


def _ended(line: Line, exit_code: int, local: str | None, pid: str | None) -> Event:
    """A launcher's word on one of its processes, whose rank in the job it does not name."""
    how = f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"
    made = Event("torch.rank_exit", f"a process ended with {how}", line.number, pid=int(pid) if pid else None, state=how)
    made.exit_code, made.signal = (exit_code, None) if exit_code >= 0 else (None, -exit_code)
    made.attrs = {"local": int(local)} if local else {}
    return made


def _failed(window: Window, found: re.Match[str]) -> Iterable[Record]:
    """The block that follows tells more; where the launcher was killed before it wrote one, this line is all there is."""
    for near in window.after(_REACH):
        told = _EXIT.search(near.text[:1000])
        if told and told[2] == found[3]:
            return (Benign(window.line.number),)
    return (_ended(window.line, int(found[1]), found[2], found[3]),)


def _returned(line: Line, found: re.Match[str]) -> Iterable[Record]:
    local = _LOCAL.search(line.text[: found.start()][:4000])
    return (_ended(line, int(found[1]), local[1] if local else None, None),) if int(found[1]) else ()


def parse(window: Window) -> Iterable[Record]:
    """One child of a failure block, or a restart of the worker group. What torchrun calls the root cause exited first, no more."""
    text = window.line.text[:1000]
    if found := _EXIT.search(text):
        return _block(window, int(found[1]), int(found[2]))
    if found := _FAILED.search(text):
        return _failed(window, found)
    if found := _RETURNED.search(window.line.text[:16_000]):
        return _returned(window.line, found)
    if found := _NOTICED.search(text):
        return _noticed(window.line, found)
    if found := _NAMED.search(text):
        return _named(window, found)
    if found := _RESTART.search(text):
        said = f"worker group {found[1]}, {found[2]} of {found[3]} attempts left"
        return (Event("torch.restart", said, window.line.number, value=float(found[2]), state=found[1]),)
    return ()


def _sniff(head: bytes) -> bool:
    return head.lstrip()[:1] == b"{" and b'"message"' in head and b'"extraInfo"' in head and b'"timestamp"' in head


def _error_file(document: Document) -> Iterator[Record]:
    """`{"message": {"message": ..., "extraInfo": {"py_callstack": ..., "timestamp": "1640000000"}}}`."""
    try:
        whole: Any = load(document.data[: 16 << 20])
        body = whole["message"]
        extra = body.get("extraInfo") or {}
        said, stack, stamp = str(body["message"]), str(extra.get("py_callstack") or ""), str(extra.get("timestamp") or "")
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as fault:
        yield Reject(1, f"not an error file of torchelastic: {type(fault).__name__}")
        return
    kind, _, text = said.partition(": ")
    line = Line(1, said, said)
    made = exceptions.event(line, kind if re.fullmatch(r"[\w.]{1,120}", kind) else "Exception", text or said)
    if made is None:
        return
    made.line_last = document.data.count(b"\n") + 1
    made.ts = int(stamp) * 1_000_000 if stamp.isdecimal() and len(stamp) < 12 else None
    made.ts_quality = Quality.EXACT if made.ts else Quality.UNKNOWN
    ranked = re.search(r"rank[_-]?(\d{1,7})", document.name)
    told = whole.get("rank", extra.get("rank"))
    made.rank = int(told) if isinstance(told, int) else int(ranked[1]) if ranked else None
    places = re.findall(r'File "([^"\n]{1,400})", line (\d{1,7})', stack[-20_000:])
    if places:
        made.attrs["frame"] = ":".join(places[-1])
    yield made


DIALECTS = (
    LineDialect(
        "torchrun",
        (),
        parse,
        hints=(
            "exitcode ",
            " attempts left",
            "failed (exitcode: ",
            "exits with return code = ",
            "noticed that process rank ",
            "Process name: [[",
        ),
    ),
    DocumentDialect("torchelastic", _sniff, _error_file),
)
