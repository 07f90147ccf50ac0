"""From files that changed to rows in the database, in one transaction a look; what was stored is what one read of each file would give."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from triage.faults import Fault
from triage.inflate import BZIP, GZIP, XZ, ZSTD
from triage.ingest import Options, Reader, Report, Shelf
from triage.intake import Parsed
from triage.scanner import HEAD, SNIFF, Scanner, UnknownKind, _refuse_binary
from triage.sources import TAR_MAGIC, TAR_MAGIC_AT, Source
from triage.store import Store
from triage.watch_growth import Growth
from triage.watch_roster import Followed, Key, copies_of

LIVE, BLOCK = 256 << 10, 1 << 20
"""Bytes from which on a plain file is read on from where it ended; a smaller one is read again from its start."""
RECENT, CALM = 900.0, 10.0
"""Seconds: a long file that was written so lately is expected to grow; growth without a needle is stored so often."""
PACKED = (GZIP, ZSTD, BZIP, XZ, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(slots=True)
class Uptake:
    """Reads files and keeps, for the long ones, where their reading stands. `live` is the size from which on a file is a long one."""

    options: Options
    live: int = LIVE
    growths: dict[Key, Growth] = field(default_factory=dict)
    owed: dict[Key, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    _report: Report = field(default_factory=Report)
    _scanner: Scanner | None = None
    _reader: Reader | None = None
    _older: Callable[[bytes], Iterable[int]] = field(default=lambda _head: ())

    def wanted(self, changed: Sequence[Followed], known: dict[Key, Followed], all_of_it: bool = False) -> list[Followed]:
        """Files to read now: those that changed, and those of which bytes without a needle wait long enough to be stored."""
        due = [k for k, since in self.owed.items() if all_of_it or time.monotonic() - since >= CALM]
        keys = {f.key for f in changed}
        return [*changed, *(known[k] for k in due if k in known and k not in keys)]

    def take(self, store: Store, files: Sequence[Followed], known: dict[Key, Followed], all_of_it: bool = False) -> bool:
        """Read the files and store what they hold now; whether anything was stored. A kill leaves whole files as they were or are."""
        shelf, self._report = Shelf(store), Report()
        self._older = shelf.older
        self.growths = {key: growth for key, growth in self.growths.items() if key in known}
        copies = [copy for f in files for copy in self._copies(f, known)]
        wholes = [f for f in files if not self._grow(f, shelf, all_of_it)]
        self._read([*wholes, *copies], shelf)
        self._name(shelf, known)
        stored = bool(self._report.sources or shelf.dropped or shelf.renamed)
        shelf.flush()
        return stored

    def _copies(self, file: Followed, known: dict[Key, Followed]) -> list[Followed]:
        """Of a file that was cut, the copies that a rotation made of it, for the lines before the cut that were not seen in time."""
        if file.size >= file.seen[1] or not file.head:
            return []
        paths = {f.path for f in known.values()}
        return [Followed((0, 0), p) for p in copies_of(file.path, file.head, file.seen[1]) if p not in paths]

    def _grow(self, file: Followed, shelf: Shelf, all_of_it: bool) -> bool:
        """Read on in a long plain file; False when it is to be read as a whole."""
        try:
            growth = self._growth(file)
            if growth is None:
                return False
            while data := file.read(growth.size, min(BLOCK, file.size - growth.size)):
                growth.feed(data)
        except OSError as error:
            self.skipped[file.shown] = error.strerror or "not readable"
            return True
        moved, file.seen = file.seen[0] != file.path, file.state
        if moved or growth.telling or all_of_it or time.monotonic() - self.owed.get(file.key, 0.0) >= CALM:
            self.owed.pop(file.key, None)
            source = file.plain()
            self._put(file, [(source, growth.snapshot(source))], shelf)
        return True

    def _growth(self, file: Followed) -> Growth | None:
        """The reading of a file so far, begun where it is long enough; a file that was cut or rewritten is read anew."""
        growth = self.growths.get(file.key)
        if growth is not None:
            if file.size >= growth.size and file.read(growth.size - len(growth.end), len(growth.end)) == growth.end:
                self.owed.setdefault(file.key, time.monotonic())
                return growth
            del self.growths[file.key]
            file.source_ids = ()
        self.owed.pop(file.key, None)
        if file.size < self.live or not (file.source_ids or time.time() - file.mtime_ns / 1e9 < RECENT):
            return None
        head = file.read(0, SNIFF)
        if not self._is_plain(head):
            return None
        growth = Growth(self._scan(), self.options.families, self.options.stated_zone(), self._older(head[:HEAD]))
        growth.feed(file.read(0, min(BLOCK, file.size)))
        self.growths[file.key] = growth
        return growth

    def _is_plain(self, head: bytes) -> bool:
        if head.startswith(PACKED) or head[TAR_MAGIC_AT:].startswith(TAR_MAGIC):
            return False
        try:
            _refuse_binary(head)
        except UnknownKind:
            return False
        return not any(d.sniff(head) for d in self._scan().documents)

    def _scan(self) -> Scanner:
        self._scanner = self._scanner or Scanner(self.options.dialects, self.options.block)
        return self._scanner

    def _read(self, files: Sequence[Followed], shelf: Shelf) -> None:
        """Read files as wholes, several at a time."""
        self._reader = self._reader or Reader(self.options, lambda head: self._older(head))
        pairs: list[tuple[Followed, Source]] = []
        for file in files:
            file.seen = file.state
            try:
                pairs += [(file, source) for source in file.whole()]
            except (Fault, OSError) as error:
                self.skipped[file.shown] = str(error)
        read: dict[Key, list[tuple[Source, Parsed]]] = {}
        for (file, source), (_, parsed) in zip(pairs, self._reader.read_all([s for _, s in pairs]), strict=True):
            if parsed.skipped:
                self.skipped[source.path] = parsed.skipped
            else:
                read.setdefault(file.key, []).append((source, parsed))
        for file in files:
            self._put(file, read.get(file.key, []), shelf)

    def _put(self, file: Followed, read: Sequence[tuple[Source, Parsed]], shelf: Shelf) -> None:
        before, rows = file.source_ids, [parsed.source for _, parsed in read]
        for source, parsed in read:
            shelf.take(source, parsed, self._report)
        file.source_ids = tuple(row["source_id"] for row in rows)
        file.head = bytes.fromhex(rows[0]["head"]) if len(rows) == 1 else b""
        digests = {row["digest"] for row in rows} | {d for _, parsed in read for d in parsed.prefixes.values()}
        for old in before:  # the same bytes under a name that tells another host
            row = shelf.sources.get(old)
            if row is not None and old not in file.source_ids and row["digest"] in digests and row["path"] != file.shown:
                shelf._forget(old)

    def _name(self, shelf: Shelf, known: dict[Key, Followed]) -> None:
        """Give sources the path at which their bytes are now, where a rotation has moved them."""
        homes: dict[str, list[str]] = {}
        for file in known.values():
            if len(file.source_ids) == 1 and not file.lost:
                homes.setdefault(file.source_ids[0], []).append(file.shown)
        for source_id, paths in homes.items():
            row = shelf.sources.get(source_id)
            if row is not None and row["path"] not in paths:
                row["path"] = min(paths)
                if source_id not in shelf.pending:
                    shelf.renamed[source_id] = min(paths)
