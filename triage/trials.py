"""`triage parsers try`: line by line, which dialect claimed it and what it read; for authors of dialects."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from parsers.contract import Event, Reject
from parsers.frames import peel
from triage.dialects import dialects
from triage.faults import InputFault
from triage.moments import iso
from triage.scanner import Scanner, UnknownKind
from triage.screens import safe, table
from triage.sources import find

SHOWN = ("host", "device", "rank", "job_id", "severity", "peer", "op", "grp", "seq", "duration_s", "value", "state", "exit_code", "signal")


def attempt(path: str, every: bool) -> dict[str, Any]:
    """Records of one file in the order of its lines; with `every` also the lines that nobody claims (plain text files)."""
    sources = find([path]).sources
    if len(sources) != 1:
        raise InputFault(path, f"{len(sources)} files", "name one file")
    source = sources[0]
    scanner = Scanner(dialects())
    try:
        with source.open() as stream:
            scanned = scanner.scan(stream, path.rsplit("/", 1)[-1])
    except (OSError, UnknownKind) as error:
        raise InputFault(path, str(error), "name a log") from error
    rows = [_row(claim.dialect, claim.record) for claim in scanned.claims]
    if every:
        claimed = {n for r in rows for n in range(r["line"], (r["line_last"] or r["line"]) + 1)}
        with source.open() as stream:
            rows += [_silent(n, raw.decode("utf-8", "replace")) for n, raw in enumerate(stream, 1) if n not in claimed]
    rows.sort(key=lambda r: r["line"])
    return {"schema": 1, "path": path, "lines": scanned.lines, "needle_lines": scanned.needle_lines, "rows": rows}


def _row(dialect: str, record: Any) -> dict[str, Any]:
    kind = type(record).__name__.removesuffix("Record").lower()
    row: dict[str, Any] = {
        "line": getattr(record, "line_first", getattr(record, "line", 1)),
        "line_last": getattr(record, "line_last", None),
        "dialect": dialect,
        "record": kind,
    }
    if isinstance(record, Event):
        row |= {"code": record.code, "ts": iso(record.ts), "clock": str(record.ts_quality), "message": record.message}
        row["fields"] = {name: value for name in SHOWN if (value := getattr(record, name)) is not None}
    elif isinstance(record, Reject):
        row |= {"code": "reject", "message": f"{record.reason}: {record.text}"}
    else:
        row["fields"] = {k: v for k, v in asdict(record).items() if v not in (None, (), "line")}
    return row


def _silent(number: int, raw: str) -> dict[str, Any]:
    line = peel(number, raw.rstrip("\r\n"))
    fields = {"host": line.host, "ident": line.ident, "rank": line.rank}
    return {
        "line": number,
        "line_last": number,
        "dialect": "-",
        "record": "nobody's",
        "ts": iso(line.ts),
        "message": line.text,
        "fields": {k: v for k, v in fields.items() if v is not None},
    }


def screen(data: dict[str, Any]) -> str:
    """The rows as a table."""
    rows = [
        {
            "line": r["line"] if r["line_last"] in (None, r["line"]) else f"{r['line']}-{r['line_last']}",
            "dialect": r["dialect"],
            "what": r.get("code") or r["record"],
            "fields": " ".join(f"{k}={safe(v)}" for k, v in (r.get("fields") or {}).items() if k != "line")[:70],
            "message": r.get("message", ""),
        }
        for r in data["rows"]
    ]
    head = f"{data['lines']} lines, {data['needle_lines']} with a needle, {len(rows)} records"
    return (
        "\n".join([head, table(rows, {"line": "line", "dialect": "dialect", "what": "reads", "fields": "fields", "message": "text"})])
        if rows
        else head
    )
