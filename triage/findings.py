"""Findings: the first cause of an incident, who is suspected, who only waited, and the features that the decision table reads.

Order of judgement (TAXONOMY 2.1): critical hardware before anything that NCCL prints; the earliest of near equals; a cascade or a
symptom never displaces an earlier root; what many hosts share beats its members; without a root nobody is a culprit.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from triage import callstack, collectives, paces
from triage.collectives import Hang
from triage.history import Burst, History, Rank
from triage.incidents import TROUBLE, Incident, Threshold, healed, is_warning
from triage.moments import DAY, MINUTE, SECOND, span

NEAR_WEIGHT = 12
FAR_PENALTY = 30
LATE_PENALTY = 45
SHARED_CLASSES = {"T04", "T07", "T10", "T12", "T13", "T14", "T15", "T16", "T17", "T24"}
BLAMELESS_LAYERS = {"user", "scheduler", "storage", "facility", "system_software"}
RECOVERY = (
    ("node reboot", "node_reboot"),
    ("drain and reset", "drain_and_reset"),
    ("drain p2p", "drain_p2p"),
    ("imex", "recover_imex"),
    ("reset", "gpu_reset"),
)
LOCAL_NAMES = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
ASKED_SIGNALS = {1, 2, 15}
SYMPTOM_CLASSES = ("T11", "T13", "T14", "T12", "T08", "T18", "T17", "T21", "T24")


@dataclass(slots=True)
class Suspect:
    """A host, device or rank and why it is suspected; role culprit | suspect."""

    host: str | None
    device: str | None
    rank: int | None
    role: str
    score: float
    why: str
    code: str | None = None
    burst: Burst | None = None
    source_id: str | None = None


@dataclass(slots=True)
class Finding:
    """What an incident comes down to. `features` are the columns of the decision table."""

    incident: Incident
    class_id: str = "none"
    root: Burst | None = None
    lead: Burst | None = None
    roots: list[Burst] = field(default_factory=list)
    rivals: list[Burst] = field(default_factory=list)
    root_role: str = "none"
    shared: str = "none"
    shared_name: str = ""
    layer: str = "unknown"
    manifestation: str = "none"
    suspects: list[Suspect] = field(default_factory=list)
    victims: list[tuple[str, str]] = field(default_factory=list)
    hang: Hang | None = None
    change: paces.Change | None = None
    stragglers: list[collectives.Blame] = field(default_factory=list)
    slow: str = "none"
    silent: list[collectives.Blame] = field(default_factory=list)
    stacks: list[callstack.StackBlame] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    operator: bool = False
    inferred: list[str] = field(default_factory=list)
    features: dict[str, object] = field(default_factory=dict)


def examine(incident: Incident, history: History, threshold: Threshold) -> Finding:
    """The finding of one incident."""
    finding = Finding(incident)
    _read_training(finding, history, threshold)
    finding.lost = _lost_hosts(incident)
    finding.operator = _operator_ended(incident)
    _choose_root(finding, history, threshold)
    _find_shared(finding, history, threshold)
    _classify(finding)
    _suspect(finding, history)
    _find_victims(finding, history)
    return finding


def _read_training(finding: Finding, history: History, threshold: Threshold) -> None:
    attempt = finding.incident.attempt
    if attempt is None:
        return
    key = (attempt.job_id, attempt.attempt)
    dumps, steps = history.dumps.get(key, []), history.steps.get(key, [])
    if dumps:
        size = max((len(history.ranks.get(key, {})), 0))
        finding.hang = collectives.examine(dumps, size or None)
        finding.stragglers = collectives.stragglers(dumps, threshold("straggler_late"))
    if stacks := history.stacks.get(key):
        hosts = {r.rank: r.host for r in history.ranks.get(key, {}).values()}
        finding.stacks = callstack.examine_stacks(stacks, collectives.members_of(dumps), hosts)
    finding.silent = _silent_ranks(finding.incident, history.ranks.get(key, {}), attempt.gpus or 0)
    finding.change = paces.step_change(steps, threshold("step_change"))
    if finding.stragglers:
        finding.slow = "rank"
    elif ranks := paces.slow_ranks(steps, threshold("slow_mild")):
        finding.slow = "rank"
        finding.stragglers = [
            collectives.Blame(r, None, share, f"its steps take {share:.0%} longer than the median rank's", "straggler")
            for r, share in ranks[:3]
        ]
    elif finding.change:
        finding.slow = "step_change"


def _silent_ranks(incident: Incident, ranks: Mapping[int, Rank], gpus: int) -> list[collectives.Blame]:
    """The few ranks, or those of one host, that printed no timeout where all others did: they were not waiting in the collective."""
    printed = {b.rank for b in incident.own if b.code == "nccl.timeout" and b.rank is not None}
    size = max(gpus, max(ranks, default=-1) + 1, max(printed, default=-1) + 1)
    absent = sorted(set(range(size)) - printed)
    hosts = {ranks[r].host if r in ranks else None for r in absent}
    loud = {ranks[r].host for r in printed if r in ranks}
    whole_host = len(hosts) == 1 and None not in hosts and not hosts & loud and bool(loud)
    if not absent or len(printed) < 3 or not (whole_host or len(absent) <= max(1, size // 10)):
        return []
    why = f"printed no timeout, where {len(printed)} ranks did: it was not waiting in the collective"
    return [collectives.Blame(rank, None, 1.5, why, "not_entered") for rank in absent[: 1 if whole_host else 4]]


def _lost_hosts(incident: Incident) -> list[str]:
    """Hosts that the scheduler or srun says were lost under the job."""
    named = [
        b.host
        for b in incident.bursts
        if b.code in ("slurm.node_fail", "slurm.node_down", "slurm.node_not_responding") and b.host and b.role != "operator"
    ]
    if incident.attempt and incident.attempt.failed_host and not _operator_ended(incident):
        named.insert(0, incident.attempt.failed_host)
    ended = incident.end
    near = {
        b.host
        for b in incident.bursts
        if b.code == "slurm.node_fail" or ended is None or (b.first is not None and abs(b.first - ended) <= 5 * MINUTE)
    }
    return list(dict.fromkeys(h for h in named if h in near or h == (incident.attempt.failed_host if incident.attempt else None)))


def _operator_ended(incident: Incident) -> bool:
    """An operator's act on a host within seconds of the end, where the scheduler calls it a node failure."""
    if incident.end is None or incident.job_end not in ("node_fail", "failed"):
        return False
    acts = [b for b in incident.around if b.role == "operator" and b.code in ("slurm.node_down", "slurm.node_fail") and b.first is not None]
    return any(abs((b.first or 0) - incident.end) <= 5 * SECOND for b in acts) or _shut_down_under(incident)


def _shut_down_under(incident: Incident) -> bool:
    """An orderly shutdown or restart of one of the job's hosts that came before any trouble of the job, and before its end.

    Slurm notices a lost host after up to five minutes, the peers of its ranks at once.
    """
    if incident.hang or incident.stalled or incident.end is None:
        return False
    latest = incident.end if incident.first_symptom is None else min(incident.end, incident.first_symptom + 30 * SECOND)
    acts = [b.first for b in incident.around if b.code == "host.shutdown" and b.timed and b.first is not None]
    return any(incident.end - 10 * MINUTE <= act <= latest for act in acts)


def timing(burst: Burst, incident: Incident, threshold: Threshold) -> str:
    """How a burst lies to the true start: at | before | after | unknown."""
    if burst.first is None or incident.start is None:
        return "unknown"
    if incident.attempt is None:
        return "at"
    if not burst.timed:
        return "unknown"
    if incident.hang or incident.stalled:
        if burst.first < incident.start - threshold("timeout_before") * SECOND:
            return "before"
        return "at" if burst.first <= incident.start + threshold("timeout_after") * SECOND else "after"
    end = incident.end if incident.end is not None else incident.start
    if incident.first_symptom is not None and burst.first > incident.first_symptom + threshold("timeout_after") * SECOND:
        return "after"
    if burst.first > end + threshold("meta_after") * SECOND:
        return "after"
    return "at" if burst.first >= end - threshold("meta_before") * SECOND else "before"


def _strength(burst: Burst, incident: Incident, threshold: Threshold) -> float:
    when = timing(burst, incident, threshold)
    penalty = {"at": 0, "unknown": 0, "before": FAR_PENALTY, "after": LATE_PENALTY}[when]
    if when == "before" and burst.first is not None and incident.start is not None and incident.start - burst.first <= 10 * MINUTE:
        penalty //= 3
    if burst.code == "host.boot":
        penalty = 0
    return burst.weight - penalty


def _choose_root(finding: Finding, history: History, threshold: Threshold) -> None:
    """The strongest root of the window; among near equals the earliest. Others near it in strength are rivals."""
    incident = finding.incident
    if finding.operator and _act_followed_fault(incident):
        finding.operator = False
    outcome_only = incident.job_end in ("preempted", "completed") or finding.operator
    roots = [b for b in incident.bursts if b.role == "root"] + _reboots(finding, history)
    if outcome_only and incident.attempt is not None:
        roots = [b for b in roots if b.job_id is not None and incident.job_end == "completed" and b.weight >= 60]
    roots = [b for b in roots if timing(b, incident, threshold) != "before" or not healed(b, history)]
    roots = [b for b in roots if not _is_fallout(b, incident)]
    scored = [(s, b) for b in roots if (s := _strength(b, incident, threshold)) >= 15]
    if incident.job_end in ("cancelled", "time_limit"):
        scored = [(s, b) for s, b in scored if incident.hang or incident.stalled or b.fatal or b.weight >= 60]
    if not scored:
        return
    best = max(s for s, _ in scored)
    near = sorted((b for s, b in scored if s >= best - NEAR_WEIGHT), key=lambda b: (not b.timed, b.first or 0, b.source_id, b.line))
    root = near[0]
    finding.root, finding.root_role = root, "root"
    finding.roots = [b for _, b in scored if b.class_id == root.class_id]
    finding.rivals = [b for b in near if _is_rival(b, root)]


def _is_fallout(burst: Burst, incident: Incident) -> bool:
    """An Xid that a program can raise, at the report of a timeout or after it: the watchdog has begun to kill the ranks."""
    reports = [b.first for b in incident.own if b.code == "nccl.timeout" and b.timed and b.first is not None]
    if not reports or not burst.user_possible or burst.family != "gpu" or burst.first is None:
        return False
    return burst.timed and burst.first >= min(reports) - 2 * SECOND


def _act_followed_fault(incident: Incident) -> bool:
    """Whether a fatal fault stands on the host in the quarter of an hour before an operator took it down: the act answers it."""
    acts = [b for b in incident.around if b.role == "operator" and b.first is not None]
    fatal = [b for b in incident.around if b.role == "root" and b.fatal and b.first is not None]
    return any(f.host == a.host and 0 <= (a.first or 0) - (f.first or 0) <= 15 * MINUTE for a in acts for f in fatal)


def _is_rival(other: Burst, root: Burst) -> bool:
    """Another root that the chosen one does not explain: of another host, or of another GPU and class."""
    if other is root or other.class_id == root.class_id:
        return False
    same_place = other.host == root.host or other.host is None or root.host is None
    return not same_place


def _reboots(finding: Finding, history: History) -> list[Burst]:
    """A host that was lost and then booted crashed: its boot within an hour stands for the crash."""
    end = finding.incident.end or finding.incident.start
    if end is None:
        return []
    boots = [b for h in finding.lost for b in history.on_host(h, end - 10 * MINUTE, end + 60 * MINUTE) if b.code == "host.boot"]
    return [_as_crash(b) for b in boots if not any(d.host == b.host and d.role == "operator" for d in finding.incident.around)]


def _as_crash(boot: Burst) -> Burst:
    from dataclasses import replace

    return replace(boot, class_id="T15", role="root", layer="host", weight=max(boot.weight, 70), fatal=False)


def _find_shared(finding: Finding, history: History, threshold: Threshold) -> None:
    """Whether several hosts failed by what they share: a rack, a leaf, a file server, or the job's own program."""
    root, incident = finding.root, finding.incident
    together = finding.roots if root else [b for b in incident.bursts if b.code in ("slurm.node_down", "slurm.node_fail", "ib.link_down")]
    window = int(threshold("shared_window") * SECOND) * (5 if root and root.class_id == "T17" else 1)
    anchor = root.first if root else incident.start
    hosts = {b.host for b in together if b.host and (anchor is None or b.first is None or abs(b.first - anchor) <= window)}
    finding.features["root_hosts"] = len(hosts) if root else 0
    if len(hosts) < 2:
        return
    if root is not None and root.user_possible:
        finding.shared = "job"
        return
    class_id = root.class_id if root else "T24"
    if class_id == "T17" and root is not None:
        finding.shared = (
            "storage" if len({b.peer for b in finding.roots if b.peer}) <= 2 or len(hosts) >= threshold("shared_hosts") else "none"
        )
    elif class_id in SHARED_CLASSES and (part := history.topology.shared(hosts)):
        finding.shared, finding.shared_name = part
    elif class_id in SHARED_CLASSES and len(hosts) >= threshold("shared_hosts"):
        finding.shared = "fleet"
    if finding.shared in ("rack", "leaf") and len(hosts) < threshold("shared_hosts") and class_id not in ("T10", "T12"):
        finding.shared, finding.shared_name = "none", ""


def _classify(finding: Finding) -> None:
    incident, root = finding.incident, finding.root
    if root is not None and root.class_id:
        finding.class_id, finding.layer = root.class_id, root.layer
    elif finding.operator or incident.job_end == "preempted":
        finding.class_id, finding.root_role, finding.layer = "T23", "outcome", "scheduler"
    else:
        _classify_by_symptom(finding)
    if finding.shared in ("rack", "fleet") and finding.class_id in ("T04", "T10", "T15", "T16", "T24"):
        finding.layer = "facility"
    elif finding.shared == "job":
        finding.layer = "user"
    finding.manifestation = _manifestation(finding)


def _classify_by_symptom(finding: Finding) -> None:
    """No root: what was seen names the class, and nobody is a culprit."""
    incident = finding.incident
    seen = Counter(b.class_id for b in incident.own if b.role in ("symptom", "cascade") and b.class_id)
    outcome = incident.job_end
    stuck = finding.hang is not None and bool(finding.hang.waiting or (finding.hang.missing and incident.hang))
    stuck = stuck or (bool(finding.stacks) and outcome == "running")
    if incident.hang or stuck or incident.stalled:
        finding.class_id, finding.root_role = "T13", "symptom"
    elif outcome in ("cancelled", "time_limit") and "T11" not in seen:
        finding.class_id, finding.root_role, finding.layer = "T23", "outcome", "scheduler"
    elif outcome == "node_fail" or finding.lost:
        finding.class_id, finding.root_role = "T24", "outcome"
    elif _put_back(incident):
        finding.class_id, finding.root_role, finding.layer = "T23", "outcome", "scheduler"
    elif _died_alone(incident) and not set(seen) - {"T14"}:
        _classify_failed(finding)
    elif named := next((c for c in SYMPTOM_CLASSES if seen[c]), None):
        finding.class_id, finding.root_role = named, "symptom"
        finding.layer = _layer_of(incident.own, named)
    elif outcome == "out_of_memory":
        finding.class_id, finding.root_role, finding.layer = "T18", "outcome", "user"
    elif finding.slow != "none":
        finding.class_id, finding.root_role = "T22", "symptom"
    elif outcome in ("failed", "requeued"):
        _classify_failed(finding)
    else:
        _classify_loose(finding)


def _put_back(incident: Incident) -> bool:
    """A job that went back to the queue while nothing of it or of its hosts was in trouble: somebody asked for it."""
    ill = any(b.role in TROUBLE for b in incident.own) or any(b.role in ("symptom", "outcome") for b in incident.around)
    return incident.job_end == "requeued" and not ill


def _layer_of(bursts: Sequence[Burst], class_id: str) -> str:
    layers = [b.layer for b in bursts if b.class_id == class_id and b.role in ("symptom", "cascade") and b.layer != "unknown"]
    return layers[0] if layers else "unknown"


def _died_alone(incident: Incident) -> list[Burst]:
    """Exits by a signal that nobody in the job asked for: SIGKILL, SIGSEGV, SIGABRT, SIGBUS ..., at most half of the ranks."""
    exits = [b for b in incident.own if b.code in ("torch.rank_exit", "slurm.task_exit")]
    alone = [b for b in exits if b.signal is not None and b.signal not in ASKED_SIGNALS]
    return alone if len(alone) <= max(1, len(exits) // 2) else []


def _classify_failed(finding: Finding) -> None:
    """A job that ended with an exit code and left nothing else: its program, unless something killed it."""
    incident = finding.incident
    attempt = incident.attempt
    exits = [b for b in incident.own if b.code in ("torch.rank_exit", "slurm.task_exit")]
    killed = any(b.signal == 9 for b in _died_alone(incident)) or (attempt is not None and attempt.signal == 9)
    finding.root_role = "outcome"
    if killed or attempt is None or not (attempt.exit_code or exits):
        finding.class_id = "T24"
    else:
        finding.class_id, finding.layer = "T20", "user"


def _classify_loose(finding: Finding) -> None:
    """An incident of hosts without a root: operator's acts, lost hosts, warnings."""
    bursts = finding.incident.bursts
    if finding.incident.attempt is not None:
        return
    warnings = sorted((b for b in bursts if is_warning(b)), key=lambda b: (b.role == "advice", -b.weight, b.first or 0))
    for name, mine in (
        ("precursor", warnings),
        ("operator", [b for b in bursts if b.role == "operator" and b.class_id]),
        ("outcome", [b for b in bursts if b.role == "outcome" and b.class_id]),
    ):
        if mine:
            finding.lead = mine[0]
            finding.class_id, finding.root_role, finding.layer = mine[0].class_id or "none", name, mine[0].layer
            return


def _manifestation(finding: Finding) -> str:
    incident = finding.incident
    if finding.class_id in ("none", "T23"):
        return "none"
    if finding.class_id == "T22":
        return "fail_slow"
    if finding.class_id == "T11":
        return "silent"
    waiting = finding.hang is not None and bool(finding.hang.waiting)
    if incident.hang or incident.stalled or waiting:
        return "fail_hang"
    if incident.job_end == "running":
        killed = finding.root is not None and finding.root.fatal and finding.root.host in incident.hosts
        return "fail_slow" if finding.slow != "none" else "fail_hang" if killed else "none"
    if incident.attempt is None:
        loud = finding.root or finding.lead
        return loud.manifestation or ("fail_stop" if finding.root else "none") if loud else "none"
    if incident.job_end == "none" and finding.slow != "none" and not any(b.role in TROUBLE or b.role == "outcome" for b in incident.own):
        return "fail_slow"
    if incident.job_end in ("completed", "preempted", "running") and finding.root is None:
        return "none"
    return "fail_on_start" if on_start(incident) else "fail_stop"


def on_start(incident: Incident, limit_s: float = 600) -> bool:
    """Whether an attempt ended within its first ten minutes, by the scheduler's clock, or before its first step by its own output."""
    attempt = incident.attempt
    if attempt is None or attempt.start is None:
        return False
    if "start" in attempt.guessed:
        return False
    end = incident.start if incident.start is not None else incident.end
    limit = min(limit_s, 60) if incident.job_end == "node_fail" else limit_s
    return end is not None and end - attempt.start <= limit * SECOND


def _suspect(finding: Finding, history: History) -> None:
    incident = finding.incident
    if finding.class_id in ("none", "T23") and not finding.operator:
        return
    if finding.root is not None:
        finding.suspects = _suspects_of_root(finding, history)
    elif finding.root_role == "precursor" and finding.lead is not None:
        finding.suspects = [_led(finding.lead, finding.lead.weight / 100)]
    elif finding.class_id == "T13" and finding.hang and finding.hang.blames:
        finding.suspects = [_blamed(b, finding, history) for b in finding.hang.blames[:4]]
    elif finding.class_id == "T13" and finding.stacks:
        finding.suspects = [_blamed(b, finding, history) for b in finding.stacks[:4]]
    elif finding.class_id == "T13" and finding.silent:
        finding.suspects = [_blamed(b, finding, history) for b in finding.silent]
    elif finding.class_id == "T22":
        finding.suspects = [_blamed(b, finding, history) for b in finding.stragglers[:3]]
    elif finding.lost or finding.operator:
        named = finding.lost or [
            b.host for b in incident.around if b.role == "operator" and b.host in incident.hosts and b.code == "slurm.node_down"
        ]
        finding.suspects = [_lost_suspect(h, finding, history) for h in dict.fromkeys(named) if h]
    elif finding.root_role == "outcome" and finding.lead is not None and finding.lead.host and finding.class_id == "T04":
        finding.suspects = [_led(finding.lead, 0.3)]
    elif finding.class_id in ("T14", "T12"):
        finding.suspects = _blamed_peers(finding, history)
    else:
        finding.suspects = _first_ranks(finding, history)
    if not finding.suspects and incident.attempt is not None:
        finding.suspects = _first_ranks(finding, history)


def _led(lead: Burst, score: float) -> Suspect:
    return Suspect(lead.host, lead.device, None, "suspect", score, lead.message[:160], lead.code, lead, lead.source_id)


def _suspects_of_root(finding: Finding, history: History) -> list[Suspect]:
    root = finding.root
    assert root is not None
    if finding.shared in ("storage", "rack", "leaf", "fleet", "job"):
        return []
    blameless = finding.layer in BLAMELESS_LAYERS or root.layer in BLAMELESS_LAYERS or root.user_possible
    role = "suspect" if blameless else "culprit"
    rows: dict[tuple[str | None, str | None], Suspect] = {}
    for burst in sorted(finding.roots, key=lambda b: (b is not root, b.first or 0, b.burst_id)):
        place = _placed(burst, finding, history)
        key = (place[0], place[1])
        if key not in rows and len(rows) < 4 and (burst is root or not burst.user_possible):
            score = round(burst.weight / 100, 2)
            why = f"{burst.message[:160]}" + (f" ({burst.count} lines)" if burst.count > 1 else "")
            own = role if place[0] == root.host or _agrees(burst, root) else "suspect"
            rows[key] = Suspect(place[0], place[1], place[2], own, score, why, burst.code, burst, burst.source_id)
    for rival in finding.rivals[:2]:
        host, device, rank = _placed(rival, finding, history)
        rows.setdefault(
            (host, device),
            Suspect(
                host,
                device,
                rank,
                "suspect",
                rival.weight / 200,
                f"not excluded: {rival.message[:120]}",
                rival.code,
                rival,
                rival.source_id,
            ),
        )
    return list(rows.values())


def _agrees(burst: Burst, root: Burst) -> bool:
    """Whether a fault of another host is a second culprit: fatal for its host, and within a minute of the root."""
    return burst.fatal and burst.first is not None and root.first is not None and abs(burst.first - root.first) <= MINUTE


def _placed(burst: Burst, finding: Finding, history: History) -> tuple[str | None, str | None, int | None]:
    """Host, device and rank of a burst, completed from the rank map both ways."""
    attempt = finding.incident.attempt
    host, device, rank = burst.host, burst.device, burst.rank
    if burst.code == "slurm.task_exit" and attempt is not None and (attempt.gpus or 0) > len(attempt.hosts) > 0:
        rank = None  # srun's task is a launcher here, not a rank
    if attempt is None:
        return host, device, rank
    if host is None and rank is not None:
        own = [b for b in finding.incident.own if b.rank == rank and b.code not in ("slurm.task_exit", "nccl.remote_error")]
        host = next((b.host for b in own if b.host), None)
    if host is None and (known := history.rank_host(attempt, rank)):
        host, device = known.host, device or known.device
        if known.host:
            finding.inferred.append("host from the rank map")
    elif rank is None and device is not None:
        ranks = history.ranks.get((attempt.job_id, attempt.attempt), {}).values()
        rank = next((r.rank for r in ranks if r.host == host and r.device == device), None)
    if host is None and len(finding.incident.hosts) == 1:
        host = finding.incident.hosts[0]
    return host, device, rank


def _blamed(blame: collectives.Blame | callstack.StackBlame, finding: Finding, history: History) -> Suspect:
    attempt = finding.incident.attempt
    known = history.rank_host(attempt, blame.rank) if attempt else None
    host = blame.host or (known.host if known else None)
    code = "flight.dump" if blame.source_id else None
    return Suspect(
        host,
        known.device if known else None,
        blame.rank,
        "suspect",
        round(min(1.0, blame.score / 5), 2),
        blame.why,
        code,
        None,
        blame.source_id,
    )


def _lost_suspect(host: str, finding: Finding, history: History) -> Suspect:
    attempt = finding.incident.attempt
    burst = next((b for b in finding.incident.bursts if b.host == host and b.code.startswith("slurm.node")), None)
    times = history.losses(host, finding.incident.end)
    again = f"; lost {times} times under jobs so far" if times > 1 else ""
    if finding.operator:
        reason = next((b.state for b in finding.incident.around if b.host == host and b.role == "operator" and b.state), "")
        shut = any(b.host == host and b.code == "host.shutdown" for b in finding.incident.around)
        why = f"{'it was shut down or restarted in order' if shut else 'an operator set it down'}{': ' + reason if reason else ''}{again}"
    else:
        why = f"the scheduler lost it{' under job ' + attempt.job_id if attempt else ''}{again}"
    return Suspect(host, None, None, "suspect", 0.5, why, burst.code if burst else None, burst, burst.source_id if burst else None)


def _blamed_peers(finding: Finding, history: History) -> list[Suspect]:
    """Hosts that others name as the lost peer, most blamed first; blame is a lead, not guilt."""
    incident = finding.incident
    blames: Counter[str] = Counter()
    first: dict[str, Burst] = {}
    for burst in incident.own:
        if burst.peer and burst.code in ("nccl.remote_error", "nccl.ib_error", "torch.store"):
            host = history.topology.addresses.get(burst.peer, burst.peer)
            if host != burst.host and host not in LOCAL_NAMES:
                blames[host] += 1
                first.setdefault(host, burst)
    speakers = {b.host for b in incident.own if b.host}
    ranked = sorted(blames.items(), key=lambda item: (item[0] in speakers, -item[1], item[0]))
    return [
        Suspect(
            host,
            None,
            None,
            "suspect",
            0.4,
            f"{count} peer(s) lost it{'' if host in speakers else '; it printed nothing itself'}",
            first[host].code,
            first[host],
            first[host].source_id,
        )
        for host, count in ranked[:2]
    ]


def _first_ranks(finding: Finding, history: History) -> list[Suspect]:
    """The rank whose own trouble stands first in the output, where that trouble is of the finding's class."""
    own = [b for b in finding.incident.own if b.class_id == finding.class_id and b.rank is not None and b.role != "cascade"]
    if finding.root_role == "outcome":
        exits = [b for b in finding.incident.own if b.code in ("torch.rank_exit", "slurm.task_exit") and b.rank is not None]
        own = _died_alone(finding.incident) or [b for b in exits if b.signal not in ASKED_SIGNALS]
    ranks = {b.rank for b in own}
    if not own or (len(ranks) > 2 and (finding.class_id in ("T13", "T11", "T14") or finding.root_role == "outcome")):
        return []
    burst = min(own, key=lambda b: (b.source_id, b.line))
    host, device, rank = _placed(burst, finding, history)
    return [Suspect(host, device, rank, "suspect", 0.3, burst.message[:160], burst.code, burst, burst.source_id)]


def _find_victims(finding: Finding, history: History) -> None:
    """Hosts of the job that only waited, or whose job was preempted."""
    incident = finding.incident
    attempt = incident.attempt
    if (
        attempt is None
        or finding.class_id in ("none", "T22")
        or (incident.job_end in ("cancelled", "completed", "time_limit", "requeued") and finding.class_id == "T23")
    ):
        return
    guilty = (
        {s.host for s in finding.suspects if s.host}
        | {b.host for b in finding.roots if b.host and finding.shared != "storage"}
        | set(finding.lost)
    )
    if finding.shared == "job":
        guilty |= set(incident.hosts)
    why = "its job gave way" if incident.job_end == "preempted" else "no fault in its own logs; it only waited"
    silent = "no kernel log of it here; it printed no fault"
    low, high = incident.low or 0, incident.high or 0
    ill = {b.host for b in incident.bursts if b.host and b.role == "root"}
    for host in incident.hosts:
        if host not in guilty:
            quiet = history.covered(host, "kernel", low, high)
            own = "its own faults do not explain this end" if host in ill else ""
            finding.victims.append((host, why if incident.job_end == "preempted" else own or (why if quiet else silent)))


class Strikes:
    """Incidents that count against a host, by host: its own faults and losses; shared ones and operators' acts do not count."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self._by_host: defaultdict[str, list[tuple[int, tuple[str, ...]]]] = defaultdict(list)
        self._raised: defaultdict[tuple[str, str], list[tuple[int, str | None, str | None]]] = defaultdict(list)
        for finding in findings:
            self.add(finding)

    def add(self, finding: Finding) -> None:
        """Remember the finding of an incident."""
        start = finding.incident.start
        if start is None or finding.shared != "none" or finding.operator:
            return
        devices: defaultdict[str, set[str]] = defaultdict(set)
        for suspect in finding.suspects:
            if suspect.host and (suspect.role == "culprit" or suspect.host in finding.lost):
                devices[suspect.host] |= {suspect.device} if suspect.device else set()
        for host, found in devices.items():
            insort(self._by_host[host], (start, tuple(sorted(found))))
        first = finding.suspects[0] if finding.suspects else None
        if finding.class_id in ("T08", "T09") and first and first.host and first.device:
            self._raised[first.host, first.device].append((start, *_whose(finding)))

    def count(self, host: str | None, device: str | None, before: int | None, window_s: float) -> tuple[int, int]:
        """(incidents of the host, incidents of the same GPU) within the window before `before`."""
        if host is None or before is None:
            return 0, 0
        struck = self._by_host.get(host, [])
        mine = struck[bisect_left(struck, (before - int(window_s * SECOND),)) : bisect_left(struck, (before,))]
        return len(mine), sum(device in devices for _, devices in mine)

    def follows_gpu(self, finding: Finding, window_s: float) -> int:
        """Earlier faults of the same GPU that a program can raise, each under another user: what follows the GPU is not the program.

        Where a user is not known, another job does; a job that met its own fault again on the same hosts tells nothing.
        """
        first, before = finding.suspects[0] if finding.suspects else None, finding.incident.start
        if first is None or first.host is None or first.device is None or before is None:
            return 0
        user, job = _whose(finding)
        low, seen, count = before - int(window_s * SECOND), {(user, job)}, 0
        for start, other, its_job in self._raised.get((first.host, first.device), ()):
            new = all((other != u) if other and u else (its_job is None or its_job != j) for u, j in seen)
            if low <= start < before and new:
                seen.add((other, its_job))
                count += 1
        return count


def _whose(finding: Finding) -> tuple[str | None, str | None]:
    attempt = finding.incident.attempt
    return (attempt.user, attempt.job_id) if attempt else (None, None)


def span_note(finding: Finding) -> str:
    """`5 % slower from step 52786 on` for a step change."""
    change = finding.change
    if change is None:
        return ""
    seconds = f"{change.before_s:.2f} s before, {change.after_s:.2f} s after"
    return f"steps take {change.share:.1%} longer from step {change.step.seq} on ({seconds})"


__all__ = ["DAY", "Finding", "Strikes", "Suspect", "examine", "on_start", "span", "span_note", "timing"]
