"""Fixed wordings as rows: a pattern whose groups fill the fields of an event.

A group named like a field of `Event` fills it; any other group goes to `attrs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from parsers import pci
from parsers.contract import Benign, Event, Line, Record, Window

# Characters: the kernel cuts its records near 1 KiB, so what lies beyond is no part of a message.
HEAD = 4096
MESSAGE = 500

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
    attrs: Mapping[str, object] = field(default_factory=dict)


def shape(code: str, pattern: str, *, flags: int = 0, before: str = "", after: str = "", reach: int = 6, **fixed: str) -> Shape:
    """A `Shape` from the texts of its patterns."""
    twins = (re.compile(text, flags) if text else None for text in (before, after))
    return Shape(code, re.compile(pattern, flags), fixed.get("state"), fixed.get("severity"), *twins, reach=reach)


def read(shapes: Sequence[Shape], window: Window) -> Iterable[Record]:
    """The record of the first shape that the window's line has; nothing when it has none."""
    text = window.line.text[:HEAD]
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
        if text is None:
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
    return any(twin(before, other, found, window.line) for other in near) or any(
        twin(after, other, found, window.line) for other in far
    )


def twin(pattern: re.Pattern[str] | None, other: Line, found: re.Match[str], line: Line) -> bool:
    """Whether `other` is of the same host, has `pattern`, and agrees in the groups that both carry."""
    hit = pattern.search(other.text[:HEAD]) if pattern and other.host == line.host else None
    if not hit:
        return False
    mine = found.groupdict()
    return all(mine.get(name) in (None, text) for name, text in hit.groupdict().items())
