"""Durations and times as people write them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.rows import at
from triage import moments
from triage.faults import Fault


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("8h", 28_800), ("28d", 2_419_200), ("1h30m", 5400), ("500ms", 0.5), ("2w", 1_209_600), (" 1.5h ", 5400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert moments.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 m", "five minutes", "5m!", "1e3s", "5M", "\u0663h", "nan", "\x00"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Fault, match="is no duration"):
        moments.duration(text)


PARTS = st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(["ms", "s", "m", "h", "d", "w"])), min_size=1, max_size=5)


@given(PARTS)
def test_parts_of_a_duration_add_up(parts: list[tuple[int, str]]) -> None:
    whole = moments.duration("".join(f"{number}{unit}" for number, unit in parts))
    assert whole == pytest.approx(sum(moments.duration(f"{number}{unit}") for number, unit in parts))


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_fault(text: str) -> None:
    with suppress(Fault):
        assert moments.duration(text) >= 0


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("2026-06-01T13:22:03Z", "13:22:03"),
        ("2026-06-01T15:22:03+02:00", "13:22:03"),
        ("2026-06-01 13:22:03", "13:22:03"),
        ("2026-06-01T13:22:03.250Z", "13:22:03.250"),
        ("13:22", "13:22:00"),
        ("13:22:03", "13:22:03"),
        ("9:05", "09:05:00"),
        ("13:22Z", "13:22:00"),
    ],
)
def test_times(text: str, stamp: str) -> None:
    assert moments.parse_time(text, at("20:00:00")) == at(stamp)


@pytest.mark.parametrize(
    "text", ["", "noon", "25:00", "13:22:99", "2026-13-01", "1", "2026-06-01T13:22:03 PM", "-1:00", "\u0663:\u0660\u0660"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(Fault, match="is no time"):
        moments.parse_time(text, at("20:00:00"))


STAMPS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


@given(STAMPS)
def test_a_stamp_survives_both_ways(ts: int) -> None:
    assert moments.micros(moments.moment(ts)) == ts
    text = moments.iso(ts)
    assert text is not None
    assert moments.parse_time(text) == ts


@given(STAMPS)
def test_naive_times_are_utc(ts: int) -> None:
    naive = moments.moment(ts)
    assert naive.tzinfo is None
    assert moments.micros(naive.replace(tzinfo=UTC)) == ts


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (45, "45 s"), (89, "89 s"), (660, "11 min"), (9000, "2.5 h"), (3 * 86_400, "3 d"), (0.4, "0 s")]
)
def test_spans(seconds: float, words: str) -> None:
    assert moments.span(seconds) == words


def test_nothing_known() -> None:
    assert (moments.iso(None), moments.micros(None), moments.clock(None)) == (None, None, "--:--:--")
