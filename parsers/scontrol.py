"""`scontrol show node|job|topology`, and the same words in slurm.conf and topology.conf."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers.contract import Dialect, Event, HostRecord, HostStateRecord, JobRecord, Line, LineDialect, Record, SectionDialect, Window
from parsers.slurm_fields import (
    ENDED,
    WAITING,
    count,
    elapsed_s,
    exit_status,
    gres,
    job_state,
    moment,
    names,
    node_code,
    node_state,
    own_reason,
    tres_gpus,
)

_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w:/.]{0,39})=")
# Keys whose value is the rest of the line.
_WHOLE = frozenset({"Comment", "AdminComment", "SystemComment", "Extra", "Command", "SubmitLine"})
# Reason=Not responding [slurm@2024-07-09T02:00:55]
_REASON = re.compile(r"Reason=((?:(?!Reason=).){0,2000}?) \[([^\[\]@]{1,64})@([^\[\]]{1,40})\]")
_LINES, _READ = 120, 32 << 10


def _pairs(text: str) -> dict[str, str]:
    """`Key=value` pairs of one line; values may hold blanks."""
    found = list(_KEY.finditer(text))
    out: dict[str, str] = {}
    for key, following in zip(found, [*found[1:], None], strict=False):
        whole = key[1] in _WHOLE
        out.setdefault(key[1], text[key.end() : None if whole or following is None else following.start()].strip())
        if whole:
            break
    return out


class _Entry:
    """One node or job: its first line and the indented ones below."""

    def __init__(self, line: Line) -> None:
        self.first = self.last = line.number
        self.lines = [line.raw[:_READ].strip()]
        self.gaps = 0

    def feed(self, line: Line) -> Iterable[Record] | None:
        """A node's reason stands below a blank line."""
        if not line.raw.strip() and not self.gaps:
            self.gaps = 1
            return ()
        if not line.raw[:1].isspace() or not line.raw.strip() or "=" not in line.raw or len(self.lines) > _LINES:
            return None
        self.lines.append(line.raw[:_READ].strip())
        self.last = line.number
        return ()

    def close(self) -> Iterable[Record]:
        pairs: dict[str, str] = {}
        for text in reversed(self.lines):
            pairs |= _pairs(text)
        if "JobName" in pairs:
            return _job(pairs, self.first, self.last)
        return _nodes(pairs, next((found for text in self.lines if (found := _REASON.search(text))), None), self.first, self.last)


def _nodes(pairs: dict[str, str], why: re.Match[str] | None, first: int, last: int) -> Iterable[Record]:
    hosts = () if pairs.get("NodeName") == "DEFAULT" else names(pairs.get("NodeName"))
    gpus, model = gres(pairs.get("Gres"))
    if gpus is None:
        gpus = tres_gpus(pairs.get("CfgTRES"))
    for host in hosts:
        if gpus is not None:
            yield HostRecord(host, first, "scontrol", gpus=gpus, gpu_model=model)
        # slurm.conf has node lines too; only a live node tells its CPUs
        if "CPUTot" in pairs or "CPUAlloc" in pairs:
            yield from _state(host, pairs, why, first, last)


def _state(host: str, pairs: dict[str, str], why: re.Match[str] | None, first: int, last: int) -> Iterable[Record]:
    word = pairs.get("State", "")
    state = node_state(word) or "unknown"
    reason, user, ts = (why[1], why[2], moment(why[3])) if why else (None, None, None)
    boot = moment(pairs.get("BootTime"))
    if boot is not None:
        yield HostStateRecord(host, first, "scontrol", "boot", ts=boot, end=boot)
    bad = state in ("down", "drain")
    yield HostStateRecord(host, first, "scontrol", state, ts=ts if bad else None, reason=reason, user=user)
    code = node_code(state, word)
    if code is None:
        return
    commanded = bool(reason) and user not in (None, "slurm") and not own_reason(reason)
    yield Event(
        code,
        f"{host} {word}" + (f": {reason}" if reason else ""),
        first,
        last,
        ts=ts,
        host=host,
        severity="operator" if commanded else None,
        state=reason or word,
        user=user,
    )


def _job(pairs: dict[str, str], first: int, last: int) -> Iterable[Record]:
    state, _ = job_state(pairs.get("JobState", ""))
    code, signal = exit_status(pairs.get("ExitCode"))
    job_id = _job_id(pairs)
    nodes = re.match(r"\d{1,9}", pairs.get("NumNodes", ""))
    ended = state in ENDED
    end = moment(pairs.get("EndTime")) if ended else None
    if ended:
        message = f"job {job_id} {state} exit {pairs.get('ExitCode', 'unknown')}"
        lasted = elapsed_s(pairs.get("RunTime", ""))
        yield Event(
            "slurm.job_end",
            message,
            first,
            last,
            ts=end,
            host="",
            job_id=job_id,
            duration_s=lasted,
            state=state,
            exit_code=code,
            signal=signal,
        )
    yield JobRecord(
        job_id,
        first,
        "scontrol",
        name=pairs.get("JobName"),
        user=pairs.get("UserId", "").partition("(")[0] or None,
        partition=pairs.get("Partition"),
        state=state,
        hosts=names(pairs.get("NodeList")),
        nodes=int(nodes[0]) if nodes else None,
        gpus=_job_gpus(pairs),
        submit=moment(pairs.get("SubmitTime")),
        # of a waiting job it is the scheduler's guess
        start=None if state in WAITING else moment(pairs.get("StartTime")),
        end=end,
        exit_code=code if ended else None,
        signal=signal if ended else None,
        reason=None if pairs.get("Reason") in (None, "", "None") else pairs["Reason"],
        restarts=count(pairs.get("Restarts")),
        excluded=names(pairs.get("ExcNodeList")),
    )


def _job_id(pairs: dict[str, str]) -> str:
    if pairs.get("ArrayTaskId", "").isdigit() and pairs.get("ArrayJobId"):
        return f"{pairs['ArrayJobId']}_{pairs['ArrayTaskId']}"
    if pairs.get("HetJobOffset", "").isdigit() and pairs.get("HetJobId"):
        return f"{pairs['HetJobId']}+{pairs['HetJobOffset']}"
    return pairs.get("JobId", "")


def _job_gpus(pairs: dict[str, str]) -> int | None:
    for key in ("AllocTRES", "TRES", "ReqTRES"):
        if pairs.get(key) not in (None, "", "(null)"):
            return tres_gpus(pairs[key]) or 0
    return None


# JobId=17 JobName=sweep | JobId=127 ArrayJobId=123 ArrayTaskId=4 JobName=sweep
_JOB = re.compile(r"\s{0,8}JobId=\d{1,12} (?:(?:Array|Het)\w{2,12}=\S{0,200} ){0,4}JobName=")
# NodeName=gpu-001 Arch=x86_64 CoresPerSocket=32
_NODE = re.compile(r"\s{0,8}NodeName=[A-Za-z]\S{0,4000}(?: |$)")


def _open(line: Line) -> _Entry | None:
    return _Entry(line) if _JOB.match(line.raw) or _NODE.match(line.raw) else None


# SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu-[001-008]
_SWITCH = re.compile(r"^\s{0,8}(Switch|Block)Name=(\S{1,200}) ")
_MEMBERS = re.compile(r"\sNodes=(\S{1,4000})")


def _topology(window: Window) -> Iterable[Record]:
    raw = window.line.raw
    found, members = _SWITCH.match(raw), _MEMBERS.search(raw)
    if not found or not members or " Switches=" in raw:
        return
    for host in names(members[1]):
        leaf, rack = (found[2], None) if found[1] == "Switch" else (None, found[2])
        yield HostRecord(host, window.line.number, "topology", leaf=leaf, rack=rack)


DIALECTS: tuple[Dialect, ...] = (
    SectionDialect("scontrol", ("NodeName=", " JobName="), _open),
    LineDialect("slurm_topology", (), _topology, hints=("SwitchName=", "BlockName=")),
)
