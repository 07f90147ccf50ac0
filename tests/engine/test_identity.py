"""Whose log a file is, which job wrote it, which year its stamps mean."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.rows import at, when
from triage import identity
from triage.identity import Owner, SourceView

NODES = {"gpu-007", "gpu-008", "h100-c04"}


def kernel(path: str, *hosts: str) -> SourceView:
    return SourceView(path, path, families={"kernel"}, line_hosts=set(hosts))


def output(path: str, *jobs: str) -> SourceView:
    return SourceView(path, path, families={"training"}, text_jobs=set(jobs))


def owners(*views: SourceView, jobs: set[str] | None = None, ran: Callable[[SourceView], str | None] = lambda _view: None) -> list[Owner]:
    found = identity.owners(views, NODES, jobs or set(), ran)
    return [found[view.source_id] for view in views]


@pytest.mark.parametrize(
    ("path", "host", "how"),
    [
        ("logs/n-05.dmesg", "n-05", "name"),
        ("logs/gpu-007/dmesg", "gpu-007", "folder"),
        ("logs/gpu-007/kern.log.1", "gpu-007", "folder"),
        ("logs/dmesg-gpu-008.txt", "gpu-008", "name"),
        ("logs/gpu-007_kern.log", "gpu-007", "name"),
        ("logs/node17_kern.log", "node17", "name"),
        ("bundle.tar!h100-c04/syslog", "h100-c04", "folder"),
        ("logs/kern.log", None, None),
        ("logs/messages", None, None),
    ],
)
def test_the_host_of_a_kernel_log_that_does_not_say(path: str, host: str | None, how: str | None) -> None:
    (owner,) = owners(kernel(path))
    assert (owner.host, owner.host_from) == (host, how)


def test_the_lines_know_better_than_the_name() -> None:
    assert owners(kernel("gpu-007.dmesg", "gpu-008"))[0] == Owner("gpu-008", "file")


def test_a_collectors_log_of_many_hosts_belongs_to_none() -> None:
    assert owners(kernel("gpu-007.log", "gpu-007", "gpu-008"))[0] == Owner()


@pytest.mark.parametrize(
    ("path", "job", "how"),
    [
        ("slurm-8842.out", "8842", "name"),
        ("slurm-8842_3.out", "8842_3", "name"),
        ("slurm-8842.out.1", "8842", "name"),
        ("train-8842.log", "8842", "name"),
        ("train-8842-20260601.log", "8842", "name"),
        ("train-9999.log", identity.UNKNOWN_JOB, "folder"),  # no record knows 9999
    ],
)
def test_the_job_of_an_output(path: str, job: str, how: str) -> None:
    (owner,) = owners(output(path), jobs={"8842"})
    assert (owner.job_id, owner.job_from) == (job, how)


def test_the_text_knows_better_than_the_name() -> None:
    assert owners(output("slurm-1.out", "8842"))[0].job_id == "8842"


def test_hosts_and_times_find_the_job() -> None:
    (owner,) = owners(output("train.log"), jobs={"8842"}, ran=lambda _view: "8842")
    assert (owner.job_id, owner.job_from) == ("8842", "hosts_and_times")


def test_unknown_outputs_of_one_folder_are_one_job() -> None:
    ids = {owner.job_id for owner in owners(output("run/rank0.log"), output("run/rank1.log"), output("run/dumps/trace_0"))}
    assert ids == {identity.UNKNOWN_JOB}


def test_unknown_outputs_of_two_folders_are_two_jobs() -> None:
    assert len({owner.job_id for owner in owners(output("a/rank0.log"), output("b/rank0.log"))}) == 2


def test_an_output_beside_the_only_known_job_is_its_output() -> None:
    assert [owner.job_id for owner in owners(output("slurm-8842.out"), output("rank0.log"))] == ["8842", "8842"]


def test_a_job_number_is_no_host() -> None:
    assert owners(output("slurm-8842.out"))[0].host is None


DAY = when("2026-06-01T00:00:00"), when("2026-06-02T00:00:00")


@pytest.mark.parametrize(
    ("first", "current", "shift"),
    [
        ("2026-06-01", 0, 0),
        ("2025-06-01", 0, 1),
        ("2027-06-01", 0, -1),
        ("2016-06-01", 0, 10),
        ("2026-09-01", 0, 0),  # three months off: nothing is near
        ("2024-02-29", 0, 0),  # no such day in the years around
    ],
)
def test_year_shift(first: str, current: int, shift: int) -> None:
    assert identity.year_shift(when(f"{first}T12:00:00"), when(f"{first}T13:00:00"), [DAY], current) == shift


def test_year_shift_without_a_dated_peer() -> None:
    assert identity.year_shift(*DAY, [], 0) == 0


def test_year_shift_over_new_year() -> None:
    peers = [(when("2025-12-30T00:00:00"), when("2026-01-02T00:00:00"))]
    assert identity.year_shift(when("2026-12-31T00:00:00"), when("2026-12-31T23:00:00"), peers, 0) == -1
    assert identity.year_shift(when("2026-01-01T00:00:00"), when("2026-01-01T05:00:00"), peers, 0) == 0


BOOT = at("2026-06-01T04:50:00")
LAST_WORDS = {
    "event_id": "s:1:1",
    "source_id": "s",
    "line_first": 1,
    "host": "n-05",
    "code": "host.panic",
    "message": "m",
    "boot_s": 900_000.0,
}


def test_a_log_that_would_reach_beyond_the_data_is_not_of_the_boot_that_is_known() -> None:
    boots = {"n-05": [BOOT]}
    assert identity.anchored([LAST_WORDS], [], boots, at("2026-06-01T06:00:00")) == []
    assert [how for _, _, how in identity.anchored([LAST_WORDS | {"boot_s": 60.0}], [], boots, at("2026-06-01T06:00:00"))] == ["boot_time"]


def test_an_output_called_like_a_pod_is_of_the_pods_node() -> None:
    view = output("logs/llm-worker-3.log")
    owner = identity.owners([view], NODES, set(), lambda _view: None, {"llm-worker-3": "n-05"})[view.source_id]
    assert (owner.host, owner.host_from) == ("n-05", "name")
