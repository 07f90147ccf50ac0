"""The first-ten-minutes answer as data: verdict, suspects, victims, cost, evidence with file:line, what is missing, what to do.

One model for text, JSON, Markdown, HTML and chat; the keys are the machine contract of DESIGN section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triage import spares
from triage.decisions import Decision, summary_of
from triage.evidence import UNKNOWN_PROCESS, rows_of
from triage.history import History
from triage.identity import UNKNOWN_JOB
from triage.jobs import ACCOUNTING, Attempt
from triage.moments import MINUTE, iso

if TYPE_CHECKING:
    from triage.pipeline import Analysis
    from triage.rulebook import Rulebook

SCHEMA = 1
SEL_CODES = {"ipmi.event", "host.power", "host.thermal"}
MAX_EVIDENCE, MAX_MISSING, MAX_OTHERS = 40, 8, 50
GRAVITY = (
    "T01",
    "T04",
    "T05",
    "T06",
    "T15",
    "T16",
    "T07",
    "T10",
    "T12",
    "T17",
    "T13",
    "T14",
    "T02",
    "T03",
    "T11",
    "T18",
    "T21",
    "T24",
    "T22",
)
Fill = dict[str, str | None]
BLANKS = {"host": "its host", "device": "in question", "job": "in question", "exclude": "that host", "spare": "a spare"}
SILENT = {"class": "none", "symptom": None, "manifestation": "none", "layer": "unknown", "action": "none", "confidence": "probable"}


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked: a job, a time (microseconds), both or neither."""

    job: str | None = None
    at: int | None = None


def choose(analysis: Analysis, asked: Question) -> Decision | None:
    """The incident that answers: a running job in trouble first, else the failed attempt that ended last, else the gravest host."""
    decisions = analysis.decisions
    if asked.job is not None:
        decisions = [d for d in decisions if _job(d) is not None and _is_job(_job(d), asked.job)]
    if asked.at is not None:
        return _at(decisions, asked.at)
    if asked.job is not None:
        return max(decisions, key=_job_order, default=None)
    return max(decisions, key=_order, default=None)


def _job(decision: Decision) -> Attempt | None:
    return decision.finding.incident.attempt


def _is_job(attempt: Attempt | None, job: str) -> bool:
    return attempt is not None and (attempt.job_id == job or attempt.job_id.split("_")[0] == job)


def _at(decisions: Sequence[Decision], ts: int) -> Decision | None:
    """The attempt that ran at `ts`, else the one that ended nearest to it."""

    def distance(decision: Decision) -> tuple[int, int]:
        attempt, incident = _job(decision), decision.finding.incident
        start = attempt.start if attempt else incident.start
        end = (attempt.end if attempt else incident.end) or start or 0
        inside = start is not None and start <= ts <= end + 2_000_000
        return (0 if inside else min(abs(ts - end), abs(ts - (start or end))), -(end or 0))

    return min(decisions, key=distance, default=None)


def _job_order(decision: Decision) -> tuple[object, ...]:
    incident = decision.finding.incident
    failure = decision.finding.class_id not in ("T23",)
    running = incident.job_end == "running"
    return (running and failure, failure or decision.finding.operator, incident.end or incident.start or 0)


def _order(decision: Decision) -> tuple[object, ...]:
    finding, incident = decision.finding, decision.finding.incident
    trouble = finding.class_id != "T23"
    job_failed = incident.attempt is not None and (trouble or finding.operator)
    gravity = -GRAVITY.index(finding.class_id) if finding.class_id in GRAVITY else -len(GRAVITY)
    live = job_failed and incident.job_end == "running"
    ended = (incident.end or incident.start or 0) if job_failed else 0
    return (live, job_failed, trouble, ended, gravity, incident.end or incident.start or 0)


def answer(
    analysis: Analysis, book: Rulebook, asked: Question, rejects: int, nothing_read: bool = False, chosen: Decision | None = None
) -> dict[str, Any]:
    """The whole answer, ready for JSON; `chosen` answers where the incident was named."""
    history = analysis.history
    decision = chosen or choose(analysis, asked)
    if decision is None:
        return _quiet(analysis, book, asked, rejects, nothing_read)
    finding = decision.finding
    offered = spares.build(decision, history)
    commands = commands_of(decision, book, offered)
    return {
        "schema": SCHEMA,
        "verdict": {
            "class": finding.class_id,
            "symptom": decision.symptom,
            "manifestation": decision.manifestation,
            "layer": decision.layer,
            "action": decision.action,
            "confidence": decision.confidence,
            "rule_id": decision.rule.id,
            "summary": summary_of(decision, title_of(finding.class_id, book)),
            "reason": decision.rule.reason,
            "start": iso(finding.incident.start),
            "end": iso(finding.incident.end),
        },
        "suspects": [_suspect(s) for s in _placed(finding.suspects)],
        "victims": [{"host": h, "why": w} for h, w in finding.victims],
        "jobs": _jobs(decision, history),
        "at_risk": at_risk(decision, history),
        "evidence": rows_of(decision, history)[:MAX_EVIDENCE],
        "alternatives": alternatives(decision, book),
        "missing": missing(decision, history, book)[:MAX_MISSING],
        "commands": commands,
        "spares": [{"host": s.host, "why": s.why} for s in offered],
        "others": others(analysis, decision),
        "coverage": coverage(history),
        "rejects": rejects,
    }


def title_of(class_id: str, book: Rulebook) -> str:
    """The class in words."""
    return book.class_(class_id).title if class_id != "none" else "nothing found"


def _placed(suspects: Sequence[Any]) -> Sequence[Any]:
    """Those with a host, a GPU or a rank, where there are any: a line that names no place is evidence beside them, no suspect."""
    return [s for s in suspects if s.host or s.device or s.rank is not None] or suspects


def _suspect(suspect: Any) -> dict[str, Any]:
    row = {name: getattr(suspect, name) for name in ("host", "device", "rank", "role", "score", "why")}
    return row | {"why": suspect.why.replace(UNKNOWN_PROCESS, "")}


def _quiet(analysis: Analysis, book: Rulebook, asked: Question, rejects: int, nothing_read: bool) -> dict[str, Any]:
    """No incident: a healthy, an empty or an unknown job's answer."""
    history = analysis.history
    attempts = [a for a in history.attempts if asked.job is None or _is_job(a, asked.job)]
    if nothing_read:
        summary = "nothing was read: no log in what was named"
    elif asked.job is not None and not attempts:
        summary = f"job {asked.job} is in none of the files that were read"
    else:
        what = f"job {asked.job}" if asked.job else "what was read"
        summary = f"nothing found in {what}: no fault, hang or slow-down"
    empty: dict[str, Any] = {k: [] for k in ("suspects", "victims", "at_risk", "evidence", "alternatives", "commands", "spares")}
    return {
        "schema": SCHEMA,
        "verdict": {**SILENT, "rule_id": "nothing-found", "summary": summary, "reason": summary, "start": None, "end": None},
        **empty,
        "missing": [row for a in attempts if (row := _dumps_missing(history, (a.job_id, a.attempt), book)) is not None],
        "jobs": [_attempt(a) for a in attempts[-20:]],
        "others": others(analysis, None),
        "coverage": coverage(history),
        "rejects": rejects,
    }


def _dumps_missing(history: History, key: tuple[str, int], book: Rulebook) -> dict[str, str] | None:
    """The dumps of ranks that the others' groups name: of a rank that stopped for good there is often none."""
    from triage.collectives import examine

    dumps = history.dumps.get(key)
    ranks = examine(dumps, len(history.ranks.get(key, {})) or None).missing if dumps else []
    if not ranks:
        return None
    shown = ", ".join(map(str, ranks[:8])) + (" ..." if len(ranks) > 8 else "")
    wanted = next((c for c in book.class_("T13").collect if "flight-recorder" in c.what), None)
    command = filled(wanted.command, dict.fromkeys(BLANKS), True) if wanted else ""
    why = "the dumps that are here name it; a rank that was killed or stuck before it could write one is the suspect"
    return {"what": f"flight-recorder dump of rank {shown}", "why": why, "command": command}


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "job_id": attempt.job_id,
        "attempt": attempt.attempt,
        "name": attempt.name,
        "user": attempt.user,
        "hosts": attempt.hosts,
        "gpus": attempt.gpus,
        "start": iso(attempt.start),
        "end": iso(attempt.end),
        "state": attempt.state,
        "gpu_hours_lost": attempt.gpu_hours_lost,
        "basis": attempt.basis,
        "preemptor": attempt.preemptor,
        "last_checkpoint": iso(attempt.last_checkpoint),
    }


def _jobs(decision: Decision, history: History) -> list[dict[str, Any]]:
    """The incident's attempt, or for a fault of hosts the attempts that it ended there."""
    attempt = decision.finding.incident.attempt
    if attempt is not None:
        return [_attempt(attempt)]
    return []


def at_risk(decision: Decision, history: History) -> list[dict[str, Any]]:
    """Other jobs that run on a suspected host at the end of the incident or later."""
    incident = decision.finding.incident
    when = incident.end or incident.start or history.now
    hosts = {s.host for s in decision.finding.suspects if s.host and s.role == "culprit"} | set(decision.finding.lost)
    if when is None or decision.finding.class_id == "T23":
        return []
    found: dict[tuple[str, int], list[str]] = {}
    for host in sorted(hosts):
        for other in history.runs_on(host):
            if other is not incident.attempt and other.start is not None and (other.end is None or other.end > when):
                found.setdefault((other.job_id, other.attempt), []).append(host)
    return [{"job_id": job, "hosts": hosts, "why": f"runs on {', '.join(hosts)} after the fault"} for (job, _), hosts in found.items()]


def alternatives(decision: Decision, book: Rulebook) -> list[dict[str, str]]:
    """Other readings that the evidence does not exclude."""
    finding = decision.finding
    rows = [{"class": b.class_id or "T24", "why": f"{b.message[:100]} on {b.host or 'an unnamed host'}"} for b in finding.rivals]
    root = finding.root
    if root is not None and root.user_possible and finding.shared != "job" and (root.family == "gpu" or "CUDA" in root.message):
        rows.append(
            {
                "class": finding.class_id,
                "why": "hardware: the code can come from the GPU as well; it would come back on the same GPU under another user",
            }
        )
    if finding.class_id == "T13" and finding.root is None:
        rows += [
            {"class": "T20", "why": "a rank that never called the collective (program)"},
            {"class": "T12", "why": "a link or switch that lost traffic without a log line"},
            {"class": "T04", "why": "a GPU or host that stopped without a log line"},
        ]
    if finding.class_id == "T11":
        rows += [
            {"class": "T20", "why": "bad data or learning rate"},
            {"class": "T11", "why": "a silent GPU error: prior 3 of 4 (ByteRobust, n = 4, weak)"},
        ]
    killed = [b for b in finding.incident.own if b.signal == 9 and b.code in ("torch.rank_exit", "slurm.task_exit")]
    if finding.class_id == "T24" and finding.root is None and killed and not finding.lost:
        rows += [
            {"class": "T18", "why": "the kernel or a memory cgroup killed the process"},
            {"class": "T20", "why": "somebody or the program itself sent SIGKILL"},
        ]
    elif finding.class_id == "T24" and finding.root is None:
        rows += [
            {"class": "T15", "why": "host crash or reboot"},
            {"class": "T21", "why": "the scheduler's daemon on the host or its network lost, the host itself well"},
        ]
    return rows[:6]


def missing(decision: Decision, history: History, book: Rulebook) -> list[dict[str, str]]:
    """What to collect and what it would decide: logs of suspects first, then of other hosts of the job, then what the class needs."""
    finding = decision.finding
    if finding.class_id in ("none", "T23") and not finding.operator:
        return []
    incident = finding.incident
    low = incident.start if incident.start is not None else incident.low
    fill = fill_of(decision, history)
    rows: list[dict[str, str]] = []
    suspected = list(dict.fromkeys([*(s.host for s in finding.suspects if s.host), *finding.lost]))
    for host in [*suspected, *(h for h in incident.hosts if h not in suspected)]:
        if low is not None and not history.covered(host, "kernel", low - 10 * MINUTE, (incident.end or low) + 10 * MINUTE):
            rows.append(_kernel_log(host, host in suspected, fill))
    logs, tail = rows[:4], rows[4:]
    if tail:
        logs[-1]["what"] += f" (and of {len(tail)} more hosts)"
    wanted = book.class_(finding.class_id).collect if finding.class_id != "none" else ()
    if decision.confidence == "confirmed":
        wanted = wanted[:2]
    extra = [
        {"what": filled(c.what, fill, False), "why": c.why, "command": filled(c.command, fill, True)}
        for c in wanted
        if not _have(c.what, finding, history, fill) and not ("slurmd" in c.what and kubernetes(decision))
    ]
    own_first = [r for r in logs if any(h in r["what"] for h in suspected)]
    rest = [r for r in logs if r not in own_first]
    return _distinct([*own_first, *extra, *rest])


def _kernel_log(host: str, suspected: bool, fill: Fill) -> dict[str, str]:
    why = "it is suspected and its own log is not here: silence says nothing" if suspected else "would rule out a second fault"
    values = {**fill, "host": host}
    command = filled("ssh {host} journalctl -k --utc --since {from} --until {to} -o short-iso-precise > {host}.kern.log", values, True)
    span_text = f" for {fill['from'][11:16]}-{fill['to'][11:16]}Z" if fill["from"] and fill["to"] else ""
    return {"what": f"kernel log of {host}{span_text}", "why": why, "command": command}


def _have(what: str, finding: Any, history: History, fill: Fill) -> bool:
    """Whether a thing to collect is here already."""
    text = what.lower()
    if "kernel log" in text:
        host, incident = fill["host"], finding.incident
        low = incident.start or incident.low or 0
        return host is None or history.covered(host, "kernel", low - 10 * MINUTE, (incident.end or low) + 10 * MINUTE)
    if "scheduler record" in text:
        return finding.incident.attempt is not None and bool(ACCOUNTING & set(finding.incident.attempt.known_from.split()))
    if "flight-recorder" in text:
        return finding.hang is not None and not finding.hang.missing
    return "sel" in text and any(b.host == fill["host"] and b.code in SEL_CODES for b in finding.incident.bursts)


def _distinct(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    by_what: dict[str, dict[str, str]] = {}
    for row in rows:
        by_what.setdefault(row["what"], row)
    return list(by_what.values())


def fill_of(decision: Decision, history: History) -> Fill:
    """Values for the templates of rules; None for what is not known."""
    finding, incident = decision.finding, decision.finding.incident
    suspect = finding.suspects[0] if finding.suspects else None
    start = incident.start if incident.start is not None else history.now
    end = incident.end if incident.end is not None else start
    low, high = (None if start is None else start - 15 * MINUTE), (None if end is None else end + 10 * MINUTE)
    suspected = (suspect.host if suspect else None) or (finding.lost[0] if finding.lost else None)
    return {
        "host": suspected or (incident.hosts[0] if incident.hosts and not incident.attempt else None),
        "device": suspect.device if suspect else None,
        "job": incident.attempt.job_id if incident.attempt and not incident.attempt.job_id.startswith(UNKNOWN_JOB) else None,
        "reason": _reason(decision),
        "from": _shell_time(low),
        "to": _shell_time(high),
        "spare": None,
        "exclude": ",".join(sorted({s.host for s in finding.suspects if s.host})) or None,
    }


def _shell_time(ts: int | None) -> str | None:
    """A time as journalctl reads it."""
    text = iso(ts)
    return text[:19].replace("T", " ") if text else None


def _reason(decision: Decision) -> str:
    root = decision.finding.root
    code = root.code.replace("xid.", "XID ") if root else decision.finding.class_id
    device = f" on {root.device}" if root and root.device else ""
    when = (iso(decision.finding.incident.start) or "")[:16]
    return f"{code}{device} {when} triage:{decision.rule.id}".strip()


def filled(template: str, values: Fill, quote: bool) -> str:
    """A template with its values: quoted for a shell, or as prose; what is not known stays a visible blank."""
    from triage.rulebook import fill

    if quote:
        return fill(template, values)
    text = template if values.get("from") and values.get("to") else template.replace(" from {from} to {to}", "")
    for name, value in values.items():
        text = text.replace("{" + name + "}", value if value is not None else BLANKS.get(name, name))
    return text


def commands_of(decision: Decision, book: Rulebook, offered: Sequence[spares.Spare]) -> list[dict[str, str]]:
    """What to do now, as commands to copy; nothing is run."""
    action = book.action(decision.action)
    fill = fill_of(decision, _no_history(decision))
    if offered:
        fill["spare"] = offered[0].host
    rows = []
    for command in action.commands:
        if not _fits(command.command, decision):
            continue
        if all(fill[name] is not None for name in fill if "{" + name + "}" in command.command):
            rows.append({"what": filled(command.what, fill, False), "command": filled(command.command, fill, True)})
    return rows


def undo_of(decision: Decision, book: Rulebook, history: History) -> str:
    """How an act that takes a host away is taken back, in the words of the scheduler that is there; blank for other acts."""
    action = book.action(decision.action)
    parts = [part.strip() for part in action.undo.split(";")] if action.isolating else []
    return "; ".join(filled(part, fill_of(decision, history), True) for part in parts if _fits(part, decision))


def kubernetes(decision: Decision) -> bool:
    """Whether Kubernetes told of it."""
    return any(b.code.startswith("k8s.") for b in decision.finding.incident.bursts)


def _fits(command: str, decision: Decision) -> bool:
    """Whether a command is not one of the other scheduler's."""
    return command.startswith("kubectl") == kubernetes(decision) or not _is_scheduler(command)


def _is_scheduler(command: str) -> bool:
    return command.startswith(("kubectl", "scontrol", "scancel", "sbatch", "squeue", "sinfo"))


def _no_history(decision: Decision) -> History:
    return History(now=decision.finding.incident.end)


def others(analysis: Analysis, chosen: Decision | None) -> list[dict[str, Any]]:
    """The other incidents, newest first, a line each."""
    rest = [d for d in analysis.decisions if d is not chosen]
    rest.sort(key=lambda d: (d.finding.class_id == "T23", -(d.finding.incident.start or 0)))
    return [
        {
            "id": d.finding.incident.incident_id,
            "class": d.finding.class_id,
            "hosts": hosts_of(d)[:8],
            "start": iso(d.finding.incident.start),
            "job_id": d.finding.incident.attempt.job_id if d.finding.incident.attempt else None,
            "action": d.action,
        }
        for d in rest[:MAX_OTHERS]
    ]


def hosts_of(decision: Decision) -> list[str]:
    """Suspected hosts first, then the others of the incident."""
    named = [s.host for s in decision.finding.suspects if s.host]
    return list(dict.fromkeys([*named, *decision.finding.incident.hosts]))


def coverage(history: History) -> list[dict[str, Any]]:
    """Per host and family the span that was read."""
    return [
        {"host": host, "family": family, "from": iso(spans[0][0]), "to": iso(spans[-1][1]), "pieces": len(spans)}
        for (host, family), spans in sorted(history.spans.items())
    ]
