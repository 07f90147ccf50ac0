"""Host-days, GPU-hours and burn-in."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from triage import exposure
from triage.exposure import Burn
from triage.schema import TABLES


def at(day: float) -> datetime:
    return datetime.fromisoformat("2031-05-01") + timedelta(days=day)


def frame(table: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=TABLES[table].dtypes())


JOBS = frame("jobs", [{"job_id": j, "attempt": 0, "gpus": g, "nodes": n} for j, g, n in (("1", 16, 2), ("2", 4, 1), ("3", None, 1))])
SPANS = (("1", "a", 0, 2), ("1", "b", 0, 2), ("2", "a", 1, 3), ("3", "b", 5, None))
JOB_HOSTS = frame(
    "job_hosts",
    [{"job_id": j, "attempt": 0, "host": h, "start": at(s), "end": None if e is None else at(e)} for j, h, s, e in SPANS],
)
HOSTS = frame("hosts", [{"host": "a", "gpus": 8}, {"host": "b", "gpus": 8}, {"host": "c", "gpus": 8}])


def test_overlapping_jobs_count_once_and_open_ones_to_the_last_stamp() -> None:
    days = dict(exposure.union_days(JOB_HOSTS, at(0), at(6)).iter_rows())
    assert days == {"a": 3.0, "b": 3.0}


def test_intervals_are_cut_to_the_window() -> None:
    days = dict(exposure.union_days(JOB_HOSTS, at(1.5), at(2.5)).iter_rows())
    assert days == {"a": 1.0, "b": 0.5}


def test_gpu_hours_take_the_share_of_the_job_else_the_inventory() -> None:
    hours = dict(exposure.gpu_hours(JOBS, JOB_HOSTS, HOSTS, at(0), at(6)).iter_rows())
    assert hours == {"a": 2 * 24 * 8 + 2 * 24 * 4, "b": 2 * 24 * 8 + 24 * 8}


def test_only_hosts_that_joined_late_burn_in() -> None:
    names, times = [f"h{n}" for n in range(9)] + ["late"], [at(0)] * 9 + [at(20)]
    seen = pl.DataFrame({"host": names, "seen": times}, schema_overrides={"seen": pl.Datetime("us")})
    assert exposure.burn_in(seen, Burn()).rows() == [("late", at(20), at(27))]
    assert exposure.burn_in(seen, Burn(days=0)).height == 0
    assert exposure.burn_in(seen.tail(3), Burn()).height == 0


def test_host_days_need_a_kernel_log() -> None:
    rows = [
        {"host": "a", "family": "kernel", "first": at(0), "last": at(4)},
        {"host": "b", "family": "scheduler", "first": at(0), "last": at(6)},
    ]
    coverage = frame("coverage", [*rows, {"host": "a", "family": "kernel", "first": at(3), "last": at(5)}])
    states = frame("host_states", [{"host": "c", "state": "drain", "start": at(1), "end": at(2)}])
    table = exposure.by_host(JOBS, JOB_HOSTS, states, HOSTS, coverage, at(0), at(6))
    total = exposure.fleet(table, exposure.logged_hours(coverage, at(0), at(6)), at(0), at(6))
    assert total["host_days"] == pytest.approx(5)
    assert total["allocated_host_days"] == pytest.approx(6)
    assert total["out_host_days"] == pytest.approx(1)
    assert total["logged_hours"] == pytest.approx(120)
    assert total["gpus"] == 24


def test_an_open_outage_ends_with_the_next_job_or_state() -> None:
    rows: list[dict[str, object]] = [
        {"host": "b", "state": "down", "start": at(3)},
        {"host": "a", "state": "down", "start": at(4)},
        {"host": "a", "state": "idle", "start": at(4.5)},
        {"host": "c", "state": "drain", "start": at(1)},
    ]
    ends = {(h, e) for h, _, _, e in exposure.outages(frame("host_states", rows), JOB_HOSTS).iter_rows()}
    assert ends == {("b", at(5)), ("a", at(4.5)), ("c", None)}


def test_what_several_records_tell_of_one_outage_is_one() -> None:
    second = 1 / 86_400
    rows: list[dict[str, object]] = [
        {"host": "x", "state": "down", "start": at(1), "end": at(1 + 20 * second), "basis": "sacctmgr"},
        {"host": "x", "state": "down", "start": at(1), "end": at(1 + 20 * second), "basis": "sacctmgr"},
        {"host": "x", "state": "down", "start": at(1 + second), "basis": "slurmctld"},
        {"host": "x", "state": "down", "start": at(2), "basis": "slurmctld"},
        {"host": "x", "state": "drain", "start": at(2 + second), "basis": "scontrol"},
        {"host": "x", "state": "drain", "start": at(2 + 13 * second), "basis": "sacctmgr"},
    ]
    found = exposure.outages(frame("host_states", rows), JOB_HOSTS)
    assert found.rows() == [("x", "down", at(1), at(1 + 20 * second)), ("x", "down", at(2), None)]
