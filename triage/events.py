"""Rows of `events`: claims of one source, dated, numbered, with floods folded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from parsers import clocks
from parsers.contract import Event, HostStateRecord, JobRecord, Record
from parsers.hosts import fold
from triage.scanner import Claim

YEARLESS_END = 94_694_400_000_000  # 1973-01-01: year-less stamps lie in 1972
FLOOD_GAP = 1_000_000  # microseconds between identical lines that are folded into one row
_SHOWN = {"line_first", "line_last", "ts", "boot_s", "attrs"}
_KEYS = [f.name for f in fields(Event) if f.name not in _SHOWN]
_TIMES = {Event: ("ts",), JobRecord: ("submit", "start", "end"), HostStateRecord: ("ts", "end")}


def is_yearless(ts: int | None) -> bool:
    """Whether a stamp still waits for its year."""
    return ts is not None and 63_072_000_000_000 <= ts < YEARLESS_END


def date(records: Sequence[Record], anchor: int, dated: Sequence[int]) -> str:
    """Give year-less stamps of a file their year, in place; says where the year came from (stamp | mtime | none).

    `anchor` is the latest moment at which the file can end (its mtime, microseconds), `dated` are stamps of the file that have a year.
    """
    slots = [(r, name) for r in records for name in _TIMES.get(type(r), ()) if is_yearless(getattr(r, name))]
    if not slots:
        return "none"
    years = clocks.infer_years([getattr(r, name) for r, name in slots], anchor, dated)
    for (record, name), ts in zip(slots, years, strict=True):
        setattr(record, name, ts)
    return "stamp" if dated else "mtime"


def folded(events: Iterable[Event]) -> list[tuple[Event, int, int | None]]:
    """(event, repeats, last ts): identical consecutive events within a second of each other are one row."""
    rows: list[tuple[Event, int, int | None]] = []
    previous: tuple[object, ...] = ()
    for event in events:
        key = tuple(getattr(event, name) for name in _KEYS)
        if rows and key == previous and _close(rows[-1][2], event.ts):
            first, repeats, _ = rows[-1]
            first.line_last = max(first.line_last, event.line_last)
            rows[-1] = (first, repeats + 1, event.ts)
        else:
            rows.append((event, 1, event.ts))
        previous = key
    return rows


def _close(before: int | None, after: int | None) -> bool:
    return before is None and after is None if before is None or after is None else 0 <= after - before <= FLOOD_GAP


def build(source_id: str, claims: Sequence[Claim], families: dict[str, str]) -> list[dict[str, Any]]:
    """One dict per row of `events`; `families` maps a code or its prefix to the family."""
    rows = []
    count: dict[int, int] = {}
    for event, repeats, last in folded(c.record for c in claims if isinstance(c.record, Event)):
        place = count[event.line_first] = count.get(event.line_first, 0) + 1
        rows.append(_row(source_id, event, repeats, last, place, families))
    return _placed(rows)


def _row(source_id: str, event: Event, repeats: int, last: int | None, place: int, families: dict[str, str]) -> dict[str, Any]:
    row = {f.name: getattr(event, f.name) for f in fields(Event) if f.name != "attrs"}
    prefix = event.code.split(".")[0]
    row |= {
        "event_id": f"{source_id}:{event.line_first}:{place}",
        "source_id": source_id,
        "ts_last": last,
        "ts_quality": str(event.ts_quality),
        "host": fold(event.host) if event.host else None,
        "host_from": "line" if event.host else None,
        "job_from": "text" if event.job_id else None,
        "attempt": None,
        "family": families.get(event.code) or families.get(prefix, prefix),
        "repeats": repeats,
        "message": event.message[:2000],
        "attrs": json.dumps(event.attrs, default=str, sort_keys=True) if event.attrs else None,
    }
    return row


def _placed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fill `ts_near`: the row's own time, else the nearest earlier stamp in the file, else the nearest later one."""
    seen: int | None = None
    for row in rows:
        seen = row["ts"] if row["ts"] is not None else seen
        row["ts_near"] = seen
    later: int | None = None
    for row in reversed(rows):
        later = row["ts"] if row["ts"] is not None else later
        if row["ts_near"] is None:
            row["ts_near"] = later
    return rows
