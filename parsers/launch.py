"""Programs that never began: the interpreter, the shell or the step daemon says that there is nothing to run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers.contract import Event, LineDialect, Record, Window

_HEAD = 400
# /usr/bin/python3: can't open file '/srv/jobs/train.py': [Errno 2] No such file or directory
_SCRIPT = re.compile(r"python[0-9.]{0,5}: can't open file '([^']{1,200})': \[Errno \d{1,3}\] ([A-Z][A-Za-z ]{1,60})")
# /usr/bin/python3: No module named trainer.main
_MODULE = re.compile(
    r"python[0-9.]{0,5}: (?:Error while finding module specification for '[^']{1,120}' \()?(No module named '?[\w.]{1,120})"
)
# /var/spool/slurmd/job00041/slurm_script: line 12: torchrun: command not found     bash: line 1: ./run.sh: Permission denied
_SHELL = re.compile(
    r"(?:slurm_script|bash|sh|zsh): (?:line \d{1,6}: )?([^:\s][^:]{0,120}): "
    r"(command not found|Permission denied|No such file or directory)$"
)
# slurmstepd: error: execve(): train_all: No such file or directory
_EXEC = re.compile(r"execve\(\): ([^:]{1,200}): (No such file or directory|Permission denied|Exec format error)")


def parse(window: Window) -> Iterable[Record]:
    """One `program.not_found`: state is what the system said, op is what could not be run."""
    text = window.line.text[:_HEAD].rstrip()
    for pattern in (_SCRIPT, _SHELL, _EXEC):
        if found := pattern.search(text):
            yield Event("program.not_found", text, window.line.number, op=found[1], state=found[2])
            return
    if found := _MODULE.search(text):
        yield Event("program.not_found", text, window.line.number, state=found[1])


DIALECT = LineDialect(
    "launch",
    (),
    parse,
    hints=(
        ": can't open file '",
        ": No module named ",
        ": command not found",
        ": Permission denied",
        "execve(): ",
        "sh: line ",
        "slurm_script: line ",
    ),
)
