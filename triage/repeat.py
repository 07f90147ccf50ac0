"""Lines that differ from an earlier one in nothing but their stamps are not parsed again: a broken part prints a million of them.

A line is repeated only after it was read twice and once more with other stamps, each time without a look at its neighbours and with
the same result; then a dialect cannot tell it from the earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, fields

from parsers.clocks import parse_stamp
from parsers.contract import Benign, Event, Line, Quality, Record, Reject
from parsers.frames import peel

Claims = Sequence[tuple[str, Record]]
Probe = Callable[[Line], Claims | None]
LONGEST, KNOWN, SHAPES, STAMPS, HEAD = 4096, 512, 3, 4096, 160
PATIENCE, SELDOM = 4096, 16
"""After so many lines of which none came again, one line in so many is still looked at."""
_VARIES = frozenset(("line_first", "line_last", "ts", "boot_s"))
_KEPT = [f.name for f in fields(Event) if f.name not in _VARIES]
# [70158.030393] | [  12.345678]
_BOOT = re.compile(rb"\[ *(\d{1,9}\.\d{6})\]")
_KINDS = bytes(48 if 48 <= b < 58 else 97 if 65 <= b < 91 or 97 <= b < 123 else b for b in range(256))


@dataclass(frozen=True, slots=True)
class Shape:
    """Where a line's stamps lie: the first `stamp` bytes, and a dmesg bracket in [boot_from, boot_to)."""

    stamp: int
    boot_from: int
    boot_to: int

    def rest(self, buffer: bytes, start: int, end: int) -> bytes:
        """The line without its stamps."""
        tail = buffer[start + self.boot_to : end]
        return tail if self.boot_from == self.stamp else buffer[start + self.stamp : start + self.boot_from] + tail


@dataclass(slots=True)
class Repeat:
    """A line, what was read from it, and whether that was proven to depend on nothing but it. `memo` is the sink's."""

    shape: Shape
    wanted: tuple[int, ...]
    number: int
    claims: Claims
    quality: Quality
    zoned: bool
    kinds: bytes
    benign: int = 0
    proven: bool = False
    stamps: dict[bytes, int | None] = field(default_factory=dict)
    memo: object = None

    def records(self, number: int, ts: int | None, boot_s: float | None) -> Iterator[tuple[str, Record]]:
        """The records of a line of this kind."""
        for dialect, record in self.claims:
            made = copy(record)
            if isinstance(made, Event):
                made.line_first = made.line_last = number
                made.ts, made.boot_s = ts, boot_s
            elif isinstance(made, Benign | Reject):
                made.line = number
            yield dialect, made

    def time_of(self, buffer: bytes, start: int) -> tuple[bool, int | None]:
        """Whether the line at `start` has a stamp as this one has, and its time."""
        if not self.shape.stamp:
            return True, None
        text = buffer[start : start + self.shape.stamp]
        if text not in self.stamps:
            if len(self.stamps) >= STAMPS:
                self.stamps.clear()
            self.stamps[text] = self._parsed(text, buffer[start + self.shape.stamp : start + self.shape.stamp + 40])
        ts = self.stamps[text]
        return ts is not None, ts

    def stamps_of(self, buffer: bytes, start: int) -> tuple[bool, int | None, float | None]:
        """Whether the line at `start` has all the stamps of this one, its time and its seconds since boot."""
        shape = self.shape
        if shape.boot_to == shape.boot_from:
            return *self.time_of(buffer, start), None
        boot = _BOOT.fullmatch(buffer, start + shape.boot_from, start + shape.boot_to)
        if boot is None:
            return False, None, None
        return *self.time_of(buffer, start), float(boot[1])

    def _parsed(self, text: bytes, after: bytes) -> int | None:
        stamp = parse_stamp((text + after).decode("utf-8", "replace")) if text.translate(_KINDS) == self.kinds else None
        fits = stamp is not None and (stamp.end, stamp.quality, stamp.zoned) == (self.shape.stamp, self.quality, self.zoned)
        return stamp.ts if stamp is not None and fits else None


class Repeats:
    """Lines of one stream that may come again."""

    def __init__(self) -> None:
        self._shapes: list[Shape] = []
        self._known: dict[bytes, Repeat] = {}
        self._in_vain = 0

    def find(self, buffer: bytes, start: int, end: int, wanted: tuple[int, ...]) -> tuple[Repeat, int | None, float | None] | None:
        """The earlier line that buffer[start:end] repeats, and the stamps of the new one."""
        for shape in self._shapes:
            repeat = self._known.get(shape.rest(buffer, start, end))
            if repeat is None or not repeat.proven or repeat.shape != shape or repeat.wanted != wanted:
                continue
            fits, ts, boot_s = repeat.stamps_of(buffer, start)
            if fits:
                self._in_vain = 0
                return repeat, ts, boot_s
        return None

    def learn(self, raw: bytes, wanted: tuple[int, ...], line: Line, claims: Claims, probe: Probe | None) -> None:
        """Remember a line that was read in full; `probe` reads another line alone, None where neighbours were looked at."""
        self._in_vain += 1
        if self._in_vain > PATIENCE and self._in_vain % SELDOM:
            return
        shape = _shape(raw, line) if probe and len(raw) <= LONGEST else None
        if shape is None or probe is None or not _single(line, claims):
            return
        rest = shape.rest(raw, 0, len(raw))
        known = self._known.get(rest)
        if known and known.shape == shape and known.wanted == wanted:
            if not known.proven and _alike(known.claims, claims) and _holds(raw, shape, line, claims, probe):
                known.proven = True
            return
        if len(self._known) >= KNOWN:
            self._known.clear()
        kept = tuple((dialect, copy(record)) for dialect, record in claims)
        kinds, benign = raw[: shape.stamp].translate(_KINDS), sum(isinstance(record, Benign) for _, record in kept)
        self._known[rest] = Repeat(shape, wanted, line.number, kept, line.quality, line.zoned, kinds, benign)
        if shape not in self._shapes:
            self._shapes = [shape, *self._shapes[: SHAPES - 1]]


def _shape(raw: bytes, line: Line) -> Shape | None:
    """Where the stamps lie, when the line's times come from them and its text lies behind them."""
    stamp = parse_stamp(raw[:HEAD].decode("utf-8", "replace"))
    end = 0
    if stamp and stamp.ts is not None:
        if (stamp.ts, stamp.quality, stamp.zoned) != (line.ts, line.quality, line.zoned) or not raw[: stamp.end].isascii():
            return None
        end = stamp.end
    elif line.ts is not None:
        return None
    shape = Shape(end, end, end)
    if line.boot_s is not None:
        boot = _BOOT.search(raw, end, HEAD)
        if not boot or float(boot[1]) != line.boot_s:
            return None
        shape = Shape(end, boot.start(), boot.end())
    tail = raw[shape.boot_to :].rstrip(b"\r\n").decode("utf-8", "replace")
    return shape if tail.endswith(line.text) else None


def _single(line: Line, claims: Claims) -> bool:
    """Whether the records are of this line alone and have no time but its own."""
    for _, record in claims:
        if isinstance(record, Event):
            if (record.line_first, record.line_last, record.ts, record.boot_s) != (line.number, line.number, line.ts, line.boot_s):
                return False
            if record.ts_quality != line.quality:
                return False
        elif not (isinstance(record, Benign) and record.line == line.number):
            return False
    return True


def _alike(one: Claims, other: Claims) -> bool:
    """Whether two lines' records differ in nothing but line and time."""
    return len(one) == len(other) and all(
        a == b and type(x) is type(y) and (not isinstance(x, Event) or all(getattr(x, name) == getattr(y, name) for name in _KEPT))
        for (a, x), (b, y) in zip(one, other, strict=True)
    )


def _holds(raw: bytes, shape: Shape, line: Line, claims: Claims, probe: Probe) -> bool:
    """Whether the same line with other stamps and another number is read alike."""
    changed = bytearray(raw)
    for start, end in ((0, shape.stamp), (shape.boot_from, shape.boot_to)):
        digits = [at for at in range(start, end) if 48 <= changed[at] < 58]
        if digits:
            changed[digits[-1]] = 48 + (changed[digits[-1]] - 47) % 10
    other = peel(line.number + 7, bytes(changed).rstrip(b"\r\n").decode("utf-8", "replace"))
    found = probe(other)
    return found is not None and _single(other, found) and _alike(claims, found)
