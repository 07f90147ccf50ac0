"""slurmd's own log: prolog and epilog failures, missing GPU devices, launches, start and stop."""

from __future__ import annotations

import re
from collections.abc import Iterator

from parsers.contract import Event, LineDialect, Record, Window

_TEXT, _BEFORE = 400, 60
# error: [job 5120] epilog failed status=1:0 | error: prolog failed: rc:256 output:mount: no such device
_SCRIPT = re.compile(
    r"(?=\[?[EJPejpt])(?:\[?[Jj]ob(?:Id=| )?(?P<job>\d{1,12}+)\]?+:?+ )?(?P<why>(?:task )?(?:[Pp]rolog|[Ee]pilog) failed.{0,200})"
)
# spank-epilog: error: pyxis: mkdir: cannot create directory '/opt/data': Permission denied
_SPANK = re.compile(r"spank-(?:prolog|epilog): error: (?P<why>.{1,300})")
# Could not launch job 123 and not able to requeue it, cancelling job
_NOT_LAUNCHED = re.compile(r"Could not launch job (?P<job>\d{1,12})(?P<why> .{0,200})")
# fatal: can't stat gres.conf file /dev/nvidia3: No such file or directory
_NO_DEVICE = re.compile(r"can't stat gres\.conf file (?P<why>/dev/nvidia\d{1,3}: .{1,120})")
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
    ("spank-", _SPANK, "slurm.launch_failed"),
    ("Could not launch job ", _NOT_LAUNCHED, "slurm.launch_failed"),
    ("can't stat gres.conf file", _NO_DEVICE, "slurm.gres_missing"),
    ("Launching batch job ", _BATCH, "slurm.job_start"),
    ("launch task ", _STEP, "slurm.job_start"),
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
            event.state = (said.get("why") or "").strip()[:200] or None
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
        "Launching batch job ",
        "launch task ",
        "slurmd started on ",
        "Slurmd shutdown completing",
    ),
)
