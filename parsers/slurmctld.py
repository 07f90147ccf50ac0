"""slurmctld's log: starts, ends, preemption, and hosts lost, drained and regained.

Events about a job alone carry `host=""`: the frame's host is the controller, which is not what the record is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from parsers import clocks
from parsers.contract import Benign, Event, HostStateRecord, JobRecord, Line, LineDialect, Quality, Record, Window
from parsers.slurm_fields import names, node_state, own_reason

Reader = Callable[[re.Match[str], Window], Iterable[Record]]
_NUMBER = r"\d{1,12}(?:_\d{1,9})?(?:\+\d{1,5})?"
_JOB = rf"(?:Job(?:Id|ID)=|job(?:_id)? )(?P<job>{_NUMBER})(?:\(\d{{1,12}}\))?"
_HOSTS = r"((?!(?:is|are|was|were|has|have) )[A-Za-z0-9][^\s:;()]{0,8000})"
_TEXT, _READ = 400, 16 << 10


def _about(job_id: str, code: str, line: Line, **rest: str | int | None) -> Event:
    return Event(code, line.text[:_TEXT], line.number, host="", job_id=job_id, **rest)  # type: ignore[arg-type]


def _record(job_id: str, line: Line, **rest: str | int | tuple[str, ...] | None) -> JobRecord:
    return JobRecord(job_id, line.number, "slurmctld", **rest)  # type: ignore[arg-type]


def _at(host: str, code: str, line: Line, **rest: str | None) -> Event:
    return Event(code, line.text[:_TEXT], line.number, host=host, **rest)  # type: ignore[arg-type]


def _start(found: re.Match[str], window: Window) -> Iterator[Record]:
    part = found.groupdict().get("part")
    line, hosts = window.line, names(found["hosts"])
    event = _about(found["job"], "slurm.job_start", line)
    event.attrs = {"nodelist": found["hosts"][:_TEXT]}
    yield event
    yield _record(found["job"], line, partition=part, hosts=hosts, nodes=len(hosts) or None, start=line.ts)


def _complete(found: re.Match[str], window: Window) -> Iterator[Record]:
    line, job_id, how = window.line, found[1], found[2]
    number = int(found[3]) if found[3] else None
    code = number if how == "WEXITSTATUS" else None
    signal = number if how == "WTERMSIG" else None
    if number is not None:
        state = "COMPLETED" if how == "WEXITSTATUS" and number == 0 else "FAILED"
    else:
        state = "OUT_OF_MEMORY" if how.startswith("OOM") else "NODE_FAIL" if "node fail" in how else "CANCELLED"
    yield _about(job_id, "slurm.job_end", line, state=state, exit_code=code, signal=signal)
    yield _record(job_id, line, end=line.ts, state=state, exit_code=code, signal=signal)


def _killed(found: re.Match[str], window: Window) -> Iterator[Record]:
    line = window.line
    uid = found.groupdict().get("uid")
    limit = uid is None
    yield _about(found["job"], "slurm.job_killed", line, state="time limit" if limit else "cancelled", user=uid)
    yield _record(found["job"], line, end=line.ts, state="TIMEOUT" if limit else "CANCELLED")


def _host_failed(found: re.Match[str], window: Window) -> Iterator[Record]:
    """The line comes before the one that tells of an operator's DOWN, where that was the cause."""
    line, job_id, hosts = window.line, found["job"], found["hosts"]
    commanded = any(f"update_node: node {hosts} state set to DOWN" in later.text for later in window.after(6))
    why = f"node {hosts[:_TEXT]} set DOWN by an operator" if commanded else f"failure of node {hosts[:_TEXT]}"
    for host in names(hosts):
        yield _at(host, "slurm.node_fail", line, job_id=job_id, state=why, severity="operator" if commanded else None)
    yield _record(job_id, line, end=line.ts, state="NODE_FAIL", reason=why)


def _step_lost(found: re.Match[str], window: Window) -> Iterator[Record]:
    """The job may live on without the host."""
    for host in names(found["hosts"]):
        yield _at(host, "slurm.node_fail", window.line, job_id=found["job"], state=f"step lost with node {host}")


def _requeue(found: re.Match[str], window: Window) -> Iterator[Record]:
    yield _about(found["job"], "slurm.requeue", window.line, state="REQUEUED")


def _preempted(found: re.Match[str], window: Window) -> Iterator[Record]:
    line, job_id, how, winner = window.line, found["job"], found["how"], found["winner"]
    event = _about(job_id, "slurm.preempt", line, state=f"PREEMPTED, {how}")
    event.attrs = {"preemptor": winner}
    yield event
    if not how.startswith("suspend"):
        yield _record(job_id, line, end=line.ts, state="PREEMPTED", preemptor=winner)


def _silent(found: re.Match[str], window: Window) -> Iterator[Record]:
    line, down = window.line, found[2] is not None
    for host in names(found[1]):
        yield _at(host, "slurm.node_down" if down else "slurm.node_not_responding", line, state="Not responding")
        if down:
            yield HostStateRecord(host, line.number, "slurmctld", "down", ts=line.ts, reason="Not responding")


def _not_resumed(found: re.Match[str], window: Window) -> Iterator[Record]:
    line = window.line
    for host in names(found[1]):
        yield _at(host, "slurm.node_down", line, state=found[2])
        yield HostStateRecord(host, line.number, "slurmctld", "down", ts=line.ts, reason="ResumeTimeout reached")


def _back(found: re.Match[str], window: Window) -> Iterator[Record]:
    line = window.line
    for host in names(found[1]):
        yield _at(host, "slurm.node_resume", line, state=found[2])
        if "service" in found[2]:
            yield HostStateRecord(host, line.number, "slurmctld", "up", ts=line.ts)


_REASON = re.compile(rf"update_node: node {_HOSTS} reason set to: (.{{0,2000}})")


def _reason_set(found: re.Match[str], window: Window) -> Iterator[Record]:
    """The reason belongs to the state change that follows; `Kill task failed` is a fault of its own."""
    line, reason = window.line, found[2].strip()
    if not re.match(r"(?i)kill task failed|prolog error|epilog error", reason):
        yield Benign(line.number)
        return
    for host in names(found[1]):
        yield _at(host, "slurm.launch_failed", line, state=reason)


def _reason_before(window: Window, hosts: str) -> str | None:
    for line in window.before(12):
        found = _REASON.search(line.text)
        if found and found[1] == hosts:
            return found[2].strip()
    return None


def _state_set(found: re.Match[str], window: Window) -> Iterator[Record]:
    line, word = window.line, found[2]
    state = "up" if word.upper().startswith(("RESUME", "UNDRAIN")) else node_state(word)
    reason = _reason_before(window, found[1]) or (found.groupdict().get("why") or "").strip() or None
    commanded = found[0].startswith("update_node") and not own_reason(reason)
    for host in names(found[1]):
        if state in ("down", "drain"):
            yield _at(host, f"slurm.node_{state}", line, state=reason or word, severity="operator" if commanded else None)
        elif state in ("idle", "up"):
            yield _at(host, "slurm.node_resume", line, state=word)
        if state is not None:
            yield HostStateRecord(host, line.number, "slurmctld", state, ts=line.ts, reason=reason if state in ("down", "drain") else None)
    if state not in ("down", "drain", "idle", "up"):
        yield Benign(line.number)


def _launch(found: re.Match[str], window: Window) -> Iterator[Record]:
    parts = found.groupdict()
    hosts = names(parts.get("hosts")) or ("",)
    for host in hosts:
        yield _at(host, "slurm.launch_failed", window.line, job_id=parts.get("job"), state=(parts.get("why") or "launch failure").strip())


def _rebooted(found: re.Match[str], window: Window) -> Iterator[Record]:
    line = window.line
    boot = clocks.from_epoch(found[2]) if found[2] else None
    event = _at(found[1], "host.boot", line, severity="unexpected", state="unexpectedly rebooted")
    event.ts, event.ts_quality = boot, Quality.EXACT if boot else Quality.UNKNOWN
    event.attrs = {"last_response": found[3]} if found[3] else {}
    yield event
    last = clocks.from_epoch(found[3]) if found[3] else None
    yield HostStateRecord(found[1], line.number, "slurmctld", "boot", ts=last or boot, end=boot, reason="unexpectedly rebooted")


def _unreachable(found: re.Match[str], window: Window) -> Iterator[Record]:
    yield _at(found[1], "slurm.node_not_responding", window.line, state=found[2].strip())


def _nothing(found: re.Match[str], window: Window) -> Iterator[Record]:
    yield Benign(window.line.number)


def _rule(needle: str, pattern: str, read: Reader) -> tuple[str, re.Pattern[str], Reader]:
    return needle, re.compile(pattern), read


# A needle, the pattern of the lines that carry it, and who reads them.
_RULES = (
    # sched: Allocate JobId=1 NodeList=gpu-[001-008] #CPUs=768 Partition=high
    _rule(
        "sched: Allocate Job",
        rf"sched: Allocate {_JOB} NodeList=(?P<hosts>\S{{1,8000}}) #CPUs=\d+(?: Partition=(?P<part>\S{{1,200}}))?",
        _start,
    ),
    # sched: _slurm_rpc_allocate_resources JobId=5 NodeList=gpu-001 usec=1234
    _rule("_slurm_rpc_allocate_resources Job", rf"_slurm_rpc_allocate_resources {_JOB} NodeList=(?P<hosts>\(null\))", _nothing),
    _rule("_slurm_rpc_allocate_resources Job", rf"_slurm_rpc_allocate_resources {_JOB} NodeList=(?P<hosts>\S{{1,8000}})", _start),
    # sched/backfill: _start_job: Started JobId=10 in low on gpu-013
    _rule("_start_job: Started Job", rf"_start_job: Started {_JOB} in (?P<part>\S{{1,200}}) on (?P<hosts>\S{{1,8000}})", _start),
    # _job_complete: JobId=9 done
    _rule("_job_complete: Job", rf"_job_complete: {_JOB} (?:done|requeue|State=\S{{1,20}} NodeCnt=\d+ done)", _nothing),
    # _job_complete: JobId=9 WEXITSTATUS 2 | _job_complete: JobID=9 State=0x1 NodeCnt=1 WTERMSIG 9
    _rule(
        "_job_complete: Job",
        rf"_job_complete: {_JOB} (?:State=\S{{1,20}} )?(?:NodeCnt=\d{{1,7}} )?"
        r"(WEXITSTATUS|WTERMSIG|OOM failure|cancelled[ \w]{0,60}) ?(\d{1,10})?",
        _complete,
    ),
    # _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=8 uid 0
    _rule("REQUEST_KILL_JOB", rf"REQUEST_KILL_JOB {_JOB} uid (?P<uid>\d{{1,12}})", _killed),
    _rule("Time limit exhausted for Job", rf"Time limit exhausted for {_JOB}", _killed),
    # requeue job JobId=1 due to failure of node gpu-007
    _rule("due to failure of node", rf"(?:requeue|[Kk]illing) (?:job )?{_JOB} due to failure of node (?P<hosts>\S{{1,400}})", _host_failed),
    # Killing JobId=6120 on failed node gpu-042
    _rule("on failed node", rf"Killing {_JOB} (?:on|due to) (?:failed|DOWN) node (?P<hosts>\S{{1,400}})", _host_failed),
    # Killing StepId=6120.0 on failed node gpu-042
    _rule("on failed node", rf"Killing StepId=(?P<job>{_NUMBER})\.\S{{1,20}} on failed node (?P<hosts>\S{{1,400}})", _step_lost),
    # Batch JobId=5 missing from batch node gpu-3 (not found BatchStartTime after startup)
    _rule("missing from batch node", rf"Batch {_JOB} missing from batch node (?P<hosts>[^\s(]{{1,400}})", _host_failed),
    _rule("Requeuing Job", rf"Requeuing {_JOB}", _requeue),
    # preempted JobId=10 has been requeued to reclaim resources for JobId=17
    _rule(
        "to reclaim resources for",
        rf"preempted {_JOB} (?:has been |had to be )?(?P<how>\w{{1,20}})(?: by gang scheduler)? to reclaim resources for "
        rf"(?:Job(?:Id|ID)=|job )(?P<winner>{_NUMBER})",
        _preempted,
    ),
    # error: Nodes gpu-[007-008] not responding, setting DOWN
    _rule("not responding", rf"\bNodes? {_HOSTS} not responding(, setting DOWN)?", _silent),
    # Node gpu-007 now responding
    _rule("now responding", rf"\bNodes? {_HOSTS} (now responding)", _back),
    # node gpu-007 returned to service
    _rule("returned to service", rf"\b[Nn]ode {_HOSTS} (returned to service)", _back),
    # update_node: node gpu-012 reason set to: Kernel: Xid 94 on GPU 3
    _rule("update_node: node", _REASON.pattern, _reason_set),
    # update_node: node gpu-012 state set to DRAINING | drain_nodes: node worker7 state set to DRAIN
    _rule("update_node: node", rf"update_node: node {_HOSTS} state set to (\S{{1,60}})", _state_set),
    _rule("update_node: node", rf"update_node: node {_HOSTS} \w", _nothing),
    _rule("drain_nodes: node", rf"drain_nodes: node {_HOSTS} state set to (\S{{1,60}})", _state_set),
    _rule("drain_nodes: node", rf"drain_nodes: node {_HOSTS} already in state", _nothing),
    # error: Setting node gpu-7 state to DRAIN with reason:gres/gpu count reported lower than configured (7 < 8)
    _rule("Setting node ", rf"Setting node {_HOSTS} state to (\w{{1,20}}) with reason: ?(?P<why>.{{0,400}})", _state_set),
    # node gpu-7 not resumed by ResumeTimeout(600), setting DOWN and POWERED_DOWN
    _rule("not resumed by ResumeTimeout", rf"\b[Nn]ode {_HOSTS} (not resumed by ResumeTimeout)\(\d", _not_resumed),
    # error: Security violation, REQUEST_KILL_JOB RPC for JobId=71 from uid 1001
    _rule("Security violation", r"Security violation, \S{0,60}(?:REQUEST_|RPC)", _nothing),
    # error: slurmd error running JobId=71 on node(s)=worker7: Prolog error
    _rule(
        "slurmd error running Job", rf"slurmd error running {_JOB} on node\(s\)=(?P<hosts>[^\s:]{{1,8000}}): (?P<why>.{{1,200}})", _launch
    ),
    # error: Prolog launch failure, JobId=71
    _rule("Prolog launch failure", rf"(?P<why>Prolog launch failure), {_JOB}", _launch),
    # validate_node_specs: Prolog or job env setup failure on node gpu-3, draining the node
    _rule("env setup failure on node", r"(?P<why>Prolog or job env setup failure) on node (?P<hosts>[^\s,]{1,400})", _launch),
    # error: epilog error on gpu-3, draining the node
    _rule("pilog error on ", r"(?P<why>[Ee]pilog error) on (?:node )?(?P<hosts>[^\s,]{1,400}), (?:draining|setting DOWN)", _launch),
    # validate_node_specs: Node gpu-p37 unexpectedly rebooted boot_time=1772767220 last response=1772766970
    _rule(
        "unexpectedly rebooted",
        r"\bNode (\S{1,200}) unexpectedly rebooted(?: boot_time[= ](\d{9,11}))?(?: ?last response[= ](\d{9,11}))?",
        _rebooted,
    ),
    # agent/is_node_resp: node:gpu-7 RPC:REQUEST_TERMINATE_JOB : Communication connection failure
    _rule("is_node_resp: node:", r"is_node_resp: node:(\S{1,200}) RPC:\S{1,80} : (.{1,200})", _unreachable),
)

_HINTS = (
    "not responding",
    "not resumed by ResumeTimeout",
    "Security violation",
    "now responding",
    "returned to service",
    "on failed node",
    "Setting node ",
    "pilog error on ",
    "Prolog launch failure",
    "to reclaim resources for",
)


def _parse(window: Window) -> Iterator[Record]:
    text = window.line.text[:_READ]
    for needle, pattern, read in _RULES:
        if needle in text and (found := pattern.search(text)):
            yield from read(found, window)
            return


DIALECT = LineDialect(
    "slurmctld",
    ("preempted JobId=", *dict.fromkeys(needle for needle, _, _ in _RULES if needle not in _HINTS)),
    _parse,
    hints=_HINTS,
)
