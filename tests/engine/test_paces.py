"""Step times: a lasting change, noise, one slow rank."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage import paces
from triage.history import Step


def steps(*times: float, rank: int | None = 0) -> list[Step]:
    return [Step(n, None, t, None, rank, "s", n) for n, t in enumerate(times, 100)]


def test_a_lasting_change() -> None:
    change = paces.step_change(steps(*[5.0, 5.01, 4.99] * 4, *[6.0, 6.02, 5.98] * 3), 0.03)
    assert change is not None
    assert (change.before_s, change.after_s, change.step.seq) == (5.0, 6.0, 112)
    assert change.share == pytest.approx(0.2)


@pytest.mark.parametrize(
    "times",
    [
        [5.0] * 20,
        [5.0] * 10 + [5.05] * 10,  # 1 %: below the threshold
        [5.0] * 10 + [9.0] + [5.0] * 10,  # one slow step: a checkpoint
        [5.0, 6.0] * 10,  # alternating
        [6.0] * 10 + [5.0] * 10,  # faster
        [5.0] * 4 + [6.0] * 3,  # too few
        [0.0] * 20,
        [],
    ],
)
def test_no_change(times: list[float]) -> None:
    assert paces.step_change(steps(*times), 0.03) is None


def test_noise_is_no_change() -> None:
    dice = random.Random(7)
    assert paces.step_change(steps(*(5.0 + dice.gauss(0, 0.2) for _ in range(200))), 0.03) is None


def test_the_rank_that_prints_most_is_read() -> None:
    mixed = steps(*[5.0] * 10, *[7.0] * 10) + steps(1.0, 9.0, 1.0, rank=1)
    change = paces.step_change(mixed, 0.03)
    assert change is not None
    assert change.share == pytest.approx(0.4)


def test_one_slow_rank_of_eight() -> None:
    mixed = [step for rank in range(8) for step in steps(*[5.0 if rank != 3 else 6.0] * 5, rank=rank)]
    (found,) = paces.slow_ranks(mixed, 0.1)
    assert found[0] == 3
    assert found[1] == pytest.approx(0.2)


@pytest.mark.parametrize(("ranks", "count"), [(3, 5), (8, 2)])
def test_too_little_to_compare(ranks: int, count: int) -> None:
    assert paces.slow_ranks([s for rank in range(ranks) for s in steps(*[5.0 + rank] * count, rank=rank)], 0.1) == []


@pytest.mark.parametrize(
    ("slowest", "fastest", "base", "share"), [(10.0, 5.0, 5.0, 1.0), (10.0, 10.0, 5.0, 0.0), (5.0, 4.0, 5.0, None), (10.0, 2.0, 5.0, 1.0)]
)
def test_compute_share(slowest: float, fastest: float, base: float, share: float | None) -> None:
    assert paces.compute_share(slowest, fastest, base) == share


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), max_size=40), st.floats(0.01, 1))
def test_any_times_are_read(times: list[float | None], least: float) -> None:
    change = paces.step_change([Step(n, None, t, None, None, "s", n) for n, t in enumerate(times)], least)
    assert change is None or change.share >= least
