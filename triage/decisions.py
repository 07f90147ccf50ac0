"""Decisions: the row of the decision table that an incident's features meet, its action, and how sure we are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from triage.findings import RECOVERY, Finding, Strikes, on_start, timing
from triage.history import History
from triage.moments import MINUTE, SECOND

if TYPE_CHECKING:
    from triage.rule_rows import Rule
    from triage.rulebook import Decision as Verdict
    from triage.rulebook import Rulebook, Tried

LEVELS = ("confirmed", "probable", "possible", "insufficient")
FAILED = {"failed", "node_fail", "out_of_memory", "cancelled", "time_limit", "requeued"}
NO_DEVICE_LAYERS = {"user", "host", "storage", "network", "facility", "scheduler", "system_software", "unknown"}


@dataclass(slots=True)
class Decision:
    """What to do about an incident."""

    finding: Finding
    rule: Rule
    action: str
    confidence: str
    layer: str
    manifestation: str
    symptom: int | None
    verdict: Verdict
    links: Mapping[str, object] = field(default_factory=dict)

    @property
    def tried(self) -> Sequence[Tried]:
        """The rows of the decision table that were asked, in order."""
        return self.verdict.tried

    @property
    def host(self) -> str | None:
        return self.finding.suspects[0].host if self.finding.suspects else None


def decide(finding: Finding, history: History, book: Rulebook, earlier: Strikes) -> Decision:
    """Judge one finding. `earlier` are the findings of incidents before it, for strikes."""
    features = features_of(finding, history, book, earlier)
    finding.features = dict(features)
    verdict = book.decide(features)
    rule = verdict.rule
    links = links_of(finding, history, book)
    level = book.confidence(links).id
    confidence = _weaker(level, rule.max_confidence) if rule.max_confidence else level
    if finding.class_id == "none" or (finding.class_id == "T23" and finding.root is None):
        confidence = "probable"
    if finding.root is None and finding.class_id not in ("none", "T23"):
        confidence = _without_root(finding, rule.max_confidence)
    layer = rule.layer or finding.layer
    if confidence == "insufficient" or not _may_blame(layer):
        for suspect in finding.suspects:
            suspect.role = "suspect"
    manifestation = rule.manifestation or finding.manifestation
    return Decision(finding, rule, rule.action, confidence, layer, manifestation, symptom_row(finding), verdict, links)


def _may_blame(layer: str) -> bool:
    return layer in ("gpu", "interconnect", "network", "host", "system_software", "unknown", "storage")


def _weaker(level: str, most: str) -> str:
    return LEVELS[max(LEVELS.index(level), LEVELS.index(most))]


def _without_root(finding: Finding, most: str | None) -> str:
    """No root event: insufficient, but for ranks that dumps or entry times single out, which are possible."""
    if finding.root_role == "precursor":
        return _weaker("probable", most or "probable")
    singled_out = bool(finding.suspects) and (
        finding.class_id == "T22" or bool(finding.silent or finding.stacks) or (finding.hang is not None and bool(finding.hang.blames))
    )
    return _weaker("possible", most or "possible") if singled_out else "insufficient"


def features_of(finding: Finding, history: History, book: Rulebook, earlier: Strikes) -> dict[str, str | bool | int | float]:
    """The columns of the decision table, with the values that this finding gives them."""
    incident, root = finding.incident, finding.root
    suspect = finding.suspects[0] if finding.suspects else None
    host, device = (suspect.host, suspect.device) if suspect else (None, None)
    window = book.threshold("strikes_window")
    struck, same_gpu = earlier.count(host, device, incident.start, window)
    if finding.class_id in ("T08", "T09"):
        same_gpu = earlier.follows_gpu(finding, window)
    hosts = {b.host for b in finding.roots if b.host}
    values: dict[str, str | bool | int | float] = {
        "class": finding.class_id,
        "root_code": root.code if root else finding.lead.code if finding.lead else "none",
        "root_role": finding.root_role,
        "root_fatal": bool(root and root.fatal),
        "root_hosts": len(hosts) if root else 0,
        "root_share": round(len(hosts) / len(incident.hosts), 3) if incident.hosts and root else 0.0,
        "root_devices": len({(b.host, b.device) for b in finding.roots if b.device}),
        "shared": finding.shared,
        "user_possible": bool(root and root.user_possible),
        "followed_by_job_failure": incident.attempt is not None and incident.job_end in FAILED,
        "job_end": incident.job_end,
        "hang": incident.hang or incident.stalled,
        "slow": finding.slow,
        "silent": finding.class_id == "T11",
        "on_start": on_start(incident, book.threshold("on_start")),
        "strikes_7d": struck,
        "same_gpu_7d": same_gpu,
        "operator": finding.operator,
        "host_named": bool(finding.lost),
        "job_hosts": len(incident.hosts) if incident.attempt else 0,
        "has_job": incident.attempt is not None,
        "fleet_share": _fleet_share(finding, history, hosts),
        "missing_ranks": len(finding.hang.missing) if finding.hang else len(finding.silent),
        "lagging_ranks": len(finding.hang.blames) if finding.hang else len(finding.stragglers),
    }
    return values | _circumstances(finding, history, book, host)


def _fleet_share(finding: Finding, history: History, hosts: set[str]) -> float:
    """Share of the known hosts that an isolating row would take away; what hosts share or a program raised takes none."""
    if len(hosts) < 2 or finding.shared not in ("none", "fleet") or (finding.root and finding.root.user_possible):
        return 0.0
    return round(len(hosts) / max(1, len(history.hosts())), 3)


def _circumstances(finding: Finding, history: History, book: Rulebook, host: str | None) -> dict[str, str | bool | int | float]:
    incident = finding.incident
    low, high = incident.low or 0, incident.high or 0
    boots = [b for b in incident.bursts if b.code == "host.boot" and b.host == host]
    return {
        "recovery_action": _recovery(finding),
        "reboot_seen": bool(boots) or bool(finding.root and finding.root.code == "host.boot"),
        "kernel_log": host is not None and history.covered(host, "kernel", low, high),
        "link_flaps": _flaps(finding, book),
        "idle_host": host is not None and incident.start is not None and not history.job_at(host, incident.start),
    }


def _recovery(finding: Finding) -> str:
    """The last repair that the driver asked for on the root's GPU (Xid 154)."""
    lead = finding.root or finding.lead
    device = lead.device if lead else None
    texts = [b.state or b.message for b in finding.incident.bursts if b.code == "xid.154" and b.device == device and b.role == "advice"]
    asked = texts[-1].lower().rpartition(" to ")[2] if texts else ""
    return next((name for words, name in RECOVERY if words in asked), "none")


def _flaps(finding: Finding, book: Rulebook) -> int:
    """Drops of the root's port within the flap window (ByteRobust: two alerts in five minutes)."""
    root = finding.root
    if root is None or root.code not in ("ib.link_down", "eth.link_down"):
        return 0
    window = int(book.threshold("link_flap_window") * SECOND)
    drops = [
        b
        for b in finding.incident.bursts
        if b.code == root.code and b.host == root.host and b.device == root.device and b.first is not None
    ]
    return max((sum(b.count for b in drops if 0 <= (b.first or 0) - (a.first or 0) <= window) for a in drops), default=0)


def links_of(finding: Finding, history: History, book: Rulebook) -> dict[str, bool | int | float | str]:
    """What is known of the chain from root to failure, for the definition of confidence."""
    root, incident = finding.root, finding.incident
    if root is None:
        return {"root_seen": False}
    when = timing(root, incident, book.threshold)
    suspect = finding.suspects[0] if finding.suspects else None
    needs_host = finding.shared == "none" and finding.layer not in ("user", "scheduler")
    needs_device = root.layer in ("gpu", "interconnect")
    inferred = len(set(finding.inferred))
    inferred += when == "after" or (when == "before" and not _soon(finding))
    inferred += incident.attempt is None
    inferred += root.first is None and root.job_id is None
    device_known = not needs_device or bool(suspect and suspect.device) or bool(root.device)
    inferred += needs_device and not device_known
    inferred += needs_host and not (root.host or (suspect and suspect.host))
    return {
        "root_seen": True,
        "in_window": when != "after",
        "host_known": not needs_host or bool(root.host or (suspect and suspect.host)),
        "device_known": device_known,
        "dependents_agree": _dependents_agree(finding),
        "inferred_links": int(inferred),
        "rivals": len(finding.rivals),
    }


def _soon(finding: Finding) -> bool:
    root, incident = finding.root, finding.incident
    return root is not None and root.first is not None and incident.start is not None and incident.start - root.first <= 10 * MINUTE


def _dependents_agree(finding: Finding) -> bool:
    """Something of the job followed: a cascade, a symptom, or its failure."""
    incident = finding.incident
    if incident.attempt is None:
        return False
    return incident.job_end in FAILED or any(b.role in ("cascade", "symptom", "outcome") for b in incident.own)


def symptom_row(finding: Finding) -> int | None:
    """The row 1..11 of the on-call table (TAXONOMY section 3) that an engineer would have started from."""
    incident = finding.incident
    if finding.class_id in ("none", "T23"):
        return None
    if finding.class_id == "T11":
        return 10
    if finding.class_id == "T22":
        return _slow_row(finding)
    if incident.hang:
        return 3 if finding.hang is not None and finding.root is None else 2
    if incident.stalled:
        return 3
    return 1 if incident.attempt is not None or finding.root is not None else None


def _slow_row(finding: Finding) -> int:
    change = finding.change
    if finding.slow in ("rank", "host"):
        return 5
    link = any(b.code in ("ib.link_down", "eth.link_down", "ib.port_event") for b in finding.incident.bursts)
    return 7 if link and change is not None and change.share > 0.1 else 6


def summary_of(decision: Decision, title: str) -> str:
    """One sentence: what, where, under which job."""
    finding = decision.finding
    incident = finding.incident
    if finding.class_id == "none":
        return "nothing found: no fault, hang or slow-down in what was read"
    parts = [_policy_words(finding) or title]
    suspect = finding.suspects[0] if finding.suspects else None
    if finding.shared_name:
        parts.append(f"{finding.shared} {finding.shared_name}, {finding.features.get('root_hosts', 0)} hosts")
    elif finding.shared != "none":
        parts.append(f"on {finding.features.get('root_hosts', 0)} hosts at once")
    if suspect and finding.shared == "none":
        parts.append(
            " ".join(
                x
                for x in (
                    suspect.host,
                    f"GPU {suspect.device}" if suspect.device else "",
                    f"rank {suspect.rank}" if suspect.rank is not None else "",
                )
                if x
            )
        )
    if suspect is None and incident.attempt is None and finding.shared == "none" and incident.hosts:
        parts.append(incident.hosts[0] if len(incident.hosts) == 1 else f"{len(incident.hosts)} hosts")
    if incident.attempt and finding.class_id == "T23":
        parts.append(f"job {incident.attempt.job_id}" + (f" (attempt {incident.attempt.attempt + 1})" if incident.attempt.attempt else ""))
    elif incident.attempt:
        again = f" (attempt {incident.attempt.attempt + 1})" if incident.attempt.attempt else ""
        parts.append(f"job {incident.attempt.job_id}{again}: {_end_words(incident.job_end)}")
    return ", ".join(p for p in parts if p)


def _policy_words(finding: Finding) -> str:
    """What ended a job by policy, in words."""
    if finding.class_id != "T23":
        return ""
    attempt = finding.incident.attempt
    if finding.operator:
        return "ended by an operator's act, not by a fault"
    if finding.incident.job_end == "preempted":
        by = f" for job {attempt.preemptor}" if attempt and attempt.preemptor else ""
        again = " and requeued" if attempt and attempt.requeued else ""
        return f"preempted{by}{again}: policy, not a failure"
    words = {
        "cancelled": "cancelled on request, not a failure",
        "time_limit": "reached its time limit, not a failure",
        "requeued": "put back into the queue on request, not a failure",
    }
    return words.get(finding.incident.job_end, "an operator took the host out" if attempt is None else "ended by policy")


def _end_words(job_end: str) -> str:
    return {
        "node_fail": "lost a host",
        "time_limit": "reached its time limit",
        "out_of_memory": "out of memory",
        "none": "end not known",
    }.get(job_end, job_end)
