"""The rate that a host is held against: its rack's, else that of the hosts it shared jobs with, else the fleet's."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class Group:
    """hosts      a rack counts from so many hosts up
    expected   peers count where the fleet's rate expects so many failures among them
    few        bad hosts are left out of their rack's rate while they are at most this share of it
    pull       failures at the fleet's rate that are added to a group, so that a quiet group is not taken for a perfect one
    """

    hosts: int = 8
    expected: float = 1.0
    few: float = 0.25
    pull: float = 2.0


def references(
    table: pl.DataFrame, hosts: pl.DataFrame, job_hosts: pl.DataFrame, charges: pl.DataFrame, healthy: float, group: Group
) -> pl.DataFrame:
    """host, reference (failures per host-day, without the host itself), against (rack | peers | fleet).

    table    host, count, days, bad (chance of being a bad host, which takes it out of its group's rate by that much)
    healthy  the fleet's rate
    """
    rack = _rack(table, hosts, group)
    peers = _peers(table, job_hosts, charges)
    both = table.select("host").join(rack, on="host", how="left").join(peers, on="host", how="left")
    fleet = pl.lit(healthy)
    use_rack = pl.col("rack_hosts").fill_null(0) >= group.hosts
    use_peers = pl.col("peer_days").fill_null(0.0) * healthy >= group.expected
    rack_rate = (pl.col("rack_count").clip(0) + group.pull) / (pl.col("rack_days").clip(0) + group.pull / healthy)
    peer_rate = (pl.col("peer_count").clip(0) + group.pull) / (pl.col("peer_days").clip(0) + group.pull / healthy)
    return both.select(
        "host",
        reference=pl.when(use_rack).then(rack_rate).when(use_peers).then(peer_rate).otherwise(fleet),
        against=pl.when(use_rack).then(pl.lit("rack")).when(use_peers).then(pl.lit("peers")).otherwise(pl.lit("fleet")),
    )


def _rack(table: pl.DataFrame, hosts: pl.DataFrame, group: Group) -> pl.DataFrame:
    few = pl.col("bad").mean().over("rack") <= group.few
    good = pl.when(few).then(1.0 - pl.col("bad")).otherwise(1.0)
    placed = table.join(hosts.select("host", "rack"), on="host").filter(pl.col("rack").is_not_null() & (pl.col("days") > 0))
    parts = placed.with_columns(part=good * pl.col("count"), room=good * pl.col("days"))
    return parts.select(
        "host",
        rack_hosts=pl.len().over("rack"),
        rack_count=pl.col("part").sum().over("rack") - pl.col("part"),
        rack_days=pl.col("room").sum().over("rack") - pl.col("room"),
    )


def _peers(table: pl.DataFrame, job_hosts: pl.DataFrame, charges: pl.DataFrame) -> pl.DataFrame:
    """Failures and host-days of the other hosts of the attempts that a host ran; `job_hosts` is clipped to the window."""
    key = ["job_id", "attempt"]
    good = 1.0 - pl.col("bad")
    weights = charges.filter(pl.col("weight") > 0).group_by(*key, "host").agg(pl.col("weight").sum())
    rows = job_hosts.join(table.select("host", "bad"), on="host").join(weights, on=[*key, "host"], how="left")
    length = (pl.col("end") - pl.col("start")).dt.total_microseconds() / 8.64e10
    rows = rows.with_columns(part=good * pl.col("weight").fill_null(0.0), room=good * length)
    others = rows.with_columns(
        peer_count=pl.col("part").sum().over(key) - pl.col("part"), peer_days=pl.col("room").sum().over(key) - pl.col("room")
    )
    return others.group_by("host").agg(pl.col("peer_count").sum(), pl.col("peer_days").sum())
