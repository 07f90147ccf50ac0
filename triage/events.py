"""Rows of `events`: what one source says, numbered, with floods folded; dated when the whole source was seen.

Rows are made as they come and kept as compact frames, past a few of them on disk, so that memory does not grow with a source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from parsers import clocks
from parsers.contract import Event, Quality
from parsers.hosts import fold
from triage.coverage import Stretches, coverage_family
from triage.dating import DATED, Runs, Thinned, all_moved
from triage.repeat import Repeat
from triage.schema import TABLES
from triage.spool import Spool

if TYPE_CHECKING:
    import polars as pl

FLOOD_GAP = 1_000_000
"""Microseconds between identical lines that are folded into one row."""
FLOOD_ROWS, FLOOD_REACH = 16, 5_000_000
"""An event that made so many rows is folded over other events between and over 5 s, the gap that ends a burst."""
CHUNK, OPEN = 4096, 4096
MESSAGE = 2000
_SHOWN = {"line_first", "line_last", "ts", "boot_s", "attrs"}
_key = attrgetter(*(f.name for f in fields(Event) if f.name not in _SHOWN))
_COPIED = [f.name for f in fields(Event) if f.name not in {"attrs", "message", "host", "ts_quality"}]
Key = tuple[object, ...]


class Row:
    """An event and the identical ones that follow it. `nth` counts the rows that its key has made."""

    __slots__ = ("event", "key", "last", "nth", "place", "repeats", "run")

    def __init__(self, event: Event, key: Key, nth: int, run: int, place: int) -> None:
        self.event, self.key, self.nth, self.run, self.place = event, key, nth, run, place
        self.repeats, self.last = 1, event.ts


@dataclass(slots=True)
class Rows:
    """All rows of one source. `by` and `zone` are known once the source was read to its end."""

    source_id: str
    spool: Spool
    by: list[int]
    zone: clocks.Zone | None
    first: tuple[int | None, int]

    def __len__(self) -> int:
        return self.spool.height

    def frames(self) -> Iterator[pl.DataFrame]:
        """The rows as the table has them."""
        import polars as pl

        wanted = TABLES["events"].dtypes()
        for frame in self.spool:
            times = {
                name: pl.Series(name, all_moved(frame[name], frame[run], self.by, self.zone), dtype=pl.Int64).cast(pl.Datetime("us"))
                for name, run in (("ts", "run"), ("ts_last", "run"), ("ts_near", "run_near"))
            }
            if self.first[0] is not None:
                earliest = all_moved([self.first[0]], [self.first[1]], self.by, self.zone)
                times["ts_near"] = times["ts_near"].fill_null(pl.Series(earliest, dtype=pl.Int64).cast(pl.Datetime("us"))[0])
            made = frame.with_columns(*times.values(), pl.lit(self.source_id).alias("source_id"))
            made = made.with_columns(pl.concat_str("source_id", pl.lit(":"), "line_first", pl.lit(":"), "place").alias("event_id"))
            yield made.select(pl.lit(None, kind).alias(name) if name not in made.columns else pl.col(name) for name, kind in wanted.items())

    def marks(self, before: int) -> list[tuple[Any, ...]]:
        """(line, code, message) of the rows that begin before a line, sorted."""
        found: list[tuple[Any, ...]] = []
        for frame in self.spool:
            found += frame.filter(frame["line_first"] < before).select("line_first", "code", "message").rows()
        return sorted(found)


@dataclass(slots=True)
class Ledger:
    """Takes the events of one source in file order."""

    families: dict[str, str]
    runs: Runs = field(default_factory=Runs)
    dated: Thinned = field(default_factory=Thinned)
    stretches: Stretches = field(default_factory=Stretches)
    spool: Spool = field(default_factory=Spool)
    lines: int = 0
    hosted: bool = False
    qualities: set[str] = field(default_factory=set)
    votes: dict[str, int] = field(default_factory=dict)
    _rows: list[Row] = field(default_factory=list)
    _open: dict[Key, Row] = field(default_factory=dict)
    _count: dict[int, int] = field(default_factory=dict)
    _near: tuple[int | None, int] = (None, DATED)
    _first: tuple[int | None, int] = (None, DATED)

    def take(self, event: Event, place: int) -> None:
        """One event, given away."""
        key = _key(event)
        if not self._fold(key, event.ts, event.line_last):
            self._add(event, key, place)

    def again(self, repeat: Repeat, number: int, ts: int | None, boot_s: float | None, place: int) -> None:
        """The events of a line that repeats an earlier one."""
        if repeat.memo is None:
            events = [record for _, record in repeat.claims if isinstance(record, Event)]
            repeat.memo = [_key(event) for event in events]
        keys = repeat.memo
        assert isinstance(keys, list)
        if len(keys) == 1 and self._fold(keys[0], ts, number):
            return
        for _, record in repeat.records(number, ts, boot_s):
            if isinstance(record, Event):
                self.take(record, place)

    def finish(self, source_id: str, by: list[int], zone: clocks.Zone | None) -> Rows:
        """The rows; `by` moves each run of year-less stamps to its year."""
        self._flush()
        return Rows(source_id, self.spool, by, zone, self._first)

    def _fold(self, key: Key, ts: int | None, line_last: int) -> bool:
        row = self._open.get(key)
        if row is None or not self._fits(row, ts):
            return False
        self.lines += 1
        row.repeats += 1
        if line_last > row.event.line_last:
            row.event.line_last = line_last
        if ts is not None and row.last is not None and row.event.ts is not None:
            if ts > row.last:
                row.last = ts
            elif ts < row.event.ts:
                row.event.ts = ts
        return True

    def _fits(self, row: Row, ts: int | None) -> bool:
        """Whether an identical event at `ts` is part of the row: the next one within a second, of a flood any within 5 s."""
        flood = row.nth > FLOOD_ROWS
        if not flood and row is not self._rows[-1]:
            return False
        if row.last is None or ts is None:
            return row.last is None and ts is None
        gap = ts - row.last
        return -FLOOD_REACH <= gap <= FLOOD_REACH if flood else 0 <= gap <= FLOOD_GAP

    def _add(self, event: Event, key: Key, place: int) -> None:
        before = self._open.get(key)
        run = self.runs.of(event.ts, place)
        row = Row(event, key, before.nth + 1 if before else 1, run, self._number(event.line_first))
        self._rows.append(row)
        if len(self._open) >= OPEN:
            self._open.clear()
        self._open[key] = row
        self.lines += 1
        self.hosted = self.hosted or bool(event.host)
        self.qualities.add(str(event.ts_quality))
        if event.ts is not None and run == DATED:
            self.dated.add(event.ts)
        if len(self._rows) >= CHUNK:
            self._flush()

    def _number(self, line: int) -> int:
        """How many events of a line there are now; lines far behind are forgotten."""
        if len(self._count) >= 2 * OPEN:
            self._count = dict(list(self._count.items())[OPEN:])
        self._count[line] = count = self._count.get(line, 0) + 1
        return count

    def _flush(self) -> None:
        """Turn the open rows into a frame; what comes after is not folded into them."""
        if not self._rows:
            return
        import polars as pl

        for row in self._rows:
            self._cover(row)
        kinds = TABLES["events"].dtypes() | {name: pl.Int64() for name in ("ts", "ts_last", "ts_near", "run", "run_near", "place")}
        columns = self._columns()
        self.spool.add(pl.DataFrame([pl.Series(name, values, dtype=kinds[name], strict=False) for name, values in columns.items()]))
        self._rows, self._open = [], {}

    def _cover(self, row: Row) -> None:
        event = row.event
        kind = coverage_family(event.code, self.families)
        self.votes[kind] = self.votes.get(kind, 0) + row.repeats
        if event.ts is None or event.ts_quality not in (Quality.EXACT, Quality.YEAR_INFERRED):
            return
        key = (fold(event.host) if event.host else None, kind)
        self.stretches.add(key, event.ts, row.run, row.repeats)
        if row.last is not None and row.last != event.ts:
            self.stretches.add(key, row.last, row.run, 0)

    def _columns(self) -> dict[str, list[Any]]:
        rows, events = self._rows, [row.event for row in self._rows]
        near = self._nearest()
        return {name: [getattr(e, name) for e in events] for name in _COPIED} | {
            "ts_last": [r.last for r in rows],
            "ts_near": [ts for ts, _ in near],
            "run": [r.run for r in rows],
            "run_near": [run for _, run in near],
            "place": [r.place for r in rows],
            "ts_quality": [str(e.ts_quality) for e in events],
            "host": [fold(e.host) if e.host else None for e in events],
            "host_from": ["line" if e.host else None for e in events],
            "job_from": ["text" if e.job_id else None for e in events],
            "family": [self._family(e.code) for e in events],
            "message": [e.message[:MESSAGE] for e in events],
            "repeats": [r.repeats for r in rows],
            "attrs": [json.dumps(e.attrs, default=str, sort_keys=True) if e.attrs else None for e in events],
        }

    def _nearest(self) -> list[tuple[int | None, int]]:
        """For each row its own time, else the nearest earlier one; rows before the first time get that one in the end."""
        found = []
        for row in self._rows:
            if row.event.ts is not None:
                self._near = (row.event.ts, row.run)
                if self._first[0] is None:
                    self._first = self._near
            found.append(self._near)
        return found

    def _family(self, code: str) -> str:
        prefix = code.split(".")[0]
        return self.families.get(code) or self.families.get(prefix, prefix)
