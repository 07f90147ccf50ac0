"""Pages of one thing: an incident, its full report, a host, a job, a burst, a code."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import Any

from triage.serve.command import commands
from triage.serve.listing import Content
from triage.serve.reader import Reader
from triage.serve.view import bars, lanes
from triage.store import Store

MOST_EVIDENCE, MOST_FINDINGS = 200, 300
SINGLE = ("root", "operator", "precursor")


class Missing(LookupError):
    """No such thing in this database."""


def _one(rows: list[dict[str, Any]], what: str) -> dict[str, Any]:
    if not rows:
        raise Missing(what)
    return rows[0]


def known(reader: Reader, store: Store, name: str) -> dict[str, Any]:
    """The row of an incident; raises Missing."""
    return _one(reader.rows(store, "incident", incident=name), f"no incident {name!r}")


def incident(reader: Reader, store: Store, name: str) -> Content:
    """What was decided and from what, as the tables hold it."""
    found = known(reader, store, name)
    evidence = reader.rows(store, "evidence", incident=name, most=MOST_EVIDENCE)
    spares = reader.rows(store, "spares", incident=name)
    findings = reader.rows(store, "findings", incident=name, most=MOST_FINDINGS)
    book, hosts = reader.book, found["hosts"] or []
    suspects = [row for row in findings if row["role"] != "victim"]
    class_row = book.classes.get(found["class"])
    start = found["start"]
    return "incident", {
        "i": found,
        "decision": next(iter(reader.rows(store, "decision", incident=name)), None),
        "title": class_row.title if class_row else "",
        "action": book.actions.get(found["action"]),
        "level": next((level.definition for level in book.levels if level.id == found["confidence"]), ""),
        "suspects": suspects,
        "victims": [(why, list(rows)) for why, rows in groupby([r for r in findings if r["role"] == "victim"], key=lambda r: r["why"])],
        "evidence": folded(evidence),
        "seen": len(evidence),
        "evidence_count": reader.rows(store, "evidence_count", incident=name)[0]["n"],
        "chart": lanes(evidence, start, found["end"]),
        "attempts": [row for row in _attempts(reader, store, found["job_id"]) if row["attempt"] == found["attempt"]],
        "spares": spares,
        "commands": commands(book, found, suspects, evidence, spares),
        "earlier": reader.rows(store, "earlier", incident=name, hosts=hosts, start=start) if hosts and start else [],
    }  # fmt: skip


def _attempts(reader: Reader, store: Store, job_id: str | None) -> list[dict[str, Any]]:
    return reader.rows(store, "job", job=job_id) if job_id else []


def folded(evidence: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows alike (part and code; roots stay apart) as their first one, with how many there are, on how many hosts."""
    groups: defaultdict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in evidence:
        groups[(row["part"], row["code"], *((row["host"], row["device"]) if row["part"] in SINGLE else ()))].append(row)
    return [{**rows[0], "alike": len(rows), "hosts": len({row["host"] for row in rows if row["host"]})} for rows in groups.values()]


def host(reader: Reader, store: Store, name: str) -> Content:
    """Its inventory, place in the ranking, faults, jobs, states, incidents."""
    found = reader.rows(store, "host", host=name)[0]
    if not (found["listed"] or found["bursts"] or found["runs"] or found["states"]):
        raise Missing(f"no host {name!r}")
    parts = ("codes", "bursts", "jobs", "incidents", "states")
    rows = {part: reader.rows(store, f"host_{part}", host=name) for part in parts}
    now = store.rows("last_stamp")[0]["now"]
    return "host", {"h": found, **rows, "days": bars(reader.rows(store, "host_days", host=name), now)}


def job(reader: Reader, store: Store, name: str) -> Content:
    """Its attempts with their hosts, incidents and bursts."""
    attempts = reader.rows(store, "job", job=name)
    _one(attempts, f"no job {name!r}")
    hosts: defaultdict[int, list[str]] = defaultdict(list)
    for row in reader.rows(store, "job_hosts", job=name):
        hosts[row["attempt"]].append(row["host"])
    return "job", {
        "name": name,
        "attempts": attempts,
        "hosts": hosts,
        "incidents": reader.rows(store, "job_incidents", job=name),
        "bursts": reader.rows(store, "job_bursts", job=name),
    }


def burst(reader: Reader, store: Store, name: str) -> Content:
    """One burst, what it belongs to, and what its host said around it."""
    found = _one(reader.rows(store, "burst", burst=name), f"no burst {name!r}")
    near = reader.rows(store, "near", host=found["host"], burst=name, at=found["first"]) if found["host"] and found["first"] else []
    meaning = reader.book.explain(found["code"])
    return "burst", {"b": found, "near": near, "incidents": reader.rows(store, "burst_incidents", burst=name), "meaning": meaning[:3]}


def code(reader: Reader, store: Store, name: str) -> Content:
    """What a code means, and where it was seen."""
    meaning = reader.book.explain(name)
    hosts = reader.rows(store, "code_hosts", code=name)
    if not meaning and not hosts:
        raise Missing(f"no code {name!r}")
    return "code", {"name": name, "meaning": meaning[:40], "hosts": hosts}
