"""The line with which a booting kernel sets its clock: it ties seconds since boot to wall time (drivers/rtc/class.c, arch rtc code)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers.clocks import from_epoch
from parsers.contract import Event, LineDialect, Quality, Record, Window

# rtc_cmos rtc_cmos: setting system clock to 2026-01-20T03:11:07 UTC (1768878667)
_SET = re.compile(r"setting system clock to [0-9:T -]{10,24} UTC \((\d{9,11})\)")


def parse(window: Window) -> Iterable[Record]:
    """One `host.clock` fact."""
    line = window.line
    found = _SET.search(line.text[:400])
    if found:
        ts = from_epoch(found[1])
        yield Event("host.clock", line.text[:200], line.number, ts=ts, ts_quality=Quality.EXACT)


DIALECT = LineDialect("boot_clock", (), parse, hints=("setting system clock to ",))
