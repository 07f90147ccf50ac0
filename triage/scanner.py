"""From a stream of bytes to records: needles are found per block, candidate lines are peeled and handed to their dialects.

What a dialect may see around a line (64 KiB ahead, 16 KiB behind) is fixed, so block size never changes a result.
Memory is bounded by the block, whatever the size of the file or of a line: of a line over 64 KiB dialects see a part around each needle.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Protocol

from parsers.contract import Dialect, Document, DocumentDialect, Event, Line, LineDialect, Record, Reject, Section, SectionDialect
from parsers.frames import peel, peel_all
from triage.feed import Block, Feed, Hasher, digested, newlines
from triage.needles import Finder, Needle, needles_of
from triage.repeat import Repeat, Repeats

BLOCK, AHEAD, BEHIND = 1 << 20, 64 << 10, 16 << 10
LONG_LINE, EXCERPT, LEAD, TITLE = 64 << 10, 16 << 10, 1 << 10, 512
HEAD, SNIFF, NEWLINE = 256, 64 << 10, 10
MARKS = tuple(HEAD << n for n in range(40))
"""Lengths at which every stream is digested, so that a shorter copy of it is known without its bytes."""
SAMPLE_FIRST, SAMPLE_EVERY, SAMPLE_ENDS, REGION = 4 << 10, 256 << 10, 40, 8 << 10
DOCUMENT_LIMIT = 512 << 20
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class UnknownKind(Exception):
    """The bytes are no text and no dialect knows them."""


@dataclass(slots=True)
class Claim:
    """A record and the dialect that it comes from."""

    dialect: str
    record: Record


class Sink(Protocol):
    """Takes what is read, in file order; `place` is an offset in the stream."""

    def see(self, line: Line, place: int) -> None:
        """A peeled line now and then, to learn which host and which span the file covers."""
        ...

    def glance(self, region: bytes, place: int) -> None:
        """A few raw lines at the same places."""
        ...

    def take(self, dialect: str, record: Record, place: int) -> None:
        """A record."""
        ...

    def again(self, repeat: Repeat, number: int, ts: int | None, boot_s: float | None, place: int) -> None:
        """A line that differs from an earlier one in nothing but its stamps."""
        ...


class Kept:
    """A sink that keeps every record and no sample."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []

    def see(self, line: Line, place: int) -> None:
        return None

    def glance(self, region: bytes, place: int) -> None:
        return None

    def take(self, dialect: str, record: Record, place: int) -> None:
        self.claims.append(Claim(dialect, record))

    def again(self, repeat: Repeat, number: int, ts: int | None, boot_s: float | None, place: int) -> None:
        self.claims += [Claim(dialect, record) for dialect, record in repeat.records(number, ts, boot_s)]


@dataclass(slots=True)
class Scanned:
    """What one stream held. `prefixes` are digests of the first n bytes for each n that was asked for; `cut` why it ended too early."""

    digest: str = ""
    head: str = ""
    size: int = 0
    lines: int = 0
    needle_lines: int = 0
    claims: list[Claim] = field(default_factory=list)
    prefixes: dict[int, str] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)
    cut: str = ""


class Neighbourhood:
    """A candidate line inside the buffer (parsers.contract.Window). `looked` tells whether its neighbours were asked for."""

    __slots__ = ("_buffer", "_end", "_start", "line", "looked")

    def __init__(self, buffer: bytes, start: int, end: int, line: Line) -> None:
        self._buffer, self._start, self._end, self.line = buffer, start, end, line
        self.looked = False

    def after(self, limit: int) -> Iterator[Line]:
        self.looked = True
        at, stop = self._end + 1, min(len(self._buffer), self._end + AHEAD)
        for number in range(self.line.number + 1, self.line.number + 1 + limit):
            if at >= stop:
                return
            end = self._buffer.find(b"\n", at, stop)
            end = stop if end < 0 else end
            yield peel(number, text_of(self._buffer[at:end]))
            at = end + 1

    def before(self, limit: int) -> Iterator[Line]:
        self.looked = True
        end, floor = self._start - 1, max(0, self._start - BEHIND)
        for number in range(self.line.number - 1, self.line.number - 1 - limit, -1):
            if end <= floor or number < 1:
                return
            start = self._buffer.rfind(b"\n", floor, end) + 1 or floor
            yield peel(number, text_of(self._buffer[start:end]))
            end = start - 1


def text_of(line: bytes) -> str:
    """The line as text, without its end; whatever is no UTF-8 becomes U+FFFD."""
    return line.rstrip(b"\r\n").decode("utf-8", "replace")


def _none(_head: bytes) -> Iterable[int]:
    return ()


class Scanner:
    """Scans streams for one set of dialects. Not shared between threads."""

    def __init__(self, dialects: Sequence[Dialect], block: int = BLOCK) -> None:
        self.dialects = dialects
        self.documents = [d for d in dialects if isinstance(d, DocumentDialect)]
        self.needles: list[Needle] = needles_of(dialects)
        self.finder = Finder(self.needles)
        self.block = block

    def scan(
        self,
        stream: IO[bytes],
        name: str,
        sink: Sink | None = None,
        older: Callable[[bytes], Iterable[int]] = _none,
        apart: bool = False,
    ) -> Scanned:
        """Read `stream` to its end; raises UnknownKind for binaries, OSError or EOFError as the stream does before its first byte.

        older   gives, for the first 256 bytes, the sizes of known sources that begin alike: their prefixes are digested too
        apart   read and search in threads of their own
        """
        kept = Kept()
        feed = Feed(stream, self.finder, self.block)
        first = feed.open(SNIFF)
        hasher, out = Hasher([*older(first[:HEAD]), *MARKS]), Scanned(head=first[:HEAD].hex(), claims=kept.claims)
        document = next((d for d in self.documents if d.sniff(first[:SNIFF])), None)
        if document:
            self._document(document, feed, name, hasher, sink or kept, out)
        else:
            _refuse_binary(first)
            _Pass(self, sink or kept, out).run(feed.blocks(apart and len(first) >= self.block, hasher))
        out.digest, out.prefixes, out.cut = hasher.digest, hasher.prefixes, feed.cut
        out.marks = [hasher.prefixes[n] for n in MARKS if n in hasher.prefixes]
        return out

    def _document(self, dialect: DocumentDialect, feed: Feed, name: str, hasher: Hasher, sink: Sink, out: Scanned) -> None:
        parts: list[bytes] = []
        for block in digested(feed.read(), hasher):
            parts.append(block.data)
            if block.start + len(block.data) > DOCUMENT_LIMIT:
                raise OSError(f"larger than {DOCUMENT_LIMIT >> 20} MiB, too large for a document of this kind")
        whole = b"".join(parts)
        out.size, out.lines = len(whole), whole.count(b"\n") + (not whole.endswith(b"\n"))
        out.needle_lines = 1
        for record in _guarded(dialect.name, lambda: dialect.parse(Document(name, whole)), 1):
            sink.take(dialect.name, record, 0)


def _refuse_binary(first: bytes) -> None:
    head = first[:SNIFF]
    if len(_CONTROL.findall(head)) > 0.1 * len(head):
        raise UnknownKind("binary data of no known kind")


def _guarded(dialect: str, read: Callable[[], Iterable[Record]], line: int) -> Iterator[Record]:
    """A dialect's own failure costs one reject, never the file."""
    try:
        yield from read()
    except Exception as error:
        yield Reject(line, f"{dialect} failed: {type(error).__name__}: {error}")


@dataclass(slots=True)
class _Spot:
    """A candidate: its line and the part of it that is read, as offsets in the buffer; of a long line neither end may be there."""

    line_start: int
    line_end: int
    start: int
    end: int
    wanted: tuple[int, ...]
    title: bytes = b""
    long: bool = False

    @property
    def whole(self) -> bool:
        return not self.long and self.start == self.line_start and self.end == self.line_end


class _Pass:
    """One run over one stream: the buffer, where we are in it, and an open section."""

    def __init__(self, scanner: Scanner, sink: Sink, out: Scanned) -> None:
        self.scanner, self.sink, self.out = scanner, sink, out
        self.buffer, self.base, self.done, self.number = b"", 0, 0, 1
        self.repeats = Repeats()
        self.hits: list[tuple[int, int]] = []
        self.at = 0
        self.line_start, self.seen = 0, 0
        self.long_start, self.title = -1, b""
        self.last_needle_line = 0
        self.section: Section | None = None
        self.section_name, self.skipping = "", False
        self.head_left, self.next_sample = SAMPLE_ENDS, SAMPLE_FIRST
        self.sampled: deque[int] = deque(maxlen=2 * SAMPLE_ENDS)

    def run(self, blocks: Iterator[Block]) -> None:
        for block in blocks:
            self._append(block)
            self._advance(self._safe_end())
        self._advance(len(self.buffer))
        self._tail()
        self._close_section()
        self.out.size = self.base + len(self.buffer)
        self.out.lines = self.number - 1 + (self.buffer[-1:] not in (b"", b"\n"))

    def _append(self, block: Block) -> None:
        keep = max(0, self.done - BEHIND)
        self.base += keep
        self.buffer = self.buffer[keep:] + block.data
        self.done -= keep
        self.hits = self.hits[self.at :] + block.hits
        self.at = 0

    def _safe_end(self) -> int:
        """End of the last line whose look-ahead lies in the buffer; a line longer than that is taken in parts."""
        limit = len(self.buffer) - AHEAD - LONG_LINE
        end = self.buffer.rfind(b"\n", self.done, max(self.done, limit)) + 1
        if end:
            return end
        return limit if limit - self.done > LONG_LINE else self.done

    def _advance(self, stop: int) -> None:
        """Read the lines that start in buffer[done:stop], or the part of a long one that lies there."""
        if stop <= self.done:
            return
        self._sample(self.done, stop)
        at = self._read_section(stop) if self.section or self.skipping else self.done
        while (spot := self._next_spot(stop)) is not None:
            if spot.end < at:  # in a section; an excerpt of a long line may well start in a part that lies behind
                continue
            self._move_to(spot.line_start)
            self._candidate(spot, stop)
            if self.section:
                self._move_to(min(spot.line_end + 1, stop))
                at = self._read_section(stop)
        self._move_to(stop)
        self._see_lines(stop)

    def _move_to(self, place: int) -> None:
        if place > self.done:
            self.number += newlines(self.buffer, self.done, place)
            self.done = place

    def _see_lines(self, upto: int) -> None:
        """Learn the start of the line that holds `upto`, and the first bytes of one that is being left behind."""
        newline = self.buffer.rfind(b"\n", max(0, self.seen - self.base), upto)
        if newline >= 0:
            self.line_start = self.base + newline + 1
        self.seen = self.base + upto
        if self.line_start >= self.base:
            start = self.line_start - self.base
            self.title = self.buffer[start : start + TITLE]

    def _next_spot(self, stop: int) -> _Spot | None:
        """The next candidate that ends before `stop`, with all the needles in it."""
        if self.at >= len(self.hits):
            return None
        focus = self.hits[self.at][0] - self.base
        if focus > stop:
            return None
        newline = self.buffer.rfind(b"\n", max(0, self.seen - self.base), focus - 1)
        if newline >= 0:
            self.line_start = self.base + newline + 1
        self.seen = self.base + focus - 1
        start, end, long = self._bounds(focus)
        spot = self._excerpt(start, end, focus) if long else self._segment(start, end, focus)
        first, limit = self.at, self.base + spot.end
        while self.at < len(self.hits) and self.hits[self.at][0] <= limit:
            self.at += 1
        spot.wanted = tuple(sorted({needle for _, needle in self.hits[first : self.at]})) if self.at > first + 1 else (self.hits[first][1],)
        return spot

    def _bounds(self, focus: int) -> tuple[int, int, bool]:
        """Start and end of the line that holds `focus`, and whether it is a long one, whose end may lie anywhere."""
        start = self.line_start - self.base
        if self.long_start == self.line_start:
            return start, len(self.buffer), True
        end = self.buffer.find(b"\n", focus - 1, max(start + LONG_LINE, focus)) if start + LONG_LINE >= focus else -1
        if end < 0 and len(self.buffer) - start <= LONG_LINE:
            end = len(self.buffer)
        if end >= 0:
            return start, end, False
        self.long_start = self.line_start
        return start, len(self.buffer), True

    def _segment(self, start: int, end: int, focus: int) -> _Spot:
        """The part between carriage returns that holds `focus`: a progress bar redraws, an old file may know no other line end."""
        low, high = self.buffer.rfind(b"\r", start, focus - 1) + 1 or start, self.buffer.find(b"\r", focus, end)
        if high < 0 or self.buffer[high:end].isspace():
            high = end
        return _Spot(start, end, low, high, ())

    def _excerpt(self, start: int, end: int, focus: int) -> _Spot:
        low = self.buffer.rfind(b"\r", max(0, start, focus - LEAD), focus - 1) + 1
        title = b""
        if not low and focus - LEAD <= start + TITLE:
            low = max(0, start)
        elif not low:
            low = focus - LEAD
            title = (self.buffer[start : start + TITLE] if start >= 0 else self.title) + b" ... "
        high = min(focus + EXCERPT, len(self.buffer))
        for stop in (b"\r", b"\n"):
            found = self.buffer.find(stop, focus, high)
            high = found if found >= 0 else high
        return _Spot(start, high, low, high, (), title, True)

    def _candidate(self, spot: _Spot, stop: int) -> None:
        place = self.base + spot.start
        needles = self.scanner.needles
        strong = any(needles[w].strong for w in spot.wanted)
        if strong and self.last_needle_line != self.number:
            self.out.needle_lines += 1
            self.last_needle_line = self.number
        if spot.whole and self._again(spot, place, strong, stop):
            return
        raw = text_of(spot.title + self.buffer[spot.start : spot.end])
        lines = peel_all(self.number, raw)
        claimed = [self._offer(line, spot, place, len(lines) > 1) for line in lines]
        if self.section is None and strong and not any(claimed):
            self._reject(lines[0], spot.wanted, place)

    def _offer(self, line: Line, spot: _Spot, place: int, one_of_many: bool) -> bool:
        """Ask the dialects of the needles in turn; whether one of them claimed the line."""
        wanted = self._wanted_in(line, spot.wanted) if one_of_many else spot.wanted
        end = spot.line_end if not spot.long else len(self.buffer)
        window = Neighbourhood(self.buffer, spot.line_start if not spot.long else 0, end, line)
        claims: list[tuple[str, Record]] = []
        for position in self._dialects_of(wanted):
            if self._claim(self.scanner.dialects[position], window, spot.long, claims):
                break
        if spot.whole and not one_of_many and self.section is None:
            self.repeats.learn(self.buffer[spot.start : spot.end], wanted, line, claims, None if window.looked else self._probe(wanted))
        for name, record in claims:
            self.sink.take(name, record, place)
        return bool(claims) or self.section is not None

    def _dialects_of(self, wanted: Sequence[int]) -> list[int]:
        needles = self.scanner.needles
        if len(wanted) == 1:
            return list(needles[wanted[0]].dialects)
        return sorted({position for w in wanted for position in needles[w].dialects})

    def _wanted_in(self, line: Line, wanted: Sequence[int]) -> tuple[int, ...]:
        return tuple(w for w in wanted if self.scanner.needles[w].text.decode() in line.text)

    def _probe(self, wanted: Sequence[int]) -> Callable[[Line], list[tuple[str, Record]] | None]:
        """Reads a line without its neighbours, keeping nothing; None when a neighbour is asked for after all."""

        def read(line: Line) -> list[tuple[str, Record]] | None:
            window = Neighbourhood(b"", 0, 0, line)
            claims: list[tuple[str, Record]] = []
            for position in self._dialects_of(wanted):
                dialect = self.scanner.dialects[position]
                if isinstance(dialect, LineDialect) and self._claim(dialect, window, True, claims):
                    break
            return None if window.looked else claims

        return read

    def _reject(self, line: Line, wanted: Sequence[int], place: int) -> None:
        needles, dialects = self.scanner.needles, self.scanner.dialects
        asked = next(dialects[p].name for w in wanted if needles[w].strong for p in needles[w].dialects)
        self.sink.take(asked, Reject(line.number, "carries a needle, fits no pattern", line.raw[:200]), place)

    def _claim(self, dialect: Dialect, window: Neighbourhood, long: bool, claims: list[tuple[str, Record]]) -> bool:
        line = window.line
        if isinstance(dialect, SectionDialect):
            if not long:
                self.section, self.section_name = dialect.open(line), dialect.name
            return self.section is not None
        if not isinstance(dialect, LineDialect):
            return False
        records = [_filled(record, line) for record in _guarded(dialect.name, lambda: dialect.parse(window), line.number)]
        claims += [(dialect.name, record) for record in records]
        return bool(records)

    def _again(self, spot: _Spot, place: int, strong: bool, stop: int) -> bool:
        """A line that was read before, but for its stamps, and all such lines that follow it at once."""
        found = self.repeats.find(self.buffer, spot.start, spot.end, spot.wanted)
        if found is None:
            return False
        repeat, ts, boot_s = found
        if strong and not repeat.claims:
            raw = text_of(self.buffer[spot.start : spot.end])
            self._reject(Line(self.number, raw, raw), spot.wanted, place)
            return True
        self.sink.again(repeat, self.number, ts, boot_s, place)
        self._run(repeat, spot, strong, stop)
        return True

    def _run(self, repeat: Repeat, spot: _Spot, strong: bool, stop: int) -> None:
        buffer, length, shape = self.buffer, spot.end - spot.start, repeat.shape
        rest, at, number = shape.rest(buffer, spot.start, spot.end), spot.end + 1, self.number
        while at + length < stop and buffer[at + length] == NEWLINE and shape.rest(buffer, at, at + length) == rest:
            fits, ts, boot_s = repeat.stamps_of(buffer, at)
            if not fits:
                break
            number += 1
            self.sink.again(repeat, number, ts, boot_s, self.base + at)
            at += length + 1
        if number > self.number:
            self.out.needle_lines += strong * (number - self.number)
            self.number, self.last_needle_line, self.done = number + 1, number, at
            self.at = bisect_left(self.hits, (self.base + at,), self.at)
            self.line_start = self.seen = self.base + at

    def _read_section(self, stop: int) -> int:
        """Feed lines to the open section until it ends or the safe part does; gives where reading stopped."""
        while (self.section or self.skipping) and self.done < stop:
            end = self.buffer.find(b"\n", self.done, stop)
            if self.skipping:
                self.skipping = end < 0
                self._move_to(stop if end < 0 else end + 1)
                continue
            known = end if end >= 0 else len(self.buffer) if stop == len(self.buffer) else -1
            long = known < 0 or known - self.done > LONG_LINE
            line = peel(self.number, text_of(self.buffer[self.done : self.done + EXCERPT if long else known]))
            records = self._fed(line)
            if records is None:
                break
            for record in records:
                self.sink.take(self.section_name, _filled(record, line), self.base + self.done)
            self.skipping = end < 0
            self._move_to(stop if end < 0 else end + 1)
        return self.done

    def _fed(self, line: Line) -> Iterable[Record] | None:
        assert self.section is not None
        try:
            records = self.section.feed(line)
            kept = None if records is None else list(records)
        except Exception as error:
            kept = [Reject(line.number, f"{self.section_name} failed: {type(error).__name__}: {error}")]
        if kept is None:
            self._close_section()
        return kept

    def _close_section(self) -> None:
        if self.section:
            section, self.section = self.section, None
            empty = Line(self.number, "", "")
            for record in _guarded(self.section_name, section.close, self.number):
                self.sink.take(self.section_name, _filled(record, empty), self.base + self.done)

    def _sample(self, begin: int, stop: int) -> None:
        """Peel the first lines of the file, then a line at growing distances, 4 to 256 KiB, of those that start before `stop`."""
        at = begin
        while self.head_left and at < stop and self.base + at < BEHIND and (self.base + at == 0 or self.buffer[at - 1 : at] == b"\n"):
            at = self._see(at, stop)
            self.head_left -= 1
        while self.next_sample < self.base + stop:
            start = self._line_from(max(self.next_sample - self.base, begin), stop)
            if start < 0:
                break
            self._see(start, stop)
            self.sink.glance(self.buffer[start : start + REGION], self.base + start)
            self.next_sample = self.base + start + min(max(SAMPLE_FIRST, (self.base + start) >> 8), SAMPLE_EVERY)

    def _line_from(self, at: int, stop: int) -> int:
        """Start of the first line that starts in [at, stop), or -1."""
        start = self.buffer.find(b"\n", max(0, at - 1), stop - 1) + 1
        return start or -1

    def _see(self, start: int, stop: int) -> int:
        """Peel one line; gives the start of the next."""
        end = self.buffer.find(b"\n", start, stop)
        end = stop if end < 0 else end
        if self.base + start not in self.sampled:
            self.sink.see(peel(0, text_of(self.buffer[start : min(end, start + EXCERPT)])), self.base + start)
            self.sampled.append(self.base + start)
        return end + 1

    def _tail(self) -> None:
        """Peel the last lines of the file, of its last 16 KiB."""
        stop = len(self.buffer)
        floor = max(0, stop - BEHIND)
        start = stop
        for _ in range(SAMPLE_ENDS + 1):
            newline = self.buffer.rfind(b"\n", floor, max(floor, start - 1))
            if newline < 0:
                break
            start = newline + 1
        self.sink.glance(self.buffer[start:stop], self.base + start)
        while start < stop:
            start = self._see(start, stop)


def _filled(record: Record, line: Line) -> Record:
    """What the dialect left open comes from the line's frame."""
    if isinstance(record, Reject):
        record.text = record.text or line.raw[:200]
    if not isinstance(record, Event):
        return record
    record.line_last = record.line_last or record.line_first
    if record.ts is None:
        record.ts, record.ts_quality = line.ts, line.quality
    elif record.ts_quality == "unknown":
        record.ts_quality = line.quality if line.quality == "year_inferred" else type(line.quality).EXACT
    if record.boot_s is None:
        record.boot_s = line.boot_s
    if record.host is None:  # "" says: about no host, whatever the frame prints
        record.host = line.host
    record.rank = line.rank if record.rank is None else record.rank
    return record


__all__ = ["BLOCK", "Claim", "Hasher", "Kept", "Scanned", "Scanner", "Sink", "UnknownKind"]
