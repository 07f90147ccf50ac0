"""What slurmstepd and srun say of a step: in job output, in slurmd's log, in the journal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from parsers import clocks
from parsers.contract import Benign, Event, LineDialect, Quality, RankRecord, Record, Window
from parsers.slurm_fields import names

_ID = r"(\d{1,12}(?:_\d{1,9})?(?:\+\d{1,5})?)(?:\.(\w{1,20}(?:\+\w{1,9})?))?"
_WHAT = r"(?:(?:EXTERN |INTERACTIVE |BATCH )?(?:JOB|STEP)(?: FOR)?)"
# *** STEP 1.0 ON gpu-001 CANCELLED AT 2026-11-30T13:22:03 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
# *** JOB 1610220 CANCELLED AT 2015-03-11T09:20:41 *** on cn-4-7
_CANCEL = re.compile(
    rf"\*\*\* {_WHAT} {_ID} (?:ON (\S{{1,255}}) )?"
    r"CANCELLED(?: AT (\S{1,40}))?(?: DUE [Tt][Oo] ([^*]{1,120}?))? \*\*\*(?: on (\S{1,255}))?"
)
# *** STEP 9.0 STEPD TERMINATED ON gpu-3 AT 2026-11-30T13:22:03 DUE TO JOB NOT ENDING WITH SIGNALS ***
_STUCK = re.compile(rf"\*\*\* {_WHAT} {_ID} STEPD TERMINATED ON (\S{{1,255}}) AT (\S{{1,40}}) DUE TO ([^*]{{1,120}}?) \*\*\*")
# *** STEP 9.0 ON gpu-3 FAILED (non-zero exit code or other failure mode) ***
_FAILED = re.compile(rf"\*\*\* {_WHAT} {_ID} ON (\S{{1,255}}) FAILED \(([^)*]{{1,120}})\)")
# Detected 1 oom_kill event in StepId=88231.0. | Detected 2 oom-kill event(s) in step 88231.batch cgroup.
_OOM = re.compile(rf"Detected (\d{{1,9}}) oom[-_]kill event(?:\(?s\)?)? in (?:StepId=|[Ss]tep ){_ID}")
# slurmstepd-gpu-009: error:
_REPORTER = re.compile(r"slurmstepd-([A-Za-z0-9][\w.-]{0,200}): ")
# srun: error: Node failure on gpu-[007-008]
_NODE_FAILURE = re.compile(r"(?:srun|salloc): error: Node failure on (\S{1,4000})")
# srun: error: Nodes gpu-[007-008] are still not ready
_NOT_READY = re.compile(r"(?:srun|salloc): error: Nodes (\S{1,4000}) are still not ready")
# srun: error: gpu-005: task 4: Exited with exit code 134 | srun: error: gpu-[001-002]: tasks 0-15: Terminated
_TASK = re.compile(r"srun: error: ([A-Za-z0-9][^\s:]{0,4000}): tasks? ([\d,\-\[\]]{1,2000}): (.{1,200})")
_CODE = re.compile(r"Exited with exit code (\d{1,5})")
# srun: error: Task launch for StepId=9.0 failed on node gpu-3: Invalid job credential
_LAUNCH = re.compile(rf"Task launch for (?:StepId=)?{_ID} failed on node (\S{{1,255}}): (.{{1,200}})")
# srun: error: task 12 launch failed: Slurmd could not connect IO
_TASK_LAUNCH = re.compile(r"srun: error: task (\d{1,7}) launch failed: (.{1,200})")
# slurmstepd: error: Job 5120 exceeded memory limit (1048576 > 512000), being killed   error: StepId=5120.0 exceeded memory limit (...)
_MEMORY = re.compile(rf"(?:[Jj]ob |[Ss]tep |StepId=|JobId=){_ID} exceeded (?:virtual )?memory limit \((\d{{1,15}}(?:\.\d{{1,3}})?)")
# slurmstepd: error: Exceeded step memory limit at some point.
_MEMORY_ONCE = re.compile(r"Exceeded (?:job|step) memory limit at some point")
# /var/spool/slurmd/job05120/slurm_script: line 12: 41002 Killed                  python3 train.py
# ./run.sh: line 3: 41002 Segmentation fault      (core dumped) python3 train.py
_SHELL = re.compile(
    r": line \d{1,6}: {1,4}(\d{1,10}) (Killed|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception)"
    r"(?: {1,40}\(core dumped\)| {2,40}\S)"
)
_SPOOLED = re.compile(r"/job0{0,9}(\d{1,12})/slurm_script: line ")
# slurmstepd: error: pyxis: container start failed with error code: 1
_CONTAINER = re.compile(
    r"slurmstepd[^:]{0,200}: error: (pyxis: (?!printing).{0,40}(?:[Ff]ailed|couldn't|cannot|\[ERROR\]|[Dd]enied|No such).{0,200})"
)
_SIGNALS = {
    "Hangup": 1, "Interrupt": 2, "Quit": 3, "Illegal instruction": 4, "Trace/breakpoint trap": 5, "Aborted": 6, "Bus error": 7,
    "Floating point exception": 8, "Killed": 9, "User defined signal 1": 10, "Segmentation fault": 11, "User defined signal 2": 12,
    "Broken pipe": 13, "Alarm clock": 14, "Terminated": 15,
}  # fmt: skip
_TEARDOWN = frozenset({"Terminated", "Killed"})
_TEXT, _READ = 400, 16 << 10


def _cancelled(window: Window, found: re.Match[str]) -> Iterator[Record]:
    """The reporter merely runs the step daemon: after a node failure it is not the host that failed."""
    line = window.line
    job_id, step, on, at, cause, behind = found.groups()
    cause = (cause or "cancelled").partition(",")[0].strip()
    stamp = clocks.from_text(at) if at else None
    failed = cause.upper().startswith("NODE") and "FAIL" in cause.upper()
    event = Event(
        "slurm.node_fail" if failed else "slurm.job_killed",
        line.text[:_TEXT],
        line.number,
        ts=stamp[0] if stamp else None,
        ts_quality=stamp[1] if stamp else Quality.UNKNOWN,
        host="" if failed else on or behind or _reporter(line.text),
        job_id=job_id,
        state=cause.lower(),
    )
    event.attrs = {key: value for key, value in (("step", step), ("reporter", on or behind)) if value}
    yield event


def _reporter(text: str) -> str | None:
    found = _REPORTER.search(text)
    return found[1] if found else None


def _stuck(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line = window.line
    job_id, _, host, at, cause = found.groups()
    stamp = clocks.from_text(at)
    yield Event(
        "slurm.launch_failed",
        line.text[:_TEXT],
        line.number,
        ts=stamp[0] if stamp else None,
        ts_quality=stamp[1] if stamp else Quality.UNKNOWN,
        host=host,
        job_id=job_id,
        state=f"Kill task failed: {cause.lower()}",
    )


def _step_failed(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line = window.line
    yield Event("slurm.task_exit", line.text[:_TEXT], line.number, host=found[3], job_id=found[1], state=found[4])


def _oom(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line = window.line
    if int(found[1]) == 0:
        yield Benign(line.number)
        return
    yield Event(
        "host.oom_kill",
        line.text[:_TEXT],
        line.number,
        host=_reporter(line.text),
        job_id=found[2],
        value=float(found[1]),
        state="cgroup limit",
    )


def _node_failure(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line = window.line
    for host in names(found[1].rstrip(".,")):
        yield Event("slurm.node_fail", line.text[:_TEXT], line.number, host=host, state="node failure")


def _tasks(text: str) -> list[int]:
    """The first 1,024 of `4`, `0-7,9`, `[0-3]`."""
    out: list[int] = []
    for part in text.strip("[]").split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and (high.isdigit() or not high) and len(part) < 20:
            out += range(int(low), min(int(high or low), int(low) + 1023) + 1)
    return out[:1024]


def _task_exit(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line, tasks, how = window.line, _tasks(found[2]), found[3].strip()
    code, word = _CODE.match(how), how.partition(" (")[0].strip(".")
    for host in names(found[1]):
        event = Event("slurm.task_exit", line.text[:_TEXT], line.number, host=host, state=how)
        event.rank = tasks[0] if len(tasks) == 1 else None
        event.exit_code = int(code[1]) if code else None
        event.signal = _SIGNALS.get(word)
        event.severity = "teardown" if word in _TEARDOWN else None
        event.attrs = {"tasks": found[2]} if len(tasks) > 1 else {}
        yield event
    if len(tasks) == 1:
        yield from (RankRecord(tasks[0], line.number, "srun", host=host) for host in names(found[1])[:1])


def _launch(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line = window.line
    yield Event("slurm.launch_failed", line.text[:_TEXT], line.number, host=found[3], job_id=found[1], state=found[4].strip())


def _container(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line = window.line
    yield Event("slurm.launch_failed", line.text[:_TEXT], line.number, host=_reporter(line.text), state=found[1].strip())


def _not_ready(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line = window.line
    for host in names(found[1]):
        yield Event("slurm.node_not_responding", line.text[:_TEXT], line.number, host=host, state="still not ready")


def _task_launch(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line = window.line
    yield Event("slurm.launch_failed", line.text[:_TEXT], line.number, host="", rank=int(found[1]), state=found[2].strip())


def _memory(window: Window, found: re.Match[str]) -> Iterator[Record]:
    line = window.line
    event = Event("slurm.job_killed", line.text[:_TEXT], line.number, host=_reporter(line.text), job_id=found[1], state="memory limit")
    event.attrs = {"step": found[2]} if found[2] else {}
    yield event


def _memory_once(window: Window, found: re.Match[str]) -> Iterator[Record]:
    """Said at the end; the kill itself was told where it happened."""
    line = window.line
    if any(_MEMORY.search(other.text[:_READ]) for other in window.before(40)):
        yield Benign(line.number)
        return
    yield Event("slurm.job_killed", line.text[:_TEXT], line.number, host=_reporter(line.text), state="memory limit")


def _shell(window: Window, found: re.Match[str]) -> Iterator[Record]:
    """The shell that ran the program tells what ended it; whose rank that was it does not know."""
    line = window.line
    script = _SPOOLED.search(line.text[:_READ])
    job_id = script[1] if script else None
    yield Event(
        "slurm.task_exit", line.text[:_TEXT], line.number, job_id=job_id, pid=int(found[1]), state=found[2], signal=_SIGNALS[found[2]]
    )


_RULES = (
    ("CANCELLED", _CANCEL, _cancelled),
    (" STEPD TERMINATED ON ", _STUCK, _stuck),
    (" FAILED (", _FAILED, _step_failed),
    ("Detected ", _OOM, _oom),
    (": error: Node failure", _NODE_FAILURE, _node_failure),
    (" are still not ready", _NOT_READY, _not_ready),
    (" launch failed: ", _TASK_LAUNCH, _task_launch),
    (" memory limit (", _MEMORY, _memory),
    (" memory limit at some point", _MEMORY_ONCE, _memory_once),
    (": line ", _SHELL, _shell),
    ("srun: error: ", _TASK, _task_exit),
    ("Task launch for ", _LAUNCH, _launch),
    ("error: pyxis: ", _CONTAINER, _container),
)


def _parse(window: Window) -> Iterator[Record]:
    text = window.line.text[:_READ]
    if "srun: error: " not in text and "srun: error: " in window.line.raw[:_READ]:
        text = window.line.raw[:_READ]
    for literal, pattern, read in _RULES:
        if literal in text and (found := pattern.search(text)):
            yield from read(window, found)
            return


DIALECT = LineDialect(
    "slurmstep",
    (" CANCELLED AT ", "srun: error: Node failure on ", " STEPD TERMINATED ON "),
    _parse,
    hints=(
        " CANCELLED DUE TO ",
        "srun: error: ",
        "salloc: error: Node",
        "exceeded memory limit",
        "exceeded virtual memory limit",
        "memory limit at some point",
        ": line ",
        "error: pyxis: ",
        "oom_kill event",
        "oom-kill event",
        "Task launch for ",
        " FAILED (non-zero",
    ),
)
