"""What to bring and how: from the window, the job and the hosts of an answer to a list of errands, each one command and one file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hostlist

from triage.collect_allowance import ON_CLUSTER, is_host, refused
from triage.faults import Fault, InputFault
from triage.moments import HOUR, MINUTE, SECOND, iso, parse_time
from triage.screens import folded

BEFORE, AFTER, LONGEST = 15 * MINUTE, 10 * MINUTE, 24 * HOUR
"""Around an incident; of a job's attempt at most the last day, from 1 h before it."""
# one column that a version does not know (Restarts, say) and sacct prints nothing at all
SACCT = "JobID,JobIDRaw,JobName,User,Account,Partition,NNodes,NodeList,AllocTRES,Submit,Start,End,Elapsed,State,ExitCode,Reason"
REASONS = "%100E|%12u|%19H|%N"
SHELL = re.compile(r"[|&<(){}*?$`\\~#\n]")
MOST_HOSTS, MOST_PODS, LONGEST_WORDS = 1024, 256, 10_000


@dataclass(frozen=True, slots=True)
class Errand:
    """One command and the file of the bundle that gets its output. `host`: run there, through the user's runner."""

    file: str
    argv: tuple[str, ...]
    why: str
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """What the evidence is wanted of. Times are microseconds UTC.

    asked  commands that an answer missed
    here   hosts whose kernel log of that time is here
    about  the incident in one line
    """

    job: str | None = None
    hosts: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    kubernetes: bool = False
    namespace: str | None = None
    asked: tuple[tuple[str, str], ...] = ()
    here: tuple[str, ...] = ()
    about: str = ""


@dataclass(slots=True)
class Plan:
    """Errands in the order in which they are run, and what is left to the user with the reason."""

    errands: list[Errand] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def add(self, errand: Errand) -> None:
        """Take an errand that is allowed and new; else keep why not."""
        reason = refused(errand.argv, errand.host is not None)
        if errand.host is not None and not is_host(errand.host):
            reason = "no host's name"
        if reason:
            self.skipped.append((shlex.join(errand.argv)[:200], reason))
        elif all((e.argv, e.host) != (errand.argv, errand.host) for e in self.errands):
            self.errands.append(errand)


def from_answer(path: str) -> Scope:
    """The scope of an answer of `triage now --format json`; raises InputFault for anything else."""
    try:
        answer = json.loads(Path(path).read_text(encoding="utf-8"))
        return of_answer(answer)
    except OSError as error:
        raise InputFault(path, error.strerror or "not readable", "check the path") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputFault(path, "no answer of triage", "write one with triage now PATH --format json, or name the folder of logs") from error


def of_answer(answer: Mapping[str, Any]) -> Scope:
    """The scope of the data of an answer; raises KeyError, TypeError or ValueError where it is none."""
    verdict, jobs = answer["verdict"], answer["jobs"]
    suspects = _distinct(str(s["host"]) for s in answer["suspects"] if s["host"])
    hosts = _distinct([*suspects, *(str(h) for j in jobs for h in j["hosts"]), *(str(v["host"]) for v in answer["victims"])])
    stamps = [parse_time(str(verdict[k])) for k in ("start", "end") if verdict.get(k)]
    asked = tuple((str(m["what"]), str(m["command"])) for m in answer["missing"])
    words = [c for _, c in asked] + [str(c["command"]) for c in answer["commands"]]
    return Scope(
        job=next((str(j["job_id"]) for j in jobs), None),
        hosts=hosts,
        suspects=suspects,
        low=min(stamps) - BEFORE if stamps else None,
        high=max(stamps) + AFTER if stamps else None,
        kubernetes=any(w.startswith("kubectl ") for w in words),
        asked=asked,
        about="" if verdict.get("class") in (None, "none") else str(verdict.get("summary", "")),
    )


def with_logs(scope: Scope, answer: Mapping[str, Any]) -> Scope:
    """The scope, less the kernel logs that were read for the answer and reach over its beginning."""
    since = answer["verdict"]["start"]
    if since is None:
        return scope
    spans = [row for row in answer["coverage"] if row["family"] == "kernel" and row["from"] and row["to"]]
    start = parse_time(since)
    read = {str(row["host"]) for row in spans if parse_time(row["from"]) <= start <= parse_time(row["to"])}
    return replace(scope, here=tuple(host for host in scope.hosts if host in read))


def of_attempt(scope: Scope, rows: Iterable[Mapping[str, Any]], now: int) -> Scope:
    """The scope filled with hosts and times of the job's last attempt; `rows` are job records with times in microseconds."""
    known = [r for r in rows if r["job_id"] == scope.job or str(r["job_id"]).split("_")[0] == scope.job]
    if not known:
        return scope
    last = max(known, key=lambda r: (r["start"] or 0, r["end"] or 0))
    end = last["end"] if last["end"] is not None else now
    start = last["start"] if last["start"] is not None else end
    hosts = scope.hosts or _distinct(h for r in known if r["start"] == last["start"] for h in r["hosts"] or ())
    low = scope.low if scope.low is not None else max(start - HOUR, end - LONGEST)
    return replace(scope, hosts=hosts, low=low, high=scope.high if scope.high is not None else end + 15 * MINUTE)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def first(scope: Scope) -> Plan:
    """What tells a job's hosts and times."""
    plan = Plan()
    if scope.kubernetes:
        where = ("-n", scope.namespace) if scope.namespace else ("-A",)
        plan.add(Errand("pods.json", ("kubectl", "get", "pods", *where, "-o", "json"), "pods, their hosts and how they ended"))
    elif scope.job is not None:
        job = scope.job.split(".")[0]
        sacct = ("sacct", "-D", "-P", "-j", job, "-o", SACCT)
        plan.add(Errand("sacct.txt", sacct, "states, hosts and times of every attempt"))
        plan.add(Errand("scontrol-job.txt", ("scontrol", "show", "job", job), "how Slurm holds the job now"))
    return plan


def rest(scope: Scope, pods: Sequence[tuple[str, str, bool]] = ()) -> Plan:
    """What tells the cause: the scheduler's view of the hosts, and their own logs. `pods`: (namespace, name, whether it restarted)."""
    plan = Plan()
    (_kubernetes if scope.kubernetes else _slurm)(plan, scope, pods)
    wanted = [host for host in scope.hosts if host not in set(scope.here)]
    for host in wanted[:MOST_HOSTS]:
        _kernel(plan, scope, host)
    if scope.here:
        plan.skipped.append((f"kernel logs of {folded(scope.here)}", "they are here"))
    if len(wanted) > MOST_HOSTS:
        more = f"kernel logs of {len(wanted) - MOST_HOSTS} more hosts"
        plan.skipped.append((more, f"more than {MOST_HOSTS}; name some with --hosts"))
    for what, command in scope.asked:
        _asked(plan, scope, what, command)
    return plan


def _slurm(plan: Plan, scope: Scope, _pods: Sequence[tuple[str, str, bool]]) -> None:
    named = [h for h in scope.hosts if is_host(h)]
    if named:
        folded = hostlist.collect_hostlist(named)
        plan.add(Errand("scontrol-node.txt", ("scontrol", "show", "node", folded), "state, reason and boot time of the hosts"))
        span = [f"{name}={_slurm_time(ts)}" for name, ts in (("start", scope.low), ("end", scope.high)) if ts is not None]
        events = ("sacctmgr", "-P", "show", "event", *span, f"nodes={folded}")
        plan.add(Errand("events.txt", events, "when hosts were down or drained, and who did it"))
    plan.add(Errand("sinfo-reasons.txt", ("sinfo", "-R", "-o", REASONS), "why hosts are out"))
    plan.add(Errand("sinfo-nodes.txt", ("sinfo", "-N", "-l"), "which hosts are idle"))
    plan.add(Errand("squeue.txt", ("squeue",), "what runs beside it"))
    plan.add(Errand("topology.txt", ("scontrol", "show", "topology"), "which hosts share a switch"))


def _kubernetes(plan: Plan, scope: Scope, pods: Sequence[tuple[str, str, bool]]) -> None:
    where = ("-n", scope.namespace) if scope.namespace else ("-A",)
    plan.add(Errand("nodes.json", ("kubectl", "get", "nodes", "-o", "json"), "conditions and taints of the nodes"))
    plan.add(Errand("events.json", ("kubectl", "get", "events", *where, "-o", "json"), "the control plane's own words"))
    for host in (h for h in scope.suspects or scope.hosts[:16] if is_host(h)):
        plan.add(Errand(f"{host}.node.txt", ("kubectl", "describe", "node", host), "conditions and last events of the node"))
    for space, name, restarted in pods[:MOST_PODS]:
        logs = ("kubectl", "logs", "-n", space, name, "--all-containers", "--timestamps")
        plan.add(Errand(f"{name}.log", logs, "what the rank printed"))
        if restarted:
            plan.add(Errand(f"{name}.previous.log", (*logs, "--previous"), "what it printed before it was restarted"))
    if len(pods) > MOST_PODS:
        plan.skipped.append((f"logs of {len(pods) - MOST_PODS} more pods", f"more than {MOST_PODS}"))


def _kernel(plan: Plan, scope: Scope, host: str) -> None:
    span: list[str] = []
    for name, ts in (("--since", scope.low), ("--until", scope.high)):
        span += [name, f"@{ts // SECOND}"] if ts is not None else []
    argv = ("journalctl", "-k", "--utc", "--no-pager", "-o", "short-iso-precise", *span)
    plan.add(Errand(f"{host}.kern.log", argv, "what the host itself saw", host))


def _slurm_time(ts: int) -> str:
    return (iso(ts) or "")[:19]


def _asked(plan: Plan, scope: Scope, what: str, command: str) -> None:
    """A command that an answer gave to copy, where it is one that may be run; each part between semicolons apart."""
    for part in command.split(";"):
        words, host = _words(part), None
        if words[:1] == ["ssh"] and len(words) > 2:
            host, words = words[1], words[2:]
        if words[:2] == ["journalctl", "-k"] or words[:1] == ["sacct"]:
            continue  # brought above, of all hosts
        if not words:
            plan.skipped.append((part.strip()[:200], "needs a shell or a person"))
        elif words[0] in ON_CLUSTER:
            plan.add(Errand(f"{_slug(words)}.txt", tuple(words), what))
        else:
            host = host or next((h for h in scope.hosts if h in what), None) or next(iter(scope.suspects), None)
            if host is None:
                plan.skipped.append((part.strip()[:200], "it is not known on which host"))
            else:
                plan.add(Errand(f"{host}.{_slug(words)}.txt", tuple(words), what, host))


def _words(part: str) -> list[str]:
    """The words of a simple command, without where its output goes in the end; none where a shell would have to read it."""
    text = re.sub(r"\s(?:2?>\s{0,9}[^\s>]{1,4096}|\|\s{0,9}(?:head|tail) -n \d{1,9})$", "", part.strip()[:LONGEST_WORDS])
    if SHELL.search(text) or ">" in text:
        return []
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _slug(words: Sequence[str]) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", " ".join(words)).strip("-")[:60]


def pods_of(text: str, job: str | None, hosts: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Pods of a job in `kubectl get pods -o json`, by a label or the stem of the name; without a job those on the hosts."""
    try:
        items = json.loads(text)["items"]
        rows = [(i["metadata"], i.get("spec") or {}, i.get("status") or {}) for i in items]
        found = []
        for meta, spec, status in rows:
            labels = (meta.get("labels") or {}).values()
            ours = job in labels or meta["name"].startswith(f"{job}-") if job else spec.get("nodeName") in hosts
            if ours:
                restarted = any(c.get("restartCount") for c in status.get("containerStatuses") or ())
                found.append((meta.get("namespace") or "default", meta["name"], restarted))
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def hosts_named(text: str) -> tuple[str, ...]:
    """Hosts of a list such as gpu-[001-004,7],login1; raises Fault."""
    try:
        names = hostlist.expand_hostlist(text)
    except hostlist.BadHostlist as error:
        raise Fault(f"--hosts {text}: {error}; write gpu-[001-004],gpu-7") from error
    if not names or not all(is_host(n) for n in names):
        raise Fault(f"--hosts {text}: not all of these are host names; write gpu-[001-004],gpu-7")
    return tuple(names)
