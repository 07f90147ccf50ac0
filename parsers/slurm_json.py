"""JSON of sacct, squeue, sinfo and scontrol in the data-parser versions from 0.0.37 on.

A number may stand as `5`, `"5"` or `{"set": true, "infinite": false, "number": 5}`, a state as text or list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from parsers import clocks
from parsers.contract import Document, DocumentDialect, Event, HostRecord, HostStateRecord, JobRecord, Record, Reject
from parsers.json_fields import Fields, fields, load, rows, settled
from parsers.slurm_fields import ENDED, WAITING, excluded, gres, job_state, names, node_code, node_state, own_reason, tres_gpus

_JOBS = re.compile(rb'"(?:jobs|nodes|sinfo)"\s{0,40}:\s{0,40}\[')
_OURS = re.compile(rb'"(?:[Ss]lurm|slurmd_version|slurmd_start_time|job_state|derived_exit_code|job_resources|reason_changed_at)"')
_LINE = 1


def _sniff(head: bytes) -> bool:
    body = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return body.startswith(b"{") and bool(_JOBS.search(head)) and bool(_OURS.search(head))


def _parse(document: Document) -> Iterator[Record]:
    try:
        tree = load(document.data)
    except (ValueError, RecursionError) as error:
        yield Reject(_LINE, f"no JSON: {str(error)[:100]}")
    else:
        yield from map(settled, _read(fields(tree)))


def _read(tree: Fields) -> Iterator[Record]:
    basis = _tool(tree)
    for job in rows(tree.get("jobs")):
        yield from _job(job, basis)
    for node in rows(tree.get("nodes")):
        yield from _node(node)
    for group in rows(tree.get("sinfo")):
        yield from _group(group)


def _tool(tree: Fields) -> str:
    """sacct's answers come from the database plugin, the others from the controller."""
    jobs = rows(tree.get("jobs"))
    return "squeue" if jobs and "job_state" in jobs[0] else "sacct"


def _number(value: object) -> int | None:
    if isinstance(value, dict):
        return _number(value.get("number")) if value.get("set", True) and not value.get("infinite") else None
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18 else None


def _time(value: object) -> int | None:
    number = _number(value)
    return clocks.from_epoch(number) if number else None


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return "+".join(str(word) for word in value) or None
    return value if isinstance(value, str) and value not in ("", "None", "(null)") else None


def _state(job: Fields) -> str | None:
    """Of a list such as [CANCELLED, COMPLETING] the ended one counts."""
    raw = job.get("job_state") or fields(job.get("state")).get("current") or job.get("state")
    words = raw if isinstance(raw, list) else [raw]
    states = [state for word in words if isinstance(word, str) and (state := job_state(word)[0])]
    return next((state for state in states if state in ENDED), states[0] if states else None)


def _exit(value: object) -> tuple[int | None, int | None]:
    """{status, return_code, signal: {signal_id | id}} or the wait status as a number."""
    if not isinstance(value, dict) or "set" in value:
        status = _number(value)
        return (None, None) if status is None else (status >> 8, status & 127 or None)
    signal = fields(value.get("signal"))
    code = _number(value.get("return_code"))
    return code, _number(signal.get("signal_id", signal.get("id"))) or None


def _id(job: Fields) -> str:
    number = _number(job.get("job_id"))
    array, het = fields(job.get("array")), fields(job.get("het"))
    parent = _number(array.get("job_id", job.get("array_job_id")))
    task = _number(array.get("task_id", job.get("array_task_id")))
    if parent and task is not None:
        return f"{parent}_{task}"
    leader = _number(het.get("job_id", job.get("het_job_id")))
    offset = _number(het.get("job_offset", job.get("het_job_offset")))
    return f"{leader}+{offset}" if leader and offset is not None else str(number or "")


def _gpus(job: Fields) -> int | None:
    tres = fields(job.get("tres"))
    for kind in ("allocated", "requested"):
        listed = rows(tres.get(kind))
        if listed:
            return _listed_gpus(listed)
    text = _text(job.get("tres_alloc_str")) or _text(job.get("tres_req_str"))
    return (tres_gpus(text) or 0) if text else None


def _listed_gpus(listed: list[Fields]) -> int:
    counts = [(str(row.get("name")), _number(row.get("count")) or 0) for row in listed if row.get("type") == "gres"]
    plain = [count for name, count in counts if name == "gpu"]
    return plain[0] if plain else sum(count for name, count in counts if name.startswith("gpu:"))


def _job(job: Fields, basis: str) -> Iterator[Record]:
    times, job_id, state = fields(job.get("time")), _id(job), _state(job)
    if not job_id or state is None:
        yield Reject(_LINE, "job without id or state", str(job.get("job_id"))[:80])
        return
    code, signal = _exit(job.get("exit_code"))
    ended = state in ENDED
    start, end = _time(times.get("start", job.get("start_time"))), _time(times.get("end", job.get("end_time")))
    hosts = names(_text(job.get("nodes")) or _text(fields(job.get("job_resources")).get("nodes")))
    if ended:
        message = f"job {job_id} {state} exit {code}:{signal or 0}"
        event = Event("slurm.job_end", message, _LINE, ts=end, host="", job_id=job_id, state=state)
        event.exit_code, event.signal = code, signal
        event.duration_s = (end - start) / 1e6 if start and end else None
        event.user = _text(job.get("kill_request_user"))
        yield event
    yield JobRecord(
        job_id,
        _LINE,
        basis,
        name=_text(job.get("name")),
        user=_text(job.get("user")) or _text(job.get("user_name")),
        partition=_text(job.get("partition")),
        state=state,
        hosts=hosts,
        nodes=_number(job.get("allocation_nodes", job.get("node_count"))) or len(hosts) or None,
        gpus=_gpus(job),
        submit=_time(times.get("submission", job.get("submit_time"))),
        start=None if state in WAITING else start,
        end=end if ended else None,
        exit_code=code if ended else None,
        signal=signal if ended else None,
        reason=_text(fields(job.get("state")).get("reason")) or _text(job.get("state_reason")),
        restarts=_number(job.get("restart_cnt", job.get("restart_count"))),
        excluded=names(_text(job.get("excluded_nodes"))) or excluded(_text(job.get("submit_line"))),
    )


def _node(node: Fields) -> Iterator[Record]:
    host = _text(node.get("name")) or _text(node.get("hostname"))
    if not host:
        yield Reject(_LINE, "node without name")
        return
    word = "+".join(word for word in (_text(node.get("state")), _text(node.get("state_flags"))) if word).upper()
    gpus, model = gres(_text(node.get("gres")))
    boot = _time(node.get("boot_time"))
    if gpus is not None:
        yield HostRecord(host, _LINE, "slurm_json", gpus=gpus, gpu_model=model)
    if boot:
        yield HostStateRecord(host, _LINE, "slurm_json", "boot", ts=boot, end=boot)
    user, since = _text(node.get("reason_set_by_user")), _time(node.get("reason_changed_at"))
    yield from _host(host, word, _text(node.get("reason")), user, since)


def _host(host: str, word: str, reason: str | None, user: str | None, since: int | None) -> Iterator[Record]:
    state = node_state(word) or "unknown"
    bad = state in ("down", "drain")
    yield HostStateRecord(host, _LINE, "slurm_json", state, ts=since if bad else None, reason=reason, user=user)
    code = node_code(state, word)
    if code is None:
        return
    severity = "operator" if reason and user not in (None, "slurm") and not own_reason(reason) else None
    message = f"{host} {word}" + (f": {reason}" if reason else "")
    yield Event(code, message, _LINE, ts=since, host=host, severity=severity, state=reason or word, user=user)


def _group(group: Fields) -> Iterator[Record]:
    """A row of `sinfo --json`: hosts that share a state."""
    nodes, why = fields(group.get("nodes")), fields(group.get("reason"))
    word = (_text(fields(group.get("node")).get("state")) or _text(group.get("state")) or "").upper()
    listed = nodes.get("nodes") or nodes.get("hostnames")
    hosts = [host for text in listed for host in names(str(text))] if isinstance(listed, list) else list(names(_text(listed)))
    gpus, model = gres(_text(fields(group.get("gres")).get("total")))
    for host in hosts:
        if gpus is not None:
            yield HostRecord(host, _LINE, "slurm_json", gpus=gpus, gpu_model=model)
        yield from _host(host, word, _text(why.get("description")), _text(why.get("user")), _time(why.get("time")))


DIALECT = DocumentDialect("slurm_json", _sniff, _parse)
