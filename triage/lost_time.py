"""Where the time of a broken attempt went: waiting, kept work, lost work, standing still, and the way back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from triage.moments import HOUR, iso

if TYPE_CHECKING:
    from triage.decisions import Decision
    from triage.history import History
    from triage.jobs import Attempt

MEANING = {
    "queue": "waited for hosts",
    "kept": "work that a checkpoint kept",
    "lost": "work after the last checkpoint, to be done again",
    "all": "work since the start, no checkpoint seen: to be done again",
    "stuck": "hosts held while nothing moved",
    "down": "from the end to the next attempt",
    "restart": "from the next start to its first step",
}
COSTS = ("lost", "stuck")
"""The phases that make up `gpu_hours_lost`."""

Span = tuple[str, int, int]


def phases_of(decision: Decision, history: History) -> list[dict[str, Any]]:
    """Rows of phase, meaning, from, to, hours, gpu_hours (null where the GPUs are not known), lost; in order of time."""
    attempt = decision.finding.incident.attempt
    if attempt is None:
        return []
    end = attempt.end if attempt.end is not None else history.now
    if attempt.start is None or end is None:
        return []
    spans = [*_run(attempt, end, decision), *_return(attempt, history)]
    if attempt.submit is not None:
        spans.insert(0, ("queue", attempt.submit, attempt.start))
    rows = [_row(name, low, high, attempt.gpus) for name, low, high in spans if high > low]
    kept = any(row["phase"] == "kept" for row in rows)
    return [row if kept or row["phase"] != "lost" else row | {"meaning": MEANING["all"]} for row in rows]


def _run(attempt: Attempt, end: int, decision: Decision) -> Iterable[Span]:
    """kept, lost, stuck: cut at the last checkpoint and at the true start of a hang."""
    start = attempt.start or 0
    saved = attempt.last_checkpoint
    since = saved if saved is not None and start <= saved <= end else start
    incident = decision.finding.incident
    if (attempt.state or "").split(" ")[0] == "COMPLETED":
        return (("kept", start, end),)
    stuck = incident.start if (incident.hang or incident.stalled) and incident.start is not None else end
    stuck = min(max(stuck, since), end)
    return ("kept", start, since), ("lost", since, stuck), ("stuck", stuck, end)


def _return(attempt: Attempt, history: History) -> Iterable[Span]:
    """The next attempt of the job and its first step."""
    later = [a for a in history.attempts if a.job_id == attempt.job_id and a.attempt == attempt.attempt + 1 and a.start is not None]
    if not later or attempt.end is None:
        return
    again = later[0].start or 0
    yield "down", attempt.end, again
    steps = [s.ts for s in history.steps.get((attempt.job_id, attempt.attempt + 1), []) if s.ts is not None and s.ts >= again]
    if steps:
        yield "restart", again, min(steps)


def _row(name: str, low: int, high: int, gpus: int | None) -> dict[str, Any]:
    hours = (high - low) / HOUR
    held = name in ("kept", "lost", "stuck", "restart")
    return {
        "phase": name,
        "meaning": MEANING[name],
        "from": iso(low),
        "to": iso(high),
        "hours": round(hours, 3),
        "gpu_hours": round(hours * gpus, 2) if gpus is not None and held else None,
        "lost": name in COSTS,
    }
