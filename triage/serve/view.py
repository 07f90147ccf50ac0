"""From rows to HTML: templates that escape everything, links that quote everything, and drawings without a script."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from triage.causality import STAGES
from triage.escape import cell, clean
from triage.moments import span

LONGEST, ENTIRE = 2000, 100_000
KINDS = ("incidents", "reports", "hosts", "jobs", "bursts", "codes")
REPORTS_OWN = ("page.css", "page.js", "echarts-6.1.0.min.js")
STYLES = ("page.css", "site.css", "icon.svg")
NAV = (
    ("/", "Overview"),
    ("/incidents", "Incidents"),
    ("/hosts", "Hosts"),
    ("/lemons", "Lemons"),
    ("/jobs", "Jobs"),
    ("/bursts", "Bursts"),
    ("/codes", "Codes"),
    ("/sources", "Sources"),
)
LETTERS = {part: part[0] for part in ("root", "cascade", "precursor", "operator", "symptom", "outcome", "teardown", "fact", "recovery")}
LETTERS |= {"root": "R", "operator": "O"}
MOST_LANES, LANE, LEFT, WIDE = 14, 26, 170, 1000


@cache
def text_of(name: str) -> str:
    """A file of ours: of the report, or of the site."""
    folder = "layouts" if name in REPORTS_OWN else "layouts/serve"
    return files("triage").joinpath(*folder.split("/"), name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Autoescape for everything; whatever is printed is also rid of control characters."""
    made = Environment(
        loader=FunctionLoader(text_of), autoescape=True, undefined=StrictUndefined, finalize=_final, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {
        "cell": lambda text: "" if text is None else cell(text),
        "words": _words,
        "stamp": stamp,
        "day": day,
        "since": since,
        "number": number,
        "shell": quoted,
        "whole": escape,
        "entire": lambda text: escape(clean(text, ENTIRE)),
    }
    made.globals |= {
        "link": link,
        "query": query,
        "known_role": lambda role: role if role in (*STAGES, "culprit", "suspect", "victim") else "unknown",
    }
    made.globals |= {"nav": NAV, "since": since}
    return made


def page(template: str, **values: Any) -> str:
    """A page of the site."""
    return environment().get_template(f"{template}.html.j2").render(**values)


def _final(value: Any) -> Any:
    if value is None:
        return ""
    return clean(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


def _words(text: object) -> str:
    return "" if text is None else str(text).replace("_", " ")


def stamp(when: datetime | None) -> str:
    """2026-03-04 05:06:07 for a reader; the zone stands in the head of its column."""
    return "no time" if when is None else when.isoformat(sep=" ", timespec="seconds")


def day(when: datetime | None) -> str:
    """2026-03-04."""
    return "" if when is None else when.date().isoformat()


def since(start: datetime | None, end: datetime | None) -> str:
    """How long something lasted: 11 min, 2.5 h."""
    return "" if start is None or end is None else span(max(0.0, (end - start).total_seconds()))


def number(value: float | None, places: int = 0) -> str:
    """12,345.6; nothing for what is not known."""
    return "" if value is None else f"{value:,.{places}f}"


def quoted(text: object) -> str:
    """A word that a shell takes as it is."""
    return shlex.quote(str(text))


def link(kind: str, name: object) -> Markup:
    """The one address of a thing; whatever its name holds stays one part of the path, and no part of it is cut."""
    if kind not in KINDS:
        raise ValueError(kind)
    return escape(f"/{kind}/{quote(str(name), safe='')}")


def query(path: str, **values: object) -> Markup:
    """A list with filters."""
    given = {name.rstrip("_"): str(value) for name, value in values.items() if value is not None}
    return escape(f"{path}?{urlencode(given)}" if given else path)


def bars(rows: Sequence[Mapping[str, Any]], until: datetime | None, days: int = 60) -> dict[str, Any] | None:
    """Counts a day as bars of an SVG drawing, the last `days` days to `until`; rows hold day and n. None where nothing is to be drawn."""
    counts = {row["day"].date() if isinstance(row["day"], datetime) else row["day"]: row["n"] for row in rows}
    if until is None or not counts:
        return None
    last = max(until.date(), *counts)
    dates = [last - timedelta(days=days - 1 - n) for n in range(days)]
    most = max(counts.get(date, 0) for date in dates)
    if not most:
        return None
    width = WIDE / days
    drawn = [
        {
            "x": round(n * width + 1, 1),
            "width": round(width - 2, 1),
            "height": round(max(3, 80 * counts[d] / most), 1),
            "day": d.isoformat(),
            "n": counts[d],
        }
        for n, d in enumerate(dates)
        if counts.get(d)
    ]
    return {"bars": drawn, "from": dates[0].isoformat(), "to": dates[-1].isoformat(), "most": most, "total": sum(b["n"] for b in drawn)}


def lanes(evidence: Sequence[Mapping[str, Any]], start: datetime | None, end: datetime | None) -> dict[str, Any] | None:
    """Evidence as marks on a lane for each host: rows hold host, first, part, code. None where fewer than two have a time."""
    timed = [row for row in evidence if row["first"] is not None]
    hosts = list(dict.fromkeys(row["host"] or "no host" for row in timed))
    if len(timed) < 2 or not hosts:
        return None
    low = min(row["first"] for row in timed)
    high = max(row["first"] for row in timed)
    edges = [when for when in (start, end) if when is not None and low - timedelta(days=1) <= when <= high + timedelta(days=1)]
    low, high = min([low, *edges]), max([high, *edges])
    whole = max((high - low).total_seconds(), 1.0)

    def place(when: datetime) -> float:
        share: float = (when - low).total_seconds() / whole
        return round(LEFT + 14 + (WIDE - LEFT - 28) * share, 1)

    shown = {host: n for n, host in enumerate(hosts[:MOST_LANES])}
    marks = [_mark(row, place(row["first"]), shown[row["host"] or "no host"]) for row in timed if (row["host"] or "no host") in shown]
    return {
        "lanes": [{"host": clean(host, 22), "y": n * LANE + LANE / 2} for host, n in shown.items()],
        "marks": sorted({(m["x"], m["y"], m["part"]): m for m in reversed(marks)}.values(), key=lambda m: m["part"] == "root"),
        "height": len(shown) * LANE + 24,
        "edges": [{"x": place(when), "word": word} for when, word in ((start, "began"), (end, "ended")) if when in edges],
        "from": low,
        "to": high,
        "parts": [p for p in LETTERS if any(m["part"] == p for m in marks)],
        "more": len(hosts) - len(shown),
    }  # fmt: skip


def _mark(row: Mapping[str, Any], x: float, lane: int) -> dict[str, Any]:
    part = row["part"] if row["part"] in LETTERS else "fact"
    return {
        "x": x,
        "y": lane * LANE + LANE / 2,
        "part": part,
        "letter": LETTERS[part],
        "code": row["code"],
        "at": row["first"],
        "id": row["burst_id"],
    }
