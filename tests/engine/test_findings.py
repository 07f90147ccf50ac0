"""The first cause of an incident, who is suspected, who only waited."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.rows import at, attempt, burst, history
from triage import findings, incidents
from triage.findings import Finding
from triage.history import Burst, History, Rank
from triage.jobs import Attempt
from triage.rulebook import Rulebook
from triage.topology import Topology

GPU, OTHER = "0000:3b:00", "0000:5e:00"
RACK = Topology.of([{"host": f"n{n}", "rack": "A" if n < 4 else "B"} for n in range(1, 9)])


def examined(book: Rulebook, past: History, number: int = -1) -> Finding:
    made = list(incidents.build(past, book.threshold))
    job = [i for i in made if i.attempt is not None]
    return findings.examine((job or made)[number], past, book.threshold)


def judged(book: Rulebook, bursts: list[Burst], job: Attempt | None = None, **values: Any) -> Finding:
    return examined(book, history([job or attempt()], bursts, **values))


def own(book: Rulebook, code: str, first: str | None, host: str | None = "n1", **values: Any) -> Burst:
    """A line of the job's own output."""
    return burst(book, code, first, host, job_id="8842", attempt=0, **values)


def timeouts(book: Rulebook, first: str = "10:59:00", seconds: float = 600) -> list[Burst]:
    return [own(book, "nccl.timeout", first, f"n{rank + 1}", rank=rank, duration_s=seconds) for rank in range(3)]


def test_hardware_before_what_nccl_prints(book: Rulebook) -> None:
    fault = burst(book, "xid.79", "10:49:10", "n2", device=GPU)
    found = judged(book, [*timeouts(book), own(book, "nccl.remote_error", "10:48:59", "n3", peer="n2"), fault])
    assert (found.root, found.class_id, found.root_role) == (fault, "T04", "root")
    assert [(s.host, s.device, s.role) for s in found.suspects] == [("n2", GPU, "culprit")]
    assert [host for host, _ in found.victims] == ["n1", "n3"]
    assert found.manifestation == "fail_hang"


def test_the_earliest_of_near_equals(book: Rulebook) -> None:
    first = burst(book, "xid.79", "10:58:00", "n2", device=GPU)
    second = burst(book, "xid.79", "10:58:30", "n3", device=OTHER)
    for order in ([first, second], [second, first]):
        assert judged(book, order).root == first


def test_a_graver_root_beats_an_earlier_weak_one(book: Rulebook) -> None:
    weak = burst(book, "ib.port_event", "10:57:00", "n3", device="mlx5_0")
    grave = burst(book, "xid.79", "10:58:00", "n2", device=GPU)
    assert judged(book, [weak, grave]).root == grave


def test_a_users_xid_near_the_report_is_not_the_cause(book: Rulebook) -> None:
    """Ranks that the watchdog killed raise Xid 31 or 13 when the timeout is printed, ten minutes after the true start."""
    fallout = [burst(book, code, "10:59:01", "n1", device=GPU, pid=7) for code in ("xid.31", "xid.13", "xid.43")]
    found = judged(book, [*timeouts(book), *fallout])
    assert (found.root, found.class_id, found.root_role) == (None, "T13", "symptom")
    assert [s for s in found.suspects if s.role == "culprit"] == []


def test_a_users_xid_at_the_true_start_is(book: Rulebook) -> None:
    fault = burst(book, "xid.31", "10:49:05", "n1", device=GPU)
    found = judged(book, [*timeouts(book), fault])
    assert (found.root, found.class_id) == (fault, "T08")
    assert [s.role for s in found.suspects] == ["suspect"]


def test_teardown_is_no_cause(book: Rulebook) -> None:
    found = judged(book, [burst(book, "xid.45", "10:59:59", "n1", device=GPU)])
    assert found.root is None


def test_a_fault_of_another_host_is_a_rival(book: Rulebook) -> None:
    gpu, panic = burst(book, "xid.79", "10:58:00", "n2", device=GPU), burst(book, "host.panic", "10:58:30", "n3")
    found = judged(book, [gpu, panic])
    assert (found.root, found.rivals) == (gpu, [panic])
    assert [(s.host, s.role) for s in found.suspects] == [("n2", "culprit"), ("n3", "suspect")]


@pytest.mark.parametrize(("state", "culprits"), [("NODE_FAIL", 1), ("PREEMPTED", 0), ("COMPLETED", 0)])
def test_policy_ends_a_job_whatever_else_is_in_the_window(book: Rulebook, state: str, culprits: int) -> None:
    job = attempt(state=state, preemptor="9")
    past = history([job], [burst(book, "xid.79", "10:58:00", "n2", device=GPU)])
    made = [i for i in incidents.build(past, book.threshold) if i.attempt]
    roles = [s.role for i in made for s in findings.examine(i, past, book.threshold).suspects]
    assert roles.count("culprit") == culprits


def test_preemption(book: Rulebook) -> None:
    found = judged(book, [], attempt(state="PREEMPTED", preemptor="9"))
    assert (found.class_id, found.suspects) == ("T23", [])
    assert [host for host, _ in found.victims] == ["n1", "n2", "n3"]


def test_an_operators_act_that_ends_a_job(book: Rulebook) -> None:
    act = burst(
        book, "slurm.node_down", "10:59:58", "n2", severity="operator", state="reseat cable", message="set down by root: reseat cable"
    )
    found = judged(book, [act], attempt(state="NODE_FAIL", failed_host="n2"))
    assert act.role == "operator"
    assert (found.operator, found.class_id, found.root) == (True, "T23", None)
    assert [s.role for s in found.suspects] == ["suspect"]


def test_a_lost_host_without_its_log(book: Rulebook) -> None:
    lost = burst(book, "slurm.node_fail", "10:59:58", "n2", job_id="8842", attempt=0)
    found = judged(book, [lost], attempt(state="NODE_FAIL", failed_host="n2"))
    assert (found.class_id, found.root_role, found.lost) == ("T24", "outcome", ["n2"])
    assert [(s.host, s.role) for s in found.suspects] == [("n2", "suspect")]
    assert "n2" not in [host for host, _ in found.victims]


def test_a_lost_host_that_booted_again_crashed(book: Rulebook) -> None:
    lost = burst(book, "slurm.node_fail", "10:59:58", "n2", job_id="8842", attempt=0)
    found = judged(book, [lost, burst(book, "host.boot", "11:04:00", "n2")], attempt(state="NODE_FAIL", failed_host="n2"))
    assert (found.class_id, found.layer, found.root_role) == ("T15", "host", "root")
    assert [(s.host, s.role) for s in found.suspects] == [("n2", "culprit")]


def test_another_hosts_boot_says_nothing(book: Rulebook) -> None:
    lost = burst(book, "slurm.node_fail", "10:59:58", "n2", job_id="8842", attempt=0)
    assert judged(book, [lost, burst(book, "host.boot", "11:04:00", "n1")], attempt(state="NODE_FAIL", failed_host="n2")).root is None


def test_a_rack_without_power(book: Rulebook) -> None:
    lost = [burst(book, "host.power", f"10:58:0{n}", f"n{n}") for n in (1, 2, 3)]
    found = judged(book, lost, topology=RACK)
    assert (found.shared, found.shared_name, found.layer) == ("rack", "A", "facility")
    assert found.suspects == []


def test_a_file_server_takes_no_host_away(book: Rulebook) -> None:
    lost = [burst(book, "storage.evicted", f"10:58:0{n}", f"n{n}", peer="oss3") for n in (1, 2, 3)]
    found = judged(book, lost)
    assert (found.class_id, found.shared, found.layer) == ("T17", "storage", "storage")
    assert [s for s in found.suspects if s.role == "culprit"] == []


def test_the_same_program_fault_on_every_host(book: Rulebook) -> None:
    found = judged(book, [burst(book, "xid.31", f"10:59:5{n}", f"n{n}", device=GPU) for n in (1, 2, 3)])
    assert (found.class_id, found.shared, found.layer, found.suspects) == ("T08", "job", "user", [])


def test_a_rank_of_the_output_is_placed_by_the_rank_map(book: Rulebook) -> None:
    ranks = {("8842", 0): {r: Rank(r, f"n{r + 1}", GPU) for r in range(3)}}
    found = judged(book, [own(book, "torch.cuda_ecc", "10:59:00", None, rank=1)], ranks=ranks)
    assert [(s.host, s.device, s.rank) for s in found.suspects] == [("n2", GPU, 1)]
    assert found.inferred == ["host from the rank map"]


def test_the_peer_that_others_lost_is_a_lead(book: Rulebook) -> None:
    refused = [own(book, "nccl.remote_error", "10:59:00", f"n{n}", peer="n3", rank=n) for n in (1, 2)]
    found = judged(book, refused)
    assert (found.class_id, found.root) == ("T14", None)
    assert [(s.host, s.role) for s in found.suspects] == [("n3", "suspect")]


def test_a_program_that_raised_on_one_rank(book: Rulebook) -> None:
    found = judged(
        book,
        [own(book, "torch.exception", "10:59:00", "n1", rank=0, state="TypeError", message="TypeError: x"), *timeouts(book, "11:09:00")],
    )
    assert (found.class_id, found.layer) == ("T20", "user")
    assert [s.role for s in found.suspects] == ["suspect"]


@pytest.mark.parametrize(
    ("values", "class_id"),
    [
        ({"state": "FAILED", "exit_code": 1}, "T20"),
        ({"state": "FAILED", "signal": 9}, "T24"),
        ({"state": "OUT_OF_MEMORY"}, "T18"),
        ({"state": "CANCELLED by 1002"}, "T23"),
        ({"state": "TIMEOUT"}, "T23"),
        ({"state": "NODE_FAIL"}, "T24"),
    ],
)
def test_an_outcome_alone_names_nobody(book: Rulebook, values: dict[str, Any], class_id: str) -> None:
    found = judged(book, [], attempt(**values))
    assert found.class_id == class_id
    assert [s for s in found.suspects if s.role == "culprit"] == []


def test_victims_say_whether_their_own_log_was_read(book: Rulebook) -> None:
    day = [(at("00:00:00"), at("23:00:00"))]
    found = judged(book, [burst(book, "xid.79", "10:58:00", "n2", device=GPU)], spans={("n1", "kernel"): day})
    assert dict(found.victims) == {"n1": "no fault in its own logs; it only waited", "n3": "no kernel log of it here; it printed no fault"}


@pytest.mark.parametrize(("minutes", "late"), [(5, True), (11, False)])
def test_a_failure_in_the_first_ten_minutes_is_one_on_start(book: Rulebook, minutes: int, late: bool) -> None:
    found = judged(book, [], attempt(end=f"10:{minutes:02d}:00", exit_code=1))
    assert (found.manifestation == "fail_on_start") == late


def test_strikes_count_the_hosts_earlier_faults(book: Rulebook) -> None:
    past = history([attempt()], [burst(book, "xid.79", "10:58:00", "n2", device=GPU)])
    struck = findings.Strikes([examined(book, past)])
    assert struck.count("n2", GPU, at("12:00:00"), 86_400) == (1, 1)
    assert struck.count("n2", OTHER, at("12:00:00"), 86_400) == (1, 0)
    assert struck.count("n1", GPU, at("12:00:00"), 86_400) == (0, 0)
    assert struck.count("n2", GPU, at("12:00:00"), 60) == (0, 0)
    assert struck.count(None, None, None, 60) == (0, 0)
