"""The ranking on small fleets that a reader can check by hand."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import polars as pl
import pytest

from triage import lemon, recurrence
from triage.schema import TABLES

NOW_DAY = 28


def at(day: float) -> datetime:
    return datetime.fromisoformat("2031-05-01") + timedelta(days=day)


def frame(table: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=TABLES[table].dtypes())


class Fleet:
    """Hosts that were allocated all the time; `fails` breaks a job of a host on each of the days."""

    def __init__(self, hosts: int, racks: int = 1) -> None:
        self.names = [f"h{i:02d}" for i in range(hosts)]
        self.hosts: list[dict[str, object]] = [{"host": n, "gpus": 8, "rack": f"r{i % racks}"} for i, n in enumerate(self.names)]
        self.jobs: list[dict[str, object]] = []
        self.job_hosts: list[dict[str, object]] = []
        self.incidents: list[dict[str, object]] = []
        self.findings: list[dict[str, object]] = []
        for name in self.names:
            self.job_hosts.append({"job_id": f"long-{name}", "attempt": 0, "host": name, "start": at(0), "end": None})
            self.jobs.append({"job_id": f"long-{name}", "attempt": 0, "start": at(0), "state": "RUNNING", "nodes": 1, "gpus": 8})

    def fails(self, host: str, days: list[float], code: str = "xid.79", **more: object) -> None:
        for day in days:
            number = f"i{len(self.incidents):04d}"
            key: dict[str, object] = {"job_id": f"j{number}", "attempt": 0}
            self.jobs.append(key | {"state": "FAILED", "user": "u1", "nodes": 1, "gpus": 8, "start": at(day - 0.1), "end": at(day)})
            self.job_hosts.append(key | {"host": host, "start": at(day - 0.1), "end": at(day)})
            self.incidents.append(key | {"incident_id": number, "kind": "job", "start": at(day), "class": "T04", "layer": "gpu"})
            self.findings.append({"incident_id": number, "place": 1, "host": host, "role": "culprit", "code": code, **more})

    def frames(self) -> list[pl.DataFrame]:
        return [
            frame("jobs", self.jobs),
            frame("job_hosts", self.job_hosts),
            frame("host_states", []),
            frame("hosts", self.hosts),
            frame("incidents", self.incidents),
            frame("findings", self.findings),
            frame("bursts", []),
        ]

    def ranked(self, **more: object) -> pl.DataFrame:
        params = recurrence.Params(second_opinion=False)
        return recurrence.build(*self.frames(), now=at(NOW_DAY), window=timedelta(days=28), params=params)


def row(table: pl.DataFrame, host: str) -> dict[str, object]:
    return table.row(by_predicate=pl.col("host") == host, named=True)


def test_a_host_that_fails_on_many_days_is_a_lemon() -> None:
    fleet = Fleet(16)
    fleet.fails("h05", [3, 9, 14, 20, 26])
    fleet.fails("h02", [7])
    table = fleet.ranked()
    first = table.row(0, named=True)
    assert (first["host"], first["lemon"], first["place"]) == ("h05", True, 1)
    assert first["low"] < first["rate"] < first["high"]
    assert any("5 failure(s) on 5 day(s)" in line for line in first["why"])
    assert table["lemon"].sum() == 1


def test_one_bad_day_is_no_lemon() -> None:
    fleet = Fleet(16)
    fleet.fails("h05", [9, 9.1, 9.2, 9.3, 9.4, 9.45])
    assert not fleet.ranked()["lemon"].any()


def test_failures_on_one_gpu_weigh_more_than_failures_all_over_the_host() -> None:
    scores = []
    for devices in (["0000:1a:00"] * 3, ["0000:1a:00", "0000:2a:00", "0000:3a:00"]):
        fleet = Fleet(16)
        for day, device in zip((4, 13, 22), devices, strict=True):
            fleet.fails("h05", [day], device=device)
        fleet.fails("h02", [7])
        scores.append(row(fleet.ranked(), "h05"))
    assert scores[0]["lemon"]
    assert float(str(scores[0]["score"])) > 1.5 * float(str(scores[1]["score"]))
    assert "3 of 3 on the same device" in scores[0]["why"]  # type: ignore[operator]


def test_two_failures_are_no_lemon() -> None:
    fleet = Fleet(200)
    fleet.fails("h05", [9, 19])
    assert not fleet.ranked()["lemon"].any()


def test_failures_before_the_window_and_after_the_last_stamp_do_not_count() -> None:
    fleet = Fleet(16)
    fleet.fails("h05", [29, 30, 31, 32, 33])
    assert not fleet.ranked()["lemon"].any()
    early = recurrence.build(*fleet.frames(), now=at(70), window=timedelta(days=28), params=recurrence.Params(second_opinion=False))
    assert not early["lemon"].any()


def test_warnings_never_make_a_lemon() -> None:
    fleet = Fleet(16)
    fleet.fails("h05", [3, 9, 14, 20, 26], code="xid.63")
    assert not fleet.ranked()["lemon"].any()


def test_a_busy_host_is_judged_by_its_days() -> None:
    fleet = Fleet(40)
    idle = [s for s in fleet.job_hosts if s["host"] != "h05"]
    for span in idle:
        span["end"] = at(1)
    fleet.fails("h05", [3, 9, 14, 20])
    for number in range(12):
        fleet.fails(f"h{number + 10}", [0.2 + 0.05 * number])
    table = fleet.ranked()
    assert not row(table, "h05")["lemon"]


def test_when_most_of_the_fleet_is_guilty_nobody_is() -> None:
    fleet = Fleet(6)
    for host in ("h00", "h01", "h02", "h03"):
        fleet.fails(host, [3, 9, 14, 20, 22, 24, 26, 27])
    assert not fleet.ranked()["lemon"].any()


def test_a_bad_rack_is_not_a_rack_of_lemons() -> None:
    fleet = Fleet(80, racks=8)
    for i in range(0, 80, 8):
        fleet.fails(f"h{i:02d}", [2 + i / 10, 12 + i / 10, 19 + i / 10])
    fleet.fails("h01", [3, 9, 14, 20, 26])
    table = fleet.ranked()
    assert row(table, "h01")["lemon"]
    assert table.filter("lemon").height == 1


@pytest.mark.parametrize(
    ("days", "strikes", "step"),
    [([5], 1, 1), ([20, 26], 2, 2), ([20, 23, 26], 3, 3), ([2, 14, 26], 1, 1), ([20, 20.01, 20.02], 1, 1)],
)
def test_strikes_and_the_next_step(days: list[float], strikes: int, step: int) -> None:
    fleet = Fleet(16)
    fleet.fails("h05", days)
    told = row(fleet.ranked(), "h05")
    assert told["strikes"] == strikes
    assert told["next"] == recurrence.STEPS[step] or told["lemon"]


def test_a_lemon_is_at_least_drained() -> None:
    assert recurrence.next_step(1, True) == recurrence.STEPS[2]
    assert recurrence.next_step(0, False) == recurrence.STEPS[0]
    assert recurrence.next_step(9, False) == recurrence.STEPS[3]


def test_signals_hold_metas_seven() -> None:
    fleet = Fleet(16)
    fleet.fails("h05", [3, 9, 14, 20, 26])
    signals = json.loads(str(row(fleet.ranked(), "h05")["signals"]))
    assert signals["single_node_node_fails"] == 5
    assert signals["single_node_node_failure_rate"] == pytest.approx(5 / 6, abs=1e-3)
    assert signals["tickets"] is None
    assert signals["excl_jobid_count"] is None
    assert signals["meta_score"] >= 1
    assert (signals["n_7"], signals["n_30"]) == (1, 5)


def test_exclusion_by_users_alone_is_nothing() -> None:
    fleet = Fleet(16)
    fleet.fails("h05", [3])
    exclusions = pl.DataFrame({"job_id": [str(n) for n in range(50)], "host": ["h03"] * 50})
    params = recurrence.Params(second_opinion=False)
    table = recurrence.build(*fleet.frames(), now=at(28), params=params, exclusions=exclusions)
    told = row(table, "h03")
    assert not told["lemon"]
    assert json.loads(str(told["signals"]))["meta_score"] == 0


def test_an_empty_fleet_gives_an_empty_table() -> None:
    table = recurrence.build(*[frame(f.name, []) for f in map(TABLES.__getitem__, NAMES)], now=at(1))
    assert table.height == 0
    assert table.schema == pl.Schema(TABLES["recurrence"].dtypes())


NAMES = ("jobs", "job_hosts", "host_states", "hosts", "incidents", "findings", "bursts")


def test_the_answer_has_its_keys() -> None:
    fleet = Fleet(16)
    fleet.fails("h05", [3, 9, 14, 20, 26])
    out = lemon.lemons(fleet.ranked(), *fleet.frames(), now=at(28), top=3)
    assert {"window", "hosts", "concentration", "backtest"} <= out.keys()
    hosts = out["hosts"]
    assert isinstance(hosts, list)
    assert len(hosts) == 3
    assert {"rank", "host", "score", "interval", "lemon", "strikes", "signals", "why", "next"} <= hosts[0].keys()
    json.dumps(out, allow_nan=False)


def test_kernel_logs_alone_are_ranked_over_the_time_that_they_span() -> None:
    incidents: list[dict[str, object]] = []
    findings: list[dict[str, object]] = []
    days = [("h05", d) for d in (1, 6, 11, 17, 23)] + [("h02", 5), ("h03", 0)]
    for number, (host, day) in enumerate(days):
        told: dict[str, object] = {"incident_id": f"i{number}", "kind": "host", "start": at(day), "class": "T04", "layer": "gpu"}
        incidents.append(told)
        findings.append({"incident_id": f"i{number}", "place": 1, "host": host, "role": "culprit", "code": "xid.79"})
    hosts: list[dict[str, object]] = [{"host": f"h{i:02d}"} for i in range(12)]
    frames = {name: frame(name, []) for name in NAMES}
    frames |= {"hosts": frame("hosts", hosts), "incidents": frame("incidents", incidents), "findings": frame("findings", findings)}
    table = recurrence.build(*[frames[n] for n in NAMES], now=at(28))
    assert table.filter("lemon")["host"].to_list() == ["h05"]
    assert "28.0 host-days" in table.row(0, named=True)["why"][0]


def test_faults_outside_the_scheduler_records_count_by_the_day() -> None:
    fleet = Fleet(12)
    for span in (*fleet.jobs, *fleet.job_hosts):
        span["start"] = at(26)
    for number, day in enumerate((2, 7, 12, 18, 23, 27)):
        key = f"k{number}"
        fleet.incidents.append({"incident_id": key, "kind": "host", "start": at(day), "class": "T04", "layer": "gpu"})
        fleet.findings.append({"incident_id": key, "place": 1, "host": "h05", "role": "culprit", "code": "xid.79"})
    told = row(fleet.ranked(), "h05")
    signals = json.loads(str(told["signals"]))
    assert told["lemon"]
    assert signals["failures"] == 5
    assert signals["exposure_days"] == pytest.approx(26, abs=0.1)


def test_a_fleet_of_equals_has_no_second_opinion_to_give() -> None:
    fleet = Fleet(24)
    for number, host in enumerate(fleet.names):
        fleet.fails(host, [3 + number / 2])
    table = recurrence.build(*fleet.frames(), now=at(28))
    assert not table["lemon"].any()
