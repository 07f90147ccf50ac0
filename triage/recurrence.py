"""Rows of `recurrence`: hosts ranked by how often they break jobs, for the time that they were allocated.

lemon = the lower bound of the 90 % interval of the host's discounted rate lies above twice its reference group's rate, and at least
3 failures fell on 3 days.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from triage import blame as blaming
from triage import lemon_signal, reference, second_opinion, shrinkage
from triage.blame import Blame, Records
from triage.exposure import Burn, burn_in, clip, first_seen, overlap, union_days, unrecorded_days
from triage.schema import TABLES


@dataclass(frozen=True, slots=True)
class Params:
    """Thresholds; each default carries its reason.

    window        Meta looks back 28 days
    level         of the interval
    ratio         lower bound over the reference rate
    failures      least failures, and on how many days: one bad day is not a pattern
    counts_from   a charge of less weight is no failure of its own (a suspect among several)
    guilty        when so large a share of the fleet is guilty, nobody is: look for a common cause
    strike_days   strikes inside so many days count together (Guard: 3 in 7), until decay_days
    least_days    exposure of a host that failed and whose allocation is not known
    opinion_share share of hosts that the detectors may name
    """

    window: timedelta = timedelta(days=28)
    level: float = 0.9
    ratio: float = 2.0
    failures: int = 3
    fail_days: int = 3
    counts_from: float = 0.5
    guilty: float = 0.5
    strike_days: float = 7.0
    decay_days: float = 30.0
    least_days: float = 1.0
    second_opinion: bool = True
    opinion_share: float = 0.05
    seed: int = 20
    blame: Blame = field(default_factory=Blame)
    burn: Burn = field(default_factory=Burn)
    signal: lemon_signal.Cuts = field(default_factory=lemon_signal.Cuts)
    shape: shrinkage.Shape = field(default_factory=shrinkage.Shape)
    group: reference.Group = field(default_factory=reference.Group)

    @classmethod
    def of(cls, threshold: Callable[[str], float]) -> Params:
        """The parameters with the rulebook's thresholds (times in seconds) in place of the defaults."""
        return cls(
            window=timedelta(seconds=threshold("lemon_window")),
            level=threshold("lemon_interval"),
            ratio=threshold("lemon_ratio"),
            guilty=threshold("breaker_share"),
            failures=int(threshold("lemon_incidents")),
            fail_days=int(threshold("lemon_days")),
            strike_days=threshold("strikes_window") / 86400.0,
            blame=Blame(users=int(threshold("app_users")), many=int(threshold("shared_hosts")), at_once_s=threshold("shared_window")),
            signal=lemon_signal.Cuts(
                percentile=threshold("meta_lemon_percentile"),
                minimum=threshold("meta_lemon_minimum"),
                half_life_days=threshold("lemon_half_life") / 86400.0,
            ),
        )


GPUS = 8.0
"""GPUs of a host whose inventory is not known."""

GROUPS = {"rack": "its rack", "peers": "the hosts it shared jobs with", "fleet": "the fleet"}

STEPS = {
    0: "nothing to do",
    1: "reset the GPU or reboot, then retest",
    2: "drain and diagnose",
    3: "replace",
}


def build(
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
    params: Params | None = None,
    exclusions: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """The table `recurrence`, one row per known host, worst first.

    `now` is the last stamp of the data (naive UTC); `exclusions` (job_id, host) are hosts that a submission excluded, where recorded.
    """
    params = params or Params()
    window = window or params.window
    records = Records(jobs, job_hosts, host_states, hosts, incidents, findings, bursts)
    charged = blaming.charges(records, params.blame, params.burn).filter(pl.col("ts") <= now)
    recent = blaming.inside_window(charged, now, window)
    counts = measure(records, charged, now, window, params)
    table = _rated(counts, hosts, clip(job_hosts, now - window, now), recent, params)
    table = table.join(_signals(records, table["host"], charged, now, window, exclusions, params), on="host")
    opinions = second_opinion.opinions if params.second_opinion else _no_opinion
    table = table.join(opinions(table, params.opinion_share, params.seed), on="host")
    worst_first = table.sort(["lemon", "score", "count", "host"], descending=[True, True, True, False])
    return _written(worst_first, recent)


def measure(records: Records, charged: pl.DataFrame, now: datetime, window: timedelta, params: Params) -> pl.DataFrame:
    """host, count (weighted episodes), failures (episodes of weight), fail_days, days (of exposure) inside the window; device_faults of
    the failures, and same_device, those on the device hit most.

    Exposure: allocated days, and all days that no scheduler record reaches.
    """
    known = [frame["host"] for frame in (records.hosts, records.job_hosts, records.host_states, charged, records.bursts)]
    names = pl.concat(known).drop_nulls().unique().sort().to_frame("host")
    heavy = pl.col("weight") >= params.counts_from
    folded = blaming.inside_window(blaming.episodes(charged, params.blame), now, window)
    counts = folded.group_by("host").agg(
        count=pl.col("weight").sum(),
        failures=heavy.sum().cast(pl.Int64),
        fail_days=pl.col("ts").filter(heavy).dt.date().n_unique().cast(pl.Int64),
    )
    hits = folded.filter(heavy & pl.col("device").is_not_null()).group_by("host", "device").len()
    devices = hits.group_by("host").agg(device_faults=pl.col("len").sum().cast(pl.Int64), same_device=pl.col("len").max().cast(pl.Int64))
    days = _exposed(records, now - window, now, params.burn)
    table = names
    for part in (counts, devices, days):
        table = table.join(part, on="host", how="left")
    table = table.with_columns(pl.exclude("host").fill_null(0))
    blind = unrecorded_days(records.jobs, _first(charged, records.bursts, now - window, now), now)
    floor = pl.when(pl.col("count") > 0).then(params.least_days).otherwise(0.0)
    return table.with_columns(days=pl.max_horizontal(pl.col("days") - pl.col("early") + blind, floor)).drop("early")


def _exposed(records: Records, since: datetime, until: datetime, burn: Burn) -> pl.DataFrame:
    """host, days allocated, early (those of its burn-in)."""
    new = burn_in(first_seen(records.job_hosts, records.host_states), burn)
    early = union_days(overlap(records.job_hosts, new), since, until).rename({"days": "early"})
    return union_days(records.job_hosts, since, until).join(early, on="host", how="left")


def _first(charged: pl.DataFrame, bursts: pl.DataFrame, since: datetime, now: datetime) -> datetime:
    """The first stamp of any fault inside the window: without job records the data begins there."""
    starts = [t for t in (charged["ts"].min(), bursts["first"].min()) if isinstance(t, datetime)]
    return min(max(since, min(starts, default=since)), now)


def _rated(counts: pl.DataFrame, hosts: pl.DataFrame, job_hosts: pl.DataFrame, recent: pl.DataFrame, params: Params) -> pl.DataFrame:
    """Adds rate, low, high, bad, reference, against, score and lemon."""
    n, days = counts["count"].to_numpy().astype(np.float64), counts["days"].to_numpy().astype(np.float64)
    exposed = days > 0
    prior = shrinkage.fit(n[exposed], days[exposed], params.shape)
    known = counts.select("host").join(hosts.select("host", "gpus"), on="host", how="left", maintain_order="left")
    faults = counts.select(pl.col("device_faults", "same_device").cast(pl.Float64)).to_numpy().T
    alike = shrinkage.same_device(faults[0], faults[1], known["gpus"].cast(pl.Float64).fill_null(GPUS).to_numpy())
    after = shrinkage.posterior(n, days, prior, params.level, alike)
    table = counts.with_columns(rate=after.rate, low=after.low, high=after.high, bad=after.bad, fleet=prior.healthy)
    held = reference.references(table, hosts, job_hosts, recent, prior.healthy, params.group)
    table = table.join(held, on="host").with_columns(score=pl.col("low") / pl.col("reference"))
    above = (pl.col("score") > params.ratio) & (pl.col("failures") >= params.failures) & (pl.col("fail_days") >= params.fail_days)
    table = table.with_columns(above=above)
    crowd = int(table["above"].sum()) > max(2.0, params.guilty * table.height)
    return table.with_columns(lemon=pl.col("above") & (not crowd))


def _signals(
    records: Records,
    hosts: pl.Series,
    charged: pl.DataFrame,
    now: datetime,
    window: timedelta,
    exclusions: pl.DataFrame | None,
    params: Params,
) -> pl.DataFrame:
    since = now - window
    states, bursts, spans = records.host_states, records.bursts, records.job_hosts
    inside = replace(
        records,
        job_hosts=spans.filter((pl.col("start") <= now) & (pl.col("end").is_null() | (pl.col("end") > since))),
        host_states=states.filter((pl.col("start") > since) & (pl.col("start") <= now)),
        bursts=bursts.filter((pl.col("first") > since) & (pl.col("first") <= now)),
    )
    own = lemon_signal.meta(hosts.to_frame("host"), inside, blaming.inside_window(charged, now, window), exclusions, params.signal)
    episodes = blaming.episodes(charged, params.blame)
    lately = lemon_signal.recency(episodes, inside.bursts, charged, now, params.signal)
    hits = lemon_signal.strikes(episodes, now, timedelta(days=params.strike_days), timedelta(days=params.decay_days))
    joined = own.join(lately, on="host", how="left").join(hits, on="host", how="left")
    return joined.with_columns(pl.col("strikes", "n_7", "n_30", "n_90", "decayed", "gpus_hit", "users", "precursors").fill_null(0))


def _no_opinion(table: pl.DataFrame, share: float, seed: int) -> pl.DataFrame:
    return table.select("host", detectors=pl.lit(None, pl.Int64))


SHOWN = (
    *lemon_signal.META,
    *(f"{name}_pct" for name in lemon_signal.META),
    *("meta_score", "n_7", "n_30", "n_90", "decayed", "days_since_last", "gap_min_days", "gap_median_days", "gap_ratio"),
    *("gpus_hit", "users", "precursors", "detectors", "days", "count", "failures", "fail_days", "same_device", "reference", "against"),
)
RENAMED = {"days": "exposure_days", "count": "weighted_failures", "reference": "reference_rate"}


def _written(table: pl.DataFrame, recent: pl.DataFrame) -> pl.DataFrame:
    spared = _tally(recent.drop_nulls("discount"), "discount")
    counted = recent.filter(pl.col("weight") > 0).with_columns(what=pl.coalesce("code", "class").fill_null("unknown"))
    codes = _tally(counted, "what")
    rows = []
    for place, row in enumerate(table.iter_rows(named=True), start=1):
        signals = {RENAMED.get(name, name): _short(row[name]) for name in SHOWN}
        rows.append(
            {
                **{name: row[name] for name in ("host", "score", "rate", "low", "high", "lemon", "strikes")},
                "place": place,
                "next": next_step(row["strikes"], row["lemon"]),
                "signals": json.dumps(signals),
                "why": _why(row, codes.get(row["host"], []), spared.get(row["host"], [])),
            }
        )
    schema = TABLES["recurrence"].dtypes()
    return pl.DataFrame(rows, schema=schema)


def next_step(strikes: int, lemon: bool) -> str:
    """What to do with a host: by its strikes, and at least drain and diagnose for a lemon."""
    return STEPS[min(3, max(strikes, 2 if lemon else 0))]


def _short(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def _tally(rows: pl.DataFrame, what: str) -> dict[str, list[tuple[str, int]]]:
    """Per host, the values of a column with their numbers, most frequent first."""
    sums = rows.group_by("host", what).len().sort(["host", "len", what], descending=[False, True, False])
    found: dict[str, list[tuple[str, int]]] = {}
    for host, value, number in sums.iter_rows():
        found.setdefault(host, []).append((value, number))
    return found


def _why(row: dict[str, object], codes: list[tuple[str, int]], spared: list[tuple[str, int]]) -> list[str]:
    lines = []
    count, days = float(str(row["count"])), float(str(row["days"]))
    if count:
        lines.append(f"{row['failures']} failure(s) on {row['fail_days']} day(s) in {days:.1f} host-days (weight {count:.2g})")
        against = float(str(row["reference"]))
        lines.append(
            f"{1000 * float(str(row['rate'])):.1f} per 1,000 host-days [{1000 * float(str(row['low'])):.1f}, "
            f"{1000 * float(str(row['high'])):.1f}] against {1000 * against:.1f} of {GROUPS[str(row['against'])]}"
        )
        if int(str(row["same_device"])) > 1:
            lines.append(f"{row['same_device']} of {row['device_faults']} on the same device")
        lines.append("codes: " + ", ".join(f"{what} x{number}" for what, number in codes[:5]))
    lines.extend(f"{number} not counted: {reason}" for reason, number in spared)
    if row["above"] and not row["lemon"]:
        lines.append("no lemon: too large a share of the fleet stands out, look for a cause they share")
    lines.extend(_disagreement(row))
    return lines


def _disagreement(row: dict[str, object]) -> list[str]:
    detectors = row["detectors"]
    if detectors == 0 and row["lemon"]:
        return ["second opinion disagrees: neither outlier detector finds this host unusual"]
    if detectors == 2 and not row["lemon"]:
        return ["second opinion disagrees: both outlier detectors find this host unusual"]
    return []
