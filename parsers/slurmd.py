"""slurmd's own log: prolog and epilog failures, missing GPU devices, launches, start and stop."""

from __future__ import annotations

import re
from collections.abc import Iterator

from parsers.contract import Event, LineDialect, Record, Window

_TEXT, _BEFORE = 400, 60
# error: [job 5120] epilog failed status=1:0 | error: prolog failed: rc:256 output:mount: no such device
# [5120.extern] error: epilog failed status=1:0
_SCRIPT = re.compile(
    r"(?=[EJPejpt]|\[[Jj\d])(?:(?:\[?[Jj]ob(?:Id=| )?|\[)(?P<job>\d{1,12}+)(?:\.\w{1,20})?\]?+:?+ (?:error: )?)?"
    r"(?P<why>(?:task )?(?:[Pp]rolog|[Ee]pilog) failed.{0,200})"
)
# spank-epilog: error: pyxis: mkdir: cannot create directory '/opt/data': Permission denied
_SPANK = re.compile(r"spank-(?:prolog|epilog): error: (?P<why>.{1,300})")
# error: Waiting for JobId=123 prolog has failed, giving up after 50 sec
_NO_PROLOG = re.compile(
    r"Waiting for JobId=(?P<job>\d{1,12}) (?P<why>(?:prolog has|REQUEST_LAUNCH_PROLOG notification) failed, giving up .{0,60})"
)
# Could not launch job 123 and not able to requeue it, cancelling job
_NOT_LAUNCHED = re.compile(r"Could not launch job (?P<job>\d{1,12})(?P<why> .{0,200})")
# fatal: can't stat gres.conf file /dev/nvidia3: No such file or directory
_NO_DEVICE = re.compile(r"can't stat gres\.conf file (?P<why>/dev/nvidia\d{1,3}: .{1,120})")
# error: gres_device_major: stat(/dev/nvidia3): No such file or directory
_NO_MAJOR = re.compile(r"gres_device_major: stat\((?P<device>/dev/nvidia\d{1,3})\): (?P<error>.{1,120})")
# Launching batch job 14 for UID 0
_BATCH = re.compile(r"Launching batch job (?P<job>\d{1,12})(?:\.\d{1,9})? for UID (?P<uid>\d{1,12})")
# launch task StepId=14.0 request from UID:0 GID:0 HOST:127.0.0.1 PORT:36910
_STEP = re.compile(r"launch task (?:StepId=)?(?P<job>\d{1,12})\.(?P<step>\d{1,9}) request from UID:(?P<uid>\d{1,12})")
# slurmd started on Mon, 30 Nov 2026 13:24:26 +0000
_STARTED = re.compile(r"\bslurmd started on \w{3}, ")
_STOPPED = re.compile(r"\bSlurmd shutdown completing")

_RULES = (
    ("pilog failed", _SCRIPT, "slurm.launch_failed"),
    ("rolog failed", _SCRIPT, "slurm.launch_failed"),
    ("Waiting for JobId=", _NO_PROLOG, "slurm.launch_failed"),
    ("spank-", _SPANK, "slurm.launch_failed"),
    ("Could not launch job ", _NOT_LAUNCHED, "slurm.launch_failed"),
    ("can't stat gres.conf file", _NO_DEVICE, "slurm.gres_missing"),
    ("Launching batch job ", _BATCH, "slurm.job_start"),
    ("launch task ", _STEP, "slurm.job_start"),
    ("gres_device_major: ", _NO_MAJOR, "slurm.gres_missing"),
    ("slurmd started on ", _STARTED, "slurm.slurmd_start"),
    ("Slurmd shutdown completing", _STOPPED, "slurm.slurmd_stop"),
)


def _parse(window: Window) -> Iterator[Record]:
    line = window.line
    for literal, pattern, code in _RULES:
        at = line.text.find(literal)
        if at >= 0 and (found := pattern.search(line.text, max(0, at - _BEFORE), at + _TEXT)):
            said = found.groupdict()
            event = Event(code, line.text[:_TEXT], line.number, job_id=said.get("job"), user=said.get("uid"))
            why = said.get("why") or (f"{said['device']}: {said['error']}" if said.get("device") else "")
            event.state = why.strip()[:200] or None
            event.attrs = {"step": said["step"]} if said.get("step") else {}
            yield event
            return


DIALECT = LineDialect(
    "slurmd",
    ("epilog failed status=", "prolog failed status=", "spank-epilog: error:", "spank-prolog: error:", "can't stat gres.conf file"),
    _parse,
    hints=(
        "pilog failed",
        "rolog failed",
        "Could not launch job ",
        "Waiting for JobId=",
        "gres_device_major: ",
        "Launching batch job ",
        "launch task ",
        "slurmd started on ",
        "Slurmd shutdown completing",
    ),
)
