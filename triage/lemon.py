"""The answer of `triage lemons`: the ranking, how concentrated failures are, and how the ranking would have done."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import polars as pl

from triage import blame as blaming
from triage.concentration import backtest, concentration
from triage.recurrence import Params, measure


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
) -> dict[str, object]:
    """The JSON of `triage lemons` from the table `recurrence`, which was built with the same window; `top` cuts the list of hosts."""
    params = params or Params()
    window = window or params.window
    records = blaming.Records(jobs, job_hosts, host_states, hosts, incidents, findings, bursts)
    charged = blaming.charges(records, params.blame, params.burn).filter(pl.col("ts") <= now)
    counts = measure(records, charged, now, window, params)
    table = recurrence.sort("place").head(top) if top is not None else recurrence.sort("place")
    return {
        "window": {"since": _stamp(now - window), "until": _stamp(now), "days": window / timedelta(days=1)},
        "hosts": [_host(row) for row in table.iter_rows(named=True)],
        "concentration": concentration(counts, params.seed),
        "backtest": backtest(blaming.episodes(charged, params.blame), job_hosts, now),
    }


def _host(row: dict[str, object]) -> dict[str, object]:
    signals = row["signals"]
    return {
        "rank": row["place"],
        "host": row["host"],
        "score": row["score"],
        "rate": row["rate"],
        "interval": [row["low"], row["high"]],
        "lemon": row["lemon"],
        "strikes": row["strikes"],
        "signals": json.loads(str(signals)) if signals else {},
        "why": row["why"],
        "next": row["next"],
    }


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="microseconds" if at.microsecond else "seconds") + "Z"
