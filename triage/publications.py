"""Rows of `incidents`, `incident_bursts`, `findings`, `decisions` and `spares` from an analysis."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from triage import spares
from triage.answers import hosts_of, title_of
from triage.decisions import Decision, summary_of
from triage.evidence import part_of

if TYPE_CHECKING:
    from triage.history import History
    from triage.rulebook import Rulebook


TABLES = ("incidents", "incident_bursts", "findings", "decisions", "spares")


def build(decisions: Iterable[Decision], history: History, book: Rulebook) -> dict[str, list[dict[str, Any]]]:
    """table -> rows, an incident's rows together."""
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    for decision in decisions:
        rows["incidents"].append(incident_row(decision, book))
        rows["incident_bursts"] += _members(decision)
        rows["findings"] += _findings(decision)
        rows["decisions"].append(_decision(decision, book))
        offered = spares.build(decision, history)
        name = decision.finding.incident.incident_id
        rows["spares"] += [{"incident_id": name, "place": n, "host": s.host, "why": s.why} for n, s in enumerate(offered, 1)]
    return rows


def incident_row(decision: Decision, book: Rulebook) -> dict[str, Any]:
    """A row of `incidents`; times are microseconds."""
    finding, incident = decision.finding, decision.finding.incident
    attempt = incident.attempt
    return {
        "incident_id": incident.incident_id,
        "kind": "shared" if finding.shared not in ("none", "job") else incident.kind,
        "start": incident.start,
        "end": incident.end,
        "job_id": attempt.job_id if attempt else None,
        "attempt": attempt.attempt if attempt else None,
        "class": finding.class_id,
        "symptom": decision.symptom,
        "manifestation": decision.manifestation,
        "layer": decision.layer,
        "action": decision.action,
        "confidence": decision.confidence,
        "rule_id": decision.rule.id,
        "summary": summary_of(decision, title_of(finding.class_id, book)),
        "hosts": hosts_of(decision),
        "jobs": [attempt.job_id] if attempt else [],
        "gpu_hours_lost": attempt.gpu_hours_lost if attempt else 0.0,
    }


def _members(decision: Decision) -> Iterable[dict[str, Any]]:
    name = decision.finding.incident.incident_id
    seen: set[str] = set()
    for burst in decision.finding.incident.bursts:
        role = part_of(burst, decision.finding)
        if role and burst.burst_id not in seen:
            seen.add(burst.burst_id)
            yield {"incident_id": name, "burst_id": burst.burst_id, "role": role}


def _findings(decision: Decision) -> Iterable[dict[str, Any]]:
    finding = decision.finding
    name = finding.incident.incident_id
    place = 0
    for place, suspect in enumerate(finding.suspects, 1):
        burst = suspect.burst
        yield {
            "incident_id": name, "place": place, "host": suspect.host, "device": suspect.device, "rank": suspect.rank, "role": suspect.role,
            "score": suspect.score, "class": finding.class_id, "code": suspect.code, "ts": burst.first if burst else finding.incident.start,
            "why": suspect.why, "source_id": suspect.source_id, "line": burst.line if burst else None,
        }  # fmt: skip
    for offset, (host, why) in enumerate(finding.victims, place + 1):
        yield {
            "incident_id": name,
            "place": offset,
            "host": host,
            "role": "victim",
            "score": 0.0,
            "class": finding.class_id,
            "why": why,
            "ts": finding.incident.start,
        }


def _decision(decision: Decision, book: Rulebook) -> dict[str, Any]:
    return {
        "incident_id": decision.finding.incident.incident_id,
        "rule_id": decision.rule.id,
        "action": decision.action,
        "confidence": decision.confidence,
        "host": decision.host,
        "reason": decision.rule.reason,
        "rulebook": book.digest,
        "features": json.dumps(decision.finding.features, sort_keys=True),
    }
