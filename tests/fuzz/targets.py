"""What must hold for any bytes, one function a layer: it returns, or it raises AssertionError or what the layer must never raise."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any
from unittest.mock import patch

from parsers import DIALECTS
from parsers.contract import Document, Line, Record, Reject, SectionDialect
from parsers.flight import Reader, Refused, parse
from parsers.frames import peel_all
from triage import inflate, scanner
from triage.repeat import Repeat

# The distances of the scanner in small, kept in order, so that a few hundred bytes cross each of its borders.
SMALL: dict[str, Any] = {"SNIFF": 64, "HEAD": 16, "AHEAD": 1024, "BEHIND": 256, "LONG_LINE": 1024, "EXCERPT": 256, "LEAD": 128, "TITLE": 64}
BLOCKS = (64, 97, 256, 1000, 4096)
PLAIN_LIMIT = 16 << 20  # bytes that are read of one packed stream
SECTIONLESS = tuple(d for d in DIALECTS if not isinstance(d, SectionDialect))


class Places:
    """A sink that keeps records and where they were told."""

    def __init__(self) -> None:
        self.records: list[tuple[str, Record]] = []
        self.places: list[int] = []

    def see(self, line: Line, place: int) -> None:
        encodable(line)

    def glance(self, region: bytes, place: int) -> None:
        return None

    def take(self, dialect: str, record: Record, place: int) -> None:
        self.records.append((dialect, record))
        self.places.append(place)

    def again(self, repeat: Repeat, number: int, ts: int | None, boot_s: float | None, place: int) -> None:
        for dialect, record in repeat.records(number, ts, boot_s):
            self.take(dialect, record, place)


def encodable(record: Line | Record) -> None:
    """Every text can be stored: lone surrogates, which UTF-8 does not know, are nowhere."""
    for name in (f.name for f in fields(record)):
        value = getattr(record, name)
        if isinstance(value, str | dict):
            str(value).encode()


@cache
def _scanner(block: int, sections: bool) -> scanner.Scanner:
    return scanner.Scanner(DIALECTS if sections else SECTIONLESS, block)


def _scanned(data: bytes, block: int, sections: bool) -> Places | None:
    """What a scan tells; None where it says that these bytes are no text, or too large."""
    sink = Places()
    try:
        _scanner(block, sections).scan(io.BytesIO(data), "rank_0", sink)
    except (scanner.UnknownKind, OSError):
        return None
    return sink


def scan(data: bytes) -> None:
    """No dialect fails, blocks change nothing, and each line with a needle is told of. The first byte chooses the size of blocks."""
    block, data = BLOCKS[data[0] % len(BLOCKS)] if data else BLOCKS[0], data[1:]
    with patch.multiple(scanner, **SMALL):
        whole, parts, plain = _scanned(data, 1 << 16, True), _scanned(data, block, True), _scanned(data, block, False)
    assert (whole is None) == (parts is None)
    if whole is None or parts is None:
        return
    for _, record in whole.records:
        encodable(record)
        assert not (isinstance(record, Reject) and " failed: " in record.reason), record
    assert whole.records == parts.records, _first_difference(whole.records, parts.records)
    if plain is not None and not any(d.sniff(data[: SMALL["SNIFF"]]) for d in _scanner(64, True).documents):
        _account(data, plain)


def _first_difference(whole: list[tuple[str, Record]], parts: list[tuple[str, Record]]) -> str:
    pair = next(((a, b) for a, b in zip(whole, parts, strict=False) if a != b), None)
    return f"{pair}" if pair else f"{len(whole)} records, in blocks {len(parts)}"


def _account(data: bytes, sink: Places) -> None:
    strong = [needle.text for needle in _scanner(64, False).needles if needle.strong]
    for start, line in _lines(data):
        if any(text in line for text in strong):
            assert any(start <= place <= start + len(line) for place in sink.places), f"not told of: {line[:200]!r}"


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    for line in data.split(b"\n"):
        yield start, line
        start += len(line) + 1


def frames(data: bytes) -> None:
    """Any text peels into at least one line; numbers and stamps keep to what a table holds."""
    for line in peel_all(7, data.decode("utf-8", "replace")):
        assert line.number == 7
        assert line.ts is None or abs(line.ts) < 1 << 62
        assert line.rank is None or 0 <= line.rank < 1 << 32
        encodable(line)


def flight(data: bytes) -> None:
    """A dump is read or refused; nothing but plain containers comes out, and its records can be stored."""
    for record in parse(Document("rank_0", data)):
        encodable(record)
    try:
        value = Reader(data).load()
    except (Refused, ValueError, MemoryError, OverflowError, TypeError):
        return
    assert isinstance(value, dict | list | tuple | str | int | float | None) or value is None


def unpack(data: bytes) -> None:
    """A packed stream gives bytes, and at its damage an OSError or EOFError; it ends."""
    got = 0
    try:
        stream = inflate.plain(io.BufferedReader(io.BytesIO(data)))
        while got < PLAIN_LIMIT and (part := stream.read1(1 << 16)):
            got += len(part)
    except (OSError, EOFError):
        return


TARGETS: dict[str, Callable[[bytes], None]] = {"scanner": scan, "frames": frames, "flight": flight, "inflate": unpack}
