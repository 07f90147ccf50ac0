"""The report of one incident as data, and its ways out: Markdown, one HTML page, Slack blocks, a hardware ticket, JSON.

The model is the answer of `triage now` and beyond it: a timeline over hosts, the cause graph, raw lines around the evidence, earlier
incidents on the same hosts, phases of the cost, open questions, and places that people fill in and a re-run keeps.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triage import causality, excerpt, hardware, lost_time, timeline
from triage.answers import hosts_of, title_of, undo_of
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
NO_GRAPH = {"directed": True, "multigraph": False, "graph": {}, "nodes": [], "edges": []}
PEOPLE = (
    ("owner", "Owner", "who runs this incident"),
    ("impact", "Impact", "what users and deadlines felt"),
    ("story", "What happened", "in the words of the people who were there"),
    ("actions", "Actions", "what, who, until when"),
    ("lessons", "Lessons", "what went well, what did not, where we were lucky"),
)
"""Places for people: name, title, hint."""
ESSENCE = ("class", "root_code", "root_role", "root_hosts", "shared", "fleet_share", "job_end", "has_job", "operator")
"""Features that say what happened; the others are circumstances, which one more log or one more strike may change."""

_KEPT = re.compile(
    r"^<!-- triage:keep ([a-z]{1,20}) -->[ \t]*\n((?:(?!<!-- /?triage:keep ).*\n)*)<!-- /triage:keep \1 -->[ \t]*$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Read:
    """What a report needs of an open store: rows of `sources`, and the events that tie a GPU to its UUID and serial."""

    sources: Sequence[Mapping[str, Any]] = ()
    identities: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, store: Store) -> Read:
        """Taken while the store is open; the report is then written without it."""
        identities = store.frame("events", "codes", codes=["gpu.identity"])
        return cls(store.frame("sources").sort("path").to_dicts(), identities.sort("ts_near", "event_id").to_dicts())


def report_of(
    analysis: Analysis, decision: Decision | None, book: Rulebook, answer: Mapping[str, Any], read: Read | None = None
) -> dict[str, Any]:
    """The report of a decision and its answer; with None that of a quiet history. Plain data for JSON; texts are as the logs hold them.

    Beyond the keys of the answer: id, title, classes (id to title), now, rule, timeline, fleet, graph, excerpts,
    hardware, earlier, phases, questions, would_change, sources, people. `excerpts` has one entry an evidence row, in order. Without
    `read` no raw line, serial or UUID is shown.
    """
    history = analysis.history
    known = read or Read([{"path": path, "source_id": source_id} for source_id, path in sorted(history.paths.items(), key=lambda p: p[1])])
    report = {**answer, "id": None, "title": answer["verdict"]["summary"], "now": iso(history.now)}
    report |= {"sources": [_source(row) for row in known.sources], "people": {name: "" for name, _, _ in PEOPLE}}
    report |= {"fleet": timeline.fleet_of(decision, history), "rule": None, "timeline": None, "graph": dict(NO_GRAPH)}
    report |= {name: [] for name in ("hardware", "earlier", "phases", "questions", "would_change")}
    report |= {"excerpts": [_shown(row, {}) for row in answer["evidence"]]}
    report |= {"classes": {name: row.title for name, row in book.classes.items()}}
    if decision is not None:
        report |= _of_decision(answer, analysis, decision, book, known)
    return report


def _of_decision(answer: Mapping[str, Any], analysis: Analysis, decision: Decision, book: Rulebook, read: Read) -> dict[str, Any]:
    history, evidence = analysis.history, answer["evidence"]
    excerpts = _excerpts(evidence, read.sources)
    return {
        "id": decision.finding.incident.incident_id,
        "title": title_of(decision.finding.class_id, book),
        "rule": _rule(decision, book, history),
        "timeline": timeline.timeline_of(decision, history),
        "graph": causality.graph_of(evidence, decision, history),
        "excerpts": [_shown(row, excerpts) for row in evidence],
        "hardware": hardware.hardware_of(decision, history, read.identities, excerpts),
        "earlier": earlier(analysis, decision),
        "phases": lost_time.phases_of(decision, history),
        "questions": questions(answer, decision, book, read.sources),
        "would_change": would_change(decision, book),
    }


def class_of(report: Mapping[str, Any], class_id: str) -> str:
    """`T04 GPU lost ...`; the id alone where its title is not known."""
    return f"{class_id} {report['classes'].get(class_id, '')}".strip()


def _source(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("path", "digest", "bytes", "lines", "events", "rejects", "clock", "year_from", "zone", "host", "job_id")
    return {name: row.get(name) for name in names}


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
        "undo": undo_of(decision, book, history),
        "confidence": next((level.definition for level in book.levels if level.id == decision.confidence), ""),
    }


def _excerpts(evidence: Sequence[Mapping[str, Any]], read: Sequence[Mapping[str, Any]]) -> dict[str, excerpt.Excerpt]:
    """Per path the lines around its evidence; each file is read once."""
    rows = {row["path"]: row for row in read}
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for row in evidence[:MOST_EXCERPTS]:
        wanted[row["source"]].update(excerpt.around(row["line"]))
    return {path: excerpt.read(rows[path], numbers) for path, numbers in wanted.items() if rows.get(path, {}).get("digest")}


def _shown(row: Mapping[str, Any], excerpts: Mapping[str, excerpt.Excerpt]) -> dict[str, Any]:
    found = excerpts.get(row["source"], excerpt.Excerpt(note=excerpt.NOT_READ))
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


def _likeness(other: Decision, devices: set[tuple[str, str]], named: set[str], hosts: set[str], class_id: str) -> tuple[int, str] | None:
    theirs = other.finding.suspects
    if any((s.host or "", s.device or "") in devices for s in theirs):
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


def questions(answer: Mapping[str, Any], decision: Decision, book: Rulebook, read: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """What is not settled: question, why it matters, and a command that would settle it (or nothing)."""
    rows = [{"question": f"Get {m['what']}", "why": m["why"], "command": m["command"]} for m in answer["missing"]]
    rows += [{"question": _alternative(a, answer, book), "why": a["why"], "command": ""} for a in answer["alternatives"]]
    rows += [
        {"question": f"Is the {what} right?", "why": "inferred, printed by no line of the evidence", "command": ""}
        for what in dict.fromkeys(decision.finding.inferred)
    ]
    used = {row["source"] for row in answer["evidence"]}
    unplaced = {row["source"] for row in answer["evidence"] if row["ts"] is None}
    return rows + [_clock_question(row) for row in read if row["path"] in used and _unsure(row, unplaced)]


def _alternative(row: Mapping[str, Any], answer: Mapping[str, Any], book: Rulebook) -> str:
    if row["class"] == answer["verdict"]["class"]:
        return "Could it come from elsewhere?"
    return f"Could it be {title_of(row['class'], book)} ({row['class']}) instead?"


def _unsure(row: Mapping[str, Any], unplaced: set[str]) -> bool:
    return row.get("clock") in ("year_inferred", "boot_relative") or (row.get("clock") == "unknown" and row["path"] in unplaced)


def _clock_question(row: Mapping[str, Any]) -> dict[str, str]:
    why = {
        "year_inferred": "its stamps carry no year",
        "boot_relative": "it counts seconds since boot and has no anchor",
        "unknown": "some of its lines carry no stamp",
    }
    return {"question": f"Are the times of {row['path'].rsplit('/', 1)[-1]} right?", "why": why[row["clock"]], "command": ""}


def would_change(decision: Decision, book: Rulebook) -> list[dict[str, str]]:
    """Rows above the one that decided, with another action, that one circumstance alone held back.

    Keys: rule, action, feature, value, wanted.
    """
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


def render(report: Mapping[str, Any], fmt: str, old: str = "") -> str:
    """The report as text. `fmt` is one of FORMATS; `old` is an earlier Markdown file of it, whose people's places are kept.

    `slack` and `json` need no more than the answer. Raises Fault for another format.
    """
    if old:
        report = keep(dict(report), old)
    if fmt not in FORMATS:
        raise Fault(f"no format {fmt!r}; choose one of {', '.join(FORMATS)}")
    return _WRITERS[fmt](report)


def _json(report: Mapping[str, Any]) -> str:
    return json.dumps(report, indent=1, ensure_ascii=True)


def _slack(report: Mapping[str, Any]) -> str:
    from triage.slack import payload

    return json.dumps(payload(report), indent=1, ensure_ascii=True)


def _markdown(report: Mapping[str, Any]) -> str:
    from triage.markdown import markdown

    return markdown(report)


def _html(report: Mapping[str, Any]) -> str:
    from triage.page import html

    return html(report)


def _ticket(report: Mapping[str, Any]) -> str:
    from triage.ticket import ticket

    return ticket(report)


_WRITERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "md": _markdown,
    "html": _html,
    "slack": _slack,
    "json": _json,
    "ticket": _ticket,
}

__all__ = ["FORMATS", "PEOPLE", "Read", "earlier", "keep", "questions", "render", "report_of", "would_change"]
