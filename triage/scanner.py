"""From a stream of bytes to records: needles are found per block, candidate lines are peeled and handed to their dialects.

What a dialect may see around a line (64 KiB ahead, 16 KiB behind) is fixed, so block size never changes a result.
Memory is bounded by the block, whatever the size of the file or of a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Protocol

import blake3

from parsers.contract import Benign, Dialect, Document, DocumentDialect, Event, Line, LineDialect, Record, Reject, Section, SectionDialect
from parsers.frames import peel
from triage.needles import Finder, Needle, needles_of

BLOCK, AHEAD, BEHIND = 8 << 20, 64 << 10, 16 << 10
LONG_LINE, EXCERPT = 64 << 10, 16 << 10
HEAD = 256
MARKS = tuple(HEAD << n for n in range(40))
"""Lengths at which every stream is digested, so that a shorter copy of it is known without its bytes."""
SAMPLE_EVERY, SAMPLE_ENDS = 256 << 10, 40
DOCUMENT_LIMIT = 512 << 20
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class UnknownKind(Exception):
    """The bytes are no text and no dialect knows them."""


class Samples(Protocol):
    """Takes a peeled line now and then, to learn which host and which span the file covers."""

    def see(self, line: Line) -> None: ...


@dataclass(slots=True)
class Claim:
    """A record and the dialect that it comes from."""

    dialect: str
    record: Record


@dataclass(slots=True)
class Scanned:
    """What one stream held. `prefixes` are digests of the first n bytes for each n that was asked for."""

    digest: str = ""
    head: str = ""
    size: int = 0
    lines: int = 0
    needle_lines: int = 0
    claims: list[Claim] = field(default_factory=list)
    prefixes: dict[int, str] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)


class Hasher:
    """Digest of a stream and of its first n bytes for chosen n, in one pass."""

    def __init__(self, lengths: Iterable[int]) -> None:
        self._hash, self._size = blake3.blake3(), 0
        self._pending = sorted({n for n in lengths if n > 0}, reverse=True)
        self.prefixes: dict[int, str] = {}

    def update(self, block: bytes) -> None:
        at = 0
        while self._pending and self._pending[-1] <= self._size + len(block):
            length = self._pending.pop()
            cut = length - self._size
            self._hash.update(block[at:cut])
            at = cut
            self.prefixes[length] = self._hash.hexdigest(length=16)
        self._hash.update(block[at:] if at else block)
        self._size += len(block)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest(length=16)


class Neighbourhood:
    """A candidate line inside the buffer (parsers.contract.Window)."""

    __slots__ = ("_buffer", "_end", "_start", "line")

    def __init__(self, buffer: bytes, start: int, end: int, line: Line) -> None:
        self._buffer, self._start, self._end, self.line = buffer, start, end, line

    def after(self, limit: int) -> Iterator[Line]:
        at, stop = self._end + 1, min(len(self._buffer), self._end + AHEAD)
        for number in range(self.line.number + 1, self.line.number + 1 + limit):
            if at >= stop:
                return
            end = self._buffer.find(b"\n", at, stop)
            end = stop if end < 0 else end
            yield peel(number, text_of(self._buffer, at, end))
            at = end + 1

    def before(self, limit: int) -> Iterator[Line]:
        end, floor = self._start - 1, max(0, self._start - BEHIND)
        for number in range(self.line.number - 1, self.line.number - 1 - limit, -1):
            if end <= floor or number < 1:
                return
            start = self._buffer.rfind(b"\n", floor, end) + 1 or floor
            yield peel(number, text_of(self._buffer, start, end))
            end = start - 1


def text_of(buffer: bytes, start: int, end: int, focus: int | None = None) -> str:
    """The line's text; of a line over 64 KiB its first bytes and those around `focus`."""
    if end - start > LONG_LINE:
        near = max(start, (focus or start) - 1024)
        head = b"" if near - start < EXCERPT else buffer[start : start + 512] + b" ... "
        cut = head + buffer[near if head else start : near + EXCERPT]
    else:
        cut = buffer[start:end]
    return cut.rstrip(b"\r\n").decode("utf-8", "replace")


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

    def scan(self, stream: IO[bytes], name: str, samples: Samples, older: Callable[[bytes], Iterable[int]] = _none) -> Scanned:
        """Read `stream` to its end; raises UnknownKind for binaries, OSError as the stream does.

        `older` gives, for the first 256 bytes, the sizes of known sources that begin alike: their prefixes are digested too.
        """
        first = _fill(stream, max(self.block, HEAD))
        hasher, out = Hasher([*older(first[:HEAD]), *MARKS]), Scanned(head=first[:HEAD].hex())
        document = next((d for d in self.documents if d.sniff(first[: 64 << 10])), None)
        if document:
            self._document(document, first, stream, name, hasher, out)
        else:
            _refuse_binary(first)
            _Pass(self, samples, out).run(_blocks(first, stream, self.block, hasher))
        out.digest, out.prefixes = hasher.digest, hasher.prefixes
        out.marks = [hasher.prefixes[n] for n in MARKS if n in hasher.prefixes]
        return out

    def _document(self, dialect: DocumentDialect, first: bytes, stream: IO[bytes], name: str, hasher: Hasher, out: Scanned) -> None:
        whole = b"".join(_blocks(first, stream, self.block, hasher, DOCUMENT_LIMIT))
        out.size, out.lines = len(whole), whole.count(b"\n") + (not whole.endswith(b"\n"))
        out.needle_lines = 1
        out.claims = [Claim(dialect.name, record) for record in _guarded(dialect.name, lambda: dialect.parse(Document(name, whole)), 1)]


def _fill(stream: IO[bytes], size: int) -> bytes:
    """Up to `size` bytes, reading on where a pipe gives less."""
    parts, got = [], 0
    while got < size and (part := stream.read(size - got)):
        parts.append(part)
        got += len(part)
    return b"".join(parts)


def _blocks(first: bytes, stream: IO[bytes], size: int, hasher: Hasher, limit: int = 0) -> Iterator[bytes]:
    block, total = first, 0
    while block:
        total += len(block)
        if limit and total > limit:
            raise OSError(f"larger than {limit >> 20} MiB, too large for a document of this kind")
        hasher.update(block)
        yield block
        block = stream.read(size)


def _refuse_binary(first: bytes) -> None:
    head = first[: 64 << 10]
    if len(_CONTROL.findall(head)) > 0.1 * len(head):
        raise UnknownKind("binary data of no known kind")


def _guarded(dialect: str, read: Callable[[], Iterable[Record]], line: int) -> Iterator[Record]:
    """A dialect's own failure costs one reject, never the file."""
    try:
        yield from read()
    except Exception as error:
        yield Reject(line, f"{dialect} failed: {type(error).__name__}: {error}")


class _Pass:
    """One run over one stream: the buffer, where we are in it, and an open section."""

    def __init__(self, scanner: Scanner, samples: Samples, out: Scanned) -> None:
        self.scanner, self.samples, self.out = scanner, samples, out
        self.buffer, self.done, self.number = b"", 0, 1
        self.section: Section | None = None
        self.section_name = ""
        self.next_sample = 0
        self.base = 0
        self.sampled = 0
        self.part_from = 0
        self.split_line = False

    def run(self, blocks: Iterator[bytes]) -> None:
        for block in blocks:
            self.out.size += len(block)
            self._append(block)
            self._advance(self._safe_end())
        self._advance(len(self.buffer))
        self._tail()
        self._close_section()
        self.out.lines = self.number - 1 + (self.split_line or self.buffer[self.done :] != b"")

    def _append(self, block: bytes) -> None:
        keep = max(0, self.done - BEHIND)
        self.base += keep
        self.buffer = self.buffer[keep:] + block
        self.done -= keep

    def _safe_end(self) -> int:
        """End of the last line whose look-ahead lies in the buffer; a line longer than that is taken in parts."""
        limit = len(self.buffer) - AHEAD - LONG_LINE
        end = self.buffer.rfind(b"\n", self.done, max(self.done, limit)) + 1
        if end:
            return end
        return limit if limit - self.done > self.scanner.block else self.done

    def _advance(self, stop: int) -> None:
        """Read the lines that start in buffer[done:stop]."""
        if stop <= self.done:
            return
        begin = self.done
        self.part_from = begin if self.split_line else 0
        self._sample(begin, stop)
        hits = [h for h in sorted(self.scanner.finder.find(self.buffer)) if begin < h[0] <= stop]
        at = self._read_section(stop) if self.section else begin
        for start, end, wanted, focus in self._candidates(hits, stop):
            if start < at:
                continue
            self._move_to(start)
            self._candidate(start, end, wanted, focus)
            if self.section:
                self._move_to(min(end + 1, stop))
                at = self._read_section(stop)
        self._move_to(stop)
        self.split_line = self.buffer[stop - 1 : stop] != b"\n"

    def _move_to(self, place: int) -> None:
        self.number += self.buffer.count(b"\n", self.done, place)
        self.done = max(self.done, place)

    def _candidates(self, hits: list[tuple[int, int]], stop: int) -> Iterator[tuple[int, int, set[int], int]]:
        """(start, end, needles, focus) of each line that carries a needle."""
        at, count = 0, len(hits)
        while at < count:
            focus = hits[at][0]
            start = self.buffer.rfind(b"\n", 0, focus - 1) + 1
            end = self.buffer.find(b"\n", focus - 1)
            end = len(self.buffer) if end < 0 else end
            start = max(start, self.part_from)
            wanted: set[int] = set()
            while at < count and hits[at][0] <= end:
                wanted.add(hits[at][1])
                at += 1
            yield start, end, wanted, focus

    def _candidate(self, start: int, end: int, wanted: set[int], focus: int) -> None:
        needles = self.scanner.needles
        strong = any(needles[w].strong for w in wanted)
        self.out.needle_lines += strong
        line = peel(self.number, text_of(self.buffer, start, end, focus))
        window = Neighbourhood(self.buffer, start, end, line)
        places = sorted({place for w in wanted for place in needles[w].dialects})
        for place in places:
            if self._claim(self.scanner.dialects[place], window):
                return
        if strong:
            asked = next(self.scanner.dialects[p].name for w in wanted if needles[w].strong for p in needles[w].dialects)
            self.out.claims.append(Claim(asked, Reject(line.number, "carries a needle, fits no pattern", line.raw[:200])))

    def _claim(self, dialect: Dialect, window: Neighbourhood) -> bool:
        line = window.line
        if isinstance(dialect, SectionDialect):
            self.section, self.section_name = dialect.open(line), dialect.name
            return self.section is not None
        if not isinstance(dialect, LineDialect):
            return False
        records = list(_guarded(dialect.name, lambda: dialect.parse(window), line.number))
        self._keep(dialect.name, records, line)
        return bool(records)

    def _keep(self, dialect: str, records: Iterable[Record], line: Line) -> None:
        for record in records:
            if isinstance(record, Event):
                _fill_from(record, line)
            elif isinstance(record, Reject) and not record.text:
                record.text = line.raw[:200]
            self.out.claims.append(Claim(dialect, record))

    def _read_section(self, stop: int) -> int:
        """Feed lines to the open section until it ends or the safe part does; gives where reading stopped."""
        while self.section and self.done < stop:
            end = self.buffer.find(b"\n", self.done, stop)
            end = stop if end < 0 else end
            line = peel(self.number, text_of(self.buffer, self.done, end))
            records = self._fed(line)
            if records is None:
                break
            self._keep(self.section_name, records, line)
            self._move_to(min(end + 1, stop))
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
            self._keep(self.section_name, _guarded(self.section_name, section.close, self.number), empty)

    def _sample(self, begin: int, stop: int) -> None:
        """Peel the first lines of the file and one line each 256 KiB."""
        at = begin
        if self.base + begin == 0:
            at = self._sample_run(begin, stop, SAMPLE_ENDS)
            self.next_sample = self.base + at + SAMPLE_EVERY
        while self.next_sample < self.base + stop:
            start = self.buffer.find(b"\n", max(at, self.next_sample - self.base), stop) + 1
            if not start:
                break
            at = self._sample_run(start, stop, 1)
            self.next_sample += SAMPLE_EVERY

    def _sample_run(self, start: int, stop: int, count: int) -> int:
        for _ in range(count):
            if start >= stop:
                break
            end = self.buffer.find(b"\n", start, stop)
            end = stop if end < 0 else end
            self.samples.see(peel(0, text_of(self.buffer, start, end)))
            start = end + 1
        self.sampled = self.base + start
        return start

    def _tail(self) -> None:
        """Peel the last lines of the file."""
        stop = len(self.buffer)
        start = stop
        for _ in range(SAMPLE_ENDS + 1):
            start = self.buffer.rfind(b"\n", 0, max(0, start - 1)) + 1
            if start == 0:
                break
        self._sample_run(max(start, self.sampled - self.base), stop, SAMPLE_ENDS + 1)


def _fill_from(event: Event, line: Line) -> None:
    """What the dialect left open comes from the line's frame."""
    event.line_last = event.line_last or event.line_first
    if event.ts is None:
        event.ts, event.ts_quality = line.ts, line.quality
    elif event.ts_quality == "unknown":
        event.ts_quality = line.quality if line.quality == "year_inferred" else type(line.quality).EXACT
    if event.boot_s is None:
        event.boot_s = line.boot_s
    if event.host is None:  # "" says: about no host, whatever the frame prints
        event.host = line.host
    event.rank = line.rank if event.rank is None else event.rank


__all__ = ["Benign", "Claim", "Hasher", "Scanned", "Scanner", "UnknownKind"]
