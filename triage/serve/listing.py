"""Pages that list things, a bounded page at a time, and the search over them."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams

from triage.serve.ask import Asked, Refused, asked, place_of
from triage.serve.reader import Reader
from triage.serve.view import bars
from triage.store import Store

Content = tuple[str, dict[str, Any]]
INCIDENT_FILTERS = ("class", "action", "layer", "confidence", "kind", "host")
JOB_FILTERS = ("state", "user", "partition", "named", "host")
BURST_FILTERS = ("host", "code", "role", "job_id")


def overview(reader: Reader, store: Store, query: QueryParams) -> Content:
    """What the database holds, the newest incidents, the lemons."""
    asked(query)
    totals = reader.rows(store, "totals")[0]
    newest = Asked(dict.fromkeys(INCIDENT_FILTERS), 9).timed
    worst = Asked({"lemon": "yes"}, 7).values
    titles = {name: row.title for name, row in reader.book.classes.items()}
    return "overview", {
        "totals": totals,
        "incidents": reader.rows(store, "incidents", **newest),
        "lemons": reader.rows(store, "lemons", **worst),
        "days": bars(days := reader.rows(store, "days"), max((row["day"] for row in days), default=None)),
        "classes": [{**row, "title": titles.get(row["class"], "")} for row in reader.rows(store, "classes")],
    }


def _cut(rows: list[dict[str, Any]], wanted: Asked, timed: str | None, key: str = "key") -> dict[str, Any]:
    """The rows of this page and the query of the next one."""
    shown, more = rows[: wanted.rows], len(rows) > wanted.rows
    last = shown[-1] if more else None
    mark = None if last is None else place_of(last[timed], last[key]) if timed else str(last[key])
    return {"rows": shown, "next": wanted.next_page(mark) if mark is not None else None, "asked": wanted}


def incidents(reader: Reader, store: Store, query: QueryParams) -> Content:
    """Newest first."""
    wanted = asked(query, INCIDENT_FILTERS)
    return "incidents", _cut(reader.rows(store, "incidents", **wanted.timed), wanted, "start")


def hosts(reader: Reader, store: Store, query: QueryParams) -> Content:
    """By name."""
    wanted = asked(query, ("named", "rack", "leaf"))
    return "hosts", _cut(reader.rows(store, "hosts", **wanted.values), wanted, None, "host")


def lemons(reader: Reader, store: Store, query: QueryParams) -> Content:
    """Worst first."""
    wanted = asked(query, ("lemon",))
    if wanted.filters["lemon"] not in (None, "yes", "no"):
        raise Refused("lemon: yes or no, please")
    if wanted.after is not None and not (wanted.after.isascii() and wanted.after.isdigit() and len(wanted.after) < 10):
        raise Refused("after: no place in this list; follow its links")
    return "lemons", _cut(reader.rows(store, "lemons", **wanted.values), wanted, None, "place")


def jobs(reader: Reader, store: Store, query: QueryParams) -> Content:
    """Attempts, newest first."""
    wanted = asked(query, JOB_FILTERS)
    return "jobs", _cut(reader.rows(store, "jobs", **wanted.timed), wanted, "start")


def bursts(reader: Reader, store: Store, query: QueryParams) -> Content:
    """Newest first."""
    wanted = asked(query, BURST_FILTERS)
    return "bursts", _cut(reader.rows(store, "bursts", **wanted.timed), wanted, "first")


def codes(reader: Reader, store: Store, query: QueryParams) -> Content:
    """By name."""
    wanted = asked(query, ("role",))
    return "codes", _cut(reader.rows(store, "codes", **wanted.values), wanted, None, "code")


def sources(reader: Reader, store: Store, query: QueryParams) -> Content:
    """What was read, by path."""
    wanted = asked(query, ("host",))
    return "sources", _cut(reader.rows(store, "sources", **wanted.values), wanted, None)


def search(reader: Reader, store: Store, query: QueryParams) -> Content:
    """Hosts, jobs, codes and incidents whose name holds a text, exact ones first."""
    text = asked(query, ("q",)).filters["q"]
    kinds = ("hosts", "jobs", "codes", "incidents")
    found = {kind: reader.rows(store, f"find_{kind}", text=text) if text else [] for kind in kinds}
    return "search", {"text": text, "found": found, "nothing": not any(found.values())}
