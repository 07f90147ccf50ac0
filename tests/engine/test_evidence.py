"""Evidence: many alike in one line, each with file:line and its part in the story."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.rows import attempt, burst, history
from triage import evidence, pipeline
from triage.answers import MAX_EVIDENCE
from triage.history import Burst
from triage.rulebook import Rulebook

GPU = "0000:3b:00"


def rows(book: Rulebook, bursts: list[Burst], **values: Any) -> list[dict[str, Any]]:
    past = history([attempt(**values)], bursts, paths={"s": "logs/n2.kern.log"})
    made = next(d for d in pipeline.judge(past, book).decisions if d.finding.incident.attempt)
    return evidence.rows_of(made, past)


def timeouts(book: Rulebook, count: int) -> list[Burst]:
    same: dict[str, Any] = {"duration_s": 600.0, "op": "ALLREDUCE", "seq": 7, "job_id": "8842", "attempt": 0}
    return [burst(book, "nccl.timeout", f"10:59:0{r % 10}", f"n{1 + r % 3}", rank=r, **same) for r in range(count)]


def test_a_story_in_order_of_time(book: Rulebook) -> None:
    fault = burst(book, "xid.79", "10:49:05", "n2", device=GPU, line=17, message="GPU has fallen off the bus.")
    made = rows(book, [*timeouts(book, 12), fault, burst(book, "xid.45", "10:59:20", "n1", device=GPU)])
    assert [(r["role"], r["code"]) for r in made[:2]] == [("root", "xid.79"), ("symptom", "nccl.timeout")]
    assert (made[0]["source"], made[0]["line"], made[0]["ts"], made[0]["host"]) == ("logs/n2.kern.log", 17, "2026-06-01T10:49:05Z", "n2")
    assert ("teardown", "xid.45") in [(r["role"], r["code"]) for r in made]


def test_ranks_are_counted_in_one_line(book: Rulebook) -> None:
    (made,) = [r for r in rows(book, timeouts(book, 12)) if r["code"] == "nccl.timeout"]
    assert str(made["text"]).startswith("12 ranks (0-11), ALLREDUCE 7 timed out, began 10:49:00Z: ")
    assert (made["ranks"], made["hosts"], made["count"], made["host"]) == (12, 3, 12, None)


def test_lines_and_twin_logs_are_counted(book: Rulebook) -> None:
    made = rows(book, [burst(book, "xid.79", "10:58:00", "n2", device=GPU, count=40, copies=2, message="off the bus")])
    assert made[0]["text"] == "40 lines, in 2 logs: off the bus"


def test_a_time_that_a_neighbour_lends_is_not_shown(book: Rulebook) -> None:
    made = rows(book, [burst(book, "xid.79", "10:58:00", "n2", device=GPU, timed=False)])
    assert made[0]["ts"] is None


def test_roots_of_other_gpus_stay_apart_and_the_root_is_never_lost(book: Rulebook) -> None:
    faults = [burst(book, "xid.79", "10:58:00", "n2", device=f"0000:{n:02x}:00") for n in range(6)]
    made = [r for r in rows(book, faults) if r["role"] == "root"]
    assert len(made) == 6


def test_a_flood_of_kinds_is_bounded(book: Rulebook) -> None:
    places = [(code, host, f"0000:{d:02x}:00") for code in (48, 63, 79, 94, 95) for host in ("n1", "n2") for d in range(9)]
    made = rows(book, [burst(book, f"xid.{code}", "10:58:00", host, device=device) for code, host, device in places])
    assert len(made) <= MAX_EVIDENCE
    assert any(r["role"] == "root" for r in made)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2, 3], "0-3"), ([0, 2, 3, 9], "0, 2-3, 9"), (list(range(0, 40, 2)), "0, 2, 4, 6, 8, 10 ...")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert evidence._ranges(numbers) == text


def test_the_root_is_shown_whatever_else_looks_like_one(book: Rulebook) -> None:
    """Faults of more GPUs than are listed, all before the one that ended the job."""
    others = [burst(book, "xid.31", f"10:4{n}:00", "n1", device=f"0000:{n}b:00", line=n) for n in range(1, 10)]
    fatal = burst(book, "xid.31", "10:58:50", "n2", device=GPU, line=77)
    past = history([attempt()], [*others, fatal, *timeouts(book, 4)], paths={"s": "logs/n2.kern.log"})
    made = next(d for d in pipeline.judge(past, book).decisions if d.finding.incident.attempt)
    for root in (*others, fatal):
        made.finding.root = root
        assert root.line in [row["line"] for row in evidence.rows_of(made, past) if row["role"] == "root"]
