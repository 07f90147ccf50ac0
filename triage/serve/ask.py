"""What a visitor may ask of a page: known parameters, bounded, each fault one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from triage.faults import Fault
from triage.moments import iso, micros, moment, parse_time

ROWS, MOST_ROWS = 50, 200
LONGEST = 4096
BEGINNING = moment(parse_time("0001-01-01T00:00:00Z"))
"""Stands for no time: such rows come last."""


class Refused(Fault):
    """A parameter that a page cannot take."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Filters (None: any), how many rows, and after which row to go on."""

    filters: Mapping[str, str | None]
    rows: int = ROWS
    after: str | None = None

    @property
    def values(self) -> dict[str, Any]:
        """For a statement that is ordered by a key alone; one row more tells whether there is a next page."""
        return {**self.filters, "after": self.after, "most": self.rows + 1}

    @property
    def timed(self) -> dict[str, Any]:
        """For a statement that is ordered by time, newest first, and then by key."""
        at, key = (None, None) if self.after is None else _place(self.after)
        return {**self.filters, "at": at, "after": key, "most": self.rows + 1}

    def next_page(self, key: str) -> str:
        """The query of the page that follows the row with this key."""
        given = {name: value for name, value in self.filters.items() if value is not None}
        return urlencode(given | ({"rows": str(self.rows)} if self.rows != ROWS else {}) | {"after": key})


def _place(after: str) -> tuple[datetime, str]:
    stamp, mark, key = after.partition("~")
    try:
        when = moment(parse_time(stamp))
    except (Fault, OverflowError, ValueError) as error:
        raise Refused("after: no place in this list; follow its links") from error
    if not mark:
        raise Refused("after: no place in this list; follow its links")
    return when, key


def place_of(when: datetime | None, key: str) -> str:
    """The mark of a row in a list by time, as `after` takes it."""
    return f"{iso(micros(when or BEGINNING))}~{key}"


def asked(query: QueryParams, filters: Iterable[str] = ()) -> Asked:
    """The parameters of a list; raises Refused on one that is unknown, repeated, too long or no number."""
    known = (*filters, "rows", "after")
    given: dict[str, str] = {}
    for name, value in query.multi_items():
        if name not in known:
            raise Refused(f"{name}: no such parameter here; known are {', '.join(known)}")
        if name in given:
            raise Refused(f"{name}: given twice")
        if len(value) > LONGEST or "\0" in value:
            raise Refused(f"{name}: too long, or no text")
        given[name] = value
    return Asked({name: given.get(name, "").strip() or None for name in filters}, _rows(given.get("rows")), given.get("after") or None)


def _rows(text: str | None) -> int:
    if text is None:
        return ROWS
    if not (text.isascii() and text.isdigit()) or len(text) > 4 or not 1 <= int(text) <= MOST_ROWS:
        raise Refused(f"rows: a number from 1 to {MOST_ROWS}, please")
    return int(text)
