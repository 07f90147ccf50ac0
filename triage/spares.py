"""Rows of `spares`: hosts that could stand in. Named only where a source says that the host is idle; what is unknown is said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from triage.decisions import Decision
from triage.history import History, HostState
from triage.moments import DAY, MINUTE, span

BAD_STATES = {"down", "drain", "fail", "unknown"}
IDLE, BUSY = "idle", {"alloc", "mixed"}
MOST = 5


@dataclass(frozen=True, slots=True)
class Spare:
    """A host that could stand in and why."""

    host: str
    why: str


def candidates(history: History, ts: int | None, leave_out: Iterable[str], near: Sequence[str]) -> list[Spare]:
    """Hosts that are idle and healthy at `ts` by what the sources say, nearest to `near` first and longest clean first."""
    if ts is None:
        return []
    barred = set(leave_out) | history.lemons
    found: list[tuple[tuple[object, ...], Spare]] = []
    for host in sorted(history.states):
        if host in barred or not _idle(history, host, ts):
            continue
        level = history.topology.near(host, near)
        clean = _clean_for(history, host, ts)
        if clean is not None and clean < DAY:
            continue
        found.append(((level is None, -(clean or 0), host), Spare(host, _why(history, host, level, clean, ts))))
    return [spare for _, spare in sorted(found, key=lambda item: item[0])[:MOST]]


def _idle(history: History, host: str, ts: int) -> bool:
    """The last word on the host before or soon after `ts` is idle, and no job runs on it."""
    states = history.states[host]
    known = [s for s in states if _when(s) is not None or s.basis]
    if any(s.state in BAD_STATES and _holds(s, ts) for s in known):
        return False
    if any(a.end is None or a.end > ts for a in history.runs_on(host) if a.start is not None and a.start <= _horizon(states, ts)):
        return False
    said = [s for s in known if s.state == IDLE or s.state in BUSY]
    last = max(said, key=lambda s: (_when(s) is None, _when(s) or 0, s.state == IDLE), default=None)
    return last is not None and last.state == IDLE and not _used_since(history, host, last, ts)


def _horizon(states: Sequence[HostState], ts: int) -> int:
    return max([ts, *(w for s in states if (w := _when(s)) is not None)])


def _used_since(history: History, host: str, idle: HostState, ts: int) -> bool:
    when = _when(idle)
    return any(a.start is not None and when is not None and a.start > when for a in history.runs_on(host) if a.end is None or a.end > ts)


def _when(state: HostState) -> int | None:
    """When a state was told; None for a snapshot without a time, which is as new as the bundle that it came with."""
    return state.start


def _holds(state: HostState, ts: int) -> bool:
    """Whether a bad state holds at `ts` or has not ended since; snapshots without an end hold."""
    return state.end is None or (state.end > ts - 30 * MINUTE and (state.start is None or state.start <= ts + 30 * MINUTE))


def _clean_for(history: History, host: str, ts: int) -> int | None:
    """Microseconds since the host's last root or loss; None when no log of it was read."""
    faults = [
        b.first
        for b in history.on_host(host, 0, ts)
        if b.first is not None and (b.role == "root" or b.code in ("slurm.node_down", "slurm.node_fail"))
    ]
    if faults:
        return ts - max(faults)
    firsts = [first for first, _ in history.spans.get((host, "kernel"), [])]
    return ts - min(firsts) if firsts and min(firsts) < ts else None


def _why(history: History, host: str, level: str | None, clean: int | None, ts: int) -> str:
    parts = ["idle"]
    parts.append(f"clean for {span(clean / 1e6)}" if clean is not None else "its history is not known here")
    if level:
        guess = " (guessed from names)" if history.topology.guessed(host) else ""
        parts.append(f"same {level}{guess}")
    elif not any(history.topology.part(host, x) for x in ("leaf", "rack", "rail")):
        parts.append("place not known")
    return ", ".join(parts)


def build(decision: Decision, history: History) -> list[Spare]:
    """Spares for a decision that takes a host away or moves the job."""
    incident = decision.finding.incident
    if incident.attempt is None or decision.action in ("none", "monitor"):
        return []
    ts = incident.end if incident.end is not None else history.now
    gone = {s.host for s in decision.finding.suspects if s.host}
    stay = [h for h in incident.hosts if h not in gone]
    return candidates(history, ts, [*incident.hosts, *gone], stay)
