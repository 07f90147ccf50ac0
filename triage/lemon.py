"""The answer of `triage lemons`: the ranking, how concentrated failures are, and how the ranking would have done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from triage import blame as blaming
from triage.board import boards
from triage.concentration import backtest, concentration
from triage.recurrence import Params, measure

Broken = dict[str, list[dict[str, Any]]]


def lemons(
    recurrence: pl.DataFrame,
    jobs: pl.DataFrame,
    job_hosts: pl.DataFrame,
    host_states: pl.DataFrame,
    hosts: pl.DataFrame,
    incidents: pl.DataFrame,
    findings: pl.DataFrame,
    bursts: pl.DataFrame,
    *,
    now: datetime,
    window: timedelta | None = None,
    top: int | None = None,
    params: Params | None = None,
    paths: Mapping[str, str] | None = None,
    known: pl.DataFrame | None = None,
) -> dict[str, object]:
    """The JSON of `triage lemons` from the table `recurrence`, which was built with the same window; `top` cuts the list of hosts.

    paths   source_id -> path, for the places of the evidence
    known   `board.identities`
    """
    params = params or Params()
    window = window or params.window
    records = blaming.Records(jobs, job_hosts, host_states, hosts, incidents, findings, bursts)
    charged = blaming.charges(records, params.blame, params.burn).filter(pl.col("ts") <= now)
    counts = measure(records, charged, now, window, params)
    recent = blaming.inside_window(charged, now, window).filter(pl.col("weight") > 0)
    broken = breakages(recent, incidents, findings, paths or {})
    table = recurrence.sort("place").head(top) if top is not None else recurrence.sort("place")
    return {
        "window": {"since": _stamp(now - window), "until": _stamp(now), "days": window / timedelta(days=1)},
        "hosts": [_host(row, broken) for row in table.iter_rows(named=True)],
        "boards": boards(charged, known) if known is not None else [],
        "concentration": concentration(counts, params.seed),
        "backtest": backtest(blaming.episodes(charged, params.blame), job_hosts, now),
    }


def breakages(charged: pl.DataFrame, incidents: pl.DataFrame, findings: pl.DataFrame, paths: Mapping[str, str]) -> Broken:
    """Per host the counted incidents of the window, newest first: incident, ts, code, job_id, attempt, gpu_hours_lost, source, line."""
    cost = incidents.select("incident_id", "gpu_hours_lost")
    seen = findings.sort("incident_id", "place").unique(["incident_id", "host"], keep="first", maintain_order=True)
    rows = charged.select("incident_id", "host", "ts", "code", "job_id", "attempt").join(cost, on="incident_id")
    rows = rows.join(seen.select("incident_id", "host", "source_id", "line"), on=["incident_id", "host"], how="left")
    found: Broken = {}
    for row in rows.sort("ts", "incident_id", descending=True).iter_rows(named=True):
        source = row.pop("source_id")
        told = {"incident": row.pop("incident_id"), **row, "ts": _stamp(row["ts"]), "source": paths.get(source, source)}
        found.setdefault(str(told.pop("host")), []).append(told)
    return found


def _cost(broken: Sequence[Mapping[str, Any]]) -> str | None:
    """`cost 7 attempts of 5 jobs, 345 GPU-hours; last at dn0071.kern.log:31`."""
    jobs = {row["job_id"] for row in broken if row["job_id"] is not None}
    if not jobs:
        return None
    lost = sum(row["gpu_hours_lost"] or 0.0 for row in broken)
    places = [f"{str(row['source']).rsplit('/', 1)[-1]}:{row['line']}" for row in broken if row["source"] and row["line"]]
    return f"cost {len(jobs)} job(s), {lost:,.0f} GPU-hours" + (f"; last seen at {', '.join(places[:3])}" if places else "")


def _host(row: dict[str, object], broken: Broken) -> dict[str, object]:
    signals = row["signals"]
    mine = broken.get(str(row["host"]), [])
    why, cost = row["why"] if isinstance(row["why"], list) else [], _cost(mine)
    return {
        "rank": row["place"],
        "host": row["host"],
        "score": row["score"],
        "rate": row["rate"],
        "interval": [row["low"], row["high"]],
        "lemon": row["lemon"],
        "strikes": row["strikes"],
        "signals": json.loads(str(signals)) if signals else {},
        "why": [*why[:1], *([cost] if cost else []), *why[1:]],
        "broken": mine,
        "jobs": list(dict.fromkeys(b["job_id"] for b in mine if b["job_id"] is not None)),
        "gpu_hours_lost": sum(b["gpu_hours_lost"] or 0.0 for b in mine),
        "next": row["next"],
    }


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="microseconds" if at.microsecond else "seconds") + "Z"
