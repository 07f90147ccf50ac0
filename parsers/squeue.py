"""squeue's table in its default, long and chosen columns."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers.columns import Kinds, Rows, read_header
from parsers.contract import JobRecord, Line, Record, SectionDialect
from parsers.slurm_fields import COMPACT, ENDED, JOB_ID, JOB_STATES, WAITING, gres, job_state, moment, names, tres_gpus

_KNOWN = frozenset(
    "jobid partition name user st state time time_limi time_limit nodes nodelist nodelist(reason) reason start_time submit_time end_time "
    "exc_nodes tres_per_node tres_alloc tres_per_job account qos priority cpus features min_memory".split()
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d{9,11}|N/A|NONE|Unknown|")
_STATE = re.compile("|".join([*COMPACT, *JOB_STATES, *(state[:8] for state in JOB_STATES)]))
_KINDS: Kinds = (
    dict.fromkeys(("start_time", "submit_time", "end_time"), _TIME)
    | dict.fromkeys(("st", "state"), _STATE)
    | dict.fromkeys(("user", "partition", "account"), re.compile(r"\S{1,64}"))
    | {"jobid": JOB_ID, "nodes": re.compile(r"\d{0,9}"), "time": re.compile(r"[\d:-]{1,16}|INVALID|UNLIMITED")}
)


def _row(cells: dict[str, str], line: Line) -> Iterable[Record] | None:
    job_id = cells.get("jobid", "")
    word = cells.get("state") or cells.get("st") or ""
    state, _ = job_state(word) if word in JOB_STATES or word in COMPACT else job_state(f"{word}+")
    if not JOB_ID.fullmatch(job_id):
        return None
    where = cells.get("nodelist(reason)", "")
    waits = where.startswith("(")
    hosts = names(cells.get("nodelist") or ("" if waits else where))
    nodes = cells.get("nodes", "")
    record = JobRecord(
        job_id,
        line.number,
        "squeue",
        name=cells.get("name") or None,
        user=cells.get("user") or None,
        partition=cells.get("partition") or None,
        state=state,
        hosts=hosts,
        nodes=int(nodes) if nodes.isdigit() else None,
        gpus=_gpus(cells, len(hosts)),
        submit=moment(cells.get("submit_time")),
        start=None if state in WAITING else moment(cells.get("start_time")),
        end=moment(cells.get("end_time")) if state in ENDED else None,
        reason=_reason(cells, where[1:-1] if waits else ""),
        excluded=names(cells.get("exc_nodes")),
    )
    return (record,)


def _reason(cells: dict[str, str], waits_for: str) -> str | None:
    reason = cells.get("reason") or waits_for
    return None if reason in ("", "None") else reason


def _gpus(cells: dict[str, str], hosts: int) -> int | None:
    total = tres_gpus(cells.get("tres_alloc"))
    per_host, _ = gres(cells.get("tres_per_node"))
    return total if total is not None or per_host is None else per_host * hosts or None


def _open(line: Line) -> Rows | None:
    table = read_header(line.raw, _KNOWN, _KINDS)
    fits = table is not None and "jobid" in table.names and bool({"st", "state", "nodelist", "nodelist(reason)"} & set(table.names))
    return Rows(table, _row) if table and fits else None


DIALECT = SectionDialect("squeue", ("JOBID",), _open)
