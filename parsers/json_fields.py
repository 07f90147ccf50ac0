"""Reading JSON of unknown shape: what is not there, or of another kind, is empty."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from parsers.contract import Event, Quality, Record

Fields = Mapping[str, object]
# \ud83d, as JSON writes a half of a character outside of the first plane
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def load(data: str | bytes) -> object:
    """The value of a JSON text; a half of a surrogate pair without its other half, which no table can hold, becomes `?`.

    Raises ValueError and RecursionError as json does.
    """
    text = data.decode("utf-8", "replace").removeprefix("\ufeff") if isinstance(data, bytes) else data
    value: object = json.loads(text)
    if _HALF.search(text):
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


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
