"""The report as one HTML file that opens anywhere: no request leaves it, no script runs in it but ours, no text of a log is markup."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from triage.causality import STAGES, folded, in_order
from triage.escape import cell, clean, json_in_page
from triage.markdown import shorter
from triage.moments import iso, micros, parse_time, shown
from triage.reports import PEOPLE, class_of
from triage.screens import folded as folded_hosts

LIBRARY = "echarts-6.1.0.min.js"
LONGEST, MOST_CELLS, MOST_NAMES = 2000, 5000, 600
PARTS = (
    ("culprit", "C", "culprit"),
    ("suspect", "S", "suspect"),
    ("root", "R", "root event"),
    ("cascade", "c", "cascade"),
    ("precursor", "p", "precursor"),
    ("operator", "O", "operator's act"),
    ("symptom", "s", "symptom"),
    ("outcome", "o", "outcome"),
    ("teardown", "t", "torn down with its job"),
    ("fact", "f", "advice of its driver"),
    ("recovery", "r", "recovery"),
    ("quiet", "·", "no fault in its kernel log"),
    ("no_log", "?", "no kernel log of it"),
    ("other", "", "not in this incident"),
)
"""Parts of a host: name, letter of its cell, words. Letters tell them apart without colour."""
FAULT_LEVELS = (1, 2, 5, 10)

Report = Mapping[str, Any]


def html(report: Report) -> str:
    """The page, without a request to anything and with every text of a log escaped."""
    library, script = Markup(_text(LIBRARY)), Markup(_text("page.js"))  # our own files, not data
    used = {h["part"] for h in report["fleet"]}
    graph = folded(report["graph"])
    nodes = {node["id"]: node for node in graph["nodes"]}
    root, cut = shorter(report)
    return (
        _environment(cut)
        .get_template("page.html.j2")
        .render(
            r=report,
            v=report["verdict"],
            css=Markup(_text("page.css")),
            night=Markup(_text("night.css")),
            library=library,
            script=script,
            hashes=Markup(" ".join(_hash(part) for part in (library, script))),
            data=Markup(json_in_page(chart_data(report, cut))),
            evidence=list(zip(report["evidence"], report["excerpts"], strict=True)),
            edges=[{"from": nodes[e["source"]], "to": nodes[e["target"]], "reason": e["reason"]} for e in in_order(graph)],
            racks=racks(report["fleet"]),
            parts=[{"name": name, "letter": letter, "words": words} for name, letter, words in PARTS if name in used],
            people=PEOPLE,
            class_of=lambda class_id: class_of(report, class_id),
            root=root,
        )
    )


@cache
def _text(name: str) -> str:
    return files("triage").joinpath("layouts", name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _environment(cut: int) -> Environment:
    """Autoescape for everything; whatever is printed is also rid of control characters."""
    made = Environment(loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, finalize=_final, trim_blocks=False)
    made.filters |= {
        "cell": cell,
        "long": lambda text: clean(text, LONGEST),
        "words": lambda text: str(text).replace("_", " "),
        "stamp": shown,
        "folded": lambda hosts: folded_hosts(hosts, MOST_NAMES),
        "number": lambda value: "" if value is None else value,
        "short": lambda path: str(path)[cut:],
    }
    made.globals["known_role"] = lambda role: role if role in (*STAGES, "culprit", "suspect") else "unknown"
    return made


def _final(value: Any) -> Any:
    return clean(value, LONGEST) if isinstance(value, str) and not isinstance(value, Markup) else value


def racks(fleet: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Racks in order of name, each with its cells."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for host in fleet[:MOST_CELLS]:
        by_name.setdefault(host["rack"], []).append(host)
    return [
        {"name": name, "guessed": any(h["guessed"] for h in hosts), "hosts": [_cell(h) for h in hosts]}
        for name, hosts in sorted(by_name.items(), key=lambda item: (item[0] == "", item[0]))
    ]


def _cell(host: Mapping[str, Any]) -> dict[str, Any]:
    name, letter, words = next((p for p in PARTS if p[0] == host["part"]), PARTS[-1])
    level = sum(host["faults"] >= least for least in FAULT_LEVELS)
    return {**host, "part_class": name, "letter": letter, "words": words, "level": level}


def chart_data(report: Report, cut: int) -> dict[str, Any]:
    """What the page's script draws: times in milliseconds, texts already clean."""
    return {"timeline": _timeline(report["timeline"], cut), "graph": _graph(folded(report["graph"]))}


def _timeline(timeline: Mapping[str, Any] | None, cut: int) -> dict[str, Any] | None:
    if timeline is None:
        return None
    lanes = {host: place for place, host in enumerate(timeline["lanes"])}
    return {
        "from": _ms(timeline["from"]),
        "to": _ms(timeline["to"]),
        "focus": [_ms(ts) for ts in timeline["focus"]],
        "lanes": [clean(host, 60) for host in lanes],
        "roles": list(STAGES),
        "events": [_event(e, lanes, cut) for e in timeline["events"]],
        "jobs": [
            [lanes[j["host"]], _ms(j["start"]), _ms(j["end"]), int(j["own"]), clean(f"job {j['job_id']} {j['state'] or ''}")]
            for j in timeline["jobs"]
        ],
        "states": [
            [lanes[s["host"]], _ms(s["start"]), _ms(s["end"]), clean(f"{s['state']} {s['reason']}", 120)] for s in timeline["states"]
        ],
    }  # fmt: skip


def _event(event: Mapping[str, Any], lanes: Mapping[str, int], cut: int) -> list[Any]:
    """time, lane, role, begin, count, code, device, rank, text, place."""
    from triage.timeline import NO_HOST

    lane = lanes.get(event["host"] or NO_HOST, -1)
    place = clean(f"{event['source'][cut:]}:{event['line']}", 120)
    return [
        _ms(event["ts"]), lane, STAGES.index(event["role"]), _ms(event["begin"]), event["count"], clean(event["code"], 40),
        event["device"], event["rank"], clean(event["text"], 160), place,
    ]  # fmt: skip


def _ms(ts: str | None) -> float | None:
    return None if ts is None else parse_time(ts) / 1000


def _graph(graph: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "id": n["id"],
                "stage": n["stage"],
                "code": clean(n["code"], 40),
                "where": clean(n["host"] or (f"{n['hosts']} hosts" if n["hosts"] else ""), 40),
                "count": n["count"],
                "text": clean(n["text"], 200),
                "time": shown(iso(micros(n["begin"]))) if n["begin"] is not None else "",
            }
            for n in graph["nodes"]
        ],
        "edges": [{"source": e["source"], "target": e["target"], "reason": clean(e["reason"], 160)} for e in graph["edges"]],
    }
