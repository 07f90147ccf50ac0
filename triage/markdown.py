"""The report as Markdown for GitHub and its kin. Text of logs stands in code spans and fences, where nothing of it works."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from triage.causality import folded, in_order
from triage.escape import md_block, md_code, md_prose, plain_label
from triage.moments import shown
from triage.reports import PEOPLE, class_of, hint_of
from triage.screens import folded as folded_hosts

Report = Mapping[str, Any]
MOST_ROWS, MOST_RAW, MOST_NODES, MOST_NAMES = 40, 6, 24, 300


def markdown(report: Report) -> str:
    """The whole report; places for people stand between `triage:keep` markers, which `reports.keep` reads back."""
    parts = (
        _title,
        _people_top,
        _do_now,
        _suspects,
        _jobs,
        _timeline,
        _causes,
        _raw,
        _hardware,
        _earlier,
        _open,
        _others,
        _people_end,
        _read,
    )
    blocks = [block for part in parts if (block := "\n".join(part(report)).strip("\n"))]
    return "\n\n".join(blocks) + "\n"


def shorter(report: Report) -> tuple[str, int]:
    """The folder that all sources share, and how many characters of each path it takes."""
    paths = [row["path"] for row in report["sources"]]
    folders = {os.path.dirname(p) for p in paths}
    root = os.path.commonpath(folders) if folders and len({p.startswith("/") for p in paths}) == 1 else ""
    return root, len(root) + 1 if root and root != "/" else 0


def _place(report: Report, source: str, line: int) -> str:
    return md_code(f"{source[shorter(report)[1] :]}:{line}", table=True)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return ["", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *lines] if lines else []


def _title(report: Report) -> Iterable[str]:
    verdict = report["verdict"]
    yield f"# {md_prose(verdict['summary'])}"
    if report["rule"] is None:
        return
    yield ""
    row = (
        f"**{verdict['class']}** {md_prose(report['title'])}",
        verdict["layer"].replace("_", " "),
        verdict["manifestation"].replace("_", " "),
        f"**{report['rule']['action_title']}**",
        f"**{verdict['confidence']}**",
        shown(verdict["start"]) if verdict["start"] else "not known",
        shown(verdict["end"]) if verdict["end"] else "goes on",
    )
    yield from _table(("Class", "Layer", "Shows as", "Action", "Confidence", "Began (UTC)", "Ended (UTC)"), [row])[1:]
    rule = report["rule"]
    yield ""
    sure = f"{verdict['confidence'].capitalize()}: {md_prose(rule['confidence'])}."
    yield f"Incident {md_code(report['id'])}, decided by rule {md_code(rule['id'])} ({md_prose(rule['reason'])}). {sure}"


def _kept(report: Report, names: Sequence[str]) -> Iterable[str]:
    for name, title, hint in PEOPLE:
        if name in names:
            yield f"## {title}"
            yield f"<!-- triage:keep {name} -->"
            yield report["people"].get(name) or hint_of(hint)
            yield f"<!-- /triage:keep {name} -->"
            yield ""


def _people_top(report: Report) -> Iterable[str]:
    return _kept(report, ("owner", "impact")) if report["rule"] else ()


def _people_end(report: Report) -> Iterable[str]:
    return _kept(report, ("story", "actions", "lessons")) if report["rule"] else ()


def _do_now(report: Report) -> Iterable[str]:
    if report["commands"]:
        yield "## Do now"
        yield ""
        yield "Nothing was executed; these are to be copied."
    for command in report["commands"]:
        yield ""
        yield f"{md_prose(command['what'])}:"
        yield ""
        yield md_block([command["command"]], 2000).replace("text\n", "sh\n", 1)
    if report["commands"] and report["rule"] and report["rule"]["undo"]:
        yield ""
        yield f"To undo: {md_code(report['rule']['undo'])}"


def _suspects(report: Report) -> Iterable[str]:
    rows = [
        (
            md_code(s["host"], table=True) if s["host"] else "not known",
            md_code(s["device"], table=True) if s["device"] else "",
            "" if s["rank"] is None else str(s["rank"]),
            s["role"],
            f"{s['score']:.2f}",
            md_code(s["why"], table=True),
        )
        for s in report["suspects"]
    ]
    if rows or report["victims"]:
        yield "## Who"
        yield from _table(("Host", "GPU", "Rank", "Role", "Score", "Why"), rows)
    for why in dict.fromkeys(v["why"] for v in report["victims"]):
        hosts = [v["host"] for v in report["victims"] if v["why"] == why]
        yield ""
        yield f"Not guilty: {md_code(folded_hosts(hosts, MOST_NAMES))} ({md_prose(why)})."
    for row in report["at_risk"]:
        yield ""
        yield f"At risk: job {md_code(row['job_id'])} {md_prose(row['why'])}."
    for row in report["spares"]:
        yield ""
        yield f"Spare: {md_code(row['host'])}, {md_prose(row['why'])}."


def _jobs(report: Report) -> Iterable[str]:
    rows = [
        (
            md_code(j["job_id"], table=True),
            str((j["attempt"] or 0) + 1),
            md_prose(j["name"] or ""),
            md_prose(j["state"] or "not known"),
            str(len(j["hosts"])),
            "?" if j["gpus"] is None else str(j["gpus"]),
            shown(j["end"]) if j["end"] else "runs",
            _lost(j),
        )
        for j in report["jobs"]
    ]
    if rows:
        yield "## Cost" if report["rule"] else "## Jobs"
        yield from _table(("Job", "Attempt", "Name", "State", "Hosts", "GPUs", "End (UTC)", "GPU-hours lost"), rows)
    yield from _table(
        ("Phase", "From (UTC)", "To (UTC)", "Hours", "GPU-hours", "What it is"),
        [
            (p["phase"], shown(p["from"]), shown(p["to"]), f"{p['hours']:.2f}", _hours(p["gpu_hours"]), p["meaning"])
            for p in report["phases"]
        ],
    )


def _lost(job: Mapping[str, Any]) -> str:
    since = f" (since {job['basis']})" if job["basis"] in ("start", "checkpoint") else ""
    return "not known" if job["basis"] == "unknown" else f"{job['gpu_hours_lost']:,.1f}{since}"


def _hours(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def _timeline(report: Report) -> Iterable[str]:
    rows = [
        (
            md_prose(shown(e["ts"], e["about"])),
            e["role"],
            md_code(e["host"], table=True) if e["host"] else (f"{e['hosts']} hosts" if e["hosts"] else ""),
            md_code(e["text"], table=True),
            _place(report, e["source"], e["line"]),
        )
        for e in report["evidence"][:MOST_ROWS]
    ]
    if rows:
        yield "## Timeline"
        yield from _table(("Time (UTC)", "Part", "Host", "What", "Where"), rows)


def _causes(report: Report) -> Iterable[str]:
    graph = folded(report["graph"])
    linked = {end for edge in graph["edges"] for end in (edge["source"], edge["target"])}
    graph = {**graph, "nodes": [node for node in graph["nodes"] if node["id"] in linked]}
    nodes = {node["id"]: node for node in graph["nodes"]}
    if not graph["edges"]:
        return
    yield "## What led to what"
    yield ""
    if len(nodes) <= MOST_NODES:
        yield from _mermaid(graph)
        yield ""
    for edge in in_order(graph):
        yield f"- {_node(nodes[edge['source']])} → {_node(nodes[edge['target']])}: {md_prose(edge['reason'])}"


def _node(node: Mapping[str, Any]) -> str:
    where = node["host"] or (f"{node['hosts']} hosts" if node["hosts"] else "")
    return f"{node['stage']} {md_code(node['code'])}" + (f" on {md_code(where)}" if where else "")


def _mermaid(graph: Mapping[str, Any]) -> Iterable[str]:
    yield "```mermaid"
    yield "flowchart LR"
    for node in graph["nodes"]:
        where = plain_label(node["host"] or (f"{node['hosts']} hosts" if node["hosts"] else ""), 40)
        yield f'  {node["id"]}["{node["stage"]}: {plain_label(node["code"], 40)}{" " + where if where else ""}"]'
    for edge in in_order(graph):
        yield f"  {edge['source']} --> {edge['target']}"
    yield "```"


def _raw(report: Report) -> Iterable[str]:
    wanted = sorted(zip(report["evidence"], report["excerpts"], strict=False), key=lambda pair: pair[0]["role"] not in ("root", "operator"))
    if not wanted:
        return
    yield "## Raw lines"
    seen: set[tuple[str, int]] = set()
    for row, found in wanted[:MOST_RAW]:
        if (found["source"], found["line"]) in seen:
            continue
        seen.update((found["source"], n["number"]) for n in found["lines"])
        yield ""
        yield f"{row['role']} {_place(report, found['source'], found['line'])}" + (f": {found['note']}" if found["note"] else "")
        if found["lines"]:
            yield ""
            yield md_block([f"{'>' if n['hit'] else ' '} {n['number']:>6}  {n['text']}" for n in found["lines"]])


def _hardware(report: Report) -> Iterable[str]:
    rows = [
        (
            md_code(h["host"], table=True),
            md_code(h["device"], table=True) if h["device"] else "",
            md_code(h["uuid"], table=True) if h["uuid"] else "not seen",
            md_code(h["serial"], table=True) if h["serial"] else "not seen",
            md_prose(h["model"] or "not seen"),
            md_prose(h["driver"] or "not seen"),
            ", ".join(f"{md_prose(c['code'])} x{c['lines']}" for c in h["codes"]),
        )
        for h in report["hardware"]
    ]
    if rows:
        yield "## Hardware"
        yield from _table(("Host", "GPU", "UUID", "Serial", "Model", "Driver", "Codes (lines)"), rows)


def _earlier(report: Report) -> Iterable[str]:
    rows = [
        (
            shown(e["start"]),
            md_prose(class_of(report, e["class"])),
            md_prose(e["why"]),
            md_prose(e["summary"] or e["why"]),
            md_code(e["id"], table=True),
        )
        for e in report["earlier"]
    ]
    if rows:
        yield "## Earlier, alike"
        yield from _table(("Began (UTC)", "Class", "Alike by", "What", "Id"), rows)


def _open(report: Report) -> Iterable[str]:
    if report["questions"] or report["would_change"]:
        yield "## Not settled"
        yield ""
    for row in report["questions"]:
        asked = row["question"] + ("" if row["question"].endswith("?") else ":")
        yield f"- [ ] {md_prose(asked)} {md_prose(row['why'])}" + (f" {md_code(row['command'], 1000)}" if row["command"] else "")
    for row in report["would_change"]:
        change = f"if {md_code(row['feature'])} were {md_code(row['wanted'])} (it is {md_code(row['value'])})"
        yield f"- The action would be {row['action'].replace('_', ' ')} {change}: rule {md_code(row['rule'])}"


def _others(report: Report) -> Iterable[str]:
    rows = [
        (
            shown(o["start"]),
            md_prose(class_of(report, o["class"])),
            md_code(", ".join(o["hosts"]), table=True) if o["hosts"] else "",
            md_code(o["job_id"], table=True) if o["job_id"] else "",
            "" if o["action"] == "none" else md_prose(o["action"].replace("_", " ")),
            md_code(o["id"], table=True),
        )
        for o in report["others"][:10]
    ]
    if rows:
        yield "## Other incidents"
        yield from _table(("Began (UTC)", "Class", "Hosts", "Job", "Action", "Id"), rows)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _read(report: Report) -> Iterable[str]:
    root = shorter(report)[0]
    yield "## What was read"
    if root:
        yield ""
        yield f"Below {md_code(root)}; {report['rejects']} lines not understood."
    rows = [
        (
            md_code(s["path"][shorter(report)[1] :], table=True),
            _number(s["lines"]),
            _number(s["events"]),
            _number(s["rejects"]),
            s["clock"] or "",
        )
        for s in report["sources"][:MOST_ROWS]
    ]
    yield from _table(("File", "Lines", "Events", "Rejects", "Clock"), rows)
    if len(report["sources"]) > MOST_ROWS:
        yield ""
        yield f"and {len(report['sources']) - MOST_ROWS} more files."
