"""Which incident answers, and what the answer holds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.rows import at, attempt, burst, history
from triage import answers, pipeline
from triage.answers import Question, choose
from triage.collectives import Dump, Group
from triage.history import Burst
from triage.jobs import Attempt
from triage.pipeline import Analysis
from triage.rulebook import Rulebook

GPU = "0000:3b:00"


def judged(book: Rulebook, attempts: list[Attempt], *bursts: Burst, **values: Any) -> Analysis:
    return pipeline.judge(history(attempts, list(bursts), **values), book)


def chosen(analysis: Analysis, **asked: Any) -> str | None:
    made = choose(analysis, Question(**asked))
    return made.finding.incident.incident_id if made else None


def three(book: Rulebook) -> Analysis:
    """Job 1 failed at 11, 2 at 12, 3 was preempted at 13."""
    jobs = [
        attempt("1", ("n1",), start="10:00:00", end="11:00:00", exit_code=1),
        attempt("2", ("n2",), start="10:00:00", end="12:00:00", exit_code=1),
        attempt("3", ("n3",), start="10:00:00", end="13:00:00", state="PREEMPTED"),
    ]
    return judged(book, jobs, burst(book, "xid.79", "14:00:00", "n9", device=GPU))


def test_the_attempt_that_failed_last_answers(book: Rulebook) -> None:
    assert chosen(three(book)) == "job-2-0"


def test_a_running_job_in_trouble_comes_first(book: Rulebook) -> None:
    jobs = [attempt("1", ("n1",), exit_code=1), attempt("2", ("n2",), start="09:00:00", end=None, state="RUNNING")]
    assert chosen(judged(book, jobs, burst(book, "xid.79", "22:00:00", "n2", device=GPU))) == "job-2-0"
    assert chosen(judged(book, jobs)) == "job-1-0"


def test_without_a_failed_job_the_gravest_host(book: Rulebook) -> None:
    hosts = burst(book, "ib.link_down", "15:00:00", "n1", device="mlx5_0"), burst(book, "xid.79", "14:00:00", "n9", device=GPU)
    made = choose(judged(book, [attempt(state="COMPLETED", hosts=("n5",))], *hosts), Question())
    assert made is not None
    assert made.finding.incident.hosts == ["n9"]


def test_nothing_answers_nothing(book: Rulebook) -> None:
    assert chosen(judged(book, [attempt(state="COMPLETED")])) is None


@pytest.mark.parametrize(("asked", "wanted"), [("1", "job-1-0"), ("3", "job-3-0"), ("4", None)])
def test_the_job_that_was_asked_for(book: Rulebook, asked: str, wanted: str | None) -> None:
    assert chosen(three(book), job=asked) == wanted


def test_of_several_attempts_the_last_failure(book: Rulebook) -> None:
    times = [("10:00:00", "10:30:00", "NODE_FAIL"), ("10:32:00", "11:00:00", "FAILED"), ("11:02:00", "11:30:00", "PREEMPTED")]
    jobs = [attempt(attempt=n, start=s, end=e, state=w) for n, (s, e, w) in enumerate(times)]
    analysis = judged(book, jobs)
    assert chosen(analysis, job="8842") == "job-8842-1"
    assert chosen(analysis, job="8842", at=at("10:10:00")) == "job-8842-0"
    assert chosen(analysis, job="8842", at=at("11:10:00")) == "job-8842-2"


@pytest.mark.parametrize(
    ("ts", "wanted"),
    [
        ("10:30:00", "1"),
        ("11:00:02", "1"),  # stamps of whole seconds
        ("11:05:00", "1"),  # ended nearest
        ("11:29:00", "2"),
        ("11:58:00", "2"),
        ("12:45:00", "3"),  # a preemption is not hidden
        ("23:00:00", "3"),
        ("01:00:00", "1"),
    ],
)
def test_the_attempt_that_ran_at_a_time_or_ended_nearest(book: Rulebook, ts: str, wanted: str) -> None:
    times = [("10:00:00", "11:00:00", "FAILED"), ("11:30:00", "12:00:00", "FAILED"), ("12:30:00", "13:00:00", "PREEMPTED")]
    jobs = [attempt(str(n), start=s, end=e, state=w, exit_code=1) for n, (s, e, w) in enumerate(times, 1)]
    assert chosen(judged(book, jobs), at=at(ts)) == f"job-{wanted}-0"


def test_an_element_of_an_array_answers_for_the_array(book: Rulebook) -> None:
    assert chosen(judged(book, [attempt("7_3", exit_code=1)]), job="7") == "job-7_3-0"


def answered(book: Rulebook, analysis: Analysis, **asked: Any) -> dict[str, Any]:
    return answers.answer(analysis, book, Question(**asked), 3)


def test_others_are_listed_and_the_chosen_one_is_not(book: Rulebook) -> None:
    made = answered(book, three(book))
    ids = [o["id"] for o in made["others"]]
    assert "job-2-0" not in ids
    assert {"job-1-0", "job-3-0"} <= set(ids)
    assert made["rejects"] == 3


def test_another_job_on_the_culprit_is_at_risk(book: Rulebook) -> None:
    jobs = [attempt("1", ("n1", "n2")), attempt("2", ("n2",), start="12:00:00", end=None, state="RUNNING")]
    made = answered(book, judged(book, jobs, burst(book, "xid.79", "10:58:00", "n2", device=GPU)), job="1")
    assert [(r["job_id"], r["hosts"]) for r in made["at_risk"]] == [("2", ["n2"])]


def test_the_suspects_own_log_is_missed_first(book: Rulebook) -> None:
    lost = burst(book, "slurm.node_fail", "10:59:58", "n2", job_id="8842", attempt=0)
    made = answered(book, judged(book, [attempt(state="NODE_FAIL", failed_host="n2")], lost, spans={}))
    assert "n2" in made["missing"][0]["what"]
    assert made["missing"][0]["command"].startswith("ssh n2 journalctl -k")
    assert len(made["missing"]) <= answers.MAX_MISSING


def test_a_hosts_name_is_quoted_for_the_shell(book: Rulebook) -> None:
    bad = "n2;reboot"
    made = answered(book, judged(book, [attempt(hosts=(bad,))], burst(book, "xid.79", "10:58:00", bad, device=GPU), spans={}))
    commands = [c["command"] for c in (*made["commands"], *made["missing"]) if "reboot" in c["command"] and bad in c["command"]]
    assert commands
    assert all(f"'{bad}" in c or f"={bad}" not in c for c in commands)
    assert not any(f" {bad}" in c or f"={bad}" in c for c in commands)


def test_no_command_has_a_blank_in_it(book: Rulebook) -> None:
    for analysis in (three(book), judged(book, [], burst(book, "xid.79", "10:00:00", "n9"))):
        for command in answered(book, analysis)["commands"]:
            assert "{" not in command["command"]


def test_a_quiet_answer_says_what_was_asked(book: Rulebook) -> None:
    quiet = judged(book, [attempt(state="COMPLETED")])
    assert answered(book, quiet, job="77")["verdict"]["summary"] == "job 77 is in none of the files that were read"
    assert "job 8842" in answered(book, quiet, job="8842")["verdict"]["summary"]
    nothing = answers.answer(Analysis(history([], [])), book, Question(), 0, nothing_read=True)
    assert nothing["verdict"]["summary"].startswith("nothing was read")


def test_a_quiet_answer_asks_for_the_dump_that_is_not_there(book: Rulebook) -> None:
    """Dumps without an operation in flight, of all ranks of the group but one."""
    group = Group(frozenset(range(4)))
    dumps = {("8842", 0): [Dump(rank, groups={"0:default_pg": group}) for rank in (0, 1, 3)]}
    quiet = answered(book, judged(book, [attempt(state="COMPLETED")], dumps=dumps))
    assert quiet["verdict"]["class"] == "none"
    assert [row["what"] for row in quiet["missing"]] == ["flight-recorder dump of rank 2"]


@pytest.mark.parametrize(("basis", "asked"), [("sacct", False), ("slurmctld", True)])
def test_accounting_that_is_here_is_not_asked_for(book: Rulebook, basis: str, asked: bool) -> None:
    job = attempt(state="FAILED", exit_code=1, known_from=basis)
    wanted = [row["what"] for row in answered(book, judged(book, [job]))["missing"]]
    assert any("scheduler record" in what for what in wanted) == asked
