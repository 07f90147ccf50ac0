"""Attempts out of accounting, the controller's log and outputs; what they cost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.rows import act, at, attempt, record
from triage import jobs
from triage.jobs import Attempt

FIRST = {"start": "10:00:03", "end": "10:40:00", "hosts": ["n1", "n2"], "gpus": 16}
SECOND = {"start": "10:42:00", "end": "11:30:00", "hosts": ["n1", "n3"], "gpus": 16}


def shown(attempts: list[Attempt], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(a, name) for name in names) for a in attempts]


def test_a_requeued_job_keeps_each_attempt_and_how_it_ended() -> None:
    records = [record("7", "sacct", state="PREEMPTED", **FIRST), record("7", "sacct", state="COMPLETED", **SECOND)]
    acts = [act("slurm.preempt", "7", "10:40:00", peer="9", message="preempted JobId=7 has been requeued to reclaim resources for JobId=9")]
    made = jobs.build(records, acts)
    assert shown(made, "attempt", "state", "preemptor", "requeued") == [(0, "PREEMPTED", "9", True), (1, "COMPLETED", None, False)]
    assert made[1].hosts == ["n1", "n3"]


def test_records_of_one_attempt_are_merged_and_the_best_source_wins() -> None:
    records = [
        record("7", "slurmctld", state=None, start="10:00:04.517000", hosts=["n1", "n2"], partition="gpu"),
        record("7", "sacct", state="NODE_FAIL", **FIRST, user="ann"),
        record("7", "slurmctld", end="10:40:00.300000", state="NODE_FAIL"),
    ]
    (made,) = jobs.build(records, [act("slurm.node_fail", "7", "10:40:00", host="n2")])
    assert (made.start, made.end) == (at("10:00:03"), at("10:40:00"))
    assert (made.user, made.partition, made.failed_host, made.known_from) == ("ann", "gpu", "n2", "sacct slurmctld")


@pytest.mark.parametrize("backwards", [False, True])
def test_the_order_of_records_means_nothing(backwards: bool) -> None:
    records = [record("7", "sacct", state="NODE_FAIL", **FIRST), record("7", "slurmctld", start="10:00:04", hosts=["n1", "n2"])]
    records += [record("7", "sacct", state="FAILED", **SECOND)]
    made = jobs.build(records[::-1] if backwards else records, [])
    assert shown(made, "attempt", "start", "state") == [(0, at("10:00:03"), "NODE_FAIL"), (1, at("10:42:00"), "FAILED")]


def test_a_table_without_times_gives_an_attempt_a_row() -> None:
    """sacct's default columns hold no times."""
    made = jobs.build([record("7", "sacct", state="FAILED", exit_code=1), record("8", "sacct", state="PENDING")], [])
    assert shown(made, "job_id", "state", "start", "end", "exit_code") == [("7", "FAILED", None, None, 1)]


def test_a_running_job_has_no_end() -> None:
    (made,) = jobs.build([record("7", "squeue", state="RUNNING", start="10:00:03", hosts=["n1"])], [])
    assert made.running
    assert made.end is None


def test_elements_of_an_array_are_jobs_of_their_own() -> None:
    made = jobs.build([record("7_1", "sacct", state="FAILED", **FIRST), record("7_2", "sacct", state="COMPLETED", **FIRST)], [])
    assert shown(made, "job_id", "attempt", "state") == [("7_1", 0, "FAILED"), ("7_2", 0, "COMPLETED")]


def test_a_waiting_record_is_no_attempt() -> None:
    assert jobs.build([record("7", "squeue", state="PENDING", submit="09:00:00")], []) == []


@pytest.mark.parametrize(
    ("code", "values", "state"),
    [
        ("slurm.node_fail", {"host": "n2"}, "NODE_FAIL"),
        ("slurm.requeue", {}, "REQUEUED"),
        ("slurm.job_killed", {"state": "DUE TO TIME LIMIT"}, "TIMEOUT"),
        ("slurm.job_killed", {"state": "DUE TO PREEMPTION"}, "PREEMPTED"),
        ("slurm.job_killed", {"state": ""}, "CANCELLED"),
        ("slurm.job_end", {"exit_code": 1}, "FAILED"),
        ("slurm.job_end", {"exit_code": 0}, "COMPLETED"),
    ],
)
def test_an_act_ends_what_accounting_leaves_open(code: str, values: dict[str, Any], state: str) -> None:
    records = [record("7", "slurmctld", start="10:00:03", hosts=["n1", "n2"])]
    (made,) = jobs.build(records, [act(code, "7", "10:40:00", **values)])
    assert (made.state, made.end) == (state, at("10:40:00"))


def test_an_act_does_not_contradict_accounting() -> None:
    (made,) = jobs.build([record("7", "sacct", state="FAILED", **FIRST)], [act("slurm.job_end", "7", "10:40:01", exit_code=0)])
    assert (made.state, made.end) == ("FAILED", at("10:40:00"))


def test_a_job_that_only_its_output_shows() -> None:
    output = {
        "job_id": "7",
        "first": at("10:00:00"),
        "last": at("10:30:00"),
        "ended": "FAILED",
        "gpus": 16,
        "hosts": ["n2", "n1"],
        "source_id": "o",
    }
    known = jobs.build([record("8", "sacct", state="COMPLETED", **FIRST)], [])
    (made,) = jobs.from_outputs([output, {**output, "job_id": "8"}], known)
    assert (made.job_id, made.hosts, made.gpus, made.state, made.guessed) == ("7", ["n1", "n2"], 16, "FAILED", {"start", "end"})


@pytest.mark.parametrize(
    ("values", "hours", "basis"),
    [
        ({}, 24.0, "start"),
        ({"last_checkpoint": "10:45:00"}, 6.0, "checkpoint"),
        ({"last_checkpoint": "09:45:00"}, 24.0, "start"),  # an older run's
        ({"state": "COMPLETED"}, 0.0, "completed"),
        ({"gpus": None}, 0.0, "unknown"),
        ({"start": None}, 0.0, "unknown"),
        ({"end": None, "state": "RUNNING"}, 48.0, "start"),  # until the last stamp of the data
        ({"state": "CANCELLED by 1002"}, 24.0, "start"),
    ],
)
def test_cost(values: dict[str, Any], hours: float, basis: str) -> None:
    made = attempt(**values)
    jobs.cost(made, at("12:00:00"))
    assert (made.gpu_hours_lost, made.basis) == (hours, basis)


@pytest.mark.parametrize(
    ("ts", "number"),
    [("10:10:00", 0), ("10:41:00", 0), ("10:50:00", 1), ("12:00:00", None), ("09:00:00", None), (None, 1)],
)
def test_the_attempt_at_a_time(ts: str | None, number: int | None) -> None:
    made = jobs.build([record("7", "sacct", state="FAILED", **FIRST), record("7", "sacct", state="FAILED", **SECOND)], [])
    found = jobs.at_time(made, at(ts) if ts else None)
    assert (found.attempt if found else None) == number


def test_hosts_of_the_only_job_are_those_whose_logs_were_collected_with_it() -> None:
    made = attempt(hosts=(), known_from="output")
    day = (at("09:00:00"), at("12:00:00"))
    jobs.add_collected_hosts([made], {"n1": day, "n2": day, "old": (at("2026-05-01T00:00:00"), at("2026-05-02T00:00:00"))})
    assert made.hosts == ["n1", "n2"]
    assert made.guessed == {"hosts"}


def test_hosts_that_the_scheduler_lists_stay() -> None:
    made = attempt(hosts=("n1",))
    jobs.add_collected_hosts([made], {"n9": (at("09:00:00"), at("12:00:00"))})
    assert made.hosts == ["n1"]


def test_an_act_without_a_time_is_of_the_attempt_that_ended_so() -> None:
    """A row of sacct's default columns, beside a table that tells the times."""
    running = {"start": "10:42:00", "hosts": ["n1", "n3"]}
    records = [record("7", "sacct", state="REQUEUED", **FIRST), record("7", "sacct", state="RUNNING", **running)]
    made = jobs.build(records, [act("slurm.job_end", "7", None, state="REQUEUED")])
    assert shown(made, "state") == [("REQUEUED",), ("RUNNING",)]
