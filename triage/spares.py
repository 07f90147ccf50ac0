"""Rows of `spares`: hosts that could stand in. Named only where a source says that the host is idle; what is unknown is said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from triage.decisions import Decision
from triage.history import History, HostState, Runs
from triage.moments import DAY, MINUTE, span

BAD_STATES = {"down", "drain", "fail", "unknown"}
IDLE, BUSY = "idle", {"alloc", "mixed"}
MOST = 5
JUST = 5 * MINUTE
TWIN = 2 * MINUTE
"""Two records of one outage are stamped this close: the controller's log and the accounting."""
NEARNESS = ("leaf", "rack", "rail")


@dataclass(frozen=True, slots=True)
class Spare:
    """A host that could stand in and why."""

    host: str
    why: str


def candidates(history: History, ts: int | None, leave_out: Iterable[str], near: Sequence[str], most: int = MOST) -> list[Spare]:
    """At most so many hosts that are idle and healthy at `ts` by what the sources say.

    Nearest to `near` first, then least broken, then longest clean.
    """
    if ts is None:
        return []
    barred = set(leave_out) | history.lemons
    places = [(level, {part for h in near if (part := history.topology.part(h, level))}) for level in NEARNESS]
    found: list[tuple[tuple[object, ...], Spare]] = []
    for host in history.states.keys() | history.in_use():
        told = _fit(history, host, ts) if host not in barred else None
        if told is None:
            continue
        clean = _clean_for(history, host, ts)
        place = next((n for n, (level, parts) in enumerate(places) if history.topology.part(host, level) in parts), len(places))
        level = NEARNESS[place] if place < len(NEARNESS) else None
        order = (place, history.breakages.days_of(host, ts), -(clean or 0), host)
        found.append((order, Spare(host, _why(history, host, level, clean, told))))
    return [spare for _, spare in sorted(found, key=lambda item: item[0])[:most]]


def _fit(history: History, host: str, ts: int) -> str | None:
    """How the sources tell that the host was idle at `ts`, where it is clean for a day and breaks no jobs; else None.

    A host whose own job broke just before is left out too: who is at fault there is not settled yet.
    """
    runs = history.runs_by_time(host)
    if runs.busy(ts) or runs.broke(ts - JUST, ts):
        return None
    fault = history.last_fault(host, ts)
    if (fault is not None and ts - fault < DAY) or history.breakages.unfit(host, ts):
        return None
    return _idle(history, host, ts)


def _idle(history: History, host: str, ts: int) -> str | None:
    """The source's word for a host that no job held at `ts`; None where none says that it was idle.

    A moment long past is not told by a snapshot of today when jobs came since; there the accounting's gap between two jobs tells.
    """
    states, runs = history.states.get(host, []), history.runs_by_time(host)
    later = runs.next(ts)
    past = later is not None and history.now is not None and history.now - ts > DAY
    known = [s for s in states if _when(s) is not None or (s.basis and not past)]
    if any(s.state in BAD_STATES and not _over(s, states, runs, ts) and _holds(s, ts, past) for s in known):
        return None
    if past:
        return "no job on it then, by the accounting" if runs.freed <= ts else None
    if later is not None and later <= _horizon(states, ts):
        return None
    said = [s for s in known if s.state == IDLE or s.state in BUSY]
    last = max(said, key=lambda s: (_when(s) is None, _when(s) or 0, s.state == IDLE), default=None)
    return IDLE if last is not None and last.state == IDLE and not _used_since(history, host, last, ts) else None


def _horizon(states: Sequence[HostState], ts: int) -> int:
    return max([ts, *(w for s in states if (w := _when(s)) is not None)])


def _used_since(history: History, host: str, idle: HostState, ts: int) -> bool:
    when = _when(idle)
    return any(a.start is not None and when is not None and a.start > when for a in history.runs_on(host) if a.end is None or a.end > ts)


def _when(state: HostState) -> int | None:
    """When a state was told; None for a snapshot without a time, which is as new as the bundle that it came with."""
    return state.start


def _holds(state: HostState, ts: int, past: bool) -> bool:
    """Whether a bad state holds at `ts`, give or take half an hour, or has not ended since; of the past only what had begun counts."""
    begun = state.start is None or state.start <= ts + 30 * MINUTE
    if state.end is None:
        return begun or not past
    return begun and state.end > ts - 30 * MINUTE


def _over(state: HostState, states: Sequence[HostState], runs: Runs, ts: int) -> bool:
    """Whether a bad state whose record tells no end was over by `ts`: a job began on the host since, or another record of it tells one."""
    if state.end is not None or state.start is None:
        return False
    begun = runs.next(state.start)
    twins = [s.end for s in states if s.state == state.state and s.end is not None and abs((s.start or 0) - state.start) <= TWIN]
    return (begun is not None and begun <= ts) or any(end + 30 * MINUTE <= ts for end in twins)


def _clean_for(history: History, host: str, ts: int) -> int | None:
    """Microseconds since the host's last root or loss; None when no log of it was read."""
    fault = history.last_fault(host, ts)
    if fault is not None:
        return ts - fault
    firsts = [first for first, _ in history.spans.get((host, "kernel"), [])]
    return ts - min(firsts) if firsts and min(firsts) < ts else None


def _why(history: History, host: str, level: str | None, clean: int | None, told: str) -> str:
    parts = [told]
    parts.append(f"clean for {span(clean / 1e6)}" if clean is not None else "its history is not known here")
    if level:
        guess = " (guessed from names)" if history.topology.guessed(host) else ""
        parts.append(f"same {level}{guess}")
    elif not any(history.topology.part(host, x) for x in ("leaf", "rack", "rail")):
        parts.append("place not known")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Need:
    """What spares of an incident are looked for by: the attempt's hosts, those that are blamed, and when."""

    incident_id: str
    hosts: Sequence[str]
    gone: frozenset[str]
    end: int | None

    @classmethod
    def of(cls, decision: Decision) -> Need | None:
        """The need of a decision that takes a host away or moves the job; None for others."""
        incident = decision.finding.incident
        if incident.attempt is None or decision.action in ("none", "monitor"):
            return None
        gone = frozenset(s.host for s in decision.finding.suspects if s.host)
        return cls(incident.incident_id, incident.attempt.hosts, gone, incident.end)

    def offers(self, history: History) -> list[Spare]:
        """Hosts that could stand in."""
        ts = self.end if self.end is not None else history.now
        stay = [h for h in self.hosts if h not in self.gone]
        # a job of one host leaves nobody: its own place is the one to stay near
        return candidates(history, ts, [*self.hosts, *self.gone], stay or self.hosts)


def build(decision: Decision, history: History) -> list[Spare]:
    """Spares for a decision that takes a host away or moves the job."""
    need = Need.of(decision)
    return need.offers(history) if need else []
