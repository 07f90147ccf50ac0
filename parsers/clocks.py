"""Stamps of every log shape to microseconds UTC since the epoch.

A stamp without a zone is read as UTC, or in the zone that was stated for the source, and says so (`zoned`); one without a year
lies in the leap year 1972 until `infer_years`, and is moved to UTC after that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from statistics import median_low
from threading import local
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from parsers.contract import Quality

SECOND = 1_000_000
DAY = 86_400 * SECOND
YEARLESS = 1972
_EPOCH_ORDINAL = 719_163
_FIRST_YEAR, _LAST_YEAR = 1970, 2199
# A jump back by more than this is New Year, not disorder; one forward that lands this near before it is disorder.
_NEW_YEAR, _DISORDER = 180 * DAY, 7 * DAY

_NAMES = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTHS = {name: n for n, name in enumerate(_NAMES.split("|"), 1)}
_MONTH = f"({_NAMES})"
_WEEKDAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?!\d)"
_ZONE = r"(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:]))?"

# 2025-01-21T04:41:44,283302+00:00 | 2024/02/11 04:22:09 | 2026-11-30_13:24:00 | Mon 2025-01-20 02:11:07 UTC
_ISO = re.compile(rf"(?:{_WEEKDAY} )?(\d{{4}})[-/](\d\d)[-/](\d\d)[T _]{_CLOCK}{_ZONE}")
# Apr 11 02:17:33 | Jun  3 22:14:07.123456 | Sun Feb 23 16:24:18 2025 | Jul 23 2025 07:53:55 | Sun Feb 23 16:24:18 UTC 2025
_BSD = re.compile(
    rf"({_WEEKDAY},? )?{_MONTH} {{1,2}}(\d{{1,2}}) (?:(\d{{4}}) )?{_CLOCK}(?:(?: (UTC|GMT|Z|[A-Z]{{3,5}}))? (\d{{4}})(?![\w.:-]))?"
)
# Mon, 20 Jan 2025 02:11:07 +0000
_MAIL = re.compile(rf"(?:{_WEEKDAY}, )?(\d{{1,2}}) {_MONTH} (\d{{4}}) {_CLOCK}{_ZONE}")
# 2025 Mar  7 10:12:01.363154
_YEAR_FIRST = re.compile(rf"(\d{{4}}) {_MONTH} {{1,2}}(\d{{1,2}}) {_CLOCK}{_ZONE}")
# 02/10/2026 | 14:23:05 | 02/10/26 | 14:23:05 UTC
_IPMI = re.compile(rf"(\d\d)/(\d\d)/(\d{{4}}|\d\d)(?: \| | ){_CLOCK}{_ZONE}")
# 01-20 02:11:07
_SHORT = re.compile(rf"(\d\d)-(\d\d) {_CLOCK}")
# E1112 12:00:00.000000114 | E712 09:01:10.22 | I20260210 12:00:00.123456
_GLOG = re.compile(rf"[IWEF](\d{{4}})?(\d{{1,2}})(\d\d) {_CLOCK}")
# 11月 15 14:15:47, the months of a Chinese or Japanese locale
_NUMBERED = re.compile(rf"(\d{{1,2}})月 {{1,2}}(\d{{1,2}}) {_CLOCK}")
# [Feb23 16:24] | [Feb 3 16:24], of dmesg --human
_HUMAN = re.compile(rf"{_MONTH} ?(\d{{1,2}}) (\d\d):(\d\d)(?=\])")
# 90211.118204
_BOOT = re.compile(r" *(\d{1,9}\.\d{1,9})(?: <[ \d.]{1,20}>)?\]")


Zone = tzinfo
_stated = local()
_QUARTER = 900 * SECOND
# +05:30 | -0800 | +2
_EAST = re.compile(r"([+-])(\d{1,2})(?::?([0-5]\d))?")


def zone_of(name: str) -> Zone:
    """The zone of an IANA name or of `+hh:mm`; raises ValueError when there is none."""
    east = _EAST.fullmatch(name)
    if east:
        ahead = timedelta(hours=int(east[2]), minutes=int(east[3] or 0))
        return timezone(ahead if east[1] == "+" else -ahead)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        raise ValueError(f"no such time zone: {name}") from error


@contextmanager
def assumed(zone: Zone | None) -> Iterator[None]:
    """While open, this thread reads stamps that name no zone in `zone`."""
    before = getattr(_stated, "zone", None)
    _stated.zone = zone
    try:
        yield
    finally:
        _stated.zone = before


def offset(civil: int, zone: Zone) -> int:
    """Microseconds by which a zone's clock is ahead of UTC when it shows `civil`, a time written as if it were UTC.

    Of an hour that comes twice the first is taken; one that is left out is read with the offset before it.
    """
    return _offset(civil // _QUARTER, zone)


@lru_cache(maxsize=4096)
def _offset(quarter: int, zone: Zone) -> int:
    shown = datetime(1970, 1, 1) + timedelta(seconds=quarter * 900)  # noqa: DTZ001 - a civil time has no zone
    ahead = shown.replace(tzinfo=zone).utcoffset() or timedelta()
    return (ahead.days * 86_400 + ahead.seconds) * SECOND


@dataclass(frozen=True, slots=True)
class Stamp:
    """One stamp: `ts` in microseconds UTC, `end` the offset after it, `boot_s` seconds since boot instead of `ts`."""

    ts: int | None
    quality: Quality
    zoned: bool
    end: int
    boot_s: float | None = None


@lru_cache(maxsize=4096)
def _day(year: int, month: int, day: int) -> int | None:
    try:
        return date(year, month, day).toordinal() - _EPOCH_ORDINAL
    except ValueError:
        return None


@lru_cache(maxsize=64)
def _offset_s(zone: str | None) -> int | None:
    """Seconds east of UTC; None when no zone was printed."""
    if not zone:
        return None
    if zone[0] not in "+-":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    seconds = hours * 3600 + minutes * 60
    return -seconds if zone[0] == "-" else seconds


def micros(year: int, month: int, day: int, clock: tuple[str, str, str, str | None], zone: str | None = None) -> int | None:
    """Microseconds UTC of a civil time; None when there is no such time. `:60` is the second after `:59`."""
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return None
    days = _day(year, month, day)
    hour, minute, second = int(clock[0]), int(clock[1]), int(clock[2])
    if days is None or hour > 23 or minute > 59 or second > 60:
        return None
    east = _offset_s(zone) or 0
    if not -50_400 <= east <= 50_400 or (zone and zone[0] in "+-" and int(zone[-2:]) > 59):
        return None
    fraction = int(f"{clock[3]:0<6.6}") if clock[3] else 0
    ts = days * DAY + (hour * 3600 + minute * 60 + second - east) * SECOND + fraction
    stated = None if zone or year == YEARLESS else getattr(_stated, "zone", None)
    return ts - offset(ts, stated) if stated else ts


def _stamp(ts: int | None, end: int, zone: str | None = None, dated: bool = True) -> Stamp | None:
    if ts is None:
        return None
    return Stamp(ts, Quality.EXACT if dated else Quality.YEAR_INFERRED, zone is not None, end)


def _iso(text: str, at: int) -> Stamp | None:
    found = _ISO.match(text, at)
    if not found:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    return _stamp(micros(int(year), int(month), int(day), (hour, minute, second, fraction), zone), found.end(), zone)


def _bsd(text: str, at: int) -> Stamp | None:
    found = _BSD.match(text, at)
    if not found:
        return None
    weekday, month, day, before, hour, minute, second, fraction, zone, after = found.groups()
    end = found.end()
    # A bare number after `Apr 11 02:17:33` is the year only after a weekday or before a bracket.
    if after and not weekday and text[end : end + 1] not in ("", "]"):
        after, zone, end = None, None, found.end(8) if fraction else found.end(7)
    year = int(before or after or YEARLESS)
    known = zone if zone in ("UTC", "GMT", "Z") else None
    return _stamp(micros(year, _MONTHS[month], int(day), (hour, minute, second, fraction), known), end, known, bool(before or after))


def _mail(text: str, at: int) -> Stamp | None:
    found = _MAIL.match(text, at)
    if not found:
        return None
    day, month, year, hour, minute, second, fraction, zone = found.groups()
    return _stamp(micros(int(year), _MONTHS[month], int(day), (hour, minute, second, fraction), zone), found.end(), zone)


def _year_first(text: str, at: int) -> Stamp | None:
    found = _YEAR_FIRST.match(text, at)
    if not found:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    return _stamp(micros(int(year), _MONTHS[month], int(day), (hour, minute, second, fraction), zone), found.end(), zone)


def _ipmi(text: str, at: int) -> Stamp | None:
    found = _IPMI.match(text, at)
    if not found:
        return None
    month, day, year, hour, minute, second, fraction, zone = found.groups()
    full = int(year) if len(year) == 4 else 2000 + int(year)
    return _stamp(micros(full, int(month), int(day), (hour, minute, second, fraction), zone), found.end(), zone)


def _short(text: str, at: int) -> Stamp | None:
    found = _SHORT.match(text, at)
    if not found:
        return None
    month, day, hour, minute, second, fraction = found.groups()
    return _stamp(micros(YEARLESS, int(month), int(day), (hour, minute, second, fraction)), found.end(), dated=False)


def _glog(text: str, at: int) -> Stamp | None:
    found = _GLOG.match(text, at)
    if not found:
        return None
    year, month, day, hour, minute, second, fraction = found.groups()
    return _stamp(micros(int(year or YEARLESS), int(month), int(day), (hour, minute, second, fraction)), found.end(), dated=bool(year))


def _numbered(text: str, at: int) -> Stamp | None:
    found = _NUMBERED.match(text, at)
    if not found:
        return None
    month, day, hour, minute, second, fraction = found.groups()
    return _stamp(micros(YEARLESS, int(month), int(day), (hour, minute, second, fraction)), found.end(), dated=False)


def _human(text: str, at: int) -> Stamp | None:
    found = _HUMAN.match(text, at)
    if not found:
        return None
    month, day, hour, minute = found.groups()
    return _stamp(micros(YEARLESS, _MONTHS[month], int(day), (hour, minute, "00", None)), found.end(), dated=False)


_Reader = Callable[[str, int], Stamp | None]
_DIGIT_LED: tuple[_Reader, ...] = (_iso, _ipmi, _mail, _short, _year_first, _numbered)
_WEEKDAY_LED: tuple[_Reader, ...] = (_bsd, _iso, _mail)
# By first character: months and weekdays, the severities of glog, digits.
_READERS: dict[str, tuple[_Reader, ...]] = {
    **dict.fromkeys("JAOND", (_bsd,)),
    **dict.fromkeys("MST", _WEEKDAY_LED),
    **dict.fromkeys("FW", (*_WEEKDAY_LED, _glog)),
    **dict.fromkeys("IE", (_glog,)),
    **dict.fromkeys("0123456789", _DIGIT_LED),
}


def parse_stamp(text: str, at: int = 0) -> Stamp | None:
    """The stamp that begins at offset `at`, or at the `[` there; None when there is none.

    `end` lies after the stamp, and after the `]` of a bracket that holds nothing else.
    """
    first = text[at : at + 1]
    if first == "[":
        return _bracketed(text, at + 1)
    for read in _READERS.get(first, ()):
        stamp = read(text, at)
        if stamp:
            return stamp
    return None


def _bracketed(text: str, at: int) -> Stamp | None:
    boot = _BOOT.match(text, at)
    if boot:
        return Stamp(None, Quality.BOOT_RELATIVE, False, boot.end(), float(boot[1]))
    if text[at : at + 1] == "[":
        return None
    stamp = parse_stamp(text, at) or _human(text, at)
    if stamp and text[stamp.end : stamp.end + 1] == "]":
        return Stamp(stamp.ts, stamp.quality, stamp.zoned, stamp.end + 1)
    return stamp


def from_epoch(value: object) -> int | None:
    """Microseconds of an epoch number (or its text) in seconds, milli-, micro- or nanoseconds; the size tells which.

    Seconds between 1973 and 2199 are accepted; anything else is None.
    """
    if isinstance(value, str):
        if not re.fullmatch(r"\d{9,19}(?:\.\d{1,9})?", value):
            return None
        whole, _, fraction = value.partition(".")
        number, rest = int(whole), int(f"{fraction:0<6.6}" or 0)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e19:
        number = int(value)
        rest = round((value - number) * SECOND) if isinstance(value, float) else 0
    else:
        return None
    if 100_000_000 <= number < 7_260_000_000:
        return number * SECOND + rest
    for factor_up, factor_down in ((1000, 1), (1, 1), (1, 1000)):
        micro = number * factor_up // factor_down
        if 100_000_000 * SECOND <= micro < 7_260_000_000 * SECOND:
            return micro
    return None


def from_text(value: object) -> tuple[int, Quality, bool] | None:
    """Time, quality and whether a zone was given, of a JSON field: an ISO text or an epoch number."""
    if isinstance(value, str):
        stamp = parse_stamp(value.strip())
        if stamp and stamp.ts is not None:
            return stamp.ts, stamp.quality, stamp.zoned
    ts = from_epoch(value)
    return None if ts is None else (ts, Quality.EXACT, True)


def iso(ts: int) -> str:
    """ISO 8601 text with `Z` of microseconds UTC."""
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ts)).isoformat()
    return text.removesuffix("+00:00") + "Z"


def with_year(ts_1972: int, year: int) -> int:
    """A year-less stamp (which lies in 1972) moved to `year`; 29 February becomes 1 March where there is none."""
    days, rest = divmod(ts_1972, DAY)
    there = date.fromordinal(days + _EPOCH_ORDINAL)
    year += there.year - YEARLESS
    moved = _day(year, there.month, there.day)
    if moved is None:
        moved = _day(year, 3, 1) or 0
    return moved * DAY + rest


def infer_years(stamps: Sequence[int], anchor: int, dated: Sequence[int] = ()) -> list[int]:
    """The year-less `stamps` of one file, in file order, moved to their years; microseconds UTC.

    New Year is a jump back of more than 180 days; less is disorder. The latest stamp becomes the latest that is not after
    `anchor` (the file's mtime) plus a day; with `dated` stamps of the same file, the years that lie nearest to those.
    """
    if not stamps:
        return []
    steps = _year_steps(stamps)
    years = _candidates(stamps, steps, max(dated) if dated else anchor)
    if dated:
        placed = [(_distance(_place(stamps, steps, year), dated), -year) for year in years]
        return _place(stamps, steps, -min(placed)[1])
    fits = [year for year in years if max(_place(stamps, steps, year)) <= anchor + DAY]
    return _place(stamps, steps, max(fits, default=min(years)))


def _year_steps(stamps: Sequence[int]) -> list[int]:
    """For each stamp, how many New Years after the first stamp's year it lies."""
    steps, step, last = [], 0, stamps[0]
    for ts in stamps:
        if ts < last - _NEW_YEAR:
            step, last = step + 1, ts
        elif ts - with_year(last, YEARLESS + 1) >= -_DISORDER:
            steps.append(step - 1)
            continue
        last = max(last, ts)
        steps.append(step)
    return steps


def _candidates(stamps: Sequence[int], steps: Sequence[int], near: int) -> list[int]:
    """First years to try: those around `near` in which every 29 February exists, else all around it."""
    year = date.fromordinal(min(max(near, 0) // DAY + _EPOCH_ORDINAL, date.max.toordinal())).year - max(steps)
    around = [y for y in range(year - 8, year + 2) if y + min(steps) >= 1 and y + max(steps) < 9998]
    leap_steps = {step for ts, step in zip(stamps, steps, strict=True) if _is_leap_day(ts)}
    return [y for y in around if all(_day(y + step, 2, 29) is not None for step in leap_steps)] or around or [YEARLESS]


def _is_leap_day(ts: int) -> bool:
    return _LEAP_DAY <= ts < _LEAP_DAY + DAY


def _place(stamps: Sequence[int], steps: Sequence[int], year: int) -> list[int]:
    return [with_year(ts, year + step) for ts, step in zip(stamps, steps, strict=True)]


def _distance(placed: Sequence[int], dated: Sequence[int]) -> tuple[int, int]:
    """How far apart two sets of stamps lie: the gap between their spans, then between their middles."""
    gap = max(0, min(placed) - max(dated), min(dated) - max(placed))
    return gap, abs(median_low(placed) - median_low(dated))


_LEAP_DAY = (date(YEARLESS, 2, 29).toordinal() - _EPOCH_ORDINAL) * DAY
