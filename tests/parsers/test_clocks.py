"""Stamps of every shape, years inferred, epochs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import clocks
from parsers.contract import Quality

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(105_000_000 * 1_000_000, 4_100_000_000 * 1_000_000).map(lambda n: EPOCH + timedelta(microseconds=n))


def us(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "when", "zoned", "rest"),
    [
        ("[Sun Feb 23 16:24:18 2025] x", "2025-02-23T16:24:18Z", False, " x"),
        ("Apr 11 02:17:33 n1", "1972-04-11T02:17:33Z", False, " n1"),
        ("Apr 11 02:17:33 2025 n1", "1972-04-11T02:17:33Z", False, " 2025 n1"),
        ("Jun  3 22:14:07.25 n1", "1972-06-03T22:14:07.250000Z", False, " n1"),
        ("2025-01-21T04:41:44,283302+00:00 x", "2025-01-21T04:41:44.283302Z", True, " x"),
        ("2025-01-20T02:11:07+0200 n1", "2025-01-20T00:11:07Z", True, " n1"),
        ("2025-01-20 02:11:07 -05:30 n1", "2025-01-20T07:41:07Z", True, " n1"),
        ("Mon 2025-01-20 02:11:07 UTC n1", "2025-01-20T02:11:07Z", True, " n1"),
        ("Mon, 20 Jan 2025 02:11:07 +0200", "2025-01-20T00:11:07Z", True, ""),
        ("[2026-11-30T13:20:43.522] x", "2026-11-30T13:20:43.522000Z", False, " x"),
        ("[2026-11-30T13:20:43] x", "2026-11-30T13:20:43Z", False, " x"),
        ("[2021-05-27 21:32:12,092] x", "2021-05-27T21:32:12.092000Z", False, " x"),
        ("[E1112 12:00:00.000000114 F.cpp:6]", "1972-11-12T12:00:00Z", False, " F.cpp:6]"),
        ("[E712 09:01:10.22", "1972-07-12T09:01:10.220000Z", False, ""),
        ("W1130 13:23:58.004000 18916 t.py:8]", "1972-11-30T13:23:58.004000Z", False, " 18916 t.py:8]"),
        ("I20260210 12:00:00.5 x", "2026-02-10T12:00:00.500000Z", False, " x"),
        ("[Jul 23 2025 07:53:55] x", "2025-07-23T07:53:55Z", False, " x"),
        ("2024/02/11 04:22:09 x", "2024-02-11T04:22:09Z", False, " x"),
        ("02/10/2026 | 14:23:05 | x", "2026-02-10T14:23:05Z", False, " | x"),
        ("02/10/26 | 14:23:05 UTC | x", "2026-02-10T14:23:05Z", True, " | x"),
        ("2026-11-30_13:24:00", "2026-11-30T13:24:00Z", False, ""),
        ("Tue Feb 10 03:00:00 UTC 2026", "2026-02-10T03:00:00Z", True, ""),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z", True, ""),
        ("Dec 31 23:59:60 n1", "1973-01-01T00:00:00Z", False, " n1"),
        ("Feb 29 12:00:00 n1", "1972-02-29T12:00:00Z", False, " n1"),
    ],
)
def test_shapes(text: str, when: str, zoned: bool, rest: str) -> None:
    stamp = clocks.parse_stamp(text)
    assert stamp is not None and stamp.ts is not None
    assert (clocks.iso(stamp.ts), stamp.zoned, text[stamp.end :]) == (when, zoned, rest)
    assert stamp.quality is (Quality.YEAR_INFERRED if when[:4] in ("1972", "1973") else Quality.EXACT)


def test_boot_seconds() -> None:
    stamp = clocks.parse_stamp("[ 90211.118204] x")
    assert stamp == clocks.Stamp(None, Quality.BOOT_RELATIVE, False, 15, 90211.118204)


@pytest.mark.parametrize(
    "text",
    [
        "Feb 30 00:00:00",
        "2025-02-29T00:00:00Z",
        "2025-01-01 25:00:00",
        "2025-01-01 00:60:00",
        "2025-01-01 00:00:61",
        "2025-13-01 00:00:00",
        "[]",
        "[",
        "",
        "2025-01-01T00:00:00+99:00",
        "2025-01-01T00:00:00+02:75",
        "E1332 00:00:00",
        "0000-01-01 00:00:00",
        "9999-01-01 00:00:00",
        "[[2025-01-01 00:00:00]",
    ],
)
def test_impossible_times_are_none(text: str) -> None:
    assert clocks.parse_stamp(text) is None


@given(st.text())
def test_never_raises(text: str) -> None:
    clocks.parse_stamp(text)
    clocks.from_epoch(text)
    clocks.from_text(text)


@given(MOMENTS, st.integers(-14 * 60, 14 * 60))
def test_zoned_round_trip(moment: datetime, offset: int) -> None:
    there = moment + timedelta(minutes=offset)
    sign, (hours, minutes) = "-" if offset < 0 else "+", divmod(abs(offset), 60)
    for zone in (f"{sign}{hours:02d}:{minutes:02d}", f"{sign}{hours:02d}{minutes:02d}"):
        stamp = clocks.parse_stamp(f"{there:%Y-%m-%dT%H:%M:%S.%f}{zone} x")
        assert stamp is not None and (stamp.ts, stamp.zoned) == (us(moment), True)


@given(MOMENTS)
def test_every_dated_shape_reads_the_same_moment(moment: datetime) -> None:
    shapes = [
        "%Y-%m-%dT%H:%M:%S.%f",
        "[%Y-%m-%d %H:%M:%S.%f]",
        "%Y/%m/%d %H:%M:%S.%f",
        "[%b %d %Y %H:%M:%S.%f]",
        "[%a %b %d %H:%M:%S.%f %Y]",
    ]
    for shape in [*shapes, "%a %Y-%m-%d %H:%M:%S.%f", "%m/%d/%Y | %H:%M:%S.%f", "%a, %d %b %Y %H:%M:%S.%f"]:
        stamp = clocks.parse_stamp(moment.strftime(shape))
        assert stamp is not None and stamp.ts == us(moment), shape
    assert clocks.parse_stamp(clocks.iso(us(moment))) is not None


@given(MOMENTS)
def test_epochs_of_every_unit(moment: datetime) -> None:
    whole = us(moment)
    assert clocks.from_epoch(whole) == clocks.from_epoch(str(whole)) == clocks.from_epoch(f"{whole}000") == whole
    assert clocks.from_epoch(whole // 1_000_000) == whole // 1_000_000 * 1_000_000
    assert clocks.from_epoch(whole // 1_000) == whole // 1_000 * 1_000
    assert clocks.from_epoch(f"{whole // 1_000_000}.{whole % 1_000_000:06d}") == whole


@pytest.mark.parametrize("value", [True, None, -1, 0, float("nan"), float("inf"), "x", "12", [], {}, 10**30, "9" * 5000])
def test_no_epoch(value: object) -> None:
    assert clocks.from_epoch(value) is None


def yearless(moment: datetime) -> int:
    stamp = clocks.parse_stamp(f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S.%f} n1")
    assert stamp is not None and stamp.ts is not None
    return stamp.ts


@given(MOMENTS)
def test_with_year_undoes_a_missing_year(moment: datetime) -> None:
    assert clocks.with_year(yearless(moment), moment.year) == us(moment)


def test_with_year_of_a_leap_second_and_a_leap_day() -> None:
    assert clocks.iso(clocks.with_year(us(datetime(1973, 1, 1, tzinfo=UTC)), 2016)) == "2017-01-01T00:00:00Z"
    assert clocks.iso(clocks.with_year(us(datetime(1972, 2, 29, tzinfo=UTC)), 2025)) == "2025-03-01T00:00:00Z"


@given(
    MOMENTS,
    st.lists(st.tuples(st.integers(0, 100 * 86_400), st.integers(0, 3_600)), min_size=1, max_size=25),
    st.integers(0, 30),
)
def test_years_come_back_over_new_years_and_disorder(start: datetime, steps: list[tuple[int, int]], idle_days: int) -> None:
    now, moments = start, []
    for step, late in steps:
        now += timedelta(seconds=step)
        moments.append(now - timedelta(seconds=late))
    anchor = us(max(moments) + timedelta(days=idle_days))
    assert clocks.infer_years([yearless(m) for m in moments], anchor) == [us(m) for m in moments]


def test_last_stamp_is_the_latest_that_fits() -> None:
    march = yearless(datetime(2024, 3, 6, tzinfo=UTC))
    assert clocks.infer_years([march], us(datetime(2025, 3, 5, 12, tzinfo=UTC))) == [us(datetime(2025, 3, 6, tzinfo=UTC))]
    assert clocks.infer_years([march], us(datetime(2025, 3, 4, 12, tzinfo=UTC))) == [us(datetime(2024, 3, 6, tzinfo=UTC))]
    leap = yearless(datetime(2024, 2, 29, tzinfo=UTC))
    assert clocks.infer_years([leap], us(datetime(2026, 6, 1, tzinfo=UTC))) == [us(datetime(2024, 2, 29, tzinfo=UTC))]


def test_dated_stamps_win_over_the_anchor() -> None:
    december = [yearless(datetime(2022, 12, 30, tzinfo=UTC)), yearless(datetime(2023, 1, 2, tzinfo=UTC))]
    placed = clocks.infer_years(december, us(datetime(2026, 6, 1, tzinfo=UTC)), [us(datetime(2023, 1, 1, tzinfo=UTC))])
    assert placed == [us(datetime(2022, 12, 30, tzinfo=UTC)), us(datetime(2023, 1, 2, tzinfo=UTC))]


@given(
    st.lists(st.integers(0, 3 * clocks.DAY * 366), max_size=20),
    st.integers(-(10**18), 10**19),
    st.lists(st.integers(0, 4 * 10**15), max_size=3),
)
def test_infer_years_never_raises(stamps: list[int], anchor: int, dated: list[int]) -> None:
    assert len(clocks.infer_years(stamps, anchor, dated)) == len(stamps)
