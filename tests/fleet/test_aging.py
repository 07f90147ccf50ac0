"""Failures by age, shrinking waits, and memory rows that were used up."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import accumulate

import numpy as np
import polars as pl
import pytest

from triage import aging, checkpointing
from triage.checkpointing import Costs
from triage.exposure import Burn

DAY = datetime(2031, 3, 3)  # noqa: DTZ001


def at(days: float) -> datetime:
    return DAY + timedelta(days=days)


def test_young_hosts_stand_apart_from_those_of_unknown_age() -> None:
    hosts = [{"host": f"h{n}", "start": at(0), "end": at(40)} for n in range(9)] + [{"host": "new", "start": at(20), "end": at(40)}]
    states = pl.DataFrame(schema={"host": pl.String, "start": pl.Datetime("us")})
    episodes = pl.DataFrame({"host": ["new", "new", "h1", "h2"], "ts": [at(21), at(22), at(5), at(6)], "weight": [1.0, 1.0, 1.0, 0.1]})
    rows = {row["age"]: row for row in aging.bathtub(episodes, pl.DataFrame(hosts), states, at(0), at(40), Burn())}
    assert (rows["week 1"]["failures"], rows["week 1"]["host_days"]) == (2, pytest.approx(7))
    assert (rows["week 2"]["failures"], rows["week 3"]["host_days"]) == (0, pytest.approx(6))
    assert (rows["older"]["failures"], rows["older"]["host_days"]) == (1, pytest.approx(360))


def test_waits_that_halve_are_told() -> None:
    ends = list(accumulate([0.0, 8.0, 4.0, 2.0]))
    rows = aging.shrink(pl.DataFrame({"host": ["a"] * 4, "ts": [at(d) for d in ends], "weight": [1.0] * 4}))
    assert [(row["incident"], row["mean_days"], row["median_ratio_to_first"]) for row in rows] == [(2, 8, 1), (3, 4, 0.5), (4, 2, 0.25)]


def test_spent_rows_ask_for_an_act() -> None:
    codes = ["xid.63"] * 11 + ["xid.63", "xid.64"] + ["xid.63"] * 3
    hosts = ["many"] * 11 + ["spent"] * 2 + ["few"] * 3
    rows = aging.redundancy(pl.DataFrame({"host": hosts, "device": "0000:1a:00", "code": codes}))
    assert [(row["host"], str(row["state"]).split(":")[0]) for row in rows] == [
        ("spent", "no row left"),
        ("many", "many rows used"),
        ("few", "rows left"),
    ]


def test_a_clustered_history_has_a_low_shape_and_a_steady_one_does_not() -> None:
    rng = np.random.default_rng(3)
    assert (checkpointing.weibull_shape(list(rng.weibull(0.6, 400))) or 9) < checkpointing.CLUSTERED
    assert (checkpointing.weibull_shape(list(rng.exponential(1.0, 400))) or 0) > checkpointing.CLUSTERED
    assert checkpointing.weibull_shape([1.0] * 5) is None


def test_losses_and_bandwidth() -> None:
    costs = Costs(mtbf_s=28_800, save_s=60, durable_s=300, restart_s=900)
    told = checkpointing.losses(costs, 1800)
    assert (told["expected_loss_s"], told["worst_loss_s"], told["dominates"]) == (1200, 2100, "restarting")
    assert checkpointing.losses(costs, 600)["dominates"] == "saving"
    assert checkpointing.losses(costs, 7200)["dominates"] == "rework"
    assert checkpointing.bandwidth(Costs(28_800, 60, 0), 900)["durable_gb_s"] is None
    assert checkpointing.bandwidth(costs, 900) == {"blocking_gb_s": 15.0, "durable_gb_s": 3.0}
