"""System event logs of a baseboard controller: `ipmitool sel list|elist`, its CSV form, and FreeIPMI's `ipmi-sel`.

Event names: IPMI 2.0 specification, tables 42-2 and 42-3, as ipmitool's lib/ipmi_sel.c spells them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from parsers import clocks, shapes
from parsers.contract import Benign, Dialect, Event, Line, LineDialect, Quality, Record, Reject, SectionDialect, Window

#    1 | 02/10/2026 | 14:23:05 | Memory #0x48 | Correctable ECC | Asserted
#    4 | 02/10/2026 | 14:25:12 UTC | Temperature Inlet | Upper Critical going high | Asserted | Reading 97 > Threshold 95 degrees C
# 1,02/10/2026,14:23:05,Memory #0x48,Correctable ECC,Asserted
_SEL = re.compile(
    r"(?:^|[\s:])(?P<id>[0-9a-f]{1,5}) ?[|,] {0,2}(?P<date>\d\d/\d\d/\d{2,4}|Pre-Init ?) ?[|,](?P<time>[^|,]{1,26}+)[|,]"
    r"(?P<sensor>[^|,]{1,82}+)[|,](?P<what>[^|,]{0,122}+(?:,(?! ?(?:A|Dea)sserted\b)[^|,]{0,122}+){0,2}+)[|,]"
    r" ?(?P<way>Asserted|Deasserted)\b(?: ?[|,] ?(?P<reading>[^|]{1,100}))?"
)
# 12  | Feb-10-2026 | 14:23:05 | DIMM_A1          | Memory                      | Uncorrectable memory error ; OEM Event Data2 code = 48h
_FREEIPMI = re.compile(
    r"^ {0,8}(?P<id>\d{1,6}) {0,8}\| (?P<date>[A-Z][a-z]{2}-\d\d-\d{4}|PostInit) {0,8}\| "
    r"(?P<time>[\d:]{5,8}|PostInit) {0,8}\| (?P<name>[^|]{1,60})\| "
    r"(?P<sensor>[^|]{1,60})\| (?P<what>[^|;]{1,160})"
)
_CLOCK = re.compile(r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?: (?P<half>AM|PM))?(?: (?P<zone>UTC|GMT|[+-]\d{4}))?")
_MONTHS = {name: n for n, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a sensor's event means; an empty code is an entry of a healthy machine."""

    sensor: re.Pattern[str]
    what: re.Pattern[str]
    code: str
    severity: str = "critical"


def _means(sensor: str, what: str, code: str, severity: str = "critical") -> Meaning:
    return Meaning(re.compile(sensor, re.IGNORECASE), re.compile(what, re.IGNORECASE), code, severity)


_MEMORY, _POWER = r"memory|dimm|\becc\b", r"power supply|\bpsu?\b|power unit|pwr unit"
_HEAT, _PCI = r"temp|thermal", r"critical interrupt|pcie?\b|\bio\b"
_MEANINGS = (
    _means("", r"presence detected|device present|drive present|boot completed|timestamp clock sync|log (?:area )?(?:reset|cleared)", ""),
    _means("", r"fully redundant|redundancy regained|initiated by|state unspecified|^s\d|working|legacy (?:on|off)|device enabled", ""),
    _means("", r"button pressed|installed|configured|slot occupied", ""),
    _means(r"os (?:critical )?stop", r"graceful", "host.shutdown", "info"),
    _means(r"os (?:critical )?stop|os boot", r"run-?time critical stop|critical stop during|panic", "host.panic"),
    _means("", r"uncorrectable (?:ecc|memory)|uncorrectable error.{0,20}memory|multi-bit", "mem.ue"),
    _means(_MEMORY, r"uncorrectable|parity|ue\b", "mem.ue"),
    _means("", r"correctable (?:ecc|memory)|single-bit", "mem.ce", "warning"),
    _means(_MEMORY, r"\bcorrectable|memory scrub failed|logging limit", "mem.ce", "warning"),
    _means(_HEAT, r"non-critical", "host.thermal", "warning"),
    _means(_HEAT, r"upper (?:critical|non-recoverable)|over.?temp|trip|transition to (?:critical|non-recoverable)", "host.thermal"),
    _means(r"processor|cpu", r"thermal trip|throttled|prochot", "host.thermal"),
    _means(_POWER, r"predictive|redundancy (?:lost|degraded)|non-redundant", "host.power", "warning"),
    _means(_POWER, r"lost|fail|off|out.of.range|power.?cycle|240va|interlock", "host.power"),
    _means(r"voltage|\bvolt", r"critical|non-recoverable", "host.power"),
    _means(r"drive|hdd|ssd", r"fault|fail|critical array", "host.io_error"),
    _means(_PCI, r"\bcorrectable", "ipmi.event", "warning"),
    _means("", r"non-critical|predictive|degraded|\bcorrectable", "ipmi.event", "warning"),
    _means(_PCI, r".", "ipmi.event"),
    _means(
        "",
        r"(?=[imspfchtnu])(?:[isp]err|machine check|fa(?:tal|il|ult)|critical|hard reset|timer expired|non-recoverable|uncorrectable|nmi)",
        "ipmi.event",
    ),
    _means("", r"", ""),
)


def _when(date: str, time: str) -> tuple[int | None, Quality]:
    """Microseconds UTC of an entry; the clock of a controller without a zone counts as UTC."""
    clock = _CLOCK.match(time.strip())
    parts = re.split(r"[/-]", date)
    if not clock or len(parts) != 3:
        return None, Quality.UNKNOWN
    month = _MONTHS.get(parts[0], 0) or (int(parts[0]) if parts[0].isdigit() else 0)
    year = int(parts[2]) + (2000 if len(parts[2]) == 2 else 0)
    hour = int(clock["h"]) % 12 + (12 if clock["half"] == "PM" else 0) if clock["half"] else int(clock["h"])
    ts = clocks.micros(year, month, int(parts[1]), (f"{hour:02d}", clock["m"], clock["s"], None), clock["zone"])
    return ts, Quality.EXACT if ts is not None else Quality.UNKNOWN


def _entry(line: Line, found: re.Match[str], way: str) -> Record:
    sensor, what = found["sensor"].strip(), found["what"].strip()
    name = (found.groupdict().get("name") or "").strip()
    meaning = next(m for m in _MEANINGS if m.sensor.search(f"{sensor} {name}") and m.what.search(what))
    if not meaning.code:
        return Benign(line.number)
    made = Event(meaning.code, line.raw[: shapes.MESSAGE].strip(), line.number, line.number, state=what, severity=meaning.severity)
    made.ts, made.ts_quality = _when(found["date"], found["time"])
    if made.ts is None and found["date"][0].isdigit():
        return Reject(line.number, "SEL: no such time", line.raw[:200])
    made.attrs = {"sensor": name or sensor}
    reading = found.groupdict().get("reading")
    made.attrs |= {"reading": reading.strip()} if reading else {}
    if way == "Deasserted":
        made.code, made.severity, made.state = "ipmi.event", "info", f"{what} deasserted"
    return made


def parse(window: Window) -> Iterable[Record]:
    """One entry of a system event log. Memory, heat and power have codes of their own, other faults are `ipmi.event`."""
    line = window.line
    text = line.raw[: shapes.HEAD]
    found = _SEL.search(text)
    if found:
        return (_entry(line, found, found["way"]),)
    found = _FREEIPMI.search(text)
    if found:
        way = "Deasserted" if "Deassertion" in text else "Asserted"
        return (_entry(line, found, way),)
    if re.search(r"[|,] ?(?:Asserted|Deasserted)\b", text) and re.search(r"\d\d/\d\d/\d\d", text):
        return (Reject(line.number, "SEL: entry, date, time, sensor and event expected", line.raw[:200]),)
    return ()


class LongEntry:
    """`ipmitool sel list -v` and `racadm getsel`: an entry is a block of `name : value` lines."""

    # Event Direction       : Assertion Event      Description: Multi-bit memory errors detected on DIMM_A1.
    _FIELD = re.compile(r"^ {0,4}(?P<name>[A-Z][\w/ ]{1,30}?) {0,30}: {0,10}(?P<value>.{0,200})$")

    def __init__(self, line: Line) -> None:
        self.line = line
        self.fields: dict[str, str] = {}
        self.last = line.number

    def feed(self, line: Line) -> Iterable[Record] | None:
        """Nothing until the block ends; None for what is no field of it."""
        found = self._FIELD.match(line.raw[:300].rstrip())
        if not found or found["name"] in ("SEL Record ID", "Record"):
            return None
        self.fields[found["name"]], self.last = found["value"].strip(), line.number
        return ()

    def close(self) -> Iterable[Record]:
        """The entry's event; none of a healthy machine's entry."""
        stamp = (self.fields.get("Timestamp") or self.fields.get("Date/Time") or "").replace(" | ", " ")
        date, _, time = stamp.partition(" ")
        sensor = self.fields.get("Sensor Type") or self.fields.get("Source") or ""
        way = "Deasserted" if "Deassert" in self.fields.get("Event Direction", "") else "Asserted"
        what = self.fields.get("Description", "")
        text = f"1 | {date} | {time or ' '} | {sensor or 'system'} | {what} | {way}"
        found = _SEL.search(text) if what and self.fields.get("Severity", "") not in ("Ok", "Non-Critical") else None
        made = _entry(self.line, found, way) if found else None
        if not isinstance(made, Event):
            return ()
        made.message, made.line_last = f"{sensor}: {what}"[: shapes.MESSAGE], self.last
        return (made,)


def open_entry(line: Line) -> LongEntry | None:
    """SEL Record ID          : 0123 | Record:      1."""
    return LongEntry(line) if re.match(r" {0,4}(?:SEL Record ID {1,30}: |Record: {1,20})[0-9a-fA-F]{1,6}\s*$", line.raw[:80]) else None


LINES = LineDialect(
    name="ipmi",
    needles=(),
    hints=(
        "Asserted",
        "Deasserted",
        "| Memory ",
        "| Critical Interrupt ",
        "| Power Supply ",
        "| Power Unit ",
        "| Temperature ",
        "| Processor ",
        "| Voltage ",
        "| Drive Slot ",
    ),
    parse=parse,
)

DIALECTS: tuple[Dialect, ...] = (LINES, SectionDialect("ipmi_entry", ("SEL Record ID", "Record:      "), open_entry))
