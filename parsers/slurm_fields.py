"""Slurm's field values: times, exit codes, states, TRES, host lists, reasons."""

from __future__ import annotations

import re
from functools import lru_cache

from parsers import clocks, hosts

JOB_STATES = (
    "COMPLETED PENDING RUNNING SUSPENDED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE OUT_OF_MEMORY COMPLETING "
    "CONFIGURING RESIZING REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT STAGE_OUT SIGNALING STOPPED REVOKED RESV_DEL_HOLD "
    "LAUNCH_FAILED RECONFIG_FAIL POWER_UP_NODE EXPEDITING"
).split()
COMPACT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING", "DL": "DEADLINE", "F": "FAILED",
    "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED", "R": "RUNNING", "RD": "RESV_DEL_HOLD",
    "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED", "SE": "SPECIAL_EXIT",
    "SI": "SIGNALING", "SO": "STAGE_OUT", "ST": "STOPPED", "TO": "TIMEOUT",
}  # fmt: skip
ENDED = frozenset(
    "COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE OUT_OF_MEMORY REQUEUED REVOKED SPECIAL_EXIT "
    "LAUNCH_FAILED".split()
)
WAITING = frozenset("PENDING CONFIGURING REQUEUE_HOLD REQUEUE_FED RESV_DEL_HOLD POWER_UP_NODE".split())

# 123 | 123_4 | 123_[1-10%2] | 123+0
JOB_ID = re.compile(r"\d{1,12}(?:_(?:\d{1,9}|\[[^\]|]{1,200}\]?))?(?:\+\d{0,5})?")
# 123.batch | 123_4.0 | 123+0.extern
STEP_ID = re.compile(r"\d{1,12}+(?:_\d{1,9}+)?+(?:\+\d{1,5}+)?+\.[\w+]{1,40}")
# 2-02:20:48 | 01:36:48 | 36:48.120
_ELAPSED = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,2}(?:\.\d{1,9})?)")
_LIST = 64 << 10
# 134:0 | 0:15
_EXIT = re.compile(r"(\d{1,10}):(\d{1,10})")
# CANCELLED by 1000
_STATE = re.compile(r"([A-Z_]{1,30})(\+?)(?: by (\S{1,64}))?")
# gres/gpu=64 | gres/gpu:h100=8
_TRES_GPU = re.compile(r"\bgres/gpu(?::([^=,\s]{1,64}))?=(\d{1,9})")
# gpu:8 | gpu:h100:8(S:0-1) | gres:gpu:8 | gres/gpu:8
_GRES_GPU = re.compile(r"\bgpu(?::([^:,()\s=]{0,64}[A-Za-z][^:,()\s=]{0,64}))?[:=](\d{1,6})(?![\w.])")
_OWN_REASON = re.compile(
    r"(?i)(?:not responding|kill task failed|prolog|epilog|low (?:realmemory|socket|cpus|tmpdisk|cores|threads)|gres/"
    r"|node unexpectedly rebooted|batch job complete failure|duplicate jobid|invalid |no network address|reboot|scheduled reboot"
    r"|resumetimeout|cold-start|.{0,60}setup failure)"
)
# Short options of sbatch and srun that take no value.
_BARE = frozenset("-H -O -Q -s -v -vv -vvv -k -K -l -W -h -V -I".split())
_BARE_LONG = re.compile(
    r"--(?:parsable|exclusive|requeue|no-requeue|hold|quiet|verbose|overcommit|oversubscribe|wait|test-only|contiguous|reboot|spread-job"
    r"|use-min-nodes|no-kill|ignore-pbs|unbuffered|label|pty|overlap|exact|kill-on-bad-exit)"
)


def moment(text: str | None) -> int | None:
    """Microseconds UTC of `2026-03-04T05:16:48` or epoch seconds; None for `Unknown`, `None`, `N/A`."""
    found = clocks.from_text(text) if text else None
    return found[0] if found else None


def count(text: str | None) -> int | None:
    """A plain number of at most nine digits."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def elapsed_s(text: str) -> float | None:
    """Seconds of `[DD-[HH:]]MM:SS[.frac]`."""
    found = _ELAPSED.fullmatch(text.strip())
    if not found:
        return None
    days, hours, minutes, seconds = found.groups()
    return int(days or 0) * 86400 + int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds)


def exit_status(text: str | None) -> tuple[int | None, int | None]:
    """(exit code, signal) of `134:0`; a signal of 0 is None."""
    found = _EXIT.fullmatch((text or "").strip())
    return (int(found[1]), int(found[2]) or None) if found else (None, None)


def job_state(text: str) -> tuple[str | None, str | None]:
    """(state, who cancelled it) of `CANCELLED by 1000`, `OUT_OF_ME+`, `CD`; (None, None) for what is no job state."""
    text = text.strip()
    if text in COMPACT:
        return COMPACT[text], None
    found = _STATE.match(text)
    if not found:
        return None, None
    word, cut, by = found.groups()
    if word in JOB_STATES:
        return word, by
    long = next((state for state in JOB_STATES if cut and len(word) > 2 and state.startswith(word)), None)
    return long, by


def tres_gpus(text: str | None) -> int | None:
    """GPUs of `billing=8,gres/gpu=64`; the total where it is given, else the sum of the models."""
    found = _TRES_GPU.findall(text or "")
    plain = [int(count) for model, count in found if not model]
    if plain:
        return plain[0]
    return sum(int(count) for _, count in found) if found else None


def gres(text: str | None) -> tuple[int | None, str | None]:
    """(GPUs of one host, model) of `gpu:h100:8(S:0-1)`."""
    found = _GRES_GPU.findall(text or "")
    if not found:
        return None, None
    models = [model for model, _ in found if model]
    return sum(int(count) for _, count in found), models[0] if models else None


@lru_cache(maxsize=512)
def names(text: str | None) -> tuple[str, ...]:
    """Hosts of a list; none where the list was cut to a column's width."""
    text = (text or "").strip()
    if text.endswith("+") or len(text) > _LIST:
        return ()
    found = hosts.expand(text)
    return () if any(set(name) & set("[]() \t") for name in found) else tuple(found)


def excluded(submit_line: str | None) -> tuple[str, ...]:
    """Hosts of `-x` and `--exclude` before the script's name in a submit line."""
    words, wants = (submit_line or "").split()[1:500], ""
    out: list[str] = []
    for word in words:
        if wants:
            out += names(word) if wants in ("-x", "--exclude") else ()
            wants = ""
        elif word.startswith("--exclude="):
            out += names(word.partition("=")[2])
        elif word.startswith("-x") and len(word) > 2:
            out += names(word[2:])
        elif not word.startswith("-"):
            break
        elif _takes_value(word):
            wants = word
    return tuple(dict.fromkeys(out))


def _takes_value(option: str) -> bool:
    if option.startswith("--"):
        return "=" not in option and not _BARE_LONG.fullmatch(option)
    return len(option) == 2 and option not in _BARE


_NODE_WORDS = {
    "down": "DOWN INVAL INVALID INVALID_REG ERROR",
    "drain": "DRAIN DRAINED DRAINING DRNG DRAIN_ FAIL FAILING FAILG",
    "boot": "BOOT REBOOT REBOOT_ISSUED REBOOT_REQUESTED POWERING_UP POWER_UP POW_UP",
    "unknown": "UNKNOWN UNK FUTURE FUTR POWERED_DOWN POWERING_DOWN POWER_DOWN POWER_DOWN^ POW_DN NOT_RESPONDING NO_RESPOND",
    "up": "MAINT MAINTENANCE RESV RESERVED RESERVATION BLOCKED BLOCK PERFCTRS NPC RESUME",
    "alloc": "ALLOC ALLOCATED COMP COMPLETING",
    "mixed": "MIX MIXED",
    "idle": "IDLE PLANNED PLND",
}
_NODE_STATE = {word: state for state, words in _NODE_WORDS.items() for word in words.split()}
_GRAVITY = tuple(_NODE_WORDS)
# idle* not responding, ~ powered down, # powering up, $ maintenance, @ ^ reboot, - planned, ! % powering down
_SUFFIX = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "$": "MAINT", "@": "REBOOT", "^": "REBOOT", "!": "POWERING_DOWN"}
_SUFFIX["%"] = "POWERING_DOWN"
NODE_STATE = re.compile(r"[A-Za-z_]{2,24}[*~#$@^!%-]{0,2}(?:\+[A-Za-z_]{2,24}[*~#$@^!%-]{0,2}){0,8}")


def node_state(text: str) -> str | None:
    """The gravest of the flags in `DOWN+DRAIN`, `drng`, `idle*`, in the contract's words; None for what is no node state."""
    if not NODE_STATE.fullmatch(text):
        return None
    flags = re.findall(r"[A-Z_]{2,24}", text.upper())
    flags += [_SUFFIX[mark] for mark in text if mark in _SUFFIX]
    states = {_NODE_STATE.get(flag) for flag in flags}
    return next((state for state in _GRAVITY if state in states), None)


def silent(text: str) -> bool:
    """Whether a node state says that the host does not answer."""
    return "*" in text or "NOT_RESPONDING" in text.upper() or "NO_RESPOND" in text.upper()


def node_code(state: str | None, text: str) -> str | None:
    """The event code of a node state; None where there is nothing to tell."""
    if state in ("down", "drain"):
        return f"slurm.node_{state}"
    return "slurm.node_not_responding" if silent(text) else None


def own_reason(reason: str | None) -> bool:
    """Whether Slurm itself words a node's reason so; any other was set by a person or a health check."""
    return bool(reason and _OWN_REASON.match(reason))
