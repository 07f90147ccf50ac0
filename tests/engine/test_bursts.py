"""Bursts: gaps, twins in two logs, floods."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.rows import events, when
from triage import bursts
from triage.rulebook import Rulebook
from triage.schema import TABLES

GPU = {"code": "xid.79", "host": "n1", "device": "0000:3b:00"}


def built(book: Rulebook, frame: pl.DataFrame) -> list[dict[str, Any]]:
    made = bursts.build(frame, 5.0, lambda *event: Signed(book, *event))
    assert dict(made.schema) == TABLES["bursts"].dtypes()
    return made.to_dicts()


class Signed:
    """What the rules say of an event."""

    def __init__(self, book: Rulebook, *event: Any) -> None:
        row = book.signature_for(*event)
        self.class_id: str | None = row.class_
        self.role: str = row.role
        self.layer: str = row.layer
        self.user_possible: bool = row.user_possible


@pytest.mark.parametrize(
    ("times", "counts"),
    [
        (["10:00:00", "10:00:05"], [2]),
        (["10:00:00", "10:00:05.000001"], [1, 1]),
        (["10:00:00", "10:00:04", "10:00:08", "10:00:20"], [3, 1]),
        (["10:00:09", "10:00:00", "10:00:05"], [3]),
    ],
)
def test_a_gap_of_more_than_five_seconds_ends_a_burst(book: Rulebook, times: list[str], counts: list[int]) -> None:
    assert [row["count"] for row in built(book, events(*({**GPU, "ts": ts} for ts in times)))] == counts


@pytest.mark.parametrize("name", ["host", "device", "code", "job_id", "rank", "peer", "state"])
def test_what_keeps_bursts_apart(book: Rulebook, name: str) -> None:
    other: Any = 3 if name == "rank" else "xid.48" if name == "code" else "other"
    assert len(built(book, events({**GPU, "ts": "10:00:00"}, {**GPU, "ts": "10:00:01", name: other}))) == 2


def test_the_same_fault_in_two_logs_is_one_burst(book: Rulebook) -> None:
    rows = [{**GPU, "ts": "10:00:00", "source_id": "dmesg"}, {**GPU, "ts": "10:00:00.2", "source_id": "journal"}]
    rows += [{**GPU, "ts": "10:00:01", "source_id": "journal"}]
    (made,) = built(book, events(*rows))
    assert (made["count"], made["copies"], made["events"]) == (2, 2, 3)


def test_folded_lines_count_and_the_gap_begins_after_the_last_of_them(book: Rulebook) -> None:
    flood = {**GPU, "ts": "10:00:00", "ts_last": "10:00:58", "repeats": 5000}
    (made,) = built(book, events(flood, {**GPU, "ts": "10:01:02"}))
    assert (made["count"], made["last"]) == (5001, when("10:01:02"))


def test_a_line_without_a_stamp_takes_its_neighbours_and_says_so(book: Rulebook) -> None:
    (made,) = built(book, events({**GPU, "ts": None, "ts_near": "10:00:00"}))
    assert (made["first"], made["timed"]) == (when("10:00:00"), False)


def test_the_rules_sign_each_burst(book: Rulebook) -> None:
    made = {row["code"]: row for row in built(book, events({**GPU, "ts": "10:00:00"}, {**GPU, "code": "xid.45", "ts": "10:00:00"}))}
    assert (made["xid.79"]["role"], made["xid.79"]["class"], made["xid.79"]["layer"]) == ("root", "T04", "gpu")
    assert made["xid.45"]["role"] == "cascade"


def test_nothing_gives_an_empty_table(book: Rulebook) -> None:
    assert built(book, events()) == []


def in_parts(book: Rulebook, frame: pl.DataFrame, size: int, most: int) -> list[dict[str, Any]]:
    """Bursts of the events that come in parts of one size, in order of time."""
    ordered = frame.sort(*bursts.ORDER, nulls_last=True)
    made = bursts.stream(ordered.iter_slices(size), 5.0, lambda *event: Signed(book, *event), most)
    return pl.concat(list(made)).sort(*bursts.BY_TIME, nulls_last=True).to_dicts()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), size=st.integers(1, 5), most=st.integers(2, 4))
def test_parts_of_any_size_and_folded_ones_give_the_same_bursts(book: Rulebook, data: st.DataObject, size: int, most: int) -> None:
    event = st.fixed_dictionaries(
        {"ts": st.none() | st.integers(0, 40), "host": st.sampled_from(["n1", "n2"]), "source_id": st.sampled_from(["a", "b", "c"])},
        optional={
            "duration_s": st.floats(0, 9),
            "repeats": st.integers(1, 9),
            "state": st.sampled_from(["x", "y"]),
            "seq": st.integers(0, 3),
        },
    )
    rows: list[dict[str, Any]] = []
    for n, row in enumerate(data.draw(st.lists(event, min_size=1, max_size=14))):
        drawn: dict[str, Any] = dict(row)
        second = drawn.pop("ts")
        times = (
            {"ts": None, "ts_near": "10:00:20"}
            if second is None
            else {"ts": f"10:00:{second:02d}", "ts_last": f"10:00:{second + n % 3:02d}"}
        )
        rows.append({**GPU, **drawn, **times, "event_id": f"{drawn['source_id']}:{n}:1", "line_first": n})
    assert in_parts(book, events(*rows), size, most) == built(book, events(*rows))


SECONDS = st.lists(st.integers(0, 40), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(seconds=SECONDS, data=st.data())
def test_the_order_of_lines_means_nothing(book: Rulebook, seconds: list[int], data: st.DataObject) -> None:
    rows = [{**GPU, "ts": f"10:00:{s:02d}", "host": f"n{s % 2}", "event_id": f"s:{n}:1", "line_first": n} for n, s in enumerate(seconds)]
    one = built(book, events(*rows))
    assert built(book, events(*data.draw(st.permutations(rows)))) == one
    assert sum(row["count"] for row in one) == len(rows)
