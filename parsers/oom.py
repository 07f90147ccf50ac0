"""Processes that the kernel, a memory cgroup or systemd-oomd killed for memory: one event for each victim.

Line shapes: Linux mm/oom_kill.c and mm/memcontrol.c, 3.10 to 6.12; systemd src/oom.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from parsers import shapes
from parsers.contract import Benign, Event, Line, LineDialect, Record, Reject, Window

# oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,...,task_memcg=/slurm/uid_1009/job_41/step_0,task=python3,pid=41,uid=50
_CONSTRAINT = re.compile(r"oom-kill:constraint=(?P<constraint>\w{1,40})")
_VICTIM = re.compile(r",task=(?P<task>[^,]{1,64}),pid=(?P<pid>\d{1,10})(?:,uid=(?P<uid>\d{1,10}))?")
# Memory cgroup out of memory: Killed process 30991 (python3) total-vm:70110400kB, anon-rss:61440000kB, ..., UID:5012 pgtables:...
# Out of memory: Kill process 456 (python) score 50 or sacrifice child   Out of memory: Killed process 123, UID 48, (httpd)
_KILLED = re.compile(
    r"(?:(?P<cgroup>Memory cgroup )?(?P<full>[Oo]ut of memory)(?: \([^)]{1,40}\))?: )?"
    r"(?P<done>Kill(?:ed)?) process (?P<pid>\d{1,10})(?:, UID (?P<uid>\d{1,10}),)? \((?P<task>[^)]{1,64})\)"
)
_SIZE = re.compile(r"anon-rss:(?P<kib>\d{1,15})kB")
# python3 invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
_INVOKED = re.compile(r"(?<![^\]:])(?P<task>[^\]:]{1,64}) invoked oom-killer:")
# Killed /system.slice/slurmstepd.scope/job_41 due to memory pressure for /system.slice being 87.2% > 60.0% for > 20s
_PRESSURE = re.compile(r"Killed (?P<cgroup>/\S{1,300}) due to (?P<state>memory pressure|memory used)")
# Task in /slurm/uid_1009/job_41/step_0 killed as a result of limit of /slurm/uid_1009/job_41
_LIMIT = re.compile(r"Task in (?P<cgroup>/\S{0,300}) killed as a result of limit of /")
# 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed ... at node (ID: 4f1c, IP: 10.0.0.3) ...
_RAY = re.compile(
    r"(?P<value>[1-9]\d{0,5}) Workers \(tasks / actors\) killed due to (?P<state>memory pressure) \(OOM\)"
    r"(?:.{0,80} at node \(ID: \w{1,80}, IP: (?P<host>[\w.:]{1,60}))?"
)
_JOB = re.compile(r"/job_(\d{1,12})\b")
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")

_STATES: Mapping[str, str] = {
    "CONSTRAINT_NONE": "global",
    "CONSTRAINT_MEMCG": "memcg",
    "CONSTRAINT_CPUSET": "cpuset",
    "CONSTRAINT_MEMORY_POLICY": "memory_policy",
}
# The task list between the first line of a report and its victim has a line for each process.
_REPORT_LINES = 2000
_NEAR = 4


def _owner(text: str) -> tuple[str | None, dict[str, object]]:
    job, pod = _JOB.search(text), _POD.search(text)
    return (job[1] if job else None), ({"pod": pod[1].replace("_", "-")} if pod else {})


def _killed_near(window: Window, pid: str) -> Line | None:
    for other in window.after(_NEAR):
        hit = _KILLED.search(other.text[: shapes.HEAD]) if shapes.same_report(other, window.line) else None
        if hit and hit["pid"] == pid:
            return other
    return None


def _constraint(window: Window, text: str, found: re.Match[str]) -> Event | Reject:
    line, victim = window.line, _VICTIM.search(text)
    if not victim:
        return Reject(line.number, "oom-kill: no victim named", line.raw[:200])
    made = shapes.event("host.oom_kill", line, victim, state=_STATES.get(found["constraint"], found["constraint"]))
    made.job_id, owner = _owner(text)
    made.attrs |= owner
    killed = _killed_near(window, victim["pid"])
    if killed:
        made.line_last = killed.number
        made.attrs |= _size(killed.text[: shapes.HEAD])
    return made


def _size(text: str) -> dict[str, object]:
    found = _SIZE.search(text)
    return {"anon_rss_gib": round(int(found["kib"]) / 1024**2, 1)} if found else {}


def _is_told(window: Window, found: re.Match[str]) -> bool:
    """Whether the lines just above name this victim: `oom-kill:` of new kernels, `Kill process` of old ones."""
    for other in window.before(_NEAR):
        if not shapes.same_report(other, window.line):
            continue
        text = other.text[: shapes.HEAD]
        hit = _KILLED.search(text) or (_VICTIM.search(text) if "oom-kill:" in text else None)
        if hit and hit["pid"] == found["pid"] and hit.groupdict().get("done") != found["done"]:
            return True
    return False


def _cgroup(window: Window) -> str:
    """The cgroup path that kernels before 4.19 print above their task list."""
    for other in window.before(_REPORT_LINES):
        hit = _LIMIT.search(other.text[: shapes.HEAD])
        if hit and shapes.same_report(other, window.line):
            return hit["cgroup"]
    return ""


def _is_reported(window: Window) -> bool:
    """Whether an OOM report stands above: a bare `Killed process 12 (x)` alone may be anybody's words."""
    return any(
        shapes.same_report(other, window.line) and ("invoked oom-killer" in other.text or _LIMIT.search(other.text[: shapes.HEAD]))
        for other in window.before(_REPORT_LINES)
    )


def _killed(window: Window, text: str, found: re.Match[str]) -> Event | Benign | None:
    line = window.line
    if not found["full"] and "-vm:" not in text and not _is_reported(window):
        return None
    if _is_told(window, found):
        return Benign(line.number)
    made = shapes.event("host.oom_kill", line, pid=int(found["pid"]))
    group = "" if found["full"] and not found["cgroup"] else _cgroup(window)
    made.state = "memcg" if found["cgroup"] or group else "global" if found["full"] else None
    made.job_id, owner = _owner(group)
    made.attrs = owner | {"task": found["task"]} | ({"uid": found["uid"]} if found["uid"] else {}) | _size(text)
    killed = _killed_near(window, found["pid"]) if found["done"] == "Kill" else None
    if killed:
        made.line_last = killed.number
        made.attrs |= _size(killed.text[: shapes.HEAD])
    return made


def _invoked(window: Window, found: re.Match[str]) -> Event | Benign:
    for other in window.after(_REPORT_LINES):
        if not shapes.same_report(other, window.line):
            continue
        text = other.text[: shapes.HEAD]
        if ("oom-kill:" in text and _VICTIM.search(text)) or _KILLED.search(text):
            return Benign(window.line.number)
        if "invoked oom-killer" in text:
            break
    made = shapes.event("host.oom_kill", window.line)
    made.attrs = {"invoked_by": found["task"].strip()}
    return made


def _pressure(line: Line, found: re.Match[str]) -> Event:
    made = shapes.event("host.oom_kill", line, found)
    made.job_id, owner = _owner(found["cgroup"])
    made.attrs |= owner
    return made


def parse(window: Window) -> Iterable[Record]:
    """The kill that a line tells; its other lines are benign or part of the event."""
    text = window.line.text[: shapes.HEAD]
    made: Event | Benign | Reject | None = None
    if shapes.RELAYED.search(text):
        return ()
    if found := _CONSTRAINT.search(text):
        made = _constraint(window, text, found)
    elif found := _KILLED.search(text):
        made = _killed(window, text, found)
    elif found := _INVOKED.search(text):
        made = _invoked(window, found)
    elif _LIMIT.search(text):
        return (Benign(window.line.number),)
    elif found := _PRESSURE.search(text):
        made = _pressure(window.line, found)
    elif found := _RAY.search(text):
        made = shapes.event("host.oom_kill", window.line, found)
    return (made,) if made else ()


DIALECT = LineDialect(
    name="oom",
    needles=(),
    hints=(
        "oom-kill:constraint=",
        "Kill process ",
        "Killed process ",
        "invoked oom-killer",
        " due to memory ",
        "killed as a result of limit",
    ),
    parse=parse,
)
