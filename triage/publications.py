"""Rows of `incidents`, `incident_bursts`, `findings`, `decisions` and `spares` from decisions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from triage.answers import hosts_of, title_of
from triage.decisions import Decision, summary_of
from triage.evidence import part_of
from triage.spares import Spare

if TYPE_CHECKING:
    from triage.rulebook import Rulebook


TABLES = ("incidents", "incident_bursts", "findings", "decisions", "spares")


def build(decision: Decision, book: Rulebook) -> dict[str, list[dict[str, Any]]]:
    """table -> rows of one decision; its spares are told when all are known."""
    return {
        "incidents": [incident_row(decision, book)],
        "incident_bursts": list(_members(decision)),
        "findings": list(_findings(decision)),
        "decisions": [_decision(decision, book)],
    }


def spare_rows(incident_id: str, offered: Iterable[Spare]) -> list[dict[str, Any]]:
    """The rows of `spares` of one incident."""
    return [{"incident_id": incident_id, "place": n, "host": s.host, "why": s.why} for n, s in enumerate(offered, 1)]


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
