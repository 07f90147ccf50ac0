"""Host names: Slurm host lists, short names, addresses."""

from __future__ import annotations

import ipaddress
import re

import hostlist

LIMIT = 100_000
# Not names: the tools' own ways to say that there is no list.
_NOTHING = frozenset({"", "(null)", "null", "none", "none assigned", "n/a", "unknown", "-", "(none)"})
# Words that stand where a host name could: in file stems and in syslog's host field of a headless line.
_WORD_LIST = """
    dmesg kern kernel syslog messages message journal journald journalctl slurm slurmctld slurmd slurmdbd slurmstepd sacct squeue sinfo
    scontrol sacctmgr srun sbatch nccl job jobs log logs out err error errors stdout stderr output train training rank ranks node nodes
    host hosts hostname gpu gpus worker workers master console serial sel ipmi bmc dcgm nvidia nvsm fabricmanager fm events event pods
    pod k8s cluster data trace traces info warn warning debug fatal critical notice last systemd sshd cron audit auth daemon user
    inventory topology readme
"""
_WORDS = frozenset(_WORD_LIST.split())
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9])?")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
# 001-008 | 017
_RANGE = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")
_PART = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*")


def expand(text: str) -> list[str]:
    """The names of a Slurm host list such as `gpu-[001-008,017],login1`, in order, each once, at most `LIMIT`.

    A list that does not parse is one name, as printed; `(null)`, `None assigned`, `n/a` are none.
    """
    text = text.strip()
    if text.casefold() in _NOTHING:
        return []
    if "[" not in text and "," not in text and "]" not in text:
        return [text]
    names: dict[str, None] = {}
    try:
        for part in _parts(text):
            if len(names) + _size(part) > LIMIT:
                return [text]
            names.update(dict.fromkeys(hostlist.expand_hostlist(part)))
    except (hostlist.BadHostlist, ValueError):
        return [text]
    return list(names)


def _parts(text: str) -> list[str]:
    """`text` cut at the commas outside brackets; ValueError where the brackets do not pair."""
    parts, at = [], 0
    while at <= len(text):
        found = _PART.match(text, at)
        end = found.end() if found else at
        if end < len(text) and text[end] != ",":
            raise ValueError(text[end])
        parts.append(text[at:end].strip())
        at = end + 1
    return [part for part in parts if part]


def _size(part: str) -> int:
    """How many names `part` stands for; ValueError where it is no host list. Keeps the library from building a huge one."""
    size, brackets = 1, _BRACKET.findall(part)
    if len(brackets) > 8 or len(_BRACKET.sub("", part)) > 256:
        raise ValueError("not a host list")
    for inside in brackets:
        ranges = [_RANGE.fullmatch(piece) for piece in inside.split(",")]
        size *= sum(int(found[2] or found[1]) - int(found[1]) + 1 for found in ranges if found)
    return size


def fold(name: str) -> str:
    """The short name, case as printed: no domain, no trailing `.` or `:`. An address stays whole."""
    name = next(iter(name.split(maxsplit=1)), "").rstrip(".:" if "::" not in name else ".")
    if is_address(name):
        return name
    return name.partition(".")[0] or name


def is_address(text: str) -> bool:
    """Whether `text` is an IPv4 or IPv6 address."""
    if not text or len(text) > 64 or not (text[0].isdigit() or ":" in text):
        return False
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def well_formed(text: str) -> bool:
    """Whether `text` has the form of a host name or an address."""
    return is_address(text) or bool(_NAME.fullmatch(text) and ".." not in text and not text.isdigit())


def plausible(text: str) -> bool:
    """Whether `text` can be a host name or address where nothing else says so: it is no common word of logs or file names."""
    if is_address(text):
        return True
    short = text.partition(".")[0]
    return well_formed(text) and short.lower() not in _WORDS and not short.isdigit()
