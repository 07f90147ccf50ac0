"""Exposure: host-days with a kernel log, host-days and GPU-hours allocated, the first days of a host apart.

A day under several overlapping intervals counts once for its host; GPU-hours count each attempt's share of GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

DAY_US = 86_400_000_000
TWIN = timedelta(minutes=2)
"""Two records of one outage are stamped this close: the controller's log and the accounting."""
FOREVER = pl.lit(datetime(9999, 1, 1), pl.Datetime("us"))  # noqa: DTZ001
# "DOWN*", "drained", "failing"
OUT_OF_SERVICE = r"(?i)^(?:down|drain|fail)"


@dataclass(frozen=True, slots=True)
class Burn:
    """Which first days of a host are set apart: a new host fails more, and says nothing of the steady rate.

    days        length; 0 sets nothing apart
    late_days   a host counts as new only when it is first seen this long after the data begins
    settled     and only where this share of the fleet was seen before: else hosts are late because they are seldom used
    Source: SAKURAONE, 13 of 21 failures of three months in the first one; Delta, 0.15 h to 1.4 h between errors.
    """

    days: float = 7.0
    late_days: float = 7.0
    settled: float = 0.8


def union_days(intervals: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """host, days: length of the union of each host's intervals (host, start, end) inside [since, until]; an open end is `until`."""
    inside = clip(intervals, since, until).sort("host", "start", "end")
    reached = pl.col("end").cum_max().shift().over("host")
    fresh = pl.max_horizontal("start", reached)
    length = (pl.col("end") - fresh).dt.total_microseconds().clip(0) / DAY_US
    return inside.select("host", length.alias("days")).group_by("host", maintain_order=True).agg(pl.col("days").sum())


def recorded(jobs: pl.DataFrame, until: datetime | None) -> tuple[datetime, datetime] | None:
    """First start and last end (`until` while a job runs) of what the scheduler recorded; None without a record.

    Outside of it nothing tells which hosts were allocated.
    """
    known = jobs.filter((pl.col("known_from").fill_null("scheduler") != "output") & pl.col("start").is_not_null())
    first, last = known["start"].min(), known["end"].max()
    if not isinstance(first, datetime):
        return None
    ends = [e for e in (last, until if known["end"].null_count() else None) if isinstance(e, datetime)]
    return first, max(ends, default=first)


def unrecorded_days(jobs: pl.DataFrame, since: datetime, until: datetime) -> float:
    """Days of [since, until] that no scheduler record reaches."""
    whole = max(0.0, (until - since) / timedelta(days=1))
    span = recorded(jobs, until)
    if span is None:
        return whole
    return whole - max(0.0, (min(span[1], until) - max(span[0], since)) / timedelta(days=1))


def first_seen(job_hosts: pl.DataFrame, host_states: pl.DataFrame, coverage: pl.DataFrame | None = None) -> pl.DataFrame:
    """host, seen: the first time at which any record knows the host."""
    parts = [job_hosts.select("host", seen="start"), host_states.select("host", seen="start")]
    if coverage is not None:
        parts.append(coverage.select("host", seen="first"))
    return pl.concat(parts).drop_nulls().group_by("host").agg(pl.col("seen").min()).sort("host")


def burn_in(seen: pl.DataFrame, burn: Burn) -> pl.DataFrame:
    """host, start, end: the burn-in of each host that joined after the data began; no row for the others."""
    if not seen.height or burn.days <= 0:
        return pl.DataFrame(schema={"host": pl.String(), "start": pl.Datetime("us"), "end": pl.Datetime("us")})
    late = pl.col("seen") - pl.col("seen").min() >= timedelta(days=burn.late_days)
    new = seen.filter(late & (late.mean() <= 1.0 - burn.settled))
    return new.select("host", start="seen", end=pl.col("seen") + timedelta(days=burn.days))


def gpu_hours(jobs: pl.DataFrame, job_hosts: pl.DataFrame, hosts: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """host, gpu_hours: allocated GPUs times hours; GPUs per host from the attempt, else the inventory, else not counted."""
    shares = jobs.select("job_id", "attempt", share=pl.col("gpus") / pl.when(pl.col("nodes") > 0).then("nodes"))
    inside = clip(job_hosts, since, until).join(shares, on=["job_id", "attempt"], how="left")
    known = inside.join(hosts.select("host", "gpus"), on="host", how="left")
    hours = (pl.col("end") - pl.col("start")).dt.total_microseconds() / 3.6e9
    rows = known.select("host", gpu_hours=hours * pl.coalesce("share", pl.col("gpus").cast(pl.Float64)))
    return rows.group_by("host").agg(pl.col("gpu_hours").sum()).sort("host")


def outages(host_states: pl.DataFrame, job_hosts: pl.DataFrame) -> pl.DataFrame:
    """host, state, start, end: when a host was down, drained or failing; what several records tell of one outage is one row.

    A record without an end yields to one of the same moment that has an end; else it lasts until the next state of the host that is no
    outage, or the next job that starts on it; null where neither follows.
    """
    known = host_states.filter(pl.col("start").is_not_null())
    out = pl.col("state").str.contains(OUT_OF_SERVICE)
    bad = known.filter(out).select("host", "state", "start", "end").unique()
    signs = pl.concat([known.filter(~out).select("host", next="start"), job_hosts.select("host", next="start")]).drop_nulls().sort("next")
    after = (
        _without_twins(bad)
        .sort("start")
        .join_asof(
            signs, left_on="start", right_on="next", by="host", strategy="forward", allow_exact_matches=False, check_sortedness=False
        )
    )
    return _united(after.select("host", "state", "start", end=pl.coalesce("end", "next")))


def _without_twins(bad: pl.DataFrame) -> pl.DataFrame:
    """Without open records beside which a closed one of the host began."""
    closed = bad.drop_nulls("end").select("host", twin="start")
    pairs = bad.filter(pl.col("end").is_null()).join(closed, on="host")
    near = pairs.filter((pl.col("start") - pl.col("twin")).abs() <= TWIN).select("host", "state", "start", twinned=pl.lit(True)).unique()
    marked = bad.join(near, on=["host", "state", "start"], how="left")
    return marked.filter(pl.col("end").is_not_null() | pl.col("twinned").is_null()).drop("twinned")


def _united(rows: pl.DataFrame) -> pl.DataFrame:
    """Overlapping intervals of a host as one, with the state of the first; an open end stays open."""
    ordered = rows.with_columns(until=pl.col("end").fill_null(FOREVER)).sort("host", "start", "until")
    reached = pl.col("until").cum_max().shift().over("host")
    fresh = (reached.is_null() | (pl.col("start") > reached)).cast(pl.Int64)
    grouped = ordered.with_columns(number=fresh.cum_sum()).group_by("number", maintain_order=True)
    whole = grouped.agg(pl.col("host", "state", "start").first(), until=pl.col("until").max())
    return whole.select("host", "state", "start", end=pl.when(pl.col("until") < FOREVER).then("until"))


def by_host(
    jobs: pl.DataFrame,
    job_hosts: pl.DataFrame,
    host_states: pl.DataFrame,
    hosts: pl.DataFrame,
    coverage: pl.DataFrame,
    since: datetime,
    until: datetime,
    burn: Burn | None = None,
) -> pl.DataFrame:
    """One row per known host: host, gpus, gb, log_days (kernel log present), allocated_days, burn_in_days of these, gpu_hours, out_days.

    gb is the memory of one GPU, null where the model's name does not tell.
    """
    kernel = coverage.filter(pl.col("family") == "kernel").select("host", start="first", end="last").drop_nulls()
    new = burn_in(first_seen(job_hosts, host_states, coverage), burn or Burn())
    parts = {
        "log_days": union_days(kernel, since, until),
        "allocated_days": union_days(job_hosts, since, until),
        "burn_in_days": union_days(overlap(job_hosts, new), since, until),
        "out_days": union_days(outages(host_states, job_hosts), since, until),
    }
    names = pl.concat([hosts["host"], *(p["host"] for p in parts.values())]).drop_nulls().unique().sort()
    # "NVIDIA H100 80GB HBM3"
    gb = pl.col("gpu_model").str.extract(r"(?i)(\d{1,4}) ?GB").cast(pl.Float64)
    table = names.to_frame("host").join(hosts.select("host", "gpus", gb=gb), on="host", how="left")
    for name, part in parts.items():
        table = table.join(part.rename({"days": name}), on="host", how="left")
    table = table.join(gpu_hours(jobs, job_hosts, hosts, since, until), on="host", how="left")
    return table.with_columns(pl.col(*parts, "gpu_hours").fill_null(0.0))


def logged_hours(coverage: pl.DataFrame, since: datetime, until: datetime) -> float:
    """Hours of the period in which at least one host's kernel log was present."""
    kernel = coverage.filter(pl.col("family") == "kernel").select(pl.lit("any").alias("host"), start="first", end="last").drop_nulls()
    return 24.0 * float(union_days(kernel, since, until)["days"].sum())


def fleet(table: pl.DataFrame, hours: float, since: datetime, until: datetime) -> dict[str, float | int | str | None]:
    """The `exposure` of `triage stats`, summed over `by_host`; `hours` are those with a kernel log somewhere."""
    total = {name: float(table[name].sum()) for name in ("log_days", "allocated_days", "burn_in_days", "gpu_hours", "out_days")}
    return {
        "since": since.isoformat() + "Z",
        "until": until.isoformat() + "Z",
        "period_hours": (until - since).total_seconds() / 3600.0,
        "logged_hours": hours,
        "hosts": table.height,
        "hosts_with_kernel_log": table.filter(pl.col("log_days") > 0).height,
        "gpus": int(table["gpus"].sum()) or None,
        "host_days": total["log_days"],
        "allocated_host_days": total["allocated_days"],
        "burn_in_host_days": total["burn_in_days"],
        "out_host_days": total["out_days"],
        "gpu_hours": total["gpu_hours"],
    }


def clip(intervals: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Intervals (host, start, end, any more) cut to [since, until]; an open end is `until`; empty ones are dropped."""
    kept = intervals.filter(pl.col("host").is_not_null() & pl.col("start").is_not_null())
    edges = kept.with_columns(
        pl.max_horizontal("start", pl.lit(since, pl.Datetime("us"))).alias("start"),
        pl.min_horizontal(pl.col("end").fill_null(until), pl.lit(until, pl.Datetime("us"))).alias("end"),
    )
    return edges.filter(pl.col("end") > pl.col("start"))


def overlap(intervals: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """host, start, end: the parts of `intervals` inside the one interval that `others` holds per host."""
    both = intervals.select("host", "start", "end").join(others.rename({"start": "from", "end": "to"}), on="host")
    parts = both.select(
        "host", start=pl.max_horizontal("start", "from"), end=pl.min_horizontal(pl.col("end").fill_null(pl.col("to")), "to")
    )
    return parts.filter(pl.col("end") > pl.col("start"))
