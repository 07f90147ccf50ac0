"""All that is taken from one source while it is scanned, and the rows that it becomes once it was seen to its end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import blake3

from parsers import clocks
from parsers.contract import Benign, Event, HostRecord, HostStateRecord, JobRecord, Line, RankRecord, Record, Reject
from parsers.hosts import fold
from triage import coverage, dating
from triage.coverage import Part, Span
from triage.events import Ledger, Rows
from triage.identity import GENERIC
from triage.rejects import Refused
from triage.repeat import Repeat
from triage.scanner import Scanned
from triage.sources import Source, in_text

if TYPE_CHECKING:
    import polars as pl

RECORD_TABLES: dict[type[Record], str] = {
    JobRecord: "job_records",
    HostStateRecord: "state_records",
    HostRecord: "host_records",
    RankRecord: "rank_records",
}
HOST_DIALECTS = {"ipmi", "fabric", "xid", "nvrm", "nvidia_smi", "pcie", "kernel"}
TIMES: dict[type[Record], tuple[str, ...]] = {JobRecord: ("submit", "start", "end"), HostStateRecord: ("ts", "end")}
Tables = dict[str, list[dict[str, Any]]]
CLOCKS = ("unknown", "boot_relative", "year_inferred", "exact")


@dataclass(slots=True)
class Parsed:
    """A source's rows, ready to store. `skipped` says why there are none, `cut` why they end before the source does."""

    source: dict[str, Any]
    tables: Tables = field(default_factory=dict)
    events: Rows | None = None
    rejects: Refused | None = None
    prefixes: dict[int, str] = field(default_factory=dict)
    skipped: str = ""
    cut: str = ""

    @property
    def height(self) -> int:
        """Rows that may be many."""
        return len(self.events or ()) + len(self.rejects or ())

    def frames(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """The rows that may be many, by table."""
        if self.events is not None and self.rejects is not None:
            yield from (("events", frame) for frame in self.events.frames())
            yield from (("rejects", frame) for frame in self.rejects.frames(self.source["source_id"]))

    def rows(self, table: str) -> Iterable[dict[str, Any]]:
        """The rows of the other tables, which are few."""
        return self.tables.get(table, ())

    def marks(self, before: int) -> list[tuple[Any, ...]]:
        """What was read from the lines before one."""
        if self.events is None or self.rejects is None:
            return []
        return self.events.marks(before) + self.rejects.marks(before)


@dataclass(slots=True)
class Intake:
    """The scanner's sink for one source."""

    families: dict[str, str]
    span: Span = field(default_factory=Span)
    ledger: Ledger = field(init=False)
    refused: Refused = field(default_factory=Refused)
    records: list[Record] = field(default_factory=list)
    dialects: set[str] = field(default_factory=set)
    benign: int = 0
    _undated: list[tuple[Record, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.families)

    def see(self, line: Line, place: int) -> None:
        self.span.see(line, place)

    def glance(self, region: bytes, place: int) -> None:
        self.span.glance(region, place)

    def take(self, dialect: str, record: Record, place: int) -> None:
        self.dialects.add(dialect)
        if isinstance(record, Event):
            self.ledger.take(record, place)
        elif isinstance(record, Reject):
            self.refused.take(dialect, record)
        elif isinstance(record, Benign):
            self.benign += 1
        else:
            self.records.append(record)
            for name in TIMES.get(type(record), ()):
                run = self.ledger.runs.of(getattr(record, name), place)
                if run != dating.DATED:
                    self._undated.append((record, name, run))

    def again(self, repeat: Repeat, number: int, ts: int | None, boot_s: float | None, place: int) -> None:
        self.benign += repeat.benign
        self.ledger.again(repeat, number, ts, boot_s, place)

    def finish(self, source: Source, scanned: Scanned, zone: clocks.Zone | None) -> Parsed:
        """The rows."""
        self.span.finish()
        self.refused.finish()
        part = self._name_part(source.path)
        digest = f"{scanned.digest} {part}".encode()
        source_id = blake3.blake3(digest).hexdigest(length=16) if part else scanned.digest
        dated = self.span.dated.stamps() + self.ledger.dated.stamps()
        anchor = int((source.mtime or time.time()) * 1e6)
        by_sample, by_record = dating.moves((self.span.runs, self.ledger.runs), anchor, dated)
        for record, name, run in self._undated:
            setattr(record, name, dating.moved(getattr(record, name), run, by_record, zone))
        rows = self.ledger.finish(source_id, by_record, zone)
        tables = self._tables(source_id, by_sample, by_record, zone)
        year_from = ("stamp" if dated else "mtime") if by_sample or by_record else "none"
        row = {"source_id": source_id, "digest": scanned.digest, "name_part": part, "year_from": year_from}
        row |= self._row(source, scanned, tables["coverage"], zone)
        return Parsed(row, tables, rows, self.refused, scanned.prefixes, cut=scanned.cut)

    def _tables(self, source_id: str, by_sample: list[int], by_record: list[int], zone: clocks.Zone | None) -> Tables:
        samples, events = Part(self.span.seen, by_sample), Part(self.ledger.stretches, by_record)
        tables: Tables = {"coverage": coverage.build(source_id, samples, events, self._own_family(), zone)}
        for record in self.records:
            if table := RECORD_TABLES.get(type(record)):
                tables.setdefault(table, []).append(_record_row(source_id, record))
        return tables

    def _own_family(self) -> str | None:
        """The kind of log that most of the records are of."""
        votes = dict(self.ledger.votes)
        if acts := sum(isinstance(record, JobRecord | HostStateRecord) for record in self.records):
            votes["scheduler"] = votes.get("scheduler", 0) + acts
        return max(sorted(votes), key=lambda family: votes[family]) if votes else None

    def _name_part(self, path: str) -> str | None:
        """Equal bytes of two hosts or ranks are two sources where nothing but the name tells them apart."""
        parts = path.replace("!", "/").rsplit("/", 2)
        if "flight" in self.dialects:
            return parts[-1]
        if self.span.hosts or self.ledger.hosted or not (self.span.kernel or self.dialects & HOST_DIALECTS):
            return None
        stem = parts[-1].split(".")[0]
        if stem.lower() not in GENERIC:
            return stem
        return parts[-2] if len(parts) > 1 else ""

    def _row(self, source: Source, scanned: Scanned, covered: list[dict[str, Any]], zone: clocks.Zone | None) -> dict[str, Any]:
        spans = [t for row in covered for t in (row["first"], row["last"]) if t is not None]
        in_stamp = self.span.zoned > 0 and not self.span.unzoned
        return {
            "path": in_text(source.path),
            "dialects": sorted(self.dialects),
            "bytes": scanned.size,
            "head": scanned.head,
            "marks": scanned.marks,
            "lines": scanned.lines,
            "needle_lines": scanned.needle_lines,
            "events": self.ledger.lines,
            "benign": self.benign,
            "rejects": len(self.refused),
            "first_ts": min(spans, default=None),
            "last_ts": max(spans, default=None),
            "zone": "in_stamp" if in_stamp else str(zone) if zone else "utc_assumed",
            "clock": next((q for q in CLOCKS if q in self.ledger.qualities), "none"),
            "year_shift": 0,
            "mtime": int(source.mtime * 1e6) if source.mtime else None,
        }


def _record_row(source_id: str, record: Record) -> dict[str, Any]:
    row = asdict(record) | {"source_id": source_id}
    if row.get("host"):
        row["host"] = fold(row["host"])
    for name in ("hosts", "excluded", "gpu_serials"):
        if name in row:
            row[name] = [fold(v) if name != "gpu_serials" else v for v in row[name]]
    return row
