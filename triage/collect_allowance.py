"""The commands that may be run to collect evidence: they read, and nothing else. What is not listed here is refused.

Every word is plain enough to pass a remote shell unquoted, so that `ssh host words...` runs what is written and no more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"
HOSTS = r"[A-Za-z0-9][A-Za-z0-9._,\[\]-]{0,20000}"
JOBS = r"[0-9][0-9_+,\[\]-]{0,400}"
TIME = r"@?[0-9][0-9T:-]{3,25}"
COLUMNS = r"[A-Za-z0-9_,%.|:]{1,600}"
LABEL = r"[A-Za-z0-9][A-Za-z0-9./_=,-]{0,400}"
KINDS = r"(?:nodes?|pods?|events?|jobs?|pytorchjobs?|mpijobs?|workloads?)(?:/[A-Za-z0-9._-]{1,253})?"

SHAPES: Mapping[str, tuple[str, ...]] = {
    # a shape is the whole line after the program, each word with a blank before it
    "sacct": (rf"(?: (?:-[aDXPnp]|-j {JOBS}|-[SE] {TIME}|-N {HOSTS}|-o {COLUMNS}|--format={COLUMNS}|--json))+",),
    "scontrol": (rf"(?: -[aod])* show (?:job {JOBS}|nodes?(?: {HOSTS})?|topology|partition|config)",),
    "sinfo": (rf"(?: (?:-[RNlah]|-o {COLUMNS}|-n {HOSTS}))+",),
    "squeue": (rf"(?: (?:-[alh]|-o {COLUMNS}|-j {JOBS}|-w {HOSTS}))*",),
    "sacctmgr": (rf"(?: -[Pnp])* (?:show|list) event(?: (?:all_clusters|(?:start|end)={TIME}|nodes={HOSTS}))*",),
    "journalctl": (
        rf"(?: (?:-k|--utc|--no-pager|--list-boots|--(?:since|until) {TIME}|-u {NAME}|-o short-iso(?:-precise)?|-n [0-9]{{1,9}}))+",
    ),
    "kubectl": (
        rf" get {KINDS}(?: {NAME})?(?: (?:-A|-n {NAME}|-o (?:json|wide)|-l {LABEL}|--sort-by=\.[A-Za-z.]{{1,60}}))*",
        rf" describe (?:node|pod) {NAME}(?: -n {NAME})?",
        rf" logs (?:-n {NAME} )?{NAME}(?: (?:--all-containers|--timestamps|--previous|--prefix|--tail=-?[0-9]{{1,9}}))*",
    ),
    "nvidia-smi": (r" -q(?: (?:-i [0-9a-fA-F:.]{1,20}|-d [A-Z_,]{1,80}))*", r" nvlink -[es]", r" topo -m", r" -L"),
    "ipmitool": (r" sel e?list",),
    "ibstat": (r"",),
    "iblinkinfo": (r" --switches-only",),
    "lspci": (r" -vvv -s [0-9a-fA-F:.]{4,14}",),
    "last": (r" -x(?: -n [0-9]{1,4})? reboot shutdown",),
    "who": (r" -b",),
    "uptime": (r" -s",),
    "df": (r" -[hi]",),
    "ras-mc-ctl": (r" --summary",),
}
_COMPILED = {program: tuple(re.compile(shape) for shape in shapes) for program, shapes in SHAPES.items()}
ON_CLUSTER = frozenset({"sacct", "scontrol", "sinfo", "squeue", "sacctmgr", "kubectl"})
"""Programs that are run here; the others are run on a host."""
_WORD = re.compile(r"[A-Za-z0-9@%_=+,.:/|\[\]-]{1,20000}")
_REMOTE = re.compile(r"[A-Za-z0-9@%_=+,.:/-]{1,4000}")


def refused(argv: Sequence[str], remote: bool = False) -> str | None:
    """Why these words may not be run; None when they may. `remote` words may meet a shell on the way."""
    if not argv or argv[0] not in _COMPILED:
        return f"{argv[0] if argv else 'nothing'} is not among the commands that only read"
    word = _REMOTE if remote else _WORD
    if not all(word.fullmatch(a) for a in argv):
        return "an argument holds what a shell would read in its own way"
    text = "".join(f" {a}" for a in argv[1:])
    if not any(shape.fullmatch(text) for shape in _COMPILED[argv[0]]):
        return f"{argv[0]} with these arguments is not among the commands that only read"
    return None


def is_host(name: str) -> bool:
    """Whether a name can be a host's, and no option."""
    return HOST.fullmatch(name) is not None
