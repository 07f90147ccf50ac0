"""Incidents: bursts and scheduler outcomes joined by time, job, host and topology into one story each.

An attempt that did not complete is an incident; faults that no attempt explains are incidents of a host, or of what several hosts share.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from operator import itemgetter
from statistics import median

from triage.grouping import Gathering, Group, Run
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
KEPT = 50_000
"""Bursts of so many in incidents of jobs are held from their first look to their turn."""


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


Story = tuple[int, str, Callable[[], Incident]]
"""When an incident starts, its id, and what makes it."""


def build(history: History, threshold: Threshold, window_s: float | None = None) -> Iterator[Incident]:
    """Every incident of the history, in order of start, made when it is asked for.

    window_s  seconds before the true start, instead of the default window
    """
    claimed = bytearray(len(history.bursts))
    jobs = _of_jobs(history, threshold, window_s, claimed)
    for _, _, make in heapq.merge(jobs, _of_hosts(history, threshold, claimed), key=itemgetter(0, 1)):
        yield make()


def _of_jobs(history: History, threshold: Threshold, window_s: float | None, claimed: bytearray) -> list[Story]:
    """Incidents of attempts in order of start; the first are kept, the rest made anew at their turn.

    claimed  by place, takes a mark for each burst that one of them explains
    """
    stories: list[Story] = []
    kept = 0
    for attempt in history.attempts:
        made = of_attempt(attempt, history, threshold, window_s)
        if made is None:
            continue
        for burst in made.bursts:
            if made.job_end != "completed" or not is_warning(burst):
                claimed[burst.place] = 1
        kept += len(made.own) + len(made.around)
        again = partial(_made_again, attempt, history, threshold, window_s)
        stories.append((made.start or 0, made.incident_id, partial(_itself, made) if kept <= KEPT else again))
    return sorted(stories, key=itemgetter(0, 1))


def _itself(incident: Incident) -> Incident:
    return incident


def _made_again(attempt: Attempt, history: History, threshold: Threshold, window_s: float | None) -> Incident:
    made = of_attempt(attempt, history, threshold, window_s)
    assert made is not None
    return made


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


def _of_hosts(history: History, threshold: Threshold, claimed: bytearray) -> Iterator[Story]:
    """Incidents of what no attempt explains, in order of start.

    Those of a host end with a quiet gap; those of many hosts at once with one class, or of a few with one rack or leaf, are one.
    """

    told = _told_with_host(history)

    def loose(bursts: Iterable[Burst]) -> Iterator[Burst]:
        return (b for b in bursts if not claimed[b.place] and _stands_alone(b, told) and not healed(b, history))

    late = {host: rows for host, untimed in history.untimed() if (rows := list(loose(untimed)))}
    left = {host: sum(b.first is not None for b in loose(history.track(host))) for host in late}
    gathering = Gathering(
        int(threshold("incident_gap") * SECOND),
        int(threshold("shared_window") * SECOND),
        {host: (rows, left[host]) for host, rows in late.items()},
    )
    least = int(threshold("shared_hosts"))
    waiting: list[tuple[int, str, Sequence[Group]]] = []
    for since, runs in gathering.runs(b for b in loose(history.bursts) if b.first is not None):
        for run in runs:
            for part in [run.groups] if _is_shared(run, history, least) else [[g] for g in run.groups]:
                heapq.heappush(waiting, (part[0].first or 0, f"host-{_short(part[0].head)}", part))
        while waiting and waiting[0][0] < since:
            start, name, groups = heapq.heappop(waiting)
            yield start, name, partial(_of_groups, groups, history, threshold)


def _stands_alone(burst: Burst, told: Callable[[Burst], bool]) -> bool:
    """Whether a burst may make an incident without a job."""
    if not _is_open(burst):
        return False
    if burst.host is None:
        return burst.job_id is None and (burst.code.startswith("k8s.") or (is_hostless(burst) and not told(burst)))
    return burst.job_id is None or burst.family == "scheduler"


def _told_with_host(history: History) -> Callable[[Burst], bool]:
    """Whether another log tells of the same within ten seconds and names the host: a plug-in's log beside the kernel's."""
    codes = {b.code for b in history.track(None) if is_hostless(b)}
    times: defaultdict[str, list[int]] = defaultdict(list)
    untimed: set[str] = set()
    for burst in history.bursts if codes else ():
        if burst.host is None or burst.code not in codes:
            continue
        if burst.first is None:
            untimed.add(burst.code)
        else:
            times[burst.code].append(burst.first)
    for found in times.values():
        found.sort()

    def told(burst: Burst) -> bool:
        found = times.get(burst.code, [])
        if burst.first is None or burst.code in untimed:
            return bool(found) or burst.code in untimed
        at = bisect_left(found, burst.first - 10 * SECOND)
        return at < len(found) and found[at] <= burst.first + 10 * SECOND

    return told


def _is_shared(run: Run, history: History, least: int) -> bool:
    """Whether the hosts of a run are many, or share a rack or leaf, and no operator acted on them."""
    hosts = {g.host for g in run.groups if g.host}
    joined = len(hosts) >= least or (len(hosts) > 1 and history.topology.shared(hosts) is not None)
    return joined and run.groups[0].role != "operator"


def _of_groups(groups: Sequence[Group], history: History, threshold: Threshold) -> Incident:
    return _of_bursts([b for g in groups for b in history.at(g.places)], history, threshold)


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
