"""Fixed wordings as rows: a pattern whose groups fill the fields of an event.

A group named like a field of `Event` fills it; any other group goes to `attrs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from parsers import pci
from parsers.contract import Benign, Event, Line, Record, Window

# Characters: the kernel cuts its records near 1 KiB, so what lies beyond is no part of a message.
HEAD = 4096
MESSAGE = 500
# Seconds: the lines of one report leave the ring buffer together; a slow console stretches an oops to some seconds.
REPORT_S = 30
ANY_CASE = re.IGNORECASE

# 60s  Warning  OOMKilling  node/kn-8  Memory cgroup out of memory: ...: another host's line in a Kubernetes event
RELAYED = re.compile(r"^.{0,120}\b(?:Warning|Normal)\s{2,}[A-Z]\w{2,40}\s{2,}")

_FIELDS: Mapping[str, Callable[[str], object]] = {
    "host": str,
    "device": pci.normal,
    "gpu_uuid": str,
    "job_id": str,
    "pid": int,
    "severity": str.lower,
    "peer": str,
    "op": str,
    "grp": str,
    "duration_s": float,
    "value": float,
    "state": str.strip,
    "user": str,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """One wording. An empty `code` means that the line is known to mean nothing.

    told_before, told_after  the same report in other words, at most `reach` lines away: then this line adds nothing
    """

    code: str
    pattern: re.Pattern[str]
    state: str | None = None
    severity: str | None = None
    told_before: re.Pattern[str] | None = None
    told_after: re.Pattern[str] | None = None
    reach: int = 6


def shape(
    code: str,
    pattern: str,
    *,
    flags: int = 0,
    before: str = "",
    after: str = "",
    reach: int = 6,
    state: str | None = None,
    severity: str | None = None,
) -> Shape:
    """A `Shape` from the texts of its patterns."""
    told_before = re.compile(before, flags) if before else None
    told_after = re.compile(after, flags) if after else None
    return Shape(code, re.compile(pattern, flags), state, severity, told_before, told_after, reach)


def read(shapes: Sequence[Shape], window: Window) -> Iterable[Record]:
    """The record of the first shape that the window's line has; nothing when it has none."""
    text = window.line.text[:HEAD]
    if RELAYED.search(text):
        return ()
    for candidate in shapes:
        found = candidate.pattern.search(text)
        if found:
            return (record(candidate, found, window),)
    return ()


def record(chosen: Shape, found: re.Match[str], window: Window) -> Event | Benign:
    """The event of a shape that was found, or Benign when a twin tells it."""
    line = window.line
    if not chosen.code or _told(chosen, found, window):
        return Benign(line.number)
    return event(chosen.code, line, found, state=chosen.state, severity=chosen.severity)


def event(code: str, line: Line, found: re.Match[str] | None = None, **fields: object) -> Event:
    """An event of `line`, filled from the groups of `found` and from `fields` that are not None."""
    made = Event(code, line.text[:MESSAGE].strip(), line.number, line.number)
    groups = found.groupdict() if found else {}
    for name, text in groups.items():
        if not text or not text.strip():
            continue
        if name in _FIELDS:
            setattr(made, name, _FIELDS[name](text))
        else:
            made.attrs[name] = text.strip()
    for name, value in fields.items():
        if value is not None:
            setattr(made, name, value)
    return made


def _told(chosen: Shape, found: re.Match[str], window: Window) -> bool:
    before, after = chosen.told_before, chosen.told_after
    near = window.before(chosen.reach) if before else ()
    far = window.after(chosen.reach) if after else ()
    return any(twin(before, other, found, window.line) for other in near) or any(twin(after, other, found, window.line) for other in far)


def twin(pattern: re.Pattern[str] | None, other: Line, found: re.Match[str], line: Line) -> bool:
    """Whether `other` is of the same report: host and time fit, it has `pattern`, and the groups that both carry agree."""
    hit = pattern.search(other.text[:HEAD]) if pattern and same_report(other, line) else None
    if not hit:
        return False
    mine = found.groupdict()
    return all(text is None or mine.get(name) in (None, text) for name, text in hit.groupdict().items())


def same_report(one: Line, other: Line) -> bool:
    """Whether two lines can belong to one report of one host."""
    if not same_host(one, other):
        return False
    if one.boot_s is not None and other.boot_s is not None:
        return abs(one.boot_s - other.boot_s) <= REPORT_S
    return one.ts is None or other.ts is None or abs(one.ts - other.ts) <= REPORT_S * 1_000_000


def same_host(one: Line, other: Line) -> bool:
    """Whether the frames of two lines allow them to be of one host."""
    return one.host is None or other.host is None or one.host == other.host
