"""Times as the stages use them: microseconds UTC in, ISO 8601 with Z out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from triage.faults import Fault

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_DURATION = re.compile(r"(?<![0-9.])([0-9]{1,18}+(?:\.[0-9]{1,18}+)?)(ms|s|m|h|d|w)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def micros(moment: datetime | int | None) -> int | None:
    """A naive UTC or aware datetime as microseconds since the epoch."""
    if moment is None or isinstance(moment, int):
        return moment
    since = moment - (EPOCH if moment.tzinfo else _NAIVE_EPOCH)
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds


def moment(ts: int) -> datetime:
    """The naive UTC datetime of a stamp, as the tables keep it."""
    return (EPOCH + timedelta(microseconds=ts)).replace(tzinfo=None)


def iso(ts: int | None) -> str | None:
    """2026-11-30T13:22:03Z; fractions only where there are any."""
    if ts is None:
        return None
    when = EPOCH + timedelta(microseconds=ts)
    text = when.isoformat()[:19]
    fraction = f".{when.microsecond:06d}".rstrip("0") if when.microsecond else ""
    return text + fraction + "Z"


def shown(ts: str | None, about: str | None = None) -> str:
    """2026-03-04 05:06:07.001 for a reader of an ISO stamp; `~` before that of a neighbouring line."""
    if not ts:
        return f"~{shown(about)}" if about else "no stamp"
    whole, _, fraction = ts.rstrip("Z").partition(".")
    fraction = fraction[:3].rstrip("0")
    return whole.replace("T", " ") + (f".{fraction}" if fraction else "")


def clock(ts: int | None) -> str:
    """14:02:11Z, for a screen whose date is said once."""
    return "--:--:--" if ts is None else (EPOCH + timedelta(microseconds=ts)).strftime("%H:%M:%SZ")


def duration(text: str) -> float:
    """`90s`, `15m`, `8h`, `28d`, `1h30m` as seconds; raises Fault on anything else."""
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(n + u for n, u in parts) != text.strip():
        raise Fault(f"{text!r} is no duration; write 90s, 15m, 8h or 28d")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def span(seconds: float) -> str:
    """Seconds as a person says them: 45 s, 11 min, 2.5 h, 3 d."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86_400:.0f} d"


def parse_time(text: str, day: int | None = None) -> int:
    """`2026-11-30T13:22:03Z`, a date and time without zone (UTC), or `13:22` on the day of the stamp `day`; raises Fault."""
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?Z?", text.strip()) and day is not None:
            date = (EPOCH + timedelta(microseconds=day)).date().isoformat()
            text = f"{date}T{text.strip().rstrip('Z').zfill(5)}"
        when = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Fault(f"{text!r} is no time; write 2026-11-30T13:22:03Z") from error
    stamp = micros(when)
    assert stamp is not None
    return stamp
