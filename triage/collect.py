"""`triage collect`: the read-only commands that bring what an answer misses; printed, or run into a bundle that is then triaged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from triage import collect_plan, desk
from triage.collect_plan import Plan, Scope
from triage.collect_run import LIMIT_S, Bundle, Done, runner_of, shown
from triage.desk import Setup
from triage.faults import Fault
from triage.moments import iso, micros
from triage.redaction import Mask
from triage.store import Store

if TYPE_CHECKING:
    from triage.desk import Answer


OF_WHAT = "of what? name a job with --job, hosts with --hosts, a folder of logs, or a file with the JSON of triage now"
NOTHING_MISSED = "{}: nothing found in it, so nothing is missed; name a job with --job or hosts with --hosts"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for. `scope` holds what is known; `here` are logs that are already here, judged together with the bundle.

    runner    how a command gets to a host: ssh {host}; None runs nothing on hosts
    out       folder of the bundle; None names one after job and time
    """

    scope: Scope
    runner: str | None = None
    out: str | None = None
    limit_s: float = LIMIT_S
    here: tuple[str, ...] = ()


@dataclass(slots=True)
class Collected:
    """The JSON of the command, and the answer over the bundle where it was run."""

    data: dict[str, Any]
    answer: Answer | None = None


def scope_of(
    setup: Setup,
    known: str | None,
    job: str | None,
    hosts: str | None,
    low: int | None,
    high: int | None,
    namespace: str | None,
    kubernetes: bool,
) -> Scope:
    """What is known before anything is run, and over it what the user says; raises Fault when that is nothing.

    known  a file with the JSON of an answer, or a folder of logs, which is triaged first
    """
    scope = _of_path(setup, known, job) if known else Scope()
    named = collect_plan.hosts_named(hosts) if hosts else scope.hosts
    scope = replace(
        scope,
        job=job or scope.job,
        hosts=named,
        low=low if low is not None else scope.low,
        high=high if high is not None else scope.high,
        namespace=namespace,
        kubernetes=kubernetes or namespace is not None or scope.kubernetes or (which("sacct") is None and which("kubectl") is not None),
    )
    if scope.job is None and not scope.hosts:
        raise Fault(NOTHING_MISSED.format(known) if known else OF_WHAT)
    return scope


def _of_path(setup: Setup, known: str, job: str | None) -> Scope:
    if not Path(known).is_dir():
        return collect_plan.from_answer(known)
    answer = desk.now(replace(setup, db=None), [known], job, None, None).data
    if answer["verdict"]["class"] == "none":
        return Scope()
    return collect_plan.with_logs(collect_plan.of_answer(answer), answer)


def plan(setup: Setup, request: Request) -> Collected:
    """The commands to copy; nothing is run."""
    runner = runner_of(request.runner or "ssh {host}")
    first, rest = collect_plan.first(request.scope), collect_plan.rest(request.scope)
    errands = [*first.errands, *rest.errands]
    skipped = [*first.skipped, *rest.skipped]
    if not request.scope.hosts:
        skipped.append(("logs of the hosts", "which ones is known once the job's record is here: add --run, or --hosts"))
    rows = [{"file": e.file, "host": e.host, "why": e.why, "argv": list(e.argv), "command": shown(e, runner)} for e in errands]
    data = _data(request.scope, skipped) | {"ran": False, "bundle": None, "commands": rows}
    return Collected(Mask(setup.hide, _names(request.scope)).value(data))


def _names(scope: Scope) -> dict[str, str]:
    """Hosts that are known before anything was read; a mask that hides hosts looks for them."""
    return dict.fromkeys(scope.hosts, "host")


def run(setup: Setup, request: Request, done: Done = lambda _row: None, now: Callable[[], float] = time.time) -> Collected:
    """Run the commands, write the bundle, and answer over it; raises Fault when nothing at all was brought."""
    runner = runner_of(request.runner) if request.runner else None
    bundle = Bundle(Path(request.out or _name(request.scope, now())), runner, request.limit_s)
    bundle.create()
    scope, skipped = request.scope, []
    try:
        first = collect_plan.first(scope)
        bundle.run(first.errands, done)
        scope = _filled(setup, scope, bundle, int(now() * 1e6))
        rest = _without_runner(collect_plan.rest(scope, _pods(scope, bundle)), runner)
        bundle.run(rest.errands, done)
        skipped = [*first.skipped, *rest.skipped]
    finally:
        bundle.write(_data(scope, skipped))
    if not any(row["bytes"] for row in bundle.rows):
        why = next((f"{row['argv'][0]}: {row['stderr'] or row['ended']}" for row in bundle.rows), "there is no command to run")
        raise Fault(f"nothing was brought: {why}; see {bundle.folder}/manifest.json")
    answer = desk.now(setup, [str(bundle.logs), *request.here], scope.job if _known(setup, scope, bundle) else None, None, None)
    data = _data(scope, skipped) | {"ran": True, "bundle": str(bundle.folder), "commands": bundle.rows, "answer": answer.data}
    if setup.hide is not None:
        bundle.redact(answer.mask)
        bundle.write(answer.mask.value(_data(scope, skipped)))
        data = answer.mask.value(data | {"commands": bundle.rows})
    return Collected(data, answer)


def _data(scope: Scope, skipped: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "schema": 1,
        "about": scope.about or None,
        "job": scope.job,
        "hosts": list(scope.hosts),
        "window": {"from": iso(scope.low), "to": iso(scope.high)},
        "skipped": [{"what": what, "why": why} for what, why in skipped],
    }


def _name(scope: Scope, now: float) -> str:
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"triage-{''.join(c if c.isalnum() else '-' for c in scope.job or 'hosts')[:40]}-{stamp}"


def _records(setup: Setup, bundle: Bundle) -> list[dict[str, Any]]:
    """Job records in what the bundle holds so far."""
    with Store() as store:
        desk.read(store, [str(bundle.logs)], desk.rulebook(setup.rules), setup.zone)
        rows = store.rows("job_records")
    return [{**r, "start": micros(r["start"]), "end": micros(r["end"])} for r in rows]


def _filled(setup: Setup, scope: Scope, bundle: Bundle, now: int) -> Scope:
    if scope.job is None or (scope.hosts and scope.low is not None):
        return scope
    return collect_plan.of_attempt(scope, _records(setup, bundle), now)


def _known(setup: Setup, scope: Scope, bundle: Bundle) -> bool:
    """Whether some record tells of the job."""
    return scope.job is not None and any(str(r["job_id"]).split("_")[0] == scope.job.split("_")[0] for r in _records(setup, bundle))


def _pods(scope: Scope, bundle: Bundle) -> list[tuple[str, str, bool]]:
    path = bundle.logs / "pods.json"
    if not scope.kubernetes or not path.is_file():
        return []
    return collect_plan.pods_of(path.read_text(encoding="utf-8", errors="replace"), scope.job, scope.hosts)


def _without_runner(made: Plan, runner: Sequence[str] | None) -> Plan:
    if runner is not None:
        return made
    hosts = list(dict.fromkeys(e.host for e in made.errands if e.host is not None))
    left = [("logs of " + ", ".join(hosts[:8]) + (" ..." if len(hosts) > 8 else ""), "needs --runner 'ssh {host}'")] if hosts else []
    return Plan([e for e in made.errands if e.host is None], [*made.skipped, *left])


def screen(data: Mapping[str, Any]) -> str:
    """The commands to copy, or what was brought."""
    from triage.screens import safe

    lines = [f"# to settle: {safe(data['about'])}"] if data["about"] else []
    for row in data["commands"]:
        if data["ran"]:
            end = "" if row["ended"] == "itself" else f", ended by the {row['ended']}" if row["exit"] is not None else f", {row['ended']}"
            fault = f": {safe(row['stderr'])[:120]}" if row["exit"] != 0 and row["stderr"] else ""
            lines.append(f"{safe(row['file']):40} {row['bytes']:>12,} bytes  exit {row['exit']}{end}{fault}")
        else:
            lines += [f"# {safe(row['why'])}", safe(row["command"])]
    lines += [f"# left to you: {safe(s['what'])}: {safe(s['why'])}" for s in data["skipped"]]
    return "\n".join(lines)
