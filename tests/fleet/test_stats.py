"""Figures of `triage stats` on rows that a reader can check by hand."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from triage import checkpointing, drills_fleet, job_failure, productive, retry, stats
from triage.job_failure import Windows
from triage.propagation import propagation
from triage.schema import TABLES

Row = dict[str, object]
NAMES = ("jobs", "job_hosts", "host_states", "hosts", "bursts", "incidents", "findings", "coverage", "events")


def at(hours: float) -> datetime:
    return datetime.fromisoformat("2031-05-01") + timedelta(hours=hours)


def frame(table: str, rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=TABLES[table].dtypes())


def rows_of(value: object) -> list[Row]:
    assert isinstance(value, list)
    return value


def burst(number: int | str, code: str, hours: float, host: str = "a", device: str | None = "0000:1a:00", **more: object) -> Row:
    known: Row = {"burst_id": f"b{number}", "host": host, "device": device, "code": code, "family": "gpu", "role": "root", "count": 1}
    return known | {"first": at(hours), "last": at(hours), "user_possible": False} | more


def job(job_id: str, start: float, end: float | None, state: str = "COMPLETED", **more: object) -> Row:
    times: Row = {"submit": at(start), "start": at(start), "end": None if end is None else at(end)}
    return {"job_id": job_id, "attempt": 0, "user": "u", "state": state, "nodes": 1, "gpus": 8} | times | more


def spans(jobs: list[Row], host: str = "a") -> pl.DataFrame:
    return frame("job_hosts", [{n: j[n] for n in ("job_id", "attempt", "start", "end")} | {"host": host} for j in jobs])


SECOND = 1 / 3600


def met(jobs: list[Row], bursts: list[Row]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    table, faults = frame("jobs", jobs), frame("bursts", bursts)
    return table, faults, job_failure.meetings(spans(jobs), table, faults)


def test_delta_and_meta_windows() -> None:
    jobs = [job("near", 0, 10, "FAILED"), job("far", 20, 30, "FAILED"), job("fine", 40, 50), job("after", 60, 70, "FAILED")]
    bursts = [burst(n, "xid.79", h) for n, h in enumerate((10 - 15 * SECOND, 30 - 0.1, 45, 70 + 0.05))]
    table, faults, meetings = met(jobs, bursts)
    (row,) = job_failure.by_code(table, meetings, faults, Windows())
    assert (row["jobs"], row["failed"], row["p"]) == (3, 1, pytest.approx(1 / 3))
    assert (row["jobs_meta"], row["failed_meta"], row["p_meta"]) == (4, 3, 0.75)


def test_metas_label() -> None:
    jobs = [
        job("lost", 0, 10, "NODE_FAIL"),
        job("bug", 20, 30, "FAILED"),
        job("hard", 40, 50, "FAILED"),
        job("gone", 60, 70, "CANCELLED by 5"),
    ]
    bursts = [burst(1, "xid.31", 30, user_possible=True), burst(2, "xid.79", 50), burst(3, "xid.79", 70)]
    table, faults, meetings = met(jobs, bursts)
    labels = job_failure.labelled(table, meetings, faults, Windows()).sort("start")
    assert labels["infra"].to_list() == [True, False, True, False]
    assert labels["unattributed"].to_list() == [True, False, False, False]


def test_failure_rate_leaves_burn_in_out() -> None:
    jobs = [job("x", 0, 240, "NODE_FAIL", gpus=256), job("y", 240, 480, "NODE_FAIL", gpus=256)]
    table, faults, meetings = met(jobs, [])
    labels = job_failure.labelled(table, meetings, faults, Windows())
    none = pl.DataFrame(schema={"host": pl.String, "start": pl.Datetime("us"), "end": pl.Datetime("us")})
    big, every, *_ = job_failure.rates(labels, spans(jobs), none, at(0), at(480), Windows())
    assert (big["failures"], big["host_days"], big["per_1000_host_days"]) == (2, 20.0, 100.0)
    assert every["failures"] == 2
    early = pl.DataFrame({"host": ["a"], "start": [at(0)], "end": [at(241)]}, schema=none.schema)
    young, *_ = job_failure.rates(labels, spans(jobs), early, at(0), at(480), Windows())
    assert young["failures"] == 1
    assert young["host_days"] == pytest.approx(20 - 241 / 24)


def test_mttf_empirical_and_projected_stand_side_by_side() -> None:
    jobs = [job("x", 0, 100, "NODE_FAIL", gpus=64, nodes=8), job("y", 100, 300, gpus=64, nodes=8)]
    table, faults, meetings = met(jobs, [])
    (row,) = job_failure.mttf_by_size(job_failure.labelled(table, meetings, faults, Windows()), 6.5, at(300))
    assert row["mttf_empirical_h"] == 300
    assert row["mttf_projected_h"] == pytest.approx(1000 / 6.5 * 24 / 8)


def test_mtbe_by_code_is_over_the_hours_with_a_kernel_log() -> None:
    bursts = [burst(n, "xid.74", n * 10.0, device=f"0000:{n % 2}a:00", count=3) for n in range(4)] + [
        burst(9, "gpu.identity", 5, role="fact")
    ]
    coverage: list[Row] = [{"host": h, "family": "kernel", "first": at(0), "last": at(e)} for h, e in (("a", 80), ("b", 40))]
    frames = {name: frame(name, []) for name in NAMES}
    frames |= {"bursts": frame("bursts", bursts), "coverage": frame("coverage", coverage)}
    frames["hosts"] = frame("hosts", [{"host": "a", "gpus": 8}, {"host": "b", "gpus": 4}])
    out = stats.stats(*[frames[n] for n in NAMES[:-1]], events=[frames["events"]], now=at(80))
    (row,) = rows_of(out["by_code"])
    assert (row["bursts"], row["lines"], row["hosts"], row["gpus"]) == (4, 12, 1, 2)
    assert (row["mtbe_system_h"], row["mtbe_host_h"], row["mtbe_gpu_h"]) == (20, 30, (80 * 8 + 40 * 4) / 4)


def test_propagation_within_five_seconds() -> None:
    rows = [
        *(burst(n, "xid.122", float(n)) for n in range(4)),
        *(burst(10 + n, "xid.31", n + 2 * SECOND) for n in range(3)),
        burst(20, "xid.31", 3 + 6 * SECOND),
        burst(30, "xid.74", 8),
        burst(31, "xid.74", 8 + SECOND, device="0000:2a:00"),
        burst(32, "xid.74", 8 + SECOND, host="b", device="0000:3a:00"),
    ]
    table = {(r["first"], r["then"]): r for r in propagation(frame("bursts", rows))}
    assert table["xid.122", "xid.31"]["p_same_gpu"] == 0.75
    assert table["xid.122", "xid.31"]["median_lag_s"] == pytest.approx(2)
    assert table["xid.74", "xid.74"]["other_gpu"] == 1
    assert ("xid.31", "xid.122") not in table


def _steps(name: str, first: int, start: float, number: int, attempt: int = 0) -> list[Row]:
    base: Row = {"code": "train.step", "job_id": name, "attempt": attempt}
    return [base | {"seq": first + n, "ts_near": at(start + n / 60)} for n in range(number)]


def test_phases_tell_rework_and_what_no_log_shows() -> None:
    jobs = [
        job("r", 0, 3, "FAILED", submit=at(-1)),
        job("r", 3.5, 6, attempt=1, submit=at(-1)),
        job("dark", 0, 4),
    ]
    events = frame("events", _steps("r", 0, 0.5, 121) + _steps("r", 61, 4, 121, attempt=1))
    table = frame("jobs", jobs)
    rows = productive.attempts(table, productive.digest([events], table).sums, at(6))
    hours = {str(p["phase"]): float(str(p["gpu_hours"])) / 8 for p in productive.phases(rows)}
    assert hours["startup"] == pytest.approx(1.0)
    assert hours["rework"] == pytest.approx(59 / 60, abs=0.02)
    assert hours["train"] == pytest.approx(4 - 59 / 60, abs=0.02)
    assert hours["unknown"] == pytest.approx(4)
    assert hours["tail"] == pytest.approx(0.5)


def test_ettr_of_a_run_and_its_sliding_hour() -> None:
    jobs = [job("r", 0, 3, "FAILED"), job("r", 3.5, 6, attempt=1, submit=at(0))]
    events = frame("events", _steps("r", 0, 0.5, 121) + _steps("r", 61, 4, 121, attempt=1))
    table = frame("jobs", jobs)
    trained = productive.digest([events], table)
    out = productive.ettr(productive.attempts(table, trained.sums, at(6)), trained.hours)
    assert out["runs"] == 1
    assert out["overall"] == pytest.approx((4 - 59 / 60) / 6, abs=0.01)
    (sliding,) = rows_of(out["sliding_hour"])
    assert float(str(sliding["least"])) < 0.1
    assert sliding["last"] == pytest.approx(1.0, abs=0.1)


def test_retry_chains_and_the_stop_rule() -> None:
    jobs = [job(f"t{n}", n * 0.5, n * 0.5 + 0.3, "FAILED", name="llm") for n in range(4)] + [
        job("t4", 2.0, 9, name="llm"),
        job("o", 50, 51, name="llm"),
    ]
    incidents = [{"incident_id": f"i{n}", "job_id": f"t{n}", "attempt": 0, "class": "T04", "hosts": ["a"]} for n in range(4)]
    (chain,) = retry.chains(frame("jobs", jobs), frame("incidents", incidents))
    assert (chain["attempts"], chain["automatic"], chain["success"]) == (5, True, True)
    assert (chain["same_failures_in_row"], chain["stop"]) == (4, True)


def test_preemptions_by_a_failed_job_are_second_order() -> None:
    jobs = [
        job("big", 0, 10, "NODE_FAIL", gpus=64),
        job("v1", 5, 10.2, "PREEMPTED", preemptor="big"),
        job("v2", 5, 11, "PREEMPTED", preemptor="big"),
        job("v3", 5, 10.2, "PREEMPTED", preemptor="other"),
    ]
    table, faults, meetings = met(jobs, [])
    out = retry.preemption_cost(job_failure.labelled(table, meetings, faults, Windows()), spans(jobs))
    assert out["first_order_gpu_hours"] == 32
    assert out["second_order_gpu_hours"] == 4
    assert out["instigators"] == [{"instigator": "big", "preemptions": 1, "gpu_hours": 4.0}]


def test_nothing_read_gives_nulls_and_no_error() -> None:
    out = stats.stats(*[frame(n, []) for n in NAMES[:-1]], events=[], now=at(0))
    wanted = {"exposure", "by_code", "by_class", "rates", "job_failure_by_code", "propagation", "ettr", "phases"}
    assert wanted <= out.keys()
    json.dumps(out, allow_nan=False)


def test_a_whole_fleet_gives_plain_json() -> None:
    fleet = drills_fleet.generate(5, drills_fleet.Recipe(hosts=40, days=20))
    frames = {name: fleet.frames.get(name, frame(name, [])) for name in NAMES}
    out = stats.stats(*[frames[n] for n in NAMES[:-1]], events=[frames["events"]], now=fleet.now)
    text = json.dumps(out, allow_nan=False)
    assert '"per_1000_host_days"' in text


def test_checkpoint_inputs_from_the_data() -> None:
    saves: list[Row] = [
        {"code": "train.checkpoint", "job_id": "r", "attempt": 0, "ts_near": at(n), "duration_s": 40.0 + n} for n in range(5)
    ]
    events = frame("events", saves + _steps("r", 0, 0.25, 10))
    found = checkpointing.measured(events, frame("jobs", [job("r", 0, 6)]), failures=4, run_s=360_000.0)
    assert found == {"mtbf_s": 90_000.0, "save_s": 42.0, "restart_s": 900.0, "interval_s": 3600.0}
    assert checkpointing.measured(frame("events", []), frame("jobs", []), 0, 0.0)["save_s"] is None


def _published(counts: dict[str, int], days: int, hosts: int, gpus: int, gb: int) -> dict[str, dict[str, Any]]:
    """`by_code` of a fleet with a kernel log throughout, over so many bursts of each code."""
    names = [f"h{n}" for n in range(hosts)]
    machines: list[Row] = [{"host": h, "gpus": gpus, "gpu_model": f"GPU {gb}GB"} for h in names]
    logs: list[Row] = [{"host": h, "family": "kernel", "first": at(0), "last": at(24 * days)} for h in names]
    gap = {code: 24 * days / (number + 1) for code, number in counts.items()}
    rows = [burst(f"{code}-{n}", code, (n + 0.5) * gap[code], names[n % hosts]) for code, number in counts.items() for n in range(number)]
    frames = {name: frame(name, []) for name in NAMES} | {"hosts": frame("hosts", machines), "coverage": frame("coverage", logs)}
    frames["bursts"] = frame("bursts", rows)
    out: dict[str, Any] = stats.stats(*[frames[n] for n in NAMES[:-1]], events=[], now=at(24 * days))
    return {row["code"]: row for row in out["by_code"]}


def test_delta_v1_system_mtbe_from_its_counts() -> None:
    counts = {"xid.95": 38905, "xid.31": 18876, "xid.74": 2987, "xid.119": 2136, "xid.63": 95, "xid.64": 35, "xid.48": 32}
    printed = {"xid.95": "0.53", "xid.31": "1.09", "xid.74": "6.87", "xid.119": "9.61", "xid.63": "216.00", "xid.64": "586.29"}
    rows = _published(counts, 855, 206, 4, 40)
    assert {code: f"{rows[code]['mtbe_system_h']:.2f}" for code in printed} == printed
    assert f"{rows['xid.48']['mtbe_system_h']:.2f}" == "641.25"
    assert {code: rows[code]["bursts"] for code in counts} == counts


def test_delta_v4_h100_mtbe_from_its_counts() -> None:
    rows = _published({"xid.64": 24, "xid.119": 3, "xid.31": 1814}, 146, 152, 4, 96)
    assert (round(rows["xid.64"]["mtbe_gpu_h"]), round(rows["xid.64"]["mtbe_gb_h"])) == (88768, 8521728)
    assert (round(rows["xid.119"]["mtbe_system_h"]), f"{rows['xid.31']['mtbe_system_h']:.1f}") == (1168, "1.9")
    low, high = rows["xid.64"]["mtbe_gpu_interval_h"]
    assert low < 88768 < high


def test_memory_per_gb_is_unknown_where_a_model_does_not_tell() -> None:
    machines: list[Row] = [{"host": "a", "gpus": 8, "gpu_model": "H100"}]
    frames = {name: frame(name, []) for name in NAMES} | {
        "hosts": frame("hosts", machines),
        "bursts": frame("bursts", [burst(1, "xid.48", 5)]),
    }
    out: dict[str, Any] = stats.stats(*[frames[n] for n in NAMES[:-1]], events=[], now=at(80))
    (row,) = out["by_code"]
    assert row["mtbe_gb_h"] is None
    assert row["mtbe_gpu_h"] is not None
