"""Read sources into the database: scan, date, fold, store. Idempotent; a file's rows are stored whole or not at all.

Several small files share a transaction; an interrupted run leaves whole files and a second run completes it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from os import cpu_count
from threading import local
from typing import Any

import blake3

from parsers import DIALECTS
from parsers.contract import Dialect, HostRecord, HostStateRecord, JobRecord, RankRecord, Record
from parsers.hosts import fold
from triage import coverage, events, rejects
from triage.coverage import Span
from triage.faults import InputFault
from triage.identity import GENERIC
from triage.scanner import BLOCK, Scanned, Scanner, UnknownKind
from triage.sources import Found, Source
from triage.store import Store

RECORD_TABLES: dict[type[Record], str] = {
    JobRecord: "job_records",
    HostStateRecord: "state_records",
    HostRecord: "host_records",
    RankRecord: "rank_records",
}
HOST_DIALECTS = {"ipmi", "fabric", "xid", "nvrm", "nvidia_smi", "pcie", "kernel"}
BATCH_FILES, BATCH_ROWS = 64, 200_000


@dataclass(slots=True)
class Parsed:
    """A source's rows, ready to store."""

    source: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    prefixes: dict[int, str]
    skipped: str = ""


@dataclass(slots=True)
class Report:
    """What an ingest did."""

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
    """How to read: the zone of stamps that name none, families of codes, dialects, block size, threads."""

    families: dict[str, str]
    zone: str | None = None
    dialects: Sequence[Dialect] = DIALECTS
    block: int = BLOCK
    threads: int = 0


class Reader:
    """Scans sources in parallel, one scanner a thread."""

    def __init__(self, options: Options, known: Sequence[tuple[bytes, int]]) -> None:
        self.options, self.known, self._local = options, known, local()

    def _older(self, head: bytes) -> Iterable[int]:
        return [size for begin, size in self.known if begin[: len(head)] == head or head.startswith(begin)]

    def read(self, source: Source) -> Parsed:
        """Scan one source; what cannot be read is an InputFault when the user named it, else `skipped`."""
        scanner = getattr(self._local, "scanner", None) or Scanner(self.options.dialects, self.options.block)
        self._local.scanner = scanner
        span = Span()
        try:
            with source.open() as stream:
                scanned = scanner.scan(stream, source.path.rsplit("/", 1)[-1].rsplit("!", 1)[-1], span, self._older)
        except (OSError, EOFError, UnknownKind, ValueError) as error:
            if source.named:
                raise InputFault(source.path, _reason(error), "name a log, or leave it out") from error
            return Parsed({}, {}, {}, f"{_reason(error)}")
        return parsed(source, scanned, span, self.options)

    def read_all(self, sources: Sequence[Source]) -> Iterator[tuple[Source, Parsed]]:
        """In the order given, a few ahead of the caller."""
        threads = self.options.threads or min(8, cpu_count() or 1)
        with ThreadPoolExecutor(threads) as pool:
            waiting: deque[tuple[Source, Future[Parsed]]] = deque()
            for source in sources:
                waiting.append((source, pool.submit(self.read, source)))
                if len(waiting) > 2 * threads:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return getattr(error, "strerror", None) or text


def parsed(source: Source, scanned: Scanned, span: Span, options: Options) -> Parsed:
    """Rows of one scanned source."""
    part = _name_part(source.path, scanned, span)
    source_id = blake3.blake3(f"{scanned.digest} {part}".encode()).hexdigest(length=16) if part else scanned.digest
    records = [c.record for c in scanned.claims]
    anchor = int((source.mtime or time.time()) * 1e6)
    dated = [ts for ts in span.stamps() if not events.is_yearless(ts)]
    dated += [r.ts for r in records if isinstance(r, events.Event) and r.ts is not None and not events.is_yearless(r.ts)]
    waiting = sorted({ts for ts in span.stamps() if events.is_yearless(ts)})
    shift = dict(zip(waiting, _dated(waiting, anchor, dated), strict=True))
    year_from = events.date(records, anchor, dated)
    tables: dict[str, list[dict[str, Any]]] = {
        "events": events.build(source_id, scanned.claims, options.families),
        "rejects": rejects.build(source_id, scanned.claims),
        "coverage": coverage.build(source_id, span, scanned.claims, options.families, shift),
    }
    for record in records:
        if table := RECORD_TABLES.get(type(record)):
            tables.setdefault(table, []).append(_record_row(source_id, record))
    if year_from == "none" and waiting:
        year_from = "stamp" if dated else "mtime"
    row = _source_row(source, scanned, tables, year_from) | {"source_id": source_id, "digest": scanned.digest, "name_part": part}
    return Parsed(row, tables, scanned.prefixes)


def _name_part(path: str, scanned: Scanned, span: Span) -> str | None:
    """Equal bytes of two hosts or ranks are two sources where nothing but the name tells them apart."""
    name = path.replace("!", "/").rsplit("/", 1)[-1]
    if any(c.dialect == "flight" for c in scanned.claims):
        return name
    has_host = any(host for host, _ in span.seen) or any(isinstance(c.record, events.Event) and c.record.host for c in scanned.claims)
    local = any(family == "kernel" for _, family in span.seen) or any(c.dialect in HOST_DIALECTS for c in scanned.claims)
    if has_host or not local:
        return None
    stem = name.split(".")[0]
    folder = path.replace("!", "/").rsplit("/", 2)[-2] if "/" in path else ""
    return folder if stem.lower() in GENERIC else stem


def _dated(waiting: list[int], anchor: int, dated: Sequence[int]) -> list[int]:
    from parsers.clocks import infer_years

    return infer_years(waiting, anchor, dated) if waiting else []


def _record_row(source_id: str, record: Record) -> dict[str, Any]:
    row = asdict(record) | {"source_id": source_id}  # type: ignore[call-overload]
    if row.get("host"):
        row["host"] = fold(row["host"])
    for name in ("hosts", "excluded", "gpu_serials"):
        if name in row:
            row[name] = [fold(v) if name != "gpu_serials" else v for v in row[name]]
    return row


def _source_row(source: Source, scanned: Scanned, tables: dict[str, list[dict[str, Any]]], year_from: str) -> dict[str, Any]:
    spans = [t for row in tables["coverage"] for t in (row["first"], row["last"]) if t is not None]
    dialects = sorted({c.dialect for c in scanned.claims})
    qualities = {row["ts_quality"] for row in tables["events"]}
    order = ("unknown", "boot_relative", "year_inferred", "exact")
    return {
        "path": source.path,
        "dialects": dialects,
        "bytes": scanned.size,
        "head": scanned.head,
        "marks": scanned.marks,
        "lines": scanned.lines,
        "needle_lines": scanned.needle_lines,
        "events": sum(row["repeats"] for row in tables["events"]),
        "benign": sum(type(c.record).__name__ == "Benign" for c in scanned.claims),
        "rejects": len(tables["rejects"]),
        "first_ts": min(spans, default=None),
        "last_ts": max(spans, default=None),
        "zone": "utc_assumed",
        "clock": next((q for q in order if q in qualities), "none"),
        "year_from": year_from,
        "year_shift": 0,
        "mtime": int(source.mtime * 1e6) if source.mtime else None,
    }


def ingest(store: Store, found: Found, options: Options, progress: Callable[[str, int], None] = lambda _path, _size: None) -> Report:
    """Read every source into the store; raises InputFault for named sources that cannot be read."""
    began = time.perf_counter()
    shelf = Shelf(store)
    report = Report(skipped=list(found.skipped))
    reader = Reader(options, shelf.known())
    for source, got in reader.read_all(found.sources):
        if got.skipped:
            report.skipped.append((source.path, got.skipped))
        else:
            shelf.take(got, report)
        progress(source.path, source.size)
    shelf.flush()
    report.seconds = time.perf_counter() - began
    return report


class Shelf:
    """Decides whether a source is new, known, grown or a part of a known one, and stores batches of whole sources."""

    def __init__(self, store: Store) -> None:
        self.store = store
        rows = store.rows("known_sources")
        self.sources: dict[str, dict[str, Any]] = {row["source_id"]: row for row in rows}
        self.pending: dict[str, Parsed] = {}
        self.dropped: list[str] = []
        self.renamed: dict[str, str] = {}

    def known(self) -> list[tuple[bytes, int]]:
        return [(bytes.fromhex(row["head"]), row["bytes"]) for row in self.sources.values()]

    def take(self, got: Parsed, report: Report) -> None:
        new = got.source
        old = self.sources.get(new["source_id"])
        if old is not None:
            report.unchanged += 1
            self._keep_smaller_path(old, new["path"])
            return
        if self._is_part_of_known(got):
            report.unchanged += 1
            return
        for grown in self._beginnings_of(got):
            self._forget(grown)
            report.replaced += 1
            report.sources = [row for row in report.sources if row["source_id"] != grown]
        self.sources[new["source_id"]] = new
        self.pending[new["source_id"]] = got
        report.sources.append(new)
        if len(self.pending) >= BATCH_FILES or sum(len(p.tables["events"]) for p in self.pending.values()) >= BATCH_ROWS:
            self.flush()

    def _keep_smaller_path(self, old: dict[str, Any], path: str) -> None:
        if path < old["path"]:
            old["path"] = path
            self.renamed[old["source_id"]] = path

    def _beginnings_of(self, got: Parsed) -> list[str]:
        """Known sources all of whose bytes the new one begins with."""
        new = got.source
        return [
            sid
            for sid, row in self.sources.items()
            if 0 < row["bytes"] < new["bytes"] and new["head"].startswith(row["head"]) and self._same_start(sid, row, got)
        ]

    def _same_start(self, source_id: str, row: dict[str, Any], got: Parsed) -> bool:
        if row["name_part"] != got.source["name_part"]:
            return False
        digest = got.prefixes.get(row["bytes"])
        return digest == row["digest"] if digest else _begins_alike(self._content(source_id), got.tables, row["lines"])

    def _is_part_of_known(self, got: Parsed) -> bool:
        """Whether a known, longer source begins with this one: judged by its head, its marks and every row read from it."""
        new = got.source
        return bool(new["bytes"]) and any(
            row["bytes"] > new["bytes"] and _starts_with(row, new) and _begins_alike(got.tables, self._content(sid), new["lines"])
            for sid, row in self.sources.items()
        )

    def _content(self, source_id: str) -> dict[str, list[dict[str, Any]]]:
        if source_id in self.pending:
            return self.pending[source_id].tables
        return {
            "events": self.store.rows("source_events", source=source_id),
            "rejects": self.store.rows("source_rejects", source=source_id),
        }

    def _forget(self, source_id: str) -> None:
        del self.sources[source_id]
        if self.pending.pop(source_id, None) is None:
            self.dropped.append(source_id)

    def flush(self) -> None:
        if not (self.pending or self.dropped or self.renamed):
            return
        with self.store.transaction():
            for source_id in self.dropped:
                self.store.drop_source(source_id)
            for source_id, path in self.renamed.items():
                self.store.rename_source(source_id, path)
            self.store.add("sources", [p.source for p in self.pending.values()])
            for table in ("events", "rejects", "coverage", *RECORD_TABLES.values()):
                self.store.add(table, [row for p in self.pending.values() for row in p.tables.get(table, ())])
        self.pending, self.dropped, self.renamed = {}, [], {}


def _starts_with(long: dict[str, Any], short: dict[str, Any]) -> bool:
    marks = short["marks"]
    return bool(long["name_part"] == short["name_part"] and long["head"].startswith(short["head"]) and long["marks"][: len(marks)] == marks)


def _begins_alike(short: dict[str, list[dict[str, Any]]], long: dict[str, list[dict[str, Any]]], lines: int) -> bool:
    """Whether the rows of the longer source, up to the shorter one's last line, are the shorter one's rows."""

    def marks(tables: dict[str, list[dict[str, Any]]]) -> list[tuple[object, ...]]:
        rows = [(e["line_first"], e["code"], e["message"]) for e in tables["events"] if e["line_first"] < lines]
        return sorted(rows) + sorted((r["line"], r["reason"]) for r in tables["rejects"] if r["line"] < lines)

    return marks(short) == marks(long)
