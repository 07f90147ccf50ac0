"""A log that grows, read as it grows, with the rows that one read of the whole would give.

Lines whose look-ahead is there are read for good. The end of the file, on which lines to come may throw another light, is read on a copy of
the state each time rows are asked for; so nothing is parsed twice but the last 128 KiB, however long the log is.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy, deepcopy
from typing import Any

from parsers import clocks
from triage.feed import Block, Hasher
from triage.intake import Intake, Parsed
from triage.scanner import HEAD, MARKS, SNIFF, Scanned, Scanner, _Pass
from triage.sources import Source

KEPT = 64
"""Last bytes by which a file is known to be the one that was read, when it is longer at the next look."""


class Growth:
    """A plain stream of text. The first `feed` takes at least what a whole read looks at to tell its kind (64 KiB)."""

    def __init__(self, scanner: Scanner, families: dict[str, str], zone: clocks.Zone | None, older: Iterable[int] = ()) -> None:
        self._scanner, self._families, self._zone = scanner, families, zone
        self._out, self._sink = Scanned(), Intake(families)
        self._pass = _Pass(scanner, self._sink, self._out)
        self._hasher = Hasher([*older, *MARKS])
        self._prefixes: dict[int, str] = {}
        self._seam, self.size, self.end = b"", 0, b""
        self._stirred = False

    def feed(self, data: bytes) -> None:
        """More of the stream, in pieces of any size."""
        if not data:
            return
        if not self.size:
            self._out.head = data[:HEAD].hex()
        self._hasher.update(data)
        hits = self._hits(data)
        with clocks.assumed(self._zone):
            self._pass._append(Block(self.size, data, hits))
            self._pass._advance(self._pass._safe_end())
        self.size += len(data)
        self.end = (self.end + data[-KEPT:])[-KEPT:]
        self._stirred = self._stirred or bool(hits)

    def _hits(self, data: bytes) -> list[tuple[int, int]]:
        """Needles in the new bytes and across their border, by the offsets of their ends."""
        finder = self._scanner.finder
        before, base = self._seam, self.size - len(self._seam)
        self._seam = (before + data[-finder.longest :])[-(finder.longest - 1) :]
        found = finder.find(before + data) if len(data) < SNIFF else finder.find(before + data[: finder.longest])
        hits = [(base + end, needle) for end, needle in found if end > len(before)]
        if len(data) >= SNIFF:
            known = set(hits)
            hits += [hit for end, needle in finder.find(data) if (hit := (self.size + end, needle)) not in known]
        return sorted(hits)

    @property
    def telling(self) -> bool:
        """Whether rows may have changed since the last snapshot: a needle came, or what lies behind one or in a section did."""
        reading = self._pass
        return self._stirred or bool(reading.hits[reading.at :]) or reading.section is not None

    def snapshot(self, source: Source) -> Parsed:
        """Rows of all that was fed, to be stored before more is fed."""
        reading = self._copied()
        scanned: Scanned = reading.out
        sink = reading.sink
        assert isinstance(sink, Intake)
        with clocks.assumed(self._zone):
            reading.run(iter(()))
        scanned.digest = self._hasher.digest
        scanned.prefixes = {**self._hasher.prefixes, **self._prefixes}
        scanned.marks = [self._hasher.prefixes[n] for n in MARKS if n in self._hasher.prefixes]
        self._prefixes = {self.size: scanned.digest}
        self._stirred = False
        return sink.finish(source, scanned, self._zone)

    def _copied(self) -> _Pass:
        """The state, apart from what is never changed or may be shared."""
        sink = self._sink
        shared: list[Any] = [self._scanner, self._families, self._pass.repeats]
        shared += [spool._folder for spool in (sink.ledger.spool, sink.refused.spool)]
        undated = {id(record) for record, _, _ in sink._undated}
        shared += [record for record in sink.records if id(record) not in undated]
        memo: dict[int, Any] = {id(thing): thing for thing in shared if thing is not None}
        for row in sink.ledger._rows:
            memo[id(row)] = made = copy(row)
            made.event = copy(row.event)
        memo[id(sink.ledger._open)] = {key: memo.get(id(row)) or row for key, row in sink.ledger._open.items()}
        memo[id(sink.span._lines)] = dict(sink.span._lines)
        return deepcopy(self._pass, memo)
