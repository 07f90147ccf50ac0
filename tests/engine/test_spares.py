"""Which hosts could stand in: only those that a source calls idle."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.rows import at, attempt, burst, history
from triage import spares
from triage.history import Burst, History, HostState
from triage.jobs import Attempt
from triage.rulebook import Rulebook
from triage.topology import Topology

GPU = "0000:3b:00"
PLACES = Topology.of([{"host": "n1", "leaf": "l1"}, {"host": "s1", "leaf": "l2"}, {"host": "s2", "leaf": "l1"}])


def state(host: str, word: str, start: str | None = None, end: str | None = None) -> HostState:
    return HostState(host, word, at(start) if start else None, at(end) if end else None, "", "", "sinfo", "s", 1)


def found(*states: HostState, bursts: tuple[Burst, ...] = (), attempts: tuple[Attempt, ...] = (), **values: Any) -> list[str]:
    by_host: dict[str, list[HostState]] = {}
    for one in states:
        by_host.setdefault(one.host, []).append(one)
    past = history(list(attempts), list(bursts), states=by_host, spans={}, **values)
    return [s.host for s in spares.candidates(past, at("11:00:00"), ["n1"], ["n1"])]


def test_an_idle_snapshot_names_a_host() -> None:
    assert found(state("s1", "idle")) == ["s1"]
    assert found(state("s1", "idle", "10:59:00")) == ["s1"]


@pytest.mark.parametrize("word", ["alloc", "mixed", "down", "drain", "boot", "unknown", "up"])
def test_any_other_word_does_not(word: str) -> None:
    assert found(state("s1", word)) == []


def test_a_host_without_a_word_is_not_named() -> None:
    assert found() == []


def test_an_idle_host_that_is_drained_is_out() -> None:
    assert found(state("s1", "idle"), state("s1", "drain", "10:00:00")) == []
    assert found(state("s1", "idle"), state("s1", "drain", "08:00:00", "09:00:00")) == ["s1"]


def test_the_last_word_counts() -> None:
    assert found(state("s1", "idle", "09:00:00"), state("s1", "alloc", "10:00:00")) == []
    assert found(state("s1", "alloc", "09:00:00"), state("s1", "idle", "10:00:00")) == ["s1"]


def test_a_host_that_runs_a_job_is_busy() -> None:
    running = attempt("9", ("s1",), state="RUNNING", end=None)
    assert found(state("s1", "idle", "09:00:00"), attempts=(running,)) == []


def test_the_jobs_own_hosts_are_left_out() -> None:
    assert found(state("n1", "idle")) == []


def test_the_same_leaf_comes_first() -> None:
    assert found(state("s1", "idle"), state("s2", "idle"), topology=PLACES) == ["s2", "s1"]


def test_a_host_that_failed_within_a_day_is_out(book: Rulebook) -> None:
    fresh = burst(book, "xid.79", "09:00:00", "s1", device=GPU)
    old = burst(book, "xid.79", "2026-05-20T09:00:00", "s1", device=GPU)
    assert found(state("s1", "idle"), bursts=(fresh,)) == []
    assert found(state("s1", "idle"), bursts=(old,)) == ["s1"]


def test_a_lemon_is_out() -> None:
    assert found(state("s1", "idle"), lemons={"s1"}) == []


def test_why_says_what_is_not_known() -> None:
    past = history([], [], states={"s2": [state("s2", "idle")]}, spans={}, topology=PLACES)
    (one,) = spares.candidates(past, at("11:00:00"), [], ["n1"])
    assert one.why == "idle, its history is not known here, same leaf"
    assert spares.candidates(History(), None, [], []) == []


def test_of_the_past_the_accounting_tells_who_was_free() -> None:
    before = attempt("1", ("s1", "s2"), start="08:00:00", end="09:00:00", known_from="sacct")
    after = attempt("2", ("s1",), start="13:00:00", end="14:00:00", known_from="sacct")
    past = history([before, after], [], states={"s1": [state("s1", "alloc")], "s2": [state("s2", "idle")]}, spans={})
    past.now = at("12:00:00")
    assert [s.host for s in spares.candidates(past, at("11:00:00"), [], [])] == ["s2"]
    past.now = at("2026-06-09T12:00:00")
    told = {s.host: s.why for s in spares.candidates(past, at("11:00:00"), [], [])}
    assert told["s1"].startswith("no job on it then, by the accounting")
    assert told["s2"].startswith("idle")


def test_a_host_that_came_later_was_not_there() -> None:
    first = attempt("2", ("s1",), start="13:00:00", end="14:00:00", known_from="sacct")
    past = history([first], [], states={"s1": [state("s1", "idle")]}, spans={})
    past.now = at("2026-06-09T12:00:00")
    assert spares.candidates(past, at("11:00:00"), [], []) == []


def test_an_outage_without_an_end_is_over_once_a_job_began_or_a_twin_tells() -> None:
    lost = HostState("s1", "down", at("08:00:00"), None, "", "", "slurmctld", "s", 1)
    back = HostState("s1", "down", at("08:00:30"), at("09:00:00"), "", "", "sacctmgr", "s", 2)
    assert found(state("s1", "idle"), lost) == []
    assert found(state("s1", "idle"), lost, back) == ["s1"]
    ran = attempt("1", ("s1",), start="09:30:00", end="10:00:00")
    assert found(state("s1", "idle"), lost, attempts=(ran,)) == ["s1"]


def test_a_host_that_broke_jobs_on_three_days_is_out_and_one_that_did_once_comes_last() -> None:
    past = history([], [], states={h: [state(h, "idle")] for h in ("s1", "s2")}, spans={}, topology=PLACES)
    past.breakages.add("s2", at("2026-05-25T10:00:00"))
    assert [s.host for s in spares.candidates(past, at("11:00:00"), [], [])] == ["s1", "s2"]
    for day in ("2026-05-26", "2026-05-27"):
        past.breakages.add("s2", at(f"{day}T10:00:00"))
    assert [s.host for s in spares.candidates(past, at("11:00:00"), [], [])] == ["s1"]


def test_a_host_whose_job_broke_just_before_is_out() -> None:
    assert found(state("s1", "idle"), attempts=(attempt("1", ("s1",), state="FAILED", start="10:00:00", end="10:58:00"),)) == []
    assert found(state("s1", "idle"), attempts=(attempt("1", ("s1",), state="COMPLETED", start="10:00:00", end="10:58:00"),)) == ["s1"]


def test_the_rack_comes_before_the_rest() -> None:
    places = Topology.of([{"host": "n1", "rack": "r1"}, {"host": "s1", "rack": "r2"}, {"host": "s2", "rack": "r1"}])
    assert found(state("s1", "idle"), state("s2", "idle"), topology=places) == ["s2", "s1"]
