"""Read sources into the database: scan, date, fold, store. Idempotent; a file's rows are stored whole or not at all.

Several small files share a transaction; an interrupted run leaves whole files and a second run completes it.
"""

from __future__ import annotations

import errno
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import cpu_count
from threading import local
from typing import TYPE_CHECKING, Any

from parsers import clocks
from parsers.contract import Dialect
from triage.dialects import dialects
from triage.faults import Fault, InputFault
from triage.intake import RECORD_TABLES, Intake, Parsed
from triage.scanner import BLOCK, HEAD, Hasher, Scanner, UnknownKind
from triage.sources import Found, Source, reopened

if TYPE_CHECKING:
    from triage.store import Store

BATCH_FILES, BATCH_ROWS = 64, 50_000
SWITCH_S = 1e-4
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


@dataclass(slots=True)
class Report:
    """What an ingest did. `skipped` lists what was not read, or not to its end, with the reason."""

    sources: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unchanged: int = 0
    replaced: int = 0
    seconds: float = 0.0

    @property
    def changed(self) -> bool:
        return bool(self.sources)


@dataclass(frozen=True, slots=True)
class Options:
    """How to read: families of codes, the zone of stamps that name none (IANA name or +hh:mm), dialects, block size, threads."""

    families: dict[str, str]
    zone: str | None = None
    dialects: Sequence[Dialect] = field(default_factory=dialects)
    block: int = BLOCK
    threads: int = 0

    def stated_zone(self) -> clocks.Zone | None:
        """The zone; raises Fault when there is none of that name."""
        try:
            return clocks.zone_of(self.zone) if self.zone else None
        except ValueError as error:
            raise Fault(f"--tz {self.zone}: no such time zone; give a name such as Europe/Berlin, or +02:00") from error


Older = Callable[[bytes], Iterable[int]]
"""For the first bytes of a source, the sizes of known ones that begin alike."""
ReadAll = Callable[[Sequence[Source], Options, Older], Iterable[tuple[Source, Parsed]]]
"""Reads sources and gives them back in their order."""


class Reader:
    """Scans sources in parallel, one scanner a thread."""

    def __init__(self, options: Options, older: Older) -> None:
        self.options, self._older, self._local = options, older, local()
        self.zone = options.stated_zone()
        self.threads = options.threads or min(8, cpu_count() or 1)

    def read(self, source: Source, apart: bool = False) -> Parsed:
        """Scan one source; what cannot be read is an InputFault when the user named it, else `skipped`."""
        scanner = getattr(self._local, "scanner", None) or Scanner(self.options.dialects, self.options.block)
        self._local.scanner = scanner
        intake = Intake(self.options.families)
        try:
            with source.open() as stream, clocks.assumed(self.zone):
                name = source.path.rsplit("/", 1)[-1].rsplit("!", 1)[-1]
                scanned = scanner.scan(stream, name, intake, self._older, apart)
        except (OSError, EOFError, UnknownKind, ValueError) as error:
            if getattr(error, "errno", None) in NO_ROOM:  # for what is spooled while it is read; no fault of this file
                raise Fault(
                    f"{tempfile.gettempdir()}: no room left for temporary files; make room, or name another folder with TMPDIR"
                ) from error
            if source.named:
                raise unreadable(source, _reason(error)) from error
            return Parsed({}, skipped=_reason(error))
        return intake.finish(source, scanned, self.zone)

    def read_all(self, sources: Sequence[Source]) -> Iterator[tuple[Source, Parsed]]:
        """In the order given, a few ahead of the caller."""
        apart = len(sources) < self.threads
        with swift(), ThreadPoolExecutor(self.threads) as pool:
            yield from in_order(sources, lambda source: pool.submit(self.read, source, apart), self.threads)


@contextmanager
def swift() -> Iterator[None]:
    """The interpreter changes hands often: the search needs it for each needle, and at Python's 5 ms it mostly waits for the parsers."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_order(sources: Iterable[Source], begin: Callable[[Source], Future[Parsed]], at_once: int) -> Iterator[tuple[Source, Parsed]]:
    """Each source and what it gave, in the order given; not many more are begun than are read at once."""
    waiting: deque[tuple[Source, Future[Parsed]]] = deque()
    for source in sources:
        waiting.append((source, begin(source)))
        if len(waiting) > 2 * at_once:
            done, future = waiting.popleft()
            yield done, future.result()
    while waiting:
        done, future = waiting.popleft()
        yield done, future.result()


def lengths_of(source: Source, older: Older) -> tuple[int, ...]:
    """Sizes of known sources that begin like this one: it may be one of them, grown."""
    if not any(True for _ in older(b"")):
        return ()
    try:
        with source.open() as stream:
            return tuple(older(stream.read(HEAD)))
    except (OSError, EOFError, ValueError):
        return ()


def _read_here(sources: Sequence[Source], options: Options, older: Older) -> Iterator[tuple[Source, Parsed]]:
    return Reader(options, older).read_all(sources)


def unreadable(source: Source, why: str) -> InputFault:
    """The user named a source that cannot be read."""
    return InputFault(source.path, why, "name a log, or leave it out")


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return getattr(error, "strerror", None) or text


def ingest(
    store: Store,
    found: Found,
    options: Options,
    progress: Callable[[str, int], None] = lambda _path, _size: None,
    read_all: ReadAll | None = None,
) -> Report:
    """Read every source into the store, here or by `read_all`; raises InputFault for named sources that cannot be read."""
    began = time.perf_counter()
    shelf = Shelf(store)
    report = Report(skipped=list(found.skipped))
    for source, got in (read_all or _read_here)(found.sources, options, shelf.older):
        if got.skipped:
            report.skipped.append((source.path, got.skipped))
        else:
            if got.cut:
                report.skipped.append((source.path, f"read as far as it goes: {got.cut}"))
            shelf.take(source, got, report)
        progress(source.path, source.size)
    shelf.flush()
    report.seconds = time.perf_counter() - began
    return report


class Heads:
    """Sources by their first bytes (in hex): which begin alike, as far as the shorter one goes."""

    KEY = 64

    def __init__(self) -> None:
        self._of: dict[str, dict[str, str]] = {}

    def add(self, head: str, source_id: str) -> None:
        self._of.setdefault(head[: self.KEY], {})[source_id] = head

    def drop(self, head: str, source_id: str) -> None:
        self._of.get(head[: self.KEY], {}).pop(source_id, None)

    def alike(self, head: str) -> list[str]:
        keys = [head[: self.KEY], *(k for k in self._short(head) if k != head[: self.KEY])]
        return [sid for k in keys for sid, other in self._of.get(k, {}).items() if other.startswith(head) or head.startswith(other)]

    def _short(self, head: str) -> Iterable[str]:
        return list(self._of) if len(head) < self.KEY else (head[:n] for n in range(0, self.KEY, 2))


class Shelf:
    """Decides whether a source is new, known, grown or a part of a known one, and stores batches of whole sources."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.sources: dict[str, dict[str, Any]] = {row["source_id"]: row for row in store.rows("known_sources")}
        self.heads, self._stored = Heads(), Heads()
        for source_id, row in self.sources.items():
            self.heads.add(row["head"], source_id)
            self._stored.add(row["head"], source_id)
        self._sizes = {source_id: int(row["bytes"]) for source_id, row in self.sources.items()}
        self.pending: dict[str, Parsed] = {}
        self.opened: dict[str, Source] = {}
        self.dropped: list[str] = []
        self.renamed: dict[str, str] = {}

    def older(self, head: bytes) -> list[int]:
        """Sizes of the sources that begin like this one and were stored before; the readers' threads ask."""
        return [self._sizes[sid] for sid in self._stored.alike(head.hex())]

    def take(self, source: Source, got: Parsed, report: Report) -> None:
        """Keep a source, unless it or a longer one that begins with it is there already; shorter beginnings of it are dropped."""
        new = got.source
        old = self.sources.get(new["source_id"])
        if old is not None and not _in_another_zone(new, old):
            report.unchanged += 1
            self._keep_smaller_path(old, new["path"])
            return
        if old is not None:
            self._forget(new["source_id"])
            report.replaced += 1
        alike = [sid for sid in self.heads.alike(new["head"]) if self.sources[sid]["name_part"] == new["name_part"]]
        if any(self._is_part(got, sid) for sid in alike):
            report.unchanged += 1
            return
        for grown in [sid for sid in alike if self._is_grown(source, got, sid)]:
            self._forget(grown)
            report.replaced += 1
            report.sources = [row for row in report.sources if row["source_id"] != grown]
        self.sources[new["source_id"]] = new
        self.heads.add(new["head"], new["source_id"])
        self.pending[new["source_id"]], self.opened[new["source_id"]] = got, source
        report.sources.append(new)
        if len(self.pending) >= BATCH_FILES or sum(p.height for p in self.pending.values()) >= BATCH_ROWS:
            self.flush()

    def _keep_smaller_path(self, old: dict[str, Any], path: str) -> None:
        if path < old["path"]:
            old["path"] = path
            self.renamed[old["source_id"]] = path

    def _is_grown(self, source: Source, got: Parsed, source_id: str) -> bool:
        """Whether the new source begins with all bytes of a known one."""
        row = self.sources[source_id]
        if not 0 < row["bytes"] < got.source["bytes"]:
            return False
        digest = got.prefixes.get(row["bytes"]) or (_beginning(source, row["bytes"]) if _starts_with(got.source, row) else "no")
        if digest:
            return bool(digest == row["digest"])
        return got.marks(row["lines"]) == self._marks(source_id, row["lines"])

    def _is_part(self, got: Parsed, source_id: str) -> bool:
        """Whether a known, longer source begins with this one: by its bytes where they are still there, else by every row read."""
        row, new = self.sources[source_id], got.source
        if not 0 < new["bytes"] < row["bytes"] or not _starts_with(row, new):
            return False
        known = self.opened.get(source_id) or reopened(row["path"])
        digest = _beginning(known, new["bytes"]) if known else None
        if digest:
            return bool(digest == new["digest"])
        return got.marks(new["lines"]) == self._marks(source_id, new["lines"])

    def _marks(self, source_id: str, before: int) -> list[tuple[Any, ...]]:
        if source_id in self.pending:
            return self.pending[source_id].marks(before)
        events = self.store.rows("source_events", source=source_id)
        rejects = self.store.rows("source_rejects", source=source_id)
        return sorted((e["line_first"], e["code"], e["message"]) for e in events if e["line_first"] < before) + sorted(
            (r["line"], r["reason"]) for r in rejects if r["line"] < before
        )

    def _forget(self, source_id: str) -> None:
        self.heads.drop(self.sources.pop(source_id)["head"], source_id)
        self.opened.pop(source_id, None)
        if self.pending.pop(source_id, None) is None:
            self.dropped.append(source_id)

    def flush(self) -> None:
        """Store what waits, in one transaction."""
        if not (self.pending or self.dropped or self.renamed):
            return
        with self.store.transaction():
            for source_id in self.dropped:
                self.store.drop_source(source_id)
            for source_id, path in self.renamed.items():
                self.store.rename_source(source_id, path)
            self.store.add("sources", [p.source for p in self.pending.values()])
            for parsed in self.pending.values():
                for table, frame in parsed.frames():
                    self.store.extend(table, frame)
            for table in ("coverage", *RECORD_TABLES.values()):
                self.store.add(table, [row for p in self.pending.values() for row in p.rows(table)])
        self.pending, self.dropped, self.renamed = {}, [], {}


def _in_another_zone(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether the user names a zone now that the stamps were not read in; without --tz what was said before holds."""
    return new["zone"] not in ("in_stamp", "utc_assumed", old["zone"])


def _starts_with(long: dict[str, Any], short: dict[str, Any]) -> bool:
    marks = short["marks"]
    return bool(long["head"].startswith(short["head"]) and long["marks"][: len(marks)] == marks)


def _beginning(source: Source, size: int) -> str | None:
    """Digest of the first bytes of a source, read once more; None when they are not there any more."""
    if source.path == "-" or source.path.startswith("-!"):
        return None
    hasher, left = Hasher([size]), size
    try:
        with source.open() as stream:
            while left > 0 and (block := stream.read(min(left, BLOCK))):
                hasher.update(block)
                left -= len(block)
    except (OSError, EOFError):
        return None
    return hasher.prefixes.get(size)
