"""Lines that no dialect claims, around one incident: read again from their files, folded to templates, the telling ones as evidence."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from triage.decisions import Decision
from triage.store import Store

if TYPE_CHECKING:
    from triage.history import History

DEEP_LIMIT = 50_000_000
SETTLED = ("none", "T23")


def look(store: Store, decision: Decision, history: History, deep: bool) -> list[dict[str, Any]]:
    """Rows of `templates` for the incident; none where its cause is confirmed and no deep look was asked for.

    Reads the incident's sources again, at most 500,000 lines of them, with `deep` 50 million.
    """
    from triage import reread, templates

    finding = decision.finding
    if finding.class_id in SETTLED or (decision.confidence == "confirmed" and not deep):
        return []
    readings = reread.readings(finding.incident, history.attempts, store.rows("sources"), store.rows("coverage"))
    if not readings:
        return []
    claimed = reread.claimed_of(store.rows("claimed_lines", sources=[r.source_id for r in readings]))
    frames = reread.unclaimed(readings, claimed, limit=DEEP_LIMIT if deep else reread.LIMIT)
    return templates.build(finding.incident.incident_id, frames, _span(decision, history))


def _span(decision: Decision, history: History) -> Any:
    from triage import templates

    attempt = decision.finding.incident.attempt
    if attempt is None:
        return templates.Span(sorted(history.hosts()))
    key = (attempt.job_id, attempt.attempt)
    steps: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for step in history.steps.get(key, ()):
        steps[step.source_id].append((step.line, step.seq))
    ranks = {r.rank: r.host for r in history.ranks.get(key, {}).values() if r.host}
    return templates.Span(sorted(history.hosts()), ranks, dict(steps))
