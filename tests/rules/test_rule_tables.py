"""Cells as sets, and rows that can never decide, against brute force on small domains."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.rule_tables import FEATURES, Box, Cell, CellError, Feature, Names, Value, cell_of, unreachable

SMALL = {
    "who": Feature("who", str, "a", "", ("a", "b", "c")),
    "sure": Feature("sure", bool, False, ""),
    "count": Feature("count", int, 0, ""),
}
THRESHOLDS = {"two": 2.0, "half": 0.5}


@pytest.mark.parametrize(
    ("written", "inside", "outside"),
    [
        (3, 3, 4),
        (">=3", 3, 2),
        (">2", 3, 2),
        ("<1", 0, 1),
        (">=1, <3", 2, 3),
        ("=2", 2, 3),
        (">=@two", 2, 1),
        ("<= 2", 2, 3),
    ],
)
def test_counts(written: object, inside: int, outside: int) -> None:
    cell = cell_of(SMALL["count"], written, THRESHOLDS)
    assert cell.holds(inside)
    assert not cell.holds(outside)


def test_shares_stay_between_zero_and_one() -> None:
    cell = cell_of(FEATURES["root_share"], ">@half", THRESHOLDS)
    assert cell.holds(0.51)
    assert not cell.holds(0.5)
    assert cell_of(FEATURES["root_share"], ">1", THRESHOLDS).empty


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("count", "3+"),
        ("count", ">= three"),
        ("count", True),
        ("count", [1]),
        ("count", ""),
        ("sure", 1),
        ("sure", "true"),
        ("who", "d"),
        ("who", []),
    ],
)
def test_cells_that_cannot_be_read(name: str, written: object) -> None:
    with pytest.raises(CellError):
        cell_of(SMALL[name], written, THRESHOLDS)


def test_event_codes_are_an_open_set() -> None:
    codes = FEATURES["root_code"]
    boxes: list[Box] = [{"root_code": cell_of(codes, "xid.13", {})}, {"root_code": cell_of(codes, ["xid.13", "xid.31"], {})}, {}]
    assert unreachable(boxes, FEATURES) == []
    assert unreachable([boxes[1], boxes[0], {}], FEATURES) == [(1, [0])]


WRITTEN: dict[str, st.SearchStrategy[object]] = {
    "who": st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(list),
    "sure": st.booleans(),
    "count": st.sampled_from([0, 1, 2, ">=1", ">=2", "<2", ">0, <3", "<=1"]),
}
ROWS = st.lists(st.fixed_dictionaries({}, optional=WRITTEN), min_size=1, max_size=7)


@given(ROWS)
def test_unreachable_rows_are_those_that_no_value_reaches(rows: list[dict[str, object]]) -> None:
    boxes: list[dict[str, Cell]] = [{name: cell_of(SMALL[name], written, THRESHOLDS) for name, written in row.items()} for row in rows]
    reached = set()
    for who, sure, count in product("abc", (True, False), range(6)):
        values: dict[str, Value] = {"who": who, "sure": sure, "count": count}
        first = next((n for n, box in enumerate(boxes) if all(cell.holds(values[name]) for name, cell in box.items())), None)
        reached.add(first)
    assert {row for row, _ in unreachable(boxes, SMALL)} == set(range(len(boxes))) - reached


@given(ROWS)
def test_the_rows_that_are_named_suffice(rows: list[dict[str, object]]) -> None:
    boxes: list[dict[str, Cell]] = [{name: cell_of(SMALL[name], written, THRESHOLDS) for name, written in row.items()} for row in rows]
    for row, above in unreachable(boxes, SMALL):
        alone = [boxes[n] for n in above] + [boxes[row]]
        assert (len(above), list(range(len(above)))) in [(n, named) for n, named in unreachable(alone, SMALL)]


def test_complement_of_names() -> None:
    others = Names(frozenset(("x",)), complement=True)
    assert others.holds("y")
    assert not others.holds("x")
    assert others.minus(Names(frozenset(("y",)))) == [Names(frozenset(("x", "y")), complement=True)]
