"""What a picture of an incident shows: hosts as lanes, events as marks, attempts and host states as bars, and the fleet by rack."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from triage.evidence import part_of
from triage.history import Burst, History
from triage.moments import HOUR, MINUTE, iso

if TYPE_CHECKING:
    from triage.decisions import Decision

MOST_EVENTS, MOST_LANES, MOST_BARS, TEXT = 3000, 240, 600, 200
TELLING = ("root", "operator", "precursor", "cascade", "outcome", "symptom", "recovery", "fact", "teardown")
BAD_STATES = {"down", "drain", "fail", "boot", "unknown", "maint"}
NO_HOST = "(no host named)"


def timeline_of(decision: Decision, history: History) -> dict[str, Any]:
    """Keys from, to, focus (ISO or null), lanes, events, jobs, states, quiet (hosts without a lane) and hidden (events left out)."""
    incident = decision.finding.incident
    marks = [m for b in incident.bursts if (m := _mark(b, decision, history)) is not None]
    kept = sorted(marks, key=lambda m: (TELLING.index(m["role"]), m["ts"] or "", m["source"], m["line"]))[:MOST_EVENTS]
    kept.sort(key=lambda m: (m["ts"] or "9999", m["source"], m["line"]))
    hosts = _lanes(decision, kept)
    low, high = _span(decision, history)
    used = set(hosts)
    return {
        "from": iso(low),
        "to": iso(high),
        "focus": [iso(incident.start), iso(incident.end if incident.end is not None else history.now)],
        "lanes": hosts,
        "events": kept,
        "jobs": _jobs(decision, history, hosts, low, high)[:MOST_BARS],
        "states": _states(history, hosts, low, high)[:MOST_BARS],
        "quiet": [h for h in incident.hosts if h not in used],
        "hidden": len(marks) - len(kept),
    }


def _mark(burst: Burst, decision: Decision, history: History) -> dict[str, Any] | None:
    role = part_of(burst, decision.finding)
    if role is None:
        return None
    attempt = decision.finding.incident.attempt
    placed = history.rank_host(attempt, burst.rank) if attempt is not None and burst.host is None else None
    return {
        "ts": iso(burst.first),
        "begin": iso(burst.start),
        "last": iso(burst.last),
        "timed": burst.timed,
        "host": burst.host or (placed.host if placed else None),
        "placed_by": "log" if burst.host else "rank" if placed and placed.host else "none",
        "device": burst.device,
        "rank": burst.rank,
        "code": burst.code,
        "role": role,
        "count": burst.count,
        "text": burst.message[:TEXT],
        "source": history.where(burst.source_id),
        "line": burst.line,
    }


def _lanes(decision: Decision, marks: Sequence[dict[str, Any]]) -> list[str]:
    """Suspects, then hosts by the time of their first event, then the other hosts of the job while there is room."""
    finding = decision.finding
    named = [s.host for s in finding.suspects if s.host] + list(finding.lost)
    seen = [m["host"] for m in marks if m["host"]]
    lanes = list(dict.fromkeys([*named, *seen, *finding.incident.hosts[:24]]))[:MOST_LANES]
    return lanes + [NO_HOST] * any(not m["host"] for m in marks)


def _span(decision: Decision, history: History) -> tuple[int | None, int | None]:
    """The window of causes, shrunk to what is in it and a margin, and never without the attempt's own last hour."""
    incident = decision.finding.incident
    times = [t for b in incident.bursts for t in (b.first, b.last, b.start) if t is not None]
    times += [t for t in (incident.start, incident.end) if t is not None]
    if not times:
        return incident.low, incident.high
    low, high = min(times), max(times)
    attempt = incident.attempt
    if attempt is not None and attempt.start is not None and low - attempt.start <= HOUR:
        low = min(low, attempt.start)
    margin = max((high - low) // 20, MINUTE)
    return low - margin, high + margin


def _jobs(decision: Decision, history: History, lanes: Iterable[str], low: int | None, high: int | None) -> list[dict[str, Any]]:
    own = decision.finding.incident.attempt
    bars = []
    for host in lanes:
        for attempt in history.runs_on(host):
            if not _meets(attempt.start, attempt.end, low, high):
                continue
            bars.append(
                {
                    "host": host,
                    "job_id": attempt.job_id,
                    "attempt": attempt.attempt,
                    "start": iso(attempt.start),
                    "end": iso(attempt.end),
                    "state": attempt.state,
                    "own": attempt is own,
                }
            )
    return sorted(bars, key=lambda b: (not b["own"], b["start"] or ""))


def _states(history: History, lanes: Iterable[str], low: int | None, high: int | None) -> list[dict[str, Any]]:
    return [
        {"host": s.host, "state": s.state, "start": iso(s.start), "end": iso(s.end), "reason": s.reason[:TEXT]}
        for host in lanes
        for s in history.states.get(host, ())
        if s.state in BAD_STATES and s.start is not None and _meets(s.start, s.end, low, high)
    ]


def _meets(start: int | None, end: int | None, low: int | None, high: int | None) -> bool:
    if start is None and end is None:
        return False
    return (low is None or end is None or end >= low) and (high is None or start is None or start <= high)


def fleet_of(decision: Decision | None, history: History) -> list[dict[str, Any]]:
    """One cell a host, by rack: its part in this incident, whether the job ran on it, and its faults in everything that was read.

    part  culprit | suspect | a role of evidence | quiet (in the incident, log read) | no_log (in the incident, no kernel log) | other
    """
    parts = _parts(decision, history) if decision else {}
    mine = set(decision.finding.incident.hosts) if decision else set()
    faults: Counter[str] = Counter()
    codes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for burst in history.bursts:
        if burst.host and burst.role == "root":
            faults[burst.host] += 1
            codes[burst.host][burst.code] += 1
    hosts = sorted(history.hosts() | mine | set(parts))
    return [
        {
            "host": host,
            "rack": history.topology.part(host, "rack") or history.topology.part(host, "leaf") or "",
            "guessed": history.topology.guessed(host),
            "part": parts.get(host, "other"),
            "in_job": host in mine,
            "faults": faults[host],
            "codes": [f"{code} x{n}" for code, n in codes[host].most_common(3)],
        }
        for host in hosts
    ]


def _parts(decision: Decision, history: History) -> dict[str, str]:
    finding = decision.finding
    incident = finding.incident
    parts: dict[str, str] = {}
    low, high = incident.low or 0, incident.high or 0
    for host in incident.hosts:
        parts[host] = "quiet" if history.covered(host, "kernel", low, high) else "no_log"
    by_place = {role: place for place, role in enumerate(TELLING)}
    for burst in incident.bursts:
        role = part_of(burst, finding)
        if burst.host is not None and role is not None and by_place[role] < by_place.get(parts.get(burst.host, ""), 99):
            parts[burst.host] = role
    for suspect in reversed(finding.suspects):
        if suspect.host:
            parts[suspect.host] = suspect.role
    return parts
