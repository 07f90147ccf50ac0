"""The report of one incident as data, and its ways out: Markdown, one HTML page, Slack blocks, a hardware ticket, JSON.

The model is the answer of `triage now` and beyond it: a timeline over hosts, the cause graph, raw lines around the evidence, earlier
incidents on the same hosts, phases of the cost, open questions, and places that people fill in and a re-run keeps.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from triage import causality, excerpt, hardware, lost_time, timeline
from triage.answers import Question, answer, fill_of, filled, hosts_of, others, title_of
from triage.decisions import Decision, summary_of
from triage.faults import Fault
from triage.moments import iso
from triage.rule_tables import FEATURES

if TYPE_CHECKING:
    from triage.history import History
    from triage.pipeline import Analysis
    from triage.rulebook import Rulebook
    from triage.store import Store

FORMATS = ("md", "html", "slack", "json", "ticket")
MOST_EARLIER, MOST_EXCERPTS, MOST_WOULD_CHANGE = 12, 30, 5
SOURCES = """SELECT source_id, path, digest, bytes, marks, lines, events, rejects, first_ts, last_ts, clock, year_from, zone, host, job_id
    FROM sources ORDER BY path"""
PEOPLE = (
    ("owner", "Owner", "who runs this incident"),
    ("impact", "Impact", "what users and deadlines felt"),
    ("story", "What happened", "in the words of the people who were there"),
    ("actions", "Actions", "what, who, until when"),
    ("lessons", "Lessons", "what went well, what did not, where we were lucky"),
)
"""Places for people: name, title, hint."""
ESSENCE = ("class", "root_code", "root_role")
"""Features that say what happened, not under which circumstances."""

_KEPT = re.compile(r"^<!-- triage:keep ([a-z]{1,20}) -->[ \t]*\n(.*?)^<!-- /triage:keep \1 -->[ \t]*$", re.MULTILINE | re.DOTALL)


def report_of(analysis: Analysis, decision: Decision | None, book: Rulebook, store: Store) -> dict[str, Any]:
    """The report of a decision; with None that of a quiet history. Plain data, ready for JSON; every text is still as the logs hold it.

    Beyond the keys of the answer: id, title, now, rule, timeline, fleet, graph, excerpts, hardware, earlier, phases, questions, would_change,
    sources, people. `excerpts` has one entry an evidence row, in order.
    """
    history = analysis.history
    read = store.rows(SOURCES)
    rejects = sum(row["rejects"] or 0 for row in read)
    report = _answer(analysis, decision, book, rejects, not read)
    report |= {"id": None, "title": report["verdict"]["summary"], "now": iso(history.now), "sources": [_source(r) for r in read]}
    report |= {"people": {name: "" for name, _, _ in PEOPLE}, "fleet": timeline.fleet_of(decision, history)}
    report |= {name: [] for name in ("excerpts", "hardware", "earlier", "phases", "questions", "would_change")}
    report |= {"rule": None, "timeline": None, "graph": {"directed": True, "multigraph": False, "graph": {}, "nodes": [], "edges": []}}
    if decision is not None:
        report |= _of_decision(report, analysis, decision, book, store, read)
    return report


def _answer(analysis: Analysis, decision: Decision | None, book: Rulebook, rejects: int, nothing_read: bool) -> dict[str, Any]:
    """The answer about this very decision, whichever `choose` would have taken."""
    alone = replace(analysis, decisions=[decision] if decision else [])
    return {**answer(alone, book, Question(), rejects, nothing_read), "others": others(analysis, decision)}


def _of_decision(
    report: Mapping[str, Any], analysis: Analysis, decision: Decision, book: Rulebook, store: Store, read: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    history, evidence = analysis.history, report["evidence"]
    excerpts = _excerpts(evidence, read)
    return {
        "id": decision.finding.incident.incident_id,
        "title": title_of(decision.finding.class_id, book),
        "rule": _rule(decision, book, history),
        "timeline": timeline.timeline_of(decision, history),
        "graph": causality.graph_of(evidence, decision, history),
        "excerpts": [_shown(row, excerpts) for row in evidence],
        "hardware": hardware.hardware_of(decision, history, store, excerpts),
        "earlier": earlier(analysis, decision),
        "phases": lost_time.phases_of(decision, history),
        "questions": questions(report, decision, read),
        "would_change": would_change(decision, book),
    }


def _source(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("path", "digest", "bytes", "lines", "events", "rejects", "clock", "year_from", "zone", "host", "job_id")
    return {name: row[name] for name in names}


def _rule(decision: Decision, book: Rulebook, history: History) -> dict[str, Any]:
    """The row that decided, what it saw, and how its action is undone."""
    rule, action = decision.rule, book.action(decision.action)
    return {
        "id": rule.id,
        "status": rule.status,
        "reason": rule.reason,
        "source": rule.source,
        "rulebook": book.digest,
        "features": {name: value for name, value in decision.finding.features.items() if isinstance(value, str | bool | int | float)},
        "action_title": action.title,
        "undo": filled(action.undo, fill_of(decision, history), True) if action.isolating else "",
        "confidence": next((level.definition for level in book.levels if level.id == decision.confidence), ""),
    }


def _excerpts(evidence: Sequence[Mapping[str, Any]], read: Sequence[Mapping[str, Any]]) -> dict[str, excerpt.Excerpt]:
    """Per path the lines around its evidence; each file is read once."""
    rows = {row["path"]: row for row in read}
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for row in evidence[:MOST_EXCERPTS]:
        wanted[row["source"]].update(excerpt.around(row["line"]))
    return {path: excerpt.read(rows[path], numbers) for path, numbers in wanted.items() if path in rows}


def _shown(row: Mapping[str, Any], excerpts: Mapping[str, excerpt.Excerpt]) -> dict[str, Any]:
    found = excerpts.get(row["source"], excerpt.Excerpt(note=excerpt.GONE))
    near = [(n, found.lines[n]) for n in excerpt.around(row["line"]) if n in found.lines]
    lines = [{"number": n, "text": text, "hit": n == row["line"]} for n, text in near]
    return {"source": row["source"], "line": row["line"], "lines": lines, "note": found.note}


def earlier(analysis: Analysis, decision: Decision) -> list[dict[str, Any]]:
    """Earlier incidents of the same GPU, else the same host, else hosts of this job in the same class; most alike first."""
    finding, incident = decision.finding, decision.finding.incident
    devices = {(s.host, s.device) for s in finding.suspects if s.host and s.device}
    named = {s.host for s in finding.suspects if s.host} | set(finding.lost)
    found = []
    for other in analysis.decisions:
        when = other.finding.incident.start
        if other is decision or when is None or incident.start is None or when >= incident.start or other.finding.class_id == "T23":
            continue
        likeness = _likeness(other, devices, named, set(incident.hosts), finding.class_id)
        if likeness:
            found.append((likeness[0], -when, _earlier_row(other, likeness[1])))
    return [row for _, _, row in sorted(found, key=lambda item: item[:2])[:MOST_EARLIER]]


def _likeness(
    other: Decision, devices: set[tuple[str | None, str | None]], named: set[str], hosts: set[str], class_id: str
) -> tuple[int, str] | None:
    theirs = other.finding.suspects
    if any((s.host, s.device) in devices for s in theirs):
        return 0, "same GPU"
    if named & ({s.host for s in theirs if s.host} | set(other.finding.lost)):
        return 1, "same host suspected"
    shared = hosts & set(other.finding.incident.hosts)
    return (2, "same class on a host of this job") if shared and other.finding.class_id == class_id else None


def _earlier_row(other: Decision, why: str) -> dict[str, Any]:
    incident = other.finding.incident
    return {
        "id": incident.incident_id,
        "start": iso(incident.start),
        "class": other.finding.class_id,
        "hosts": hosts_of(other)[:8],
        "job_id": incident.attempt.job_id if incident.attempt else None,
        "action": other.action,
        "why": why,
        "summary": summary_of(other, ""),
    }


def questions(report: Mapping[str, Any], decision: Decision, read: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """What is not settled: question, why it matters, and a command that would settle it (or nothing)."""
    rows = [{"question": f"Get {m['what']}", "why": m["why"], "command": m["command"]} for m in report["missing"]]
    rows += [{"question": f"Could it be {a['class']} instead?", "why": a["why"], "command": ""} for a in report["alternatives"]]
    rows += [
        {"question": f"Is the {what} right?", "why": "inferred, printed by no line of the evidence", "command": ""}
        for what in dict.fromkeys(decision.finding.inferred)
    ]
    used = {row["source"] for row in report["evidence"]}
    return rows + [_clock_question(row) for row in read if row["path"] in used and row["clock"] in ("year_inferred", "boot_relative", "unknown")]


def _clock_question(row: Mapping[str, Any]) -> dict[str, str]:
    why = {
        "year_inferred": "its stamps carry no year",
        "boot_relative": "it counts seconds since boot and has no anchor",
        "unknown": "some of its lines carry no stamp",
    }
    return {"question": f"Are the times of {row['path']} right?", "why": why[row["clock"]], "command": ""}


def would_change(decision: Decision, book: Rulebook) -> list[dict[str, str]]:
    """Rows above the one that decided which one circumstance alone held back, and that would act otherwise: rule, action, feature, value, wanted."""
    values = {name: feature.default for name, feature in FEATURES.items()}
    values |= {name: value for name, value in decision.finding.features.items() if isinstance(value, str | bool | int | float)}
    rows = []
    for rule, box in book.boxes:
        if rule.id == decision.rule.id:
            break
        misses = [name for name, cell in box.items() if not cell.holds(values[name])]
        if len(misses) == 1 and misses[0] not in ESSENCE and rule.action != decision.action:
            name = misses[0]
            wanted = _words(rule.when[name], book)
            rows.append({"rule": rule.id, "action": rule.action, "feature": name, "value": str(values[name]).lower(), "wanted": wanted})
    return rows[-MOST_WOULD_CHANGE:]


def _words(wanted: object, book: Rulebook) -> str:
    """`>=@breaker_share` as `>=0.3`, lists with `or`."""
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return " or ".join(_words(part, book) for part in wanted)
    text = str(wanted).lower() if isinstance(wanted, bool) else str(wanted)
    return re.sub(r"@([a-z_0-9]+)", lambda found: f"{book.threshold(found[1]):g}", text)


def keep(report: dict[str, Any], old: str) -> dict[str, Any]:
    """The report with what people wrote between the markers of an older Markdown file of it."""
    written = {name: text.strip("\n") for name, text in _KEPT.findall(old.replace("\r\n", "\n"))}
    hints = {name: hint_of(hint) for name, _, hint in PEOPLE}
    people = {name: written.get(name, text) for name, text in report["people"].items()}
    return {**report, "people": {name: "" if text.strip() == hints[name] else text for name, text in people.items()}}


def hint_of(hint: str) -> str:
    """A hint as it stands in an empty place."""
    return f"_{hint}_"


def render(report: Mapping[str, Any], fmt: str) -> str:
    """The report as text. `fmt` is one of FORMATS; `slack` and `json` need no more than the answer. Raises Fault for another format."""
    if fmt == "json":
        return json.dumps(report, indent=1, ensure_ascii=True)
    if fmt == "slack":
        from triage.slack import slack

        return json.dumps({"text": slack_fallback(report), "blocks": slack(report)}, indent=1, ensure_ascii=True)
    if fmt == "md":
        from triage.markdown import markdown

        return markdown(report)
    if fmt == "html":
        from triage.page import html

        return html(report)
    if fmt == "ticket":
        from triage.ticket import ticket

        return ticket(report)
    raise Fault(f"no format {fmt!r}; choose one of {', '.join(FORMATS)}")


def slack_fallback(report: Mapping[str, Any]) -> str:
    """What a notification shows."""
    from triage.escape import mrkdwn

    return mrkdwn(report["verdict"]["summary"], 200)


__all__ = ["FORMATS", "PEOPLE", "earlier", "keep", "questions", "render", "report_of", "would_change"]
