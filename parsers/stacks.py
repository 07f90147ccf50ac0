"""Stacks of live processes (py-spy, faulthandler) and processes that cannot be interrupted (ps)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from parsers.contract import Event, Line, LineDialect, Record, Section, SectionDialect, Window

_DEPTH = 8

# Thread 0x00007f3c (most recent call first): | Current thread 0x00007f3c [train] (most recent call first):
_FAULT = re.compile(r"(Current thread|Thread) (0x[0-9a-f]{1,16})(?: \[([^\]\n]{1,60})\])? \(most recent call first\)")
# Thread 41000 (active+gil): "MainThread"
_SPY = re.compile(r'^\s{0,8}Thread (0x[0-9A-Fa-f]{1,16}|\d{1,12}) \(([\w+]{1,24})\)(?:: "([^"\n]{1,100})")?')
# Process 41000: python train.py
_PROCESS = re.compile(r"^\s{0,8}Process (\d{1,10}): ")
#   File "/usr/lib/python3.10/threading.py", line 320 in wait
_FAULT_FRAME = re.compile(r'^\s{0,12}File "([^"\n]{1,400})", line (\d{1,7}) in ([^\n]{1,120})')
#     wait (threading.py:320)     pthread_cond_wait@@GLIBC_2.3.2 (libpthread-2.31.so)     c10d::Work::wait(long) (libtorch_cuda.so)
_SPY_FRAME = re.compile(r"^\s{1,12}([^\s()][^()\n]{0,160}(?:\([^()\n]{0,160}\)[^()\n]{0,60}){0,2}) \(([^()\n]{1,300})\)\s{0,4}$")


def _frames(window: Window, pattern: re.Pattern[str], fault: bool) -> tuple[list[str], int]:
    frames: list[str] = []
    last = window.line.number
    for near in (other for other in window.after(120) if other.rank == window.line.rank):
        found = pattern.match(near.text)
        if not found:
            break
        last = near.number
        name, place = (found[3].strip(), f"{found[1]}:{found[2]}") if fault else (found[1].strip(), found[2])
        frames.append(f"{name} ({place.rpartition('/')[2]})")
    return frames, last


# Fatal Python error: Segmentation fault     [gpu-1:41002] Signal: Bus error (7)
_FATAL = re.compile(
    r"(?:^|\] ?)(?:Fatal Python error|(?:\[([A-Za-z0-9][\w.-]{0,252}):(\d{1,10})\] )?Signal): "
    r"(Segmentation fault|Bus error|Illegal instruction|Floating[- ]point exception)(?: \(\d{1,2}\))?\s{0,4}$"
)
_SIGNALS = {"S": 11, "B": 7, "I": 4, "F": 8}


def _crash(line: Line, found: re.Match[str]) -> Event:
    """Where the kernel's own line is not at hand, the process says itself what ended it."""
    pid = int(found[2]) if found[2] else None
    said, signal = line.text[:300].strip(), _SIGNALS[found[3][0]]
    return Event("host.segfault", said, line.number, host=found[1], pid=pid, state=found[3], signal=signal)


def parse(window: Window) -> Iterable[Record]:
    """One thread's stack; `state` holds its innermost frames, so that equal stacks are equal texts."""
    text = window.line.text[:1000]
    if crash := _FATAL.search(text):
        return (_crash(window.line, crash),)
    fault, spy = _FAULT.search(text), _SPY.match(text)
    if fault or spy:
        return _thread(window, fault, spy)
    return ()


def _thread(window: Window, fault: re.Match[str] | None, spy: re.Match[str] | None) -> Iterator[Record]:
    frames, last = _frames(window, _FAULT_FRAME if fault else _SPY_FRAME, fault is not None)
    if not frames:
        return
    pid = None
    if spy:
        above = (found for near in window.before(400) if (found := _PROCESS.match(near.text)))
        process = next(above, None)
        pid = int(process[1]) if process else None
    thread = (fault[3] or fault[2]) if fault else (spy[3] or spy[1]) if spy else ""
    doing = spy[2] if spy else "current" if fault and fault[1].startswith("Current") else None
    yield Event(
        "stack.dump", f"thread {thread} in {frames[0]}", window.line.number, last, pid=pid, op=thread, severity=doing,
        state=" < ".join(frames[:_DEPTH]), attrs={"depth": len(frames)},
    )  # fmt: skip


_STATES = frozenset({"STAT", "S", "STATE"})
_STAT = re.compile(r"[DRSTtWXZI][<NLsl+]{0,5}")
_KNOWN = frozenset(
    (
        "USER", "UID", "PID", "PPID", "TID", "LWP", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "TT", "START", "STIME", "STARTED", "TIME",
        "ELAPSED", "CMD", "COMMAND", "WCHAN", "NI", "PRI", "CLS", "F", "ADDR", "SZ", "C", "PSR", "ARGS",
    )
)  # fmt: skip


class _Table:
    """Rows of ps; only those in uninterruptible sleep are told."""

    def __init__(self, columns: list[str], line: Line) -> None:
        self.columns = columns
        self.rank = line.rank
        self.state = next(at for at, name in enumerate(columns) if name in _STATES)
        self.pid = columns.index("PID")
        self.wait = columns.index("WCHAN") if "WCHAN" in columns else None

    def feed(self, line: Line) -> Iterable[Record] | None:
        """The record of a row in state D; None below the table."""
        cells = line.text[:2000].split(None, len(self.columns) - 1)
        if len(cells) < len(self.columns) - 1 or not cells[self.pid].isdecimal() or len(cells[self.pid]) > 10:
            return None
        state = cells[self.state]
        if not _STAT.fullmatch(state):
            return None
        if state[0] != "D":
            return ()
        where = cells[self.wait] if self.wait is not None else None
        said = f"process {cells[self.pid]} in uninterruptible sleep: {cells[-1]}"
        return (Event("host.d_state", said[:300], line.number, pid=int(cells[self.pid]), state=where, attrs={"stat": state}),)

    def close(self) -> Iterable[Record]:
        return ()


def _open(line: Line) -> Section | None:
    columns = line.text[:400].split()
    named = sum(name in _KNOWN or name in _STATES for name in columns)
    if "PID" not in columns or not _STATES.intersection(columns) or named < 3 or named * 2 < len(columns):
        return None
    return _Table(columns, line)


DIALECTS = (
    LineDialect("stacks", (), parse, hints=("(most recent call first)", " (idle", " (active", "Fatal Python error: ", " Signal: ")),
    SectionDialect("ps", ("PID ",), _open),
)
