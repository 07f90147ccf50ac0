"""sinfo's tables: -R, -N -l, the partition view, and any chosen columns and separators."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers.columns import Kinds, Rows, Table, read_header
from parsers.contract import Event, HostRecord, HostStateRecord, Line, Record, SectionDialect
from parsers.hosts import well_formed
from parsers.slurm_fields import NODE_STATE, gres, moment, names, node_code, node_state, own_reason

_KNOWN = frozenset(
    "reason user timestamp nodelist hostnames node_addr state statelong statecompact partition avail timelimit nodes gres gres_used cpus "
    "memory tmp_disk weight avail_fe s:c:t features version cluster".split()
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d{9,11}|Unknown|none|N/A")
_KINDS: Kinds = (
    dict.fromkeys(("nodelist", "hostnames"), re.compile(r"\S{0,4000}"))
    | dict.fromkeys(("state", "statelong", "statecompact"), re.compile(rf"{NODE_STATE.pattern}|n/a"))
    | {"timestamp": _TIME, "user": re.compile(r"\S{1,64}"), "avail": re.compile(r"up|down|drain|inact\w{0,4}")}
    | {"nodes": re.compile(r"\d{1,9}"), "s:c:t": re.compile(r"\d+:\d+:\d+"), "partition": re.compile(r"\S{1,64}")}
)
_FIRM = frozenset(("state", "statelong", "statecompact", "timestamp", "avail", "nodes", "s:c:t"))
_SILENT = re.compile(r"(?i)not responding|no response|resumetimeout")


class _Nodes:
    """Rows of one table; a host of several partitions is told once."""

    def __init__(self) -> None:
        self.told: set[tuple[str, str, str]] = set()

    def row(self, cells: dict[str, str], line: Line) -> Iterable[Record] | None:
        hosts = names(cells.get("nodelist") or cells.get("hostnames"))
        if not all(well_formed(host) for host in hosts):
            return None
        word = cells.get("state") or cells.get("statelong") or cells.get("statecompact") or ""
        reason = _reason(cells.get("reason"))
        state = node_state(word) if word else _state_of(reason)
        if state is None and word not in ("", "n/a"):
            return None
        gpus, model = gres(cells.get("gres"))
        out: list[Record] = []
        for host in hosts:
            if (host, word, reason or "") in self.told:
                continue
            self.told.add((host, word, reason or ""))
            if state is not None:
                out += _host(host, line.number, state, word, reason, cells)
            if gpus is not None:
                out.append(HostRecord(host, line.number, "sinfo", gpus=gpus, gpu_model=model))
        return out


def _host(host: str, number: int, state: str, word: str, reason: str | None, cells: dict[str, str]) -> Iterable[Record]:
    ts = moment(cells.get("timestamp"))
    user = cells.get("user", "").partition("(")[0] or None
    yield HostStateRecord(host, number, "sinfo", state, ts=ts, reason=reason, user=user)
    code = node_code(state, word)
    if code is None:
        return
    yield Event(
        code,
        f"{host} {word or state}" + (f": {reason}" if reason else ""),
        number,
        ts=ts,
        host=host,
        severity="operator" if user == "root" and reason and not own_reason(reason) else None,
        state=reason or word,
        user=user,
    )


def _reason(text: str | None) -> str | None:
    return None if not text or text in ("none", "None", "(null)", "n/a") else text


def _state_of(reason: str | None) -> str | None:
    """`sinfo -R` names no state: Slurm's own `Not responding` is DOWN, other reasons stand on drained hosts."""
    if reason is None:
        return None
    return "down" if _SILENT.match(reason) else "drain"


def _open(line: Line) -> Rows | None:
    table = read_header(line.raw, _KNOWN, _KINDS)
    if table is None or "jobid" in table.names or not {"nodelist", "hostnames"} & set(table.names):
        return None
    if not {"reason", "state", "statelong", "statecompact", "gres"} & set(table.names):
        return None
    nodes = _Nodes()
    if _FIRM & set(table.names) or table.separator is not None:
        return Rows(table, nodes.row, loose=not _FIRM & set(table.names))
    return Rows(table, lambda cells, row: nodes.row(cells, row) if _stands(table, cells, row) else None, loose=True)


def _stands(table: Table, cells: dict[str, str], line: Line) -> bool:
    """Whether the host list stands in its column, or two blanks away from what lies beside it: prose has single ones."""
    name = "nodelist" if "nodelist" in table.names else "hostnames"
    text, hosts = line.raw.rstrip(), cells[name]
    if text[table.starts[table.names.index(name)] :].startswith(hosts):
        return True
    return f"  {hosts}" in f"{text}  " and (text.endswith(f"  {hosts}") or f"{hosts}  " in text)


DIALECT = SectionDialect("sinfo", ("NODELIST", "HOSTNAMES"), _open)
