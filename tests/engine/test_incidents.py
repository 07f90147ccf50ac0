"""Which bursts and outcomes are one story, when it began, and what stays apart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.rows import at, attempt, burst, history
from triage import incidents
from triage.history import Burst, Step
from triage.incidents import Incident
from triage.jobs import Attempt
from triage.rulebook import Rulebook
from triage.topology import Topology

GPU = "0000:3b:00"


def built(book: Rulebook, attempts: list[Attempt], bursts: list[Burst], window_s: float | None = None, **values: Any) -> list[Incident]:
    return list(incidents.build(history(attempts, bursts, **values), book.threshold, window_s))


def timeout(book: Rulebook, first: str, rank: int, seconds: float) -> Burst:
    return burst(book, "nccl.timeout", first, "n1", rank=rank, duration_s=seconds, job_id="8842", attempt=0)


def test_a_timeout_began_before_its_line_was_printed(book: Rulebook) -> None:
    (made,) = built(book, [attempt()], [timeout(book, "10:30:00", 0, 600), timeout(book, "10:30:02", 1, 600)])
    assert (made.hang, made.start) == (True, at("10:20:00"))


def test_causes_lie_between_an_hour_before_the_start_and_a_quarter_after_the_end(book: Rulebook) -> None:
    faults = [burst(book, "xid.79", ts, "n2", device=GPU) for ts in ("09:10:00", "10:31:00", "12:14:00", "12:16:00")]
    job = attempt(start="08:00:00", end="12:00:00")
    made = next(i for i in built(book, [job], [*faults, timeout(book, "10:40:00", 0, 600)]) if i.attempt)
    assert (made.low, made.high) == (at("09:30:00"), at("12:15:00"))
    assert [b.first for b in made.around] == [at("10:31:00"), at("12:14:00")]


def test_a_stated_window_bounds_the_causes(book: Rulebook) -> None:
    fault = burst(book, "xid.79", "10:31:00", "n2", device=GPU)
    made = next(i for i in built(book, [attempt()], [fault], window_s=60) if i.attempt)
    assert (made.low, made.around) == (at("10:59:00"), [])


def test_another_jobs_hosts_and_bursts_stay_out(book: Rulebook) -> None:
    faults = [burst(book, "xid.79", "10:50:00", "n9", device=GPU), burst(book, "torch.exception", "10:50:00", "n1", job_id="9", attempt=0)]
    made = next(i for i in built(book, [attempt()], faults) if i.attempt)
    assert made.bursts == []


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"state": "FAILED"}, "failed"),
        ({"state": "NODE_FAIL"}, "node_fail"),
        ({"state": "CANCELLED by 1002"}, "cancelled"),
        ({"state": "CANCELLED+"}, "cancelled"),
        ({"state": "TIMEOUT"}, "time_limit"),
        ({"state": "OUT_OF_MEMORY"}, "out_of_memory"),
        ({"state": "PREEMPTED"}, "preempted"),
    ],
)
def test_an_attempt_that_ended_badly_is_an_incident(book: Rulebook, values: dict[str, Any], word: str) -> None:
    (made,) = built(book, [attempt(**values)], [])
    assert (made.job_end, made.incident_id) == (word, "job-8842-0")


def test_a_completed_attempt_is_none(book: Rulebook) -> None:
    assert built(book, [attempt(state="COMPLETED")], []) == []


def test_a_running_attempt_with_a_lost_gpu_is_one(book: Rulebook) -> None:
    running = attempt(state="RUNNING", end=None)
    assert built(book, [running], []) == []
    (made,) = built(book, [running], [burst(book, "xid.79", "22:50:00", "n2", device=GPU)])
    assert made.job_end == "running"


def test_several_attempts_are_several_incidents(book: Rulebook) -> None:
    made = built(book, [attempt(), attempt(attempt=1, start="12:00:00", end="13:00:00")], [])
    assert [i.incident_id for i in made] == ["job-8842-0", "job-8842-1"]


def test_a_hang_without_a_line_is_seen_by_its_silence(book: Rulebook) -> None:
    steps = [Step(n, at(f"10:{n:02d}:00"), 60.0, None, 0, "s", n) for n in range(10)]
    (made,) = built(book, [attempt(state="CANCELLED")], [], steps={("8842", 0): steps})
    assert (made.stalled, made.start) == (True, at("10:09:00"))
    (made,) = built(book, [attempt(state="CANCELLED", end="10:15:00")], [], steps={("8842", 0): steps})
    assert not made.stalled


def test_faults_of_a_host_are_split_by_a_quiet_gap(book: Rulebook) -> None:
    faults = [burst(book, "xid.79", ts, "n1", device=GPU) for ts in ("10:00:00", "10:02:59", "10:06:30")]
    assert [len(i.own) + len([b for b in i.around if b.first == i.start]) > 0 for i in built(book, [], faults)] == [True, True]
    assert [i.start for i in built(book, [], faults)] == [at("10:00:00"), at("10:06:30")]


def test_two_hosts_apart_are_two_incidents(book: Rulebook) -> None:
    faults = [burst(book, "xid.79", "10:00:00", host, device=GPU) for host in ("n1", "n2")]
    assert [(i.kind, i.hosts) for i in built(book, [], faults)] == [("host", ["n1"]), ("host", ["n2"])]


def test_three_hosts_at_once_are_one(book: Rulebook) -> None:
    faults = [burst(book, "xid.79", f"10:00:0{n}", f"n{n}", device=GPU) for n in (1, 2, 3)]
    assert [(i.kind, i.hosts) for i in built(book, [], faults)] == [("shared", ["n1", "n2", "n3"])]


def test_two_hosts_of_one_rack_at_once_are_one(book: Rulebook) -> None:
    faults = [burst(book, "xid.79", "10:00:00", host, device=GPU) for host in ("n1", "n2")]
    rack = Topology.of([{"host": h, "rack": "A"} for h in ("n1", "n2")])
    assert [(i.kind, i.hosts) for i in built(book, [], faults, topology=rack)] == [("shared", ["n1", "n2"])]


def test_hosts_at_once_with_other_faults_stay_apart(book: Rulebook) -> None:
    faults = [
        burst(book, code, "10:00:00", host, device=GPU) for code, host in (("xid.79", "n1"), ("host.panic", "n2"), ("host.fs_error", "n3"))
    ]
    assert len(built(book, [], faults)) == 3


def test_operators_acts_on_many_hosts_stay_one_each(book: Rulebook) -> None:
    acts = [burst(book, "slurm.node_drain", "10:00:00", f"n{n}", severity="operator", state="upgrade") for n in range(4)]
    acts = [b for b in acts if b.role == "operator"]
    assert acts
    assert {i.kind for i in built(book, [], acts)} == {"host"}


def test_a_fault_that_a_failed_job_explains_is_told_once(book: Rulebook) -> None:
    (made,) = built(book, [attempt()], [burst(book, "xid.79", "10:59:00", "n2", device=GPU)])
    assert made.kind == "job"


def test_one_drop_of_a_link_that_came_back_is_none(book: Rulebook) -> None:
    down, up = burst(book, "ib.link_down", "10:00:00", "n1", device="mlx5_0"), burst(book, "ib.link_up", "10:00:20", "n1", device="mlx5_0")
    assert built(book, [], [down, up]) == []
    assert len(built(book, [], [down])) == 1
    assert len(built(book, [], [down, up, burst(book, "ib.link_down", "10:03:00", "n1", device="mlx5_0")])) >= 1


def test_facts_and_noise_are_none(book: Rulebook) -> None:
    facts = [burst(book, code, "10:00:00", "n1") for code in ("host.boot", "gpu.identity", "train.step")]
    assert built(book, [], [b for b in facts if b.role in ("fact", "noise")]) == []
