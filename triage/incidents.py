"""Incidents: bursts and scheduler outcomes joined by time, job, host and topology into one story each.

An attempt that did not complete is an incident; faults that no attempt explains are incidents of a host, or of what several hosts share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from triage.history import Burst, History, Step, is_hostless
from triage.jobs import Attempt
from triage.moments import MINUTE, SECOND

Threshold = Callable[[str], float]
"""A threshold of the rules by name; times in seconds."""

OUTCOMES = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "NODE_FAIL": "node_fail",
    "CANCELLED": "cancelled",
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "PREEMPTED": "preempted",
    "OUT_OF_MEMORY": "out_of_memory",
    "BOOT_FAIL": "node_fail",
    "RUNNING": "running",
    "REQUEUED": "requeued",
    "LAUNCH_FAILED": "failed",
}
TROUBLE = {"root", "cascade", "symptom"}
OPEN_ROLES = {"root", "outcome", "operator"}
WARNING_WEIGHT = 30
STALL_STEPS, STALL_FLOOR = 20, 10 * MINUTE


@dataclass(slots=True)
class Incident:
    """One story. low..high bound its causes; start is its true start, end its outcome; all microseconds UTC."""

    incident_id: str
    kind: str
    start: int | None
    end: int | None
    low: int | None
    high: int | None
    attempt: Attempt | None = None
    hosts: list[str] = field(default_factory=list)
    own: list[Burst] = field(default_factory=list)
    around: list[Burst] = field(default_factory=list)
    hang: bool = False
    stalled: bool = False
    first_symptom: int | None = None

    @property
    def bursts(self) -> list[Burst]:
        return [*self.own, *self.around]

    @property
    def job_end(self) -> str:
        """How its attempt ended, in one word."""
        if self.attempt is None:
            return "none"
        state = (self.attempt.state or "").split(" ")[0].rstrip("+")
        return OUTCOMES.get(state, "running" if self.attempt.running else "failed" if state else "none")


def build(history: History, threshold: Threshold, window_s: float | None = None) -> list[Incident]:
    """Every incident of the history, in order of start. `window_s` seconds before the true start replace the default window."""
    incidents = [made for a in history.attempts if (made := of_attempt(a, history, threshold, window_s))]
    claimed = {b.burst_id for i in incidents for b in i.bursts if i.job_end != "completed" or not is_warning(b)}
    loose = [b for b in history.bursts if b.burst_id not in claimed and _is_open(b) and not healed(b, history)]
    hostless = [b for b in loose if b.host is None and b.job_id is None and b.code.startswith("k8s.")]
    hostless += [b for b in loose if is_hostless(b) and not _told_with_host(b, history)]
    incidents += _of_hosts([b for b in loose if b.host is not None and (b.job_id is None or b.family == "scheduler")], history, threshold)
    incidents += [_of_bursts(group, history, threshold) for group in _split(hostless, int(threshold("incident_gap") * SECOND))]
    return sorted(incidents, key=lambda i: (i.start or 0, i.incident_id))


def _told_with_host(burst: Burst, history: History) -> bool:
    """Whether another log tells of the same within ten seconds and names the host: a plug-in's log beside the kernel's."""
    alike = (b for b in history.bursts if b.code == burst.code and b.host is not None)
    return any(burst.first is None or b.first is None or abs(b.first - burst.first) <= 10 * SECOND for b in alike)


def healed(burst: Burst, history: History) -> bool:
    """One drop of a link that came back within a minute, and no second one near it: tolerated (ByteRobust: act at two in five minutes)."""
    if burst.code not in ("ib.link_down", "eth.link_down") or burst.host is None or burst.first is None or burst.count > 1:
        return False
    last = burst.last if burst.last is not None else burst.first
    near = history.on_host(burst.host, burst.first - 5 * MINUTE, last + 5 * MINUTE)
    back = any(b.code == burst.code.replace("down", "up") and b.first is not None and last <= b.first <= last + MINUTE for b in near)
    return back and sum(b.code == burst.code for b in near) == 1


def _is_open(burst: Burst) -> bool:
    """What is worth an incident of its own without a job: faults, lost hosts, operators' acts, and warnings that ask for an act."""
    return burst.role in OPEN_ROLES or is_warning(burst)


def is_warning(burst: Burst) -> bool:
    """A sign that ends nothing by itself and still asks for an act: a pending row remap, the driver's call for a reset."""
    return (burst.role == "precursor" and burst.weight >= WARNING_WEIGHT) or (burst.role == "advice" and burst.family == "gpu")


def of_attempt(attempt: Attempt, history: History, threshold: Threshold, window_s: float | None = None) -> Incident | None:
    """The incident of an attempt; None when it ended well and nothing in its own records says otherwise."""
    own = [b for b in history.of_job(attempt) if b.role != "noise"]
    incident = Incident(f"job-{attempt.job_id}-{attempt.attempt}", "job", None, attempt.end, None, None, attempt, list(attempt.hosts), own)
    incident.hang = any(b.code in ("nccl.timeout", "nccl.heartbeat", "nccl.desync", "torch.flight") for b in own)
    incident.first_symptom = min((b.start for b in own if b.timed and b.start is not None and b.role in TROUBLE), default=None)
    incident.stalled = _stalled(attempt, history)
    incident.start = _true_start(incident, history)
    _set_window(incident, history, threshold, window_s)
    if incident.low is not None and incident.high is not None:
        low, high = incident.low, incident.high
        known = {b.burst_id for b in own}
        around = (b for h in incident.hosts for b in history.on_host(h, low, high))
        near = [b for b in around if b.job_id in (None, attempt.job_id) and b.burst_id not in known]
        incident.around = [b for b in near if not _is_stale_record(b, attempt)]
        told = {b.class_id for b in [*own, *incident.around] if b.host is not None and b.role == "root"}
        incident.around += [b for b in history.hostless(low, high) if b.class_id not in told]
    elif attempt.start is None and attempt.end is None:
        incident.around = [b for h in incident.hosts for b in history.on_host(h, 1, 1 << 62) if b.job_id is None]
    incident.around += [b for h in incident.hosts for b in history.untimed_on(h) if b.job_id is None]
    return incident if _is_bad(incident, history) else None


def _is_stale_record(burst: Burst, attempt: Attempt) -> bool:
    """A scheduler's record of a host from before the attempt began says nothing of it."""
    return burst.family == "scheduler" and attempt.start is not None and burst.last is not None and burst.last < attempt.start - MINUTE


def _is_bad(incident: Incident, history: History) -> bool:
    attempt = incident.attempt
    assert attempt is not None
    outcome = incident.job_end
    if outcome not in ("completed", "running", "none"):
        return True
    if any(b.role in TROUBLE and (b.family != "scheduler" or outcome != "completed") for b in incident.own) or incident.stalled:
        return True
    key = (attempt.job_id, attempt.attempt)
    if len(history.steps.get(key, ())) >= 8 or history.dumps.get(key):
        return True
    return outcome != "completed" and any(b.role == "root" and not b.user_possible for b in incident.around)


def _true_start(incident: Incident, history: History) -> int | None:
    own = incident.own
    if incident.first_symptom is not None:
        return incident.first_symptom
    attempt = incident.attempt
    assert attempt is not None
    lost = [b.first for b in own if b.code == "slurm.node_fail" and b.timed and b.first is not None]
    untimed = [b.first for b in own if b.role in TROUBLE and b.first is not None]
    end = attempt.end if attempt.end is not None else history.now
    if incident.stalled:
        steps = history.steps.get((attempt.job_id, attempt.attempt), [])
        return max((s.ts for s in steps if s.ts is not None), default=end)
    return min(untimed or lost, default=end)


def _stalled(attempt: Attempt, history: History) -> bool:
    """Whether steps stopped long before the attempt was ended from outside: at least 20 steps' time and 10 minutes of silence."""
    state = (attempt.state or "").split(" ")[0]
    end = attempt.end if attempt.end is not None else history.now
    if state not in ("CANCELLED", "TIMEOUT") and not attempt.running:
        return False
    steps = [s for s in history.steps.get((attempt.job_id, attempt.attempt), []) if s.ts is not None]
    if len(steps) < 3 or end is None or "end" in attempt.guessed:
        return False
    last = max(s.ts or 0 for s in steps)
    return end - last > max(STALL_STEPS * _pace(steps), STALL_FLOOR)


def _pace(steps: Sequence[Step]) -> float:
    """Microseconds a step: as printed, else the median of the stamps' distance per step, so that a cut in the log does not count."""
    printed = [s.duration_s for s in steps if s.duration_s]
    if printed:
        return median(printed) * SECOND
    pairs = [(b.ts or 0) - (a.ts or 0) for a, b in pairwise(steps) if b.seq == a.seq + 1]
    return median(pairs) if pairs else 60.0 * SECOND


def _set_window(incident: Incident, history: History, threshold: Threshold, window_s: float | None) -> None:
    """From an hour before the true start (not earlier than ten minutes before the attempt) to a quarter of an hour after the end."""
    attempt, start = incident.attempt, incident.start
    end = incident.end if incident.end is not None else history.now
    if start is None or end is None:
        return
    before = int((window_s if window_s is not None else threshold("cause_window_before")) * SECOND)
    incident.low = start - before
    if attempt is not None and attempt.start is not None and "start" not in attempt.guessed and window_s is None:
        incident.low = max(incident.low, attempt.start - 10 * MINUTE)
    incident.high = max(end, start) + int(threshold("cause_window_after") * SECOND)


def _of_hosts(loose: Sequence[Burst], history: History, threshold: Threshold) -> list[Incident]:
    """Host incidents by quiet gap; those of at least three hosts at once with one class become one shared incident."""
    by_host: defaultdict[str, list[Burst]] = defaultdict(list)
    for burst in loose:
        if burst.host is not None:
            by_host[burst.host].append(burst)
    gap = int(threshold("incident_gap") * SECOND)
    groups = [group for host in sorted(by_host) for group in _split(by_host[host], gap)]
    incidents = [_of_bursts(part, history, threshold) for part in _shared(groups, history, threshold)]
    return incidents


def _split(bursts: Iterable[Burst], gap: int) -> list[list[Burst]]:
    groups: list[list[Burst]] = []
    for burst in sorted(bursts, key=lambda b: (b.first is None, b.first or 0, b.burst_id)):
        last = groups[-1][-1] if groups else None
        near = last is not None and (burst.first is None or (last.last is not None and burst.first - last.last <= gap))
        if near:
            groups[-1].append(burst)
        else:
            groups.append([burst])
    return groups


def _shared(groups: list[list[Burst]], history: History, threshold: Threshold) -> list[list[Burst]]:
    """Merge groups of different hosts that began together with the same class, when they are many or share a rack or leaf."""
    window, least = int(threshold("shared_window") * SECOND), int(threshold("shared_hosts"))
    ordered = sorted(groups, key=lambda g: (g[0].class_id or "", g[0].first or 0, g[0].host or ""))
    merged: list[list[Burst]] = []
    runs: list[list[list[Burst]]] = []
    for group in ordered:
        head, previous = group[0], runs[-1][-1][0] if runs else None
        together = (
            previous is not None
            and previous.class_id == head.class_id
            and previous.first is not None
            and head.first is not None
            and head.first - previous.first <= window
        )
        if together:
            runs[-1].append(group)
        else:
            runs.append([group])
    for run in runs:
        hosts = {g[0].host for g in run if g[0].host}
        joined = len(hosts) >= least or (len(hosts) > 1 and history.topology.shared(hosts) is not None)
        merged += [[b for g in run for b in g]] if joined and run[0][0].role != "operator" else run
    return merged


def _of_bursts(bursts: list[Burst], history: History, threshold: Threshold) -> Incident:
    first = bursts[0]
    times = [t for b in bursts for t in (b.first, b.last) if t is not None]
    hosts = sorted({b.host for b in bursts if b.host})
    start, end = min(times, default=None), max(times, default=None)
    incident = Incident(
        f"host-{_short(first.burst_id)}", "host" if len(hosts) == 1 else "shared", start, end, start, end, None, hosts, [], bursts
    )
    if start is not None and end is not None:
        incident.low = start - int(threshold("cause_window_before") * SECOND)
        incident.high = end + int(threshold("cause_window_after") * SECOND)
        known = {b.burst_id for b in bursts}
        incident.around += [
            b
            for h in hosts
            for b in history.on_host(h, start - 10 * MINUTE, end + 10 * MINUTE)
            if b.burst_id not in known and b.job_id is None
        ]
    return incident


def _short(burst_id: str) -> str:
    """A burst's id with twelve digits of its source's digest: enough to tell sources apart, few enough to type."""
    digest, _, place = burst_id.partition(":")
    return f"{digest[:12]}:{place}"
