"""Checkpoint planning over a database: what the logs show of failures, saves and restarts fills in what was not given."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from triage.desk import Setup, opened
from triage.faults import Fault

INFRASTRUCTURE = ("T01", "T02", "T03", "T04", "T05", "T06", "T07", "T10", "T12", "T15", "T16", "T17", "T24")


def checkpoint(
    setup: Setup, mtbf: float | None, save: float | None, durable: float | None, restart: float | None, size_gb: float | None = None
) -> dict[str, Any]:
    """JSON of `triage checkpoint`; times in seconds, None: measured from the database. Raises Fault when neither given nor measurable."""
    from triage.checkpointing import CLUSTERED, Costs, bandwidth
    from triage.checkpointing import checkpoint as planned

    given = {"mtbf_s": mtbf, "save_s": save, "restart_s": restart}
    found = _measured(setup) if None in (mtbf, save) else {}
    values = {name: value if value is not None else found.get(name) for name, value in given.items()}
    lacking = [name.removesuffix("_s") for name in ("mtbf_s", "save_s") if values[name] is None]
    if lacking:
        raise Fault(f"{' and '.join(lacking)} not given and not in the logs; state {' and '.join('--' + n for n in lacking)}")
    costs = Costs(
        float(values["mtbf_s"] or 0),
        float(values["save_s"] or 0),
        durable,
        float(values["restart_s"] if values["restart_s"] is not None else 900.0),
    )
    data = planned(costs)
    sources = {name: "given" if given[name] is not None else "measured" if found.get(name) is not None else "assumed" for name in given}
    shape = found.get("weibull_shape")
    data |= {"bandwidth": bandwidth(costs, size_gb)} if size_gb else {}
    data |= {"weibull_shape": shape, "warning": _clusters(shape) if shape is not None and shape < CLUSTERED else None}
    return {"schema": 1, **data, "from": sources, "interval_in_use_s": found.get("interval_s")}


def _clusters(shape: float) -> str:
    return f"failures come in clusters (Weibull shape {shape:.2f}): one interval is too short between them and too long inside"


def _measured(setup: Setup) -> dict[str, float | None]:
    import polars as pl

    from triage.checkpointing import measured, weibull_shape
    from triage.productive import STEP_COLUMNS
    from triage.schema import TABLES

    types = {name: TABLES["events"].dtypes()[name] for name in STEP_COLUMNS}
    with opened(setup) as db:
        steps = pl.DataFrame(db.store.rows("first_steps"), schema={name: types[name] for name in ("job_id", "attempt", "code", "ts_near")})
        events = pl.concat([db.store.frame("events", "saves", STEP_COLUMNS), steps], how="diagonal")
        jobs = db.store.frame("jobs")
        times = [row["start"] for row in db.store.rows("failure_times", classes=list(INFRASTRUCTURE))]
        failures = db.store.rows("job_failures", classes=list(INFRASTRUCTURE))[0]["n"]
        run = db.store.rows("run_seconds")[0]["s"]
    gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
    return measured(events, jobs, int(failures), float(run or 0.0)) | {"weibull_shape": weibull_shape(gaps)}
