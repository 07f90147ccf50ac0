"""`sacctmgr show event`: intervals in which hosts were not fit for work, ruled or separated."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers.columns import Kinds, Rows, read_header
from parsers.contract import Event, HostStateRecord, Line, Record, Reject, SectionDialect
from parsers.slurm_fields import NODE_STATE, moment, names, node_code, node_state, own_reason

_KNOWN = frozenset("cluster nodename timestart timeend start end state reason user duration clusternodes eventraw stateraw tres".split())
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,12}|\d{9,11}|Unknown|")
_KINDS: Kinds = dict.fromkeys(("timestart", "timeend", "start", "end"), _TIME) | {
    "state": re.compile(rf"{NODE_STATE.pattern}\+?|"),
    "user": re.compile(r"\S{0,64}"),
}


def _row(cells: dict[str, str], line: Line) -> Iterable[Record] | None:
    start = cells.get("timestart") or cells.get("start") or ""
    if not _TIME.fullmatch(start):
        return (Reject(line.number, f"no time: {start[:40]}"),)
    word, reason = cells.get("state", "").rstrip("+"), cells.get("reason") or None
    state = node_state(word)
    if state not in ("down", "drain", "boot") and node_code(state, word) is None:
        return ()
    user = cells.get("user", "").partition("(")[0] or None
    end = moment(cells.get("timeend") or cells.get("end"))
    return [
        record
        for host in names(cells.get("nodename"))
        for record in _interval(host, line.number, word, state or "down", moment(start), end, reason, user)
    ]


def _interval(
    host: str, number: int, word: str, state: str, start: int | None, end: int | None, reason: str | None, user: str | None
) -> Iterable[Record]:
    yield HostStateRecord(host, number, "sacctmgr", state, ts=start, end=end, reason=reason, user=user)
    code = node_code(state, word)
    if code is None:
        return
    yield Event(
        code,
        f"{host} {word}" + (f": {reason}" if reason else ""),
        number,
        ts=start,
        host=host,
        severity="operator" if user not in (None, "slurm") and reason and not own_reason(reason) else None,
        duration_s=(end - start) / 1e6 if end and start else None,
        state=reason or word,
        user=user,
    )


def _open(line: Line) -> Rows | None:
    table = read_header(line.raw, _KNOWN, _KINDS)
    if table is None or "nodename" not in table.names or not {"timestart", "start"} & set(table.names):
        return None
    return Rows(table, _row)


DIALECT = SectionDialect("sacctmgr", ("NodeName",), _open)
