"""Who broke which job: findings turned into charges, each with its weight or the reason why it does not count.

A charge is one incident held against one host. `episodes` folds charges of a host that come close together, so that retries onto
one broken host count once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from triage.exposure import Burn, burn_in, first_seen, recorded


@dataclass(frozen=True, slots=True)
class Blame:
    """What counts against a host, and how much.

    user_codes      the user's program can raise them; they count only where they follow one GPU over `users` users
    own_share       a user's such failures follow the GPU when at least this share of them is on it (else they follow the user)
    noise_codes     precursors and repairs that worked; shown, never counted
    free_layers     layers at which a suspect is no host at fault (a culprit is one by the findings' own judgement)
    free_classes    likewise: user programs, maintenance, storage, scheduler
    suspect         weight of a suspect; a culprit, or a host that the scheduler itself names, weighs 1
    guess           weight of a suspect without any root candidate (confidence insufficient): blame is counted, not taken for guilt
    many            so many hosts in one incident, or at once, have a cause that they share
    at_once_s       "at once" over the fleet with the same class; failures of independent hosts are hours apart
    rack_s          "at once" in one rack or under one leaf switch, whatever the class
    episode_h       failures this close are one: automatic retries come 10 to 11 minutes apart (504-GPU report), people take longer
    operator_s      a host that an operator took away this long before a failure that only the scheduler reports
    """

    user_codes: frozenset[str] = frozenset({"xid.13", "xid.31", "xid.43", "xid.45"})
    users: int = 3
    own_share: float = 0.5
    noise_codes: frozenset[str] = frozenset({"xid.63", "xid.92", "xid.154", "pcie.aer_corrected", "mem.ce"})
    free_layers: frozenset[str] = frozenset({"user", "storage", "facility", "scheduler"})
    free_classes: frozenset[str] = frozenset({"T17", "T19", "T20", "T21", "T23"})
    suspect: float = 0.5
    guess: float = 0.1
    many: int = 3
    at_once_s: float = 60.0
    rack_s: float = 300.0
    episode_h: float = 1.0
    operator_s: float = 300.0


PART = 20_000
"""Findings that are joined to their incidents at a time."""
PLACE = ["host", "device"]
SERVICE_ACCOUNTS = ("slurm", "root", "nobody")
# "Not responding", "Node unexpectedly rebooted", "Kill task failed", "NHC: check_hw failed"
AUTOMATIC = r"(?i)not responding|unexpectedly rebooted|kill task failed|prolog|epilog|\bnhc\b|health"
# "planned maintenance", "firmware upgrade", "decommission rack"
PLANNED = r"(?i)maint|planned|scheduled|upgrade|firmware|reserv|decommission|relocat"

SHARED = "a cause shared with other hosts"
NOT_HOST = "not the host's: program, storage, facility or scheduler"
WENT_ON = "no job broke"
OPERATOR = "an operator had taken the host away"
MANY = "several hosts at once"
NOISE = "a warning that breaks no job by itself"
PROGRAM = "a code that programs raise, and it does not follow one GPU over users"
BURN_IN = "burn-in of a new host"


@dataclass(frozen=True, slots=True)
class Records:
    """The tables that the ranking reads, whole."""

    jobs: pl.DataFrame
    job_hosts: pl.DataFrame
    host_states: pl.DataFrame
    hosts: pl.DataFrame
    incidents: pl.DataFrame
    findings: pl.DataFrame
    bursts: pl.DataFrame


def charges(records: Records, blame: Blame, burn: Burn) -> pl.DataFrame:
    """One row per incident and accused host.

    Columns: incident_id, host, ts, weight (0 to 1), discount (reason of weight 0, else null), role, class, code, device, job_id,
    attempt, user, nodes. Outside the time that scheduler records span every incident of a host counts.
    """
    rows = _accused(records.jobs, records.incidents, records.findings)
    rows = rows.with_columns(
        operator=_by_operator(rows, records.host_states, blame),
        follows=_follows(rows, blame),
        new=_inside(rows, burn_in(first_seen(records.job_hosts, records.host_states), burn)),
        broke=_broke(records.jobs, rows["ts"].max()),
    )
    rows = rows.with_columns(discount=_discount(blame)).with_columns(weight=_weight(blame))
    rows = _at_once(rows, records.hosts, blame)
    return rows.select(
        "incident_id", "host", "ts", "weight", "discount", "role", "class", "code", "device", "job_id", "attempt", "user", "nodes"
    ).sort("host", "ts", "incident_id")


def episodes(rows: pl.DataFrame, blame: Blame) -> pl.DataFrame:
    """Counted charges of a host with gaps of at most `episode_h` as one row.

    Columns: host, ts (of the first), weight (the largest), incidents, code, device, class.
    """
    counted = rows.filter(pl.col("weight") > 0).sort("host", "ts")
    gap = pl.col("ts") - pl.col("ts").shift().over("host")
    first = gap.is_null() | (gap > timedelta(hours=blame.episode_h))
    numbered = counted.with_columns(number=first.cast(pl.Int64).cum_sum().over("host"))
    grouped = numbered.group_by("host", "number", maintain_order=True)
    return grouped.agg(
        pl.col("ts").first(),
        pl.col("weight").max(),
        incidents=pl.col("incident_id").n_unique(),
        code=pl.col("code").drop_nulls().first(),
        device=pl.col("device").drop_nulls().first(),
        **{"class": pl.col("class").first()},
    ).drop("number")


def inside_window(rows: pl.DataFrame, now: datetime, window: timedelta) -> pl.DataFrame:
    """Rows with ts in (now - window, now]."""
    return rows.filter((pl.col("ts") > now - window) & (pl.col("ts") <= now))


def _accused(jobs: pl.DataFrame, incidents: pl.DataFrame, findings: pl.DataFrame) -> pl.DataFrame:
    """Incident and job joined to each accused host, whose best finding stands for it; as joins take room, some incidents at a time."""
    parts = 1 + findings.height // PART
    number = pl.col("incident_id").hash() % parts
    found = [_accused_of(jobs, incidents.filter(number == n), findings.filter(number == n)) for n in range(parts)]
    return pl.concat(found) if parts > 1 else found[0]


def _accused_of(jobs: pl.DataFrame, incidents: pl.DataFrame, findings: pl.DataFrame) -> pl.DataFrame:
    named = findings.filter(pl.col("role").is_in(["culprit", "suspect"]) & pl.col("host").is_not_null()).sort("incident_id", "place")
    best = named.unique(["incident_id", "host"], keep="first", maintain_order=True)
    guilty = (pl.col("role") == "culprit").sum()
    roles = best.group_by("incident_id").agg(culprits=guilty, named=pl.when(guilty > 0).then(guilty).otherwise(pl.len()))
    story = incidents.select("incident_id", "kind", "layer", "confidence", "start", "job_id", "attempt", "jobs", cause="class")
    known = jobs.select("job_id", "attempt", "state", "user", "nodes", "failed_host").unique(["job_id", "attempt"])
    rows = best.select("incident_id", "host", "role", "code", "device").join(story, on="incident_id").join(roles, on="incident_id")
    rows = rows.join(known, on=["job_id", "attempt"], how="left").rename({"start": "ts", "cause": "class"})
    # where somebody is culprit, the suspects beside him are not charged
    return rows.filter((pl.col("culprits") == 0) | (pl.col("role") == "culprit")).drop_nulls("ts")


def _broke(jobs: pl.DataFrame, latest: object) -> pl.Expr:
    """True where a job broke, and where no scheduler record could have told."""
    span = recorded(jobs, latest if isinstance(latest, datetime) else None)
    blind = pl.lit(True) if span is None else ~pl.col("ts").is_between(span[0], span[1])
    several = pl.col("jobs").list.len().fill_null(0) > 0
    lone = pl.col("job_id").is_not_null() & (pl.col("state").fill_null("") != "COMPLETED")
    idle = pl.col("job_id").is_null() & blind
    return pl.when(pl.col("kind") == "job").then(lone | idle).otherwise(lone | (several & pl.col("state").is_null()) | idle)


def _by_operator(rows: pl.DataFrame, host_states: pl.DataFrame, blame: Blame) -> pl.Series:
    """True where only the scheduler reports the failure and an operator had set the host down or drained just before."""
    person = pl.col("user").is_not_null() & ~pl.col("user").str.to_lowercase().str.replace(r"\(.*", "").is_in(SERVICE_ACCOUNTS)
    reason = pl.col("reason").fill_null("")
    by_hand = host_states.filter(
        pl.col("state").str.contains("(?i)^(?:down|drain|maint)")
        & (reason.str.contains(PLANNED) | (person & ~reason.str.contains(AUTOMATIC)))
        & pl.col("start").is_not_null()
    ).select("host", taken="start")
    reported = rows.filter(_scheduler_only()).select("incident_id", "host", "ts").join(by_hand, on="host")
    since = (pl.col("ts") - pl.col("taken")).dt.total_microseconds() / 1e6
    hit = reported.filter(since.is_between(-5.0, blame.operator_s)).select("incident_id", "host").unique()
    key = ["incident_id", "host"]
    marked = rows.select(key).join(hit.with_columns(hit=pl.lit(True)), on=key, how="left", maintain_order="left")
    return marked["hit"].fill_null(False)


def _scheduler_only() -> pl.Expr:
    return pl.col("code").is_null() | pl.col("code").str.contains(r"^(?:slurm|k8s)\.")


def _follows(rows: pl.DataFrame, blame: Blame) -> pl.Series:
    """True where a user code belongs to one GPU of the host: over enough users, each of whom fails mostly there.

    Where the device is not told, all such failures of the host count as one GPU's.
    """
    coded = rows.filter(pl.col("code").is_in(list(blame.user_codes)) & pl.col("user").is_not_null())
    total = coded.group_by("user").agg(total=pl.col("incident_id").n_unique())
    here = coded.group_by(*PLACE, "user").agg(here=pl.col("incident_id").n_unique()).join(total, on="user")
    own = here.filter(pl.col("here") >= blame.own_share * pl.col("total"))
    enough = own.filter(pl.len().over(PLACE) >= blame.users).select(*PLACE, "user", follows=pl.lit(True))
    marked = rows.select(*PLACE, "user").join(enough, on=[*PLACE, "user"], how="left", maintain_order="left", nulls_equal=True)
    return marked["follows"].fill_null(False)


def _inside(rows: pl.DataFrame, intervals: pl.DataFrame) -> pl.Series:
    joined = rows.select("host", "ts").join(intervals, on="host", how="left", maintain_order="left")
    return joined.select(((pl.col("ts") >= pl.col("start")) & (pl.col("ts") < pl.col("end"))).fill_null(False).alias("new"))["new"]


def _discount(blame: Blame) -> pl.Expr:
    user_code = pl.col("code").is_in(list(blame.user_codes)).fill_null(False)
    free = pl.col("layer").is_in(list(blame.free_layers)) | pl.col("class").is_in(list(blame.free_classes))
    return (
        pl.when(pl.col("kind") == "shared")
        .then(pl.lit(SHARED))
        .when(pl.col("named") >= blame.many)
        .then(pl.lit(MANY))
        .when(~pl.col("broke"))
        .then(pl.lit(WENT_ON))
        .when(pl.col("operator"))
        .then(pl.lit(OPERATOR))
        .when(pl.col("code").is_in(list(blame.noise_codes)))
        .then(pl.lit(NOISE))
        .when(user_code & ~pl.col("follows"))
        .then(pl.lit(PROGRAM))
        .when(free & ~user_code & (pl.col("role") != "culprit"))
        .then(pl.lit(NOT_HOST))
        .when(pl.col("new"))
        .then(pl.lit(BURN_IN))
        .otherwise(pl.lit(None, pl.String))
    )


def _weight(blame: Blame) -> pl.Expr:
    named = pl.col("code").str.contains(r"^(?:slurm|k8s)\.node_") | (pl.col("failed_host") == pl.col("host")) | pl.col("follows")
    lone = (pl.col("named") == 1) & pl.col("state").fill_null("").str.starts_with("NODE_FAIL")
    sure = (pl.col("role") == "culprit") | named.fill_null(False) | lone
    each = pl.when(sure).then(1.0).when(pl.col("confidence") == "insufficient").then(blame.guess).otherwise(blame.suspect) / pl.col("named")
    return pl.when(pl.col("discount").is_null()).then(each).otherwise(0.0)


def _at_once(rows: pl.DataFrame, hosts: pl.DataFrame, blame: Blame) -> pl.DataFrame:
    """Zero the charges of independent incidents that hit `many` hosts at the same time: same class anywhere, or one rack or switch."""
    rows = rows.join(hosts.select("host", "rack", "leaf"), on="host", how="left")
    for group, gap_s in (("class", blame.at_once_s), ("rack", blame.rack_s), ("leaf", blame.rack_s)):
        rows = _crowded(rows, group, gap_s, blame.many)
    return rows


def _crowded(rows: pl.DataFrame, group: str, gap_s: float, many: int) -> pl.DataFrame:
    live = (pl.col("weight") > 0) & pl.col(group).is_not_null()
    telling = live | pl.col("discount").is_in([MANY, SHARED])
    seen = rows.filter(telling).sort("ts", "incident_id", "host")
    gap = pl.col("ts") - pl.col("ts").shift().over(group)
    late = (gap.is_null() | (gap > timedelta(seconds=gap_s))).cast(pl.Int64)
    crowds = seen.with_columns(crowd=late.cum_sum().over(group))
    size = pl.col("host").n_unique().over(group, "crowd")
    hits = crowds.filter(live & (size >= many)).select("incident_id", "host", hit=pl.lit(True))
    marked = rows.join(hits, on=["incident_id", "host"], how="left")
    hit = pl.col("hit").fill_null(False)
    return marked.with_columns(
        discount=pl.when(hit).then(pl.lit(MANY)).otherwise("discount"), weight=pl.when(hit).then(0.0).otherwise("weight")
    ).drop("hit")
