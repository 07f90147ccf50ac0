"""Confidence, the on-call table's row, link flaps, the driver's own advice, and what a decision may take away."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.rows import attempt, burst, history
from triage import pipeline
from triage.decisions import Decision
from triage.history import Burst, Step
from triage.jobs import Attempt
from triage.rulebook import Rulebook

GPU = "0000:3b:00"
ISOLATING = {"isolate_now", "drain_at_job_end", "reset_gpu", "reboot_host", "replace_hardware"}


def decided(book: Rulebook, bursts: list[Burst], job: Attempt | None = None, **values: Any) -> Decision:
    """The decision about the job, else about the first incident."""
    past = history([job] if job else [], bursts, **values)
    made = pipeline.judge(past, book).decisions
    return next((d for d in made if d.finding.incident.attempt), made[0])


def lost(book: Rulebook, **values: Any) -> Burst:
    return burst(book, "xid.79", "10:58:00", "n2", **({"device": GPU} | values))


def timeout(book: Rulebook, rank: int = 0) -> Burst:
    return burst(book, "nccl.timeout", "10:59:00", "n1", rank=rank, duration_s=60.0, job_id="8842", attempt=0)


def test_a_root_on_host_and_gpu_under_a_failed_job_is_confirmed(book: Rulebook) -> None:
    made = decided(book, [lost(book), timeout(book)], attempt())
    assert (made.confidence, made.action in ISOLATING, made.host, made.layer) == ("confirmed", True, "n2", "gpu")


def test_an_unknown_gpu_is_one_inferred_link(book: Rulebook) -> None:
    assert decided(book, [lost(book, device=None), timeout(book)], attempt()).confidence == "probable"


def test_a_fault_without_a_job_is_probable(book: Rulebook) -> None:
    assert decided(book, [lost(book)]).confidence == "probable"


def test_a_rival_leaves_it_possible(book: Rulebook) -> None:
    made = decided(book, [lost(book), burst(book, "host.panic", "10:58:30", "n3"), timeout(book)], attempt())
    assert made.confidence == "possible"


@pytest.mark.parametrize(
    ("values", "symptoms"),
    [
        ({"state": "FAILED"}, True),
        ({"state": "NODE_FAIL"}, False),
        ({"state": "FAILED", "signal": 9}, False),
        ({"state": "FAILED", "exit_code": 1}, False),
    ],
)
def test_without_a_root_nobody_is_culprit_and_no_host_is_taken_away(book: Rulebook, values: dict[str, Any], symptoms: bool) -> None:
    made = decided(book, [timeout(book, rank) for rank in range(3)] if symptoms else [], attempt(**values))
    assert made.confidence == "insufficient"
    assert [s for s in made.finding.suspects if s.role == "culprit"] == []
    assert made.action not in ISOLATING


@pytest.mark.parametrize(
    ("state", "action"), [("PREEMPTED", "none"), ("CANCELLED by 1002", "none"), ("TIMEOUT", "none"), ("REQUEUED", "none")]
)
def test_policy_asks_for_nothing(book: Rulebook, state: str, action: str) -> None:
    made = decided(book, [], attempt(state=state))
    assert (made.finding.class_id, made.action, made.confidence, made.symptom) == ("T23", action, "probable", None)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "gpu_reset"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)", "node_reboot"),
        ("GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", "drain_p2p"),
        ("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "drain_and_reset"),
        ("GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)", "none"),
    ],
)
def test_what_the_driver_asks_for(book: Rulebook, text: str, name: str) -> None:
    made = decided(book, [lost(book), burst(book, "xid.154", "10:58:01", "n2", device=GPU, message=text)], attempt())
    assert made.finding.features["recovery_action"] == name


def test_advice_about_another_gpu_is_not_taken(book: Rulebook) -> None:
    text = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    made = decided(book, [lost(book), burst(book, "xid.154", "10:58:01", "n2", device="0000:5e:00", message=text)], attempt())
    assert made.finding.features["recovery_action"] == "none"


@pytest.mark.parametrize(
    ("times", "flaps"),
    [(["10:58:00"], 1), (["10:55:00", "10:58:00"], 2), (["10:50:00", "10:58:00"], 1), (["10:56:00", "10:57:00", "10:58:00"], 3)],
)
def test_drops_of_one_port_within_five_minutes(book: Rulebook, times: list[str], flaps: int) -> None:
    drops = [burst(book, "ib.link_down", ts, "n2", device="mlx5_0") for ts in times]
    drops.append(burst(book, "ib.link_down", "10:58:00", "n3", device="mlx5_0"))
    assert decided(book, drops[:-1], attempt()).finding.features["link_flaps"] == flaps


def steps(*times: float) -> dict[tuple[str, int], list[Step]]:
    return {("8842", 0): [Step(n, None, t, None, 0, "s", n) for n, t in enumerate(times)]}


def test_rows_of_the_on_call_table(book: Rulebook) -> None:
    slow = steps(*[5.0] * 10, *[6.0] * 10)
    nan = burst(book, "train.nan", "10:30:00", "n1", job_id="8842", attempt=0, rank=0)
    running = attempt(state="RUNNING", end=None)
    assert decided(book, [lost(book)], attempt()).symptom == 1
    assert decided(book, [timeout(book)], attempt()).symptom == 2
    assert decided(book, [], running, steps=slow).symptom == 6
    assert decided(book, [nan], attempt()).symptom == 10


def test_half_the_fleet_is_not_guilty(book: Rulebook) -> None:
    """When most hosts are hit at once, no row takes them all away."""
    hosts = tuple(f"n{n}" for n in range(1, 9))
    faults = [burst(book, "xid.79", f"10:58:0{n}", f"n{n}", device=GPU) for n in range(1, 7)]
    made = decided(book, faults, attempt(hosts=hosts))
    assert made.action not in ISOLATING


def test_the_third_strike_outweighs_the_usual_repair(book: Rulebook) -> None:
    days = ["2026-05-28T10:58:00", "2026-05-30T10:58:00", "2026-06-01T10:58:00"]
    jobs = [attempt(str(n), attempt=0, start=d.replace("10:58", "10:00"), end=d.replace("10:58", "11:00")) for n, d in enumerate(days)]
    faults = [burst(book, "xid.79", day, "n2", device=GPU) for day in days]
    made = pipeline.judge(history(jobs, faults), book).decisions
    assert [d.finding.features["strikes_7d"] for d in made] == [0, 1, 2]
    assert [d.finding.features["same_gpu_7d"] for d in made] == [0, 1, 2]
    assert made[2].rule.id != made[0].rule.id


def test_the_row_that_decided_can_be_traced(book: Rulebook) -> None:
    made = decided(book, [lost(book), timeout(book)], attempt())
    assert made.tried[-1].rule_id == made.rule.id
    assert made.tried[-1].feature is None
    assert all(row.feature for row in made.tried[:-1])


def mmu_faults(book: Rulebook, *users: str | None) -> Decision:
    """The last of jobs that met an MMU fault on the same GPU an hour apart, each under the user given."""
    jobs = [attempt(str(n), ("n2",), user=user, start=f"{n + 10}:00:00", end=f"{n + 10}:30:00") for n, user in enumerate(users)]
    bursts = [burst(book, "xid.31", f"{n + 10}:29:50", "n2", device=GPU) for n, _ in enumerate(users)]
    return pipeline.judge(history(jobs, bursts), book).decisions[-1]


@pytest.mark.parametrize(
    ("users", "rule"),
    [
        (("u1",), "mmu-first"),
        (("u1", "u1", "u1"), "mmu-first"),  # one program that meets its own fault again
        (("u1", "u2"), "mmu-follows-gpu"),
        ((None, None), "mmu-follows-gpu"),  # other jobs, where no record tells the users
        (("u1", "u2", "u1"), "mmu-follows-gpu"),
    ],
)
def test_a_fault_that_keeps_to_one_gpu_over_users_is_the_gpus(book: Rulebook, users: tuple[str | None, ...], rule: str) -> None:
    assert mmu_faults(book, *users).rule.id == rule


def test_a_requeue_beside_a_lost_gpu_is_a_failure(book: Rulebook) -> None:
    made = decided(book, [lost(book)], attempt(state="REQUEUED"))
    assert (made.finding.class_id, made.action) == ("T04", "isolate_now")


@pytest.mark.parametrize(("shut", "class_id"), [("10:57:00", "T23"), ("10:40:00", "T24"), ("10:59:59.9", "T23")])
def test_an_orderly_restart_shortly_before_the_end_is_an_operators_act(book: Rulebook, shut: str, class_id: str) -> None:
    made = decided(
        book, [burst(book, "host.shutdown", shut, "n2", state="System is rebooting")], attempt(state="NODE_FAIL", failed_host="n2")
    )
    assert (made.finding.class_id, [s.role for s in made.finding.suspects if s.role == "culprit"]) == (class_id, [])


def test_an_orderly_restart_that_answers_a_fault_leaves_the_fault(book: Rulebook) -> None:
    bursts = [lost(book, device=GPU), burst(book, "host.shutdown", "10:59:00", "n2", state="System is rebooting")]
    assert decided(book, bursts, attempt(state="NODE_FAIL")).finding.class_id == "T04"
