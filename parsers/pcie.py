"""PCI Express trouble in the kernel log: error reports (AER, DPC) and slots or devices that went away.

Line shapes: Linux drivers/pci/pcie/aer.c and dpc.c, drivers/pci/hotplug/pciehp_ctrl.c, drivers/pci/pci.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers import pci, shapes
from parsers.contract import Benign, Event, Line, LineDialect, Record, Reject, Window
from parsers.shapes import shape

_AT = r"\b[0-9a-f]{4,8}+:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_ANY = shapes.ANY_CASE

# pcieport 0000:16:02.0: AER: Uncorrected (Fatal) error received: id=1610
# pcieport 0000:e0:03.1: AER: Correctable error message received from 0000:e1:00.0
# pcieport 0000:64:01.1: AER: Multiple Uncorrectable (Non-Fatal) error received: 0000:86:00.0
_REPORT = re.compile(
    rf"(?:(?P<port>{_AT}): )?AER: (?P<many>Multiple )?"
    rf"(?P<kind>Correct(?:ed|able)|Uncorrect(?:ed|able) \((?:Non-)?Fatal\)) error (?:message )?received"
    rf"(?:(?: from|:) (?:id=(?P<id>[0-9a-f]{{4}})\b|(?P<source>{_AT})))?",
    _ANY,
)
# pcieport 0000:16:02.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, id=1610(Receiver ID)
_BUS_ERROR = re.compile(
    rf"(?:(?P<by>{_AT}): )?(?:AER: )?PCIe Bus Error: severity=(?P<kind>Correct(?:ed|able)|Uncorrect(?:ed|able) \((?:Non-)?Fatal\)), "
    r"type=(?P<layer>[\w ]{1,40})",
    _ANY,
)
# pcieport 0000:16:02.0:    [ 5] Surprise Down Error    (First)   [14] Completion Timeout
_BIT = re.compile(
    r"(?:\.[0-7]: (?:AER: )?|^) {0,8}\[ ?\d{1,2}\] {0,2}(?P<bit>[A-Z][\w/]{1,39}+(?: [\w/]{1,39}+){0,6}+)(?: {2,}+\S.{0,20})? *+$"
)
# pcieport 0000:16:02.0:   device [8086:347a] error status/mask=00000020/00000000
_STATUS = re.compile(r"device \[[0-9a-f]{4}:[0-9a-f]{4}\] error status/mask=", _ANY)
_REPORT_LINES = 10

# {1}[Hardware Error]:   section_type: PCIe error
_FIRMWARE = re.compile(r"\[Hardware Error\]: {1,8}section_type: PCIe error")
# {1}[Hardware Error]:  Error 0, type: fatal   {1}[Hardware Error]: event severity: recoverable
_FIRMWARE_KIND = re.compile(r"\[Hardware Error\]: {1,8}(?:Error \d{1,3}, type|event severity): (?P<kind>corrected|recoverable|fatal)")
# {1}[Hardware Error]:   device_id: 0000:3a:00.0
_FIRMWARE_AT = re.compile(rf"\[Hardware Error\]: {{1,8}}device_id: (?P<device>{_AT})", _ANY)
_FIRMWARE_CODES = {
    "corrected": ("pcie.aer_corrected", "corrected"),
    "recoverable": ("pcie.aer_nonfatal", "non-fatal"),
    "fatal": ("pcie.aer_fatal", "fatal"),
}

_SHAPES = (
    # pcieport 0000:40:01.1: DPC: containment event, status:0x1f01 source:0x2100
    shape(
        "pcie.aer_fatal", rf"(?P<device>{_AT}): DPC: (?P<state>containment event)", before=r"AER: Uncorrect\w{2,4} \(Fatal\)", flags=_ANY
    ),
    # pcieport 0000:40:01.1: pciehp: Slot(5): Link Down   pciehp 0000:40:01.1:pcie004: Slot(5): Link Down event
    shape(
        "pcie.link_down", rf"(?P<device>{_AT})\S{{0,12}}: (?:pciehp: )?Slot\((?P<slot>[\w-]{{1,12}}+)\): (?P<state>Link Down)", flags=_ANY
    ),
    # pcieport 0000:40:01.1: pciehp: Slot(5): Card not present
    shape(
        "pcie.link_down",
        rf"(?P<device>{_AT})\S{{0,12}}: (?:pciehp: )?Slot\((?P<slot>[\w-]{{1,12}}+)\): "
        rf"(?P<state>Card not present|Cannot train link|No link)\b",
        before=r"Slot\((?P<slot>[\w-]{1,12})\): Link Down",
        flags=_ANY,
    ),
    # nvme 0000:3d:00.0: Unable to change power state from D3cold to D0, device inaccessible
    shape("pcie.link_down", rf"(?P<device>{_AT}): [^:]{{0,80}}(?P<state>device inaccessible)", flags=_ANY),
    # mlx5_core 0000:21:00.0: not ready 65535ms after bus reset; giving up
    shape("pcie.link_down", rf"(?P<device>{_AT}): (?P<state>not ready \d{{1,7}}ms after [\w -]{{1,30}}+; giving up)", flags=_ANY),
)


def _code(kind: str) -> tuple[str, str]:
    kind = kind.lower()
    if kind.startswith("correct"):
        return "pcie.aer_corrected", "corrected"
    return ("pcie.aer_nonfatal", "non-fatal") if "non-fatal" in kind else ("pcie.aer_fatal", "fatal")


def _source(found: re.Match[str]) -> str | None:
    """The device that erred: named, or a requester id of bus (8 bits), device (5) and function (3), else the port."""
    if found["source"]:
        return pci.normal(found["source"])
    port = found["port"] or ""
    if not found["id"]:
        return pci.normal(port)
    number = int(found["id"], 16)
    domain = port.split(":")[0] or "0000"
    return pci.normal(f"{domain}:{number >> 8:02x}:{number >> 3 & 0x1F:02x}.{number & 7}")


def _follow(window: Window, made: Event) -> None:
    """Take in the lines that belong to the report: layer and error bits."""
    bits: list[str] = []
    for other in window.after(_REPORT_LINES):
        text = other.text[: shapes.HEAD]
        if not shapes.same_report(other, window.line):
            continue
        if _REPORT.search(text):
            break
        layer, bit = _BUS_ERROR.search(text), _BIT.search(text)
        if layer:
            made.attrs["layer"] = layer["layer"]
        elif bit:
            bits.append(bit["bit"].strip())
        elif not _STATUS.search(text):
            continue
        made.line_last = other.number
    made.state = ", ".join(dict.fromkeys(bits)) or None


def _report(window: Window, found: re.Match[str]) -> Event | Reject:
    code, severity = _code(found["kind"])
    device = _source(found)
    if device is None:
        return Reject(window.line.number, "AER: no PCI address", window.line.raw[:200])
    made = shapes.event(code, window.line, severity=severity, device=device)
    made.attrs |= {"port": pci.normal(found["port"])} if found["port"] else {}
    _follow(window, made)
    return made


def _bus_error(window: Window, found: re.Match[str]) -> Record:
    code, severity = _code(found["kind"])
    echo = shapes.shape(code, "x", before=_REPORT.pattern, flags=_ANY, reach=_REPORT_LINES)
    made = shapes.record(echo, found, window)
    if isinstance(made, Event):
        made.severity, made.device = severity, pci.normal(found["by"] or "")
        made.attrs = {}
        _follow(window, made)
        made.attrs.setdefault("layer", found["layer"])
    return made


def _first(pattern: re.Pattern[str], lines: Iterable[Line], line: Line) -> re.Match[str] | None:
    hits = (pattern.search(other.text[: shapes.HEAD]) for other in lines if shapes.same_report(other, line))
    return next((hit for hit in hits if hit), None)


def _firmware(window: Window) -> Event | Benign:
    """A report that the firmware took first and handed on (APEI GHES); its kind stands above, its device below."""
    line = window.line
    kind = _first(_FIRMWARE_KIND, window.before(4), line)
    if not kind:
        return Benign(line.number)
    code, severity = _FIRMWARE_CODES[kind["kind"]]
    found = _first(_FIRMWARE_AT, window.after(_REPORT_LINES), line)
    return shapes.event(code, line, found, severity=severity, state="section_type: PCIe error")


def parse(window: Window) -> Iterable[Record]:
    """One event for each AER report, lost slot or lost device."""
    text = window.line.text[: shapes.HEAD]
    if found := _REPORT.search(text):
        return (_report(window, found),)
    if found := _BUS_ERROR.search(text):
        return (_bus_error(window, found),)
    return (_firmware(window),) if _FIRMWARE.search(text) else shapes.read(_SHAPES, window)


DIALECT = LineDialect(
    name="pcie",
    needles=(),
    hints=("AER: ", "PCIe Bus Error: ", "section_type: PCIe error", "DPC: containment", "pciehp", "device inaccessible", "; giving up"),
    parse=parse,
)
