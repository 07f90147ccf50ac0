"""The answer of `triage stats`: exposure, errors by code, incidents by class, rates, ETTR and phases; pure, over whole tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from triage import aging, blame, exposure, job_failure, productive, retry
from triage.exposure import Burn
from triage.job_failure import Windows
from triage.propagation import propagation
from triage.reliability import availability, ettr_v1, mtbe_h, poisson_interval

NO_ERRORS = ("slurm.job_start", "slurm.job_end")


@dataclass(frozen=True, slots=True)
class Params:
    """since None: from the first stamp of the data; the other fields are windows of the methods."""

    since: datetime | None = None
    burn: Burn = field(default_factory=Burn)
    windows: Windows = field(default_factory=Windows)
    propagation_s: float = 5.0


def stats(
    jobs: pl.DataFrame,
    job_hosts: pl.DataFrame,
    host_states: pl.DataFrame,
    hosts: pl.DataFrame,
    bursts: pl.DataFrame,
    incidents: pl.DataFrame,
    findings: pl.DataFrame,
    coverage: pl.DataFrame,
    *,
    events: Iterable[pl.DataFrame],
    now: datetime,
    params: Params | None = None,
) -> dict[str, object]:
    """The JSON of `triage stats`.

    events are the rows of train.step and train.checkpoint (`productive.STEP_COLUMNS`) in parts that hold whole jobs; now the last stamp.
    """
    params = params or Params()
    since = params.since or first_stamp(jobs, bursts, coverage, now)
    outages = exposure.outages(host_states, job_hosts)
    table = exposure.by_host(jobs, job_hosts, host_states, hosts, coverage, since, now, params.burn)
    logged = exposure.logged_hours(coverage, since, now)
    seen = bursts.filter((pl.col("first") >= since) & (pl.col("first") <= now))
    lately = jobs.filter(pl.col("end").is_null() | (pl.col("end") > since))
    met = job_failure.meetings(job_hosts, lately, seen)
    labels = job_failure.labelled(lately, met, bursts, params.windows, acted(incidents))
    new = exposure.burn_in(exposure.first_seen(job_hosts, host_states, coverage), params.burn)
    found = job_failure.rates(labels, job_hosts, new, since, now, params.windows)
    trained = productive.digest(events, lately)
    rows = productive.attempts(lately, trained.sums, now)
    # burn-in counts here: its rows stand apart
    records = blame.Records(jobs, job_hosts, host_states, hosts, incidents, findings, bursts)
    episodes = blame.episodes(blame.charges(records, blame.Blame(), Burn(days=0)), blame.Blame())
    story = incidents.filter((pl.col("start") >= since) & (pl.col("start") <= now))
    return {
        "exposure": exposure.fleet(table, logged, since, now),
        "by_code": by_code(seen, table, logged, (now - since).total_seconds() / 3600.0),
        "by_class": by_class(story, findings, outages),
        "rates": found,
        "mttf": job_failure.mttf_by_size(labels, steady(found), now),
        "availability": available(outages, table, labels, since, now),
        "job_failure_by_code": job_failure.by_code(lately, met, seen, params.windows),
        "propagation": propagation(seen, params.propagation_s),
        "ettr": productive.ettr(rows, trained.hours) | {"expected_v1": _expected(labels, steady(found))},
        "phases": productive.phases(rows),
        "retries": retry.chains(lately, incidents),
        "preemption": retry.preemption_cost(labels, job_hosts),
        "bathtub": aging.bathtub(episodes, job_hosts, host_states, since, now, params.burn),
        "intervals": aging.shrink(episodes),
        "redundancy": aging.redundancy(seen),
    }


def rates(
    jobs: pl.DataFrame,
    job_hosts: pl.DataFrame,
    host_states: pl.DataFrame,
    bursts: pl.DataFrame,
    incidents: pl.DataFrame,
    *,
    coverage: pl.DataFrame,
    now: datetime,
    params: Params | None = None,
) -> list[dict[str, object]]:
    """The `rates` of `stats` alone."""
    params = params or Params()
    since = params.since or first_stamp(jobs, bursts, coverage, now)
    labels = job_failure.labelled(jobs, job_failure.meetings(job_hosts, jobs, bursts), bursts, params.windows, acted(incidents))
    new = exposure.burn_in(exposure.first_seen(job_hosts, host_states, coverage), params.burn)
    return job_failure.rates(labels, job_hosts, new, since, now, params.windows)


def acted(incidents: pl.DataFrame) -> pl.DataFrame:
    """job_id, attempt of incidents that were an operator's or the scheduler's act (T23)."""
    return incidents.filter((pl.col("class") == "T23") & pl.col("job_id").is_not_null()).select("job_id", "attempt")


def first_stamp(jobs: pl.DataFrame, bursts: pl.DataFrame, coverage: pl.DataFrame, now: datetime) -> datetime:
    """The first stamp of the data; `now` when there is none."""
    stamps = (jobs["start"].min(), bursts["first"].min(), coverage["first"].min())
    return min((t for t in stamps if isinstance(t, datetime)), default=now)


def steady(rates: list[dict[str, object]]) -> float | None:
    """r_f per 1,000 host-days of large jobs, else of all jobs; None where neither has host-days."""
    for row in rates[:2]:
        value = row["per_1000_host_days"]
        if isinstance(value, float) and value > 0:
            return value
    return None


def by_code(bursts: pl.DataFrame, table: pl.DataFrame, logged: float, period: float) -> list[dict[str, object]]:
    """Bursts, lines, hosts, GPUs and persistence per code, with MTBE of the system, a host, a GPU and a GB in hours (Delta) and intervals.

    Codes of the scheduler and of training are held against the hours of the whole period, the others against the hours with a kernel
    log, where there is one (`logged`). Facts, recoveries and noise are left out.
    """
    live = bursts.filter(~pl.col("role").fill_null("root").is_in(["fact", "recovery", "noise"]) & ~pl.col("code").is_in(NO_ERRORS))
    length = (pl.col("last") - pl.col("first")).dt.total_microseconds() / 1e6
    gpu = pl.concat_str("host", "device", separator=" ")
    sums = (
        live.with_columns(length=length, gpu=gpu)
        .group_by("code")
        .agg(
            pl.col("family", "class", "role").first(),
            bursts=pl.len(),
            lines=pl.col("count").fill_null(1).sum(),
            hosts=pl.col("host").drop_nulls().n_unique(),
            gpus=pl.col("gpu").drop_nulls().n_unique(),
            user_possible=pl.col("user_possible").fill_null(False).any(),
            persistence_mean_s=pl.col("length").mean(),
            persistence_p50_s=pl.col("length").quantile(0.5, "linear"),
            persistence_p95_s=pl.col("length").quantile(0.95, "linear"),
        )
    )
    whole = _hours(table.with_columns(hours=pl.lit(period)), period)
    known = table.filter(pl.col("log_days") > 0).with_columns(hours=pl.col("log_days") * 24.0)
    kernel = _hours(known, logged) if logged > 0 else whole
    ordered = sums.sort(["bursts", "code"], descending=[True, False])
    return [_code(row, whole if row["family"] in ("scheduler", "training") else kernel) for row in ordered.iter_rows(named=True)]


Hours = dict[str, float]
"""Hours of exposure of the system, of hosts, GPUs and GB of GPU memory; 0 where it is not known."""


def _hours(table: pl.DataFrame, period: float) -> Hours:
    gpus = table["hours"] * table["gpus"].cast(pl.Float64)
    # GB of some GPUs only would be held against the errors of all
    gb = gpus * table["gb"] if table["gb"].null_count() == 0 else pl.Series([0.0])
    return {"system": period, "host": float(table["hours"].sum()), "gpu": float(gpus.sum()), "gb": float(gb.sum())}


def _code(row: dict[str, object], hours: Hours) -> dict[str, object]:
    number = int(str(row["bursts"]))
    low, high = poisson_interval(number)
    found = {f"mtbe_{of}_h": mtbe_h(known, number) if known else None for of, known in hours.items()}
    intervals = {f"mtbe_{of}_interval_h": [known / high, known / low] if known and low > 0 else None for of, known in hours.items()}
    return {**row, **found, **intervals}


def by_class(incidents: pl.DataFrame, findings: pl.DataFrame, outages: pl.DataFrame) -> list[dict[str, object]]:
    """Incidents per class by count, GPU-hours lost, jobs, hosts at fault and the host-hours that these were out afterwards."""
    named = findings.filter(pl.col("role").is_in(["culprit", "suspect"]) & pl.col("host").is_not_null()).select(
        "incident_id", "host", "role"
    )
    rows = incidents.select("incident_id", "class", "start", "end", "job_id", "gpu_hours_lost")
    guilty = rows.join(named.unique(["incident_id", "host"]), on="incident_id")
    out = guilty.join(_closed(outages), on="host").filter(
        (pl.col("from") >= pl.col("start") - pl.duration(minutes=10))
        & (pl.col("from") <= pl.coalesce("end", "start") + pl.duration(hours=1))
    )
    # an outage belongs to the incident of its host that began nearest to it
    apart = (pl.col("from") - pl.col("start")).abs()
    own = out.sort(apart, "incident_id").unique(["host", "from"], keep="first", maintain_order=True)
    hours = own.group_by("class").agg(host_hours_out=pl.col("hours").sum())
    faults = guilty.group_by("class").agg(
        hosts=pl.col("host").n_unique(), culprits=pl.col("host").filter(pl.col("role") == "culprit").n_unique()
    )
    sums = rows.group_by("class").agg(
        incidents=pl.len(), jobs=pl.col("job_id").drop_nulls().n_unique(), gpu_hours_lost=pl.col("gpu_hours_lost").sum()
    )
    table = sums.join(hours, on="class", how="left").join(faults, on="class", how="left").with_columns(pl.exclude("class").fill_null(0))
    share = {
        "share": pl.col("incidents") / pl.col("incidents").sum(),
        "gpu_hours_share": pl.col("gpu_hours_lost") / pl.when(pl.col("gpu_hours_lost").sum() > 0).then(pl.col("gpu_hours_lost").sum()),
    }
    return table.with_columns(**share).sort(["incidents", "class"], descending=[True, False]).to_dicts()


def _closed(outages: pl.DataFrame) -> pl.DataFrame:
    """Outages that ended: host, from, hours."""
    hours = (pl.col("end") - pl.col("start")).dt.total_microseconds() / 3.6e9
    return outages.select("host", pl.col("start").alias("from"), hours=hours).drop_nulls().filter(pl.col("hours") > 0)


def available(
    outages: pl.DataFrame, table: pl.DataFrame, labels: pl.DataFrame, since: datetime, until: datetime
) -> dict[str, float | int | None]:
    """Host availability: measured from out-of-service time, and MTBF / (MTBF + MTTR) from failures and closed outages (Delta)."""
    period = (until - since).total_seconds() / 86400.0 * table.height
    closed = _closed(outages).filter((pl.col("from") >= since) & (pl.col("from") <= until))
    mean = closed["hours"].mean()
    mttr = float(mean) if isinstance(mean, int | float) else None
    failures = labels.filter(pl.col("infra")).height
    mtbf = float(table["allocated_days"].sum()) * 24.0 / failures if failures else None
    return {
        "measured": 1.0 - float(table["out_days"].sum()) / period if period > 0 and outages.height else None,
        "mtbf_host_h": mtbf,
        "mttr_h": mttr,
        "outages": closed.height,
        "from_mtbf": availability(mtbf, mttr) if mtbf and mttr is not None else None,
    }


def _expected(labels: pl.DataFrame, rate: float | None) -> float | None:
    """ETTR v1 of the largest job at the measured rate, with Meta's hour between checkpoints and 5 min to restart."""
    nodes = labels["nodes"].max()
    return ettr_v1(float(nodes), rate, 3600.0, 300.0) if rate and isinstance(nodes, int) and nodes > 0 else None
