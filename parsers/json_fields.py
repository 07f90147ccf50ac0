"""Reading JSON of unknown shape: what is not there, or of another kind, is empty."""

from __future__ import annotations

from collections.abc import Mapping

from parsers.contract import Event, Quality, Record

Fields = Mapping[str, object]


def fields(value: object) -> Fields:
    """`value` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Fields]:
    """The objects of a list; none where `value` is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def text(value: object) -> str | None:
    """`value` where it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


def settled(record: Record) -> Record:
    """Nothing frames a document's events: what a line's frame would tell is told here."""
    if isinstance(record, Event):
        record.line_last = record.line_last or record.line_first
        record.ts_quality = Quality.UNKNOWN if record.ts is None else Quality.EXACT
    return record
