"""Rows and objects that the tests of stages are written in: only what matters is said, the rest is filled in."""

from __future__ import annotations

from datetime import datetime
from itertools import count
from typing import Any

import polars as pl

from triage.bursts import KEY
from triage.history import Burst, History
from triage.jobs import Attempt
from triage.moments import micros, moment
from triage.rulebook import Rulebook
from triage.schema import TABLES
from triage.store import frame_of
from triage.topology import Topology

_NUMBERS = count(1)


def at(text: str) -> int:
    """`10:02:03` of 2026-06-01, or a whole date and time, as microseconds UTC."""
    stamp = micros(datetime.fromisoformat(text if "T" in text else f"2026-06-01T{text}"))
    assert stamp is not None
    return stamp


def when(text: str) -> datetime:
    """The same as the tables keep it."""
    return moment(at(text))


def record(job_id: str, basis: str, **values: Any) -> dict[str, Any]:
    """A row of job_records; times as text."""
    row: dict[str, Any] = dict.fromkeys(TABLES["job_records"].names)
    row |= {"job_id": job_id, "basis": basis, "source_id": basis, "line": next(_NUMBERS), "hosts": []}
    return row | {k: at(v) if k in ("submit", "start", "end") else v for k, v in values.items()}


def act(code: str, job_id: str, ts: str | None = None, **values: Any) -> dict[str, Any]:
    """An event that tells what was done to a job."""
    row: dict[str, Any] = dict.fromkeys(TABLES["events"].names)
    row |= {"code": code, "job_id": job_id, "ts": at(ts) if ts else None, "source_id": "ctl", "line_first": next(_NUMBERS), "message": ""}
    return row | values


def events(*rows: dict[str, Any]) -> pl.DataFrame:
    """Events in the order given; each says its code and ts (`10:00:01`), more if it matters."""
    made = []
    for number, row in enumerate(rows, 1):
        stamp = when(row["ts"]) if row.get("ts") else None
        base = {"event_id": f"{row.get('source_id', 's')}:{number}:1", "source_id": "s", "line_first": number, "line_last": number}
        base |= {"family": "gpu", "repeats": 1, "message": row["code"], "ts_near": stamp}
        near = {"ts_near": when(row["ts_near"])} if row.get("ts_near") else {}
        last = {"ts_last": when(row["ts_last"])} if row.get("ts_last") else {}
        made.append(base | row | {"ts": stamp} | near | last)
    return frame_of(TABLES["events"], made).frame


def burst(book: Rulebook, code: str, first: str | None, host: str | None = None, **values: Any) -> Burst:
    """A burst as the pipeline loads it: what its code means comes from the rules."""
    message = values.pop("message", code)
    signature = book.signature_for(code, values.get("severity"), values.get("state"), message)
    number = next(_NUMBERS)
    told = (*KEY, "count", "copies", "timed", "duration_s", "op", "seq", "source_id", "line")
    plain = {name: values.pop(name) for name in list(values) if name in told}
    begin = at(first) if first else None
    return Burst(
        burst_id=f"s:{number:06d}:1",
        code=code,
        family=book.codes[code].family if code in book.codes else "gpu",
        class_id=None if signature.class_ == "none" else signature.class_,
        role=signature.role,
        layer=signature.layer,
        weight=signature.weight,
        fatal=signature.fatal,
        scope=signature.scope,
        user_possible=signature.user_possible,
        manifestation=signature.manifestation,
        signature=signature.id,
        message=message,
        host=host,
        first=begin,
        last=at(values.pop("last")) if "last" in values else begin,
        **{"source_id": "s", "line": number, **plain},
    )


def attempt(job_id: str = "8842", hosts: tuple[str, ...] = ("n1", "n2", "n3"), **values: Any) -> Attempt:
    """An attempt of a job, from 10:00 to 11:00 unless told; failed unless told."""
    times = {"start": "10:00:00", "end": "11:00:00"} | {k: values.pop(k) for k in ("start", "end", "last_checkpoint") if k in values}
    stamps = {k: at(v) if v else None for k, v in times.items()}
    plain: dict[str, Any] = {"state": "FAILED", "gpus": 8 * len(hosts), "known_from": "sacct", "hosts": list(hosts)}
    return Attempt(job_id, **(plain | stamps | values))


def history(attempts: list[Attempt], bursts: list[Burst], **values: Any) -> History:
    """An indexed history; every burst and attempt's host has a kernel log of the day unless `spans` are given."""
    hosts = {h for a in attempts for h in a.hosts} | {b.host for b in bursts if b.host}
    topology = values.pop("topology", None) or Topology.of([{"host": h} for h in sorted(hosts)])
    spans = values.pop("spans", None)
    spans = {(h, "kernel"): [(at("00:00:00"), at("23:00:00"))] for h in hosts} if spans is None else spans
    made = History(now=at("23:00:00"), attempts=attempts, bursts=bursts, topology=topology, spans=spans)
    for name, value in values.items():
        setattr(made, name, value)
    return made.index()
