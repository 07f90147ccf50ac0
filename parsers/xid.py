"""Xid and SXid lines of the NVIDIA driver, and the device plugin's account of an Xid.

Line shapes: open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/rc/kernel_rc.c (krcReportXid) and
src/common/nvswitch/common_nvswitch.h; k8s-device-plugin, internal/rm/health.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from parsers import pci, shapes
from parsers.contract import Benign, Event, Line, LineDialect, Record, Reject, Window

# NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:01): 13, pid=812, name=python3, Graphics SM Warp Exception on (GPC 1, TPC 2, SM 0): ...
# NVRM: Xid (0000:3b:00): 154 GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
_XID = re.compile(r"(?<!S)Xid \((?:PCI:)?(?P<at>[0-9A-Fa-f:.]{4,17}+)(?P<mig>[^()]{0,40})\): (?P<number>\d{1,4})(?![^\s,.\"\\'])[,.]? ?")
# pid=812, name=python3,   pid='<unknown>', name=<unknown>,   pid=812,
_PROCESS = re.compile(r"pid='?(?P<pid>\d{1,10}|<unknown>)'?(?:,? name='?(?P<name>[^,']{0,200})'?)?(?:, ?|$)")
# nvidia-nvswitch1: SXid (PCI:0000:0a:00.0): 20034, Fatal, Link 31 LTSSM Fault Up
_SXID = re.compile(r"SXid \((?:PCI:)?(?P<at>[0-9A-Fa-f:.]{4,17})\): (?P<number>\d{4,6})(?![^\s,])")
_SXID_SAYS = re.compile(
    r",? ?(?:\(?(?P<severity>Fatal|Non-fatal|Nonfatal)\b\)?,? ?)?(?:Link (?P<link>-?\d{1,3})\b ?)?(?P<state>[^{]{0,200})", re.IGNORECASE
)
# 20034, Severity 1 Engine instance 31 Sub-engine instance 00   20034, Data {0x10000000, ...}
_SXID_MORE = re.compile(r",? ?(?:Severity \d|Data ?\{)")
_SXID_LINES = 12
# XidCriticalError: Xid=48 on Device=GPU-0a1b2c3d-..., the device will go unhealthy.
_PLUGIN = re.compile(r"XidCriticalE(?:rror|vent): Xid=(?P<number>\d{1,4}) on Device=(?P<uuid>(?:GPU|MIG)-[0-9A-Za-z/-]{8,60})")

# (GPC 9, TPC 1, SM 1): Out Of Range Address
_SM = re.compile(r"\(GPC (?P<gpc>\d{1,3}), TPC (?P<tpc>\d{1,3}), SM (?P<sm>\d{1,3})\)(?:: (?P<exception>[^,]{1,80}))?")
# MMU Fault: ENGINE HOST0 HUBCLIENT_ESC faulted @ 0x7fd2_41a00000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ
_MMU = re.compile(
    r"MMU Fault: ENGINE (?P<engine>\w{1,40}) (?P<client>[\w ]{1,60}) faulted @ (?P<address>0x\w{1,24})"
    r"(?:\. Fault is of type (?P<state>\w{1,40}(?: ACCESS_TYPE_\w{1,40})?))?"
)
# Ch 00000010 caused by previous Xid 31
_CAUSED = re.compile(r"(?P<state>caused by previous Xid (?P<cause>\d{1,4}))")
# Row Remapper: New row (0x000000021a0c5540) marked for remapping, reset gpu to activate.
# Dynamic Page Retirement: New page retired, reboot to activate (0x000000000001a2b3).
_REMAP = re.compile(
    r"(?:Row Remapper|Dynamic Page Retirement)(?: Error)?: ?(?:New row )?(?:\((?P<address>0x[0-9a-fA-F]{1,20})\))?(?: -)?"
    r" ?(?P<state>[^,.]{1,80})"
)
# NVLink: fatal error detected on link 9(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)
# NVLink: Link training failed for link 3(0x0, 0x1)
_NVLINK = re.compile(
    r"NVLink: (?:(?P<severity>fatal|non-?fatal) error detected on|(?P<state>[\w -]{1,60}) (?:for|on)) link"
    r" (?P<link>\d{1,3}) ?(?:\((?P<registers>[0-9a-fx, ]{1,200}))?"
)
# Contained: CE User Channel (0x9). RST: No, D-RST: No
_CONTAIN = re.compile(r"(?P<state>Contained|Uncontained): (?P<unit>[^.]{1,80})(?:\. RST: (?P<rst>Yes|No))?(?:, D-RST: (?P<d_rst>Yes|No))?")
# Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801813 0x4c).
_GSP = re.compile(r"(?:after (?P<duration_s>\d{1,6})s of .{0,80}! )?[Ee]xpected function (?P<function>\d{1,6}) \((?P<state>\w{1,60})\)")
# RLW_RXPIPE Nonfatal XC1 i2 Link 07 (0x0409a0c6 0x00000010 ...)   NETIR_LINK_EVT  Fatal   XC 0 i 1 Link 09 [0x0000000a]
_NVLINK5 = re.compile(
    r"\b(?P<state>[A-Z][A-Z0-9_/]{1,40}+) {1,8}(?P<severity>Fatal|Nonfatal|Non-fatal) {1,8}XC ?(?P<xc>\d) i ?(?P<instance>\d{1,2})"
    r" Link (?P<link>-?\d{1,3})(?: [(\[](?P<registers>0x[0-9a-fA-Fx ]{1,120}))?"
)
# GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)
_ACTION = re.compile(r"recovery action changed from (?:0x\w{1,4} )?\((?P<old>[^)]{1,60})\) to (?:0x\w{1,4} )?\((?P<state>[^)]{1,60})\)")

_DETAILS: Mapping[int, re.Pattern[str]] = {
    13: _SM,
    31: _MMU,
    45: _CAUSED,
    63: _REMAP,
    64: _REMAP,
    74: _NVLINK,
    94: _CONTAIN,
    95: _CONTAIN,
    119: _GSP,
    120: _GSP,
    154: _ACTION,
    **dict.fromkeys(range(144, 151), _NVLINK5),
}


# 3m  Warning  XidError  node/kn-8  NVRM: Xid (...   Warning  XidError  3m  kernel-monitor, kn-8  NVRM: Xid (...
_RELAYED_FROM = re.compile(r"(?:\s[Nn]ode/|kernel-monitor, )([a-z0-9][\w.-]{0,252})\s")


def _host(text: str) -> str | None:
    """The node of a Kubernetes event that repeats a kernel line; None for the kernel's own."""
    found = _RELAYED_FROM.search(text) if shapes.RELAYED.search(text) else None
    return found[1] if found else None


def _device(address: str) -> str | None:
    """The device; drivers before 340 print `bus:device` as `0002:00`."""
    old = re.fullmatch(r"00([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})", address)
    return pci.normal(f"{old[1]}:{old[2]}" if old else address)


def _xid(line: Line, text: str, found: re.Match[str]) -> Event | Reject:
    device, number = _device(found["at"]), int(found["number"])
    if device is None or number == 0:
        return Reject(line.number, f"Xid: {'no PCI address' if device is None else 'no such number'}", line.raw[:200])
    rest = text[found.end() :]
    process = _PROCESS.match(rest)
    said = rest[process.end() :] if process else rest
    detail = _DETAILS[number].search(said) if number in _DETAILS else None
    made = shapes.event(f"xid.{number}", line, detail, device=device, mig=pci.mig(found["mig"]))
    start = found.start() - 6 if text[: found.start()].endswith("NVRM: ") else found.start()
    made.message = text[start : start + shapes.MESSAGE].strip()
    if process:
        made.pid = int(process["pid"]) if process["pid"].isdecimal() else None
        made.attrs |= {"name": process["name"]} if process["name"] and "<" not in process["name"] else {}
    _finish(number, made, said)
    return made


def _finish(number: int, made: Event, said: str) -> None:
    if number == 154 and made.state == "None":
        made.severity = "cleared"
    if number == 13 and "sm" in made.attrs:
        made.state = "GPC {gpc}, TPC {tpc}, SM {sm}".format(**made.attrs)
    channel = re.match(r"[Cc]h(?:annel)? (?:0x)?([0-9a-fA-F]{1,16})\b", said)
    if channel:
        made.attrs["channel"] = channel[1]


def _is_more(other: Line, found: re.Match[str]) -> bool:
    hit = _SXID.search(other.text[: shapes.HEAD])
    return bool(hit and hit.groups() == found.groups() and _SXID_MORE.match(other.text, hit.end()))


def _is_head(other: Line, found: re.Match[str]) -> bool:
    hit = _SXID.search(other.text[: shapes.HEAD])
    return bool(hit and hit.groups() == found.groups() and not _SXID_MORE.match(other.text, hit.end()))


def _last_of_sxid(window: Window, found: re.Match[str]) -> int:
    """Number of the last line of this report; other switches' lines may lie between."""
    last = window.line.number
    for other in window.after(_SXID_LINES):
        if _is_head(other, found):
            break
        if _is_more(other, found):
            last = other.number
    return last


def _sxid(window: Window, text: str, found: re.Match[str]) -> Event | Reject | Benign:
    line, device = window.line, _device(found["at"])
    if device is None:
        return Reject(line.number, "SXid: no PCI address", line.raw[:200])
    more = _SXID_MORE.match(text, found.end())
    if more and any(_is_head(other, found) for other in window.before(_SXID_LINES)):
        return Benign(line.number)
    says = None if more else _SXID_SAYS.match(text, found.end())
    made = shapes.event(f"sxid.{found['number']}", line, says, device=device)
    made.line_last = _last_of_sxid(window, found)
    return made


def _plugin(line: Line, found: re.Match[str]) -> Event:
    made = shapes.event(f"xid.{int(found['number'])}", line)
    whole = found["uuid"].startswith("GPU-")
    made.gpu_uuid, made.mig = (found["uuid"], None) if whole else (None, found["uuid"])
    return made


def _spoken(window: Window, text: str) -> Iterator[Record]:
    """Every report of the line: writers that race can glue two into one."""
    line = window.line
    for found in _XID.finditer(text):
        yield _xid(line, text[: _end(text, found.end())], found)
    for found in _SXID.finditer(text):
        yield _sxid(window, text, found)


def _placed(records: list[Record], host: str | None) -> list[Record]:
    for made in records:
        if host and isinstance(made, Event):
            made.host = host
    return records


def _end(text: str, start: int) -> int:
    following = text.find("NVRM: Xid (", start)
    return following if following >= 0 else len(text)


def parse(window: Window) -> Iterable[Record]:
    """The Xid and SXid events of a line; a Reject when it carries `Xid (` in a form the driver does not print."""
    line = window.line
    at = line.text.find("Xid (")
    text = line.text[max(0, at - 200) : max(0, at) + shapes.HEAD]
    records = list(_spoken(window, text)) if at >= 0 else []
    if records:
        return _placed(records, _host(line.text[: max(0, at)][:400]))
    if at >= 0:
        return (Reject(line.number, "Xid: address and number expected", line.raw[:200]),)
    plugin = _PLUGIN.search(line.text[: shapes.HEAD])
    return (_plugin(line, plugin),) if plugin else ()


DIALECT = LineDialect(name="xid", needles=("Xid (",), parse=parse, hints=("XidCriticalError: Xid=", "XidCriticalEvent: Xid="))
