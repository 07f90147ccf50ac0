"""What the NVIDIA driver says in the kernel log without an Xid number: identity, lost GPUs, failed starts.

Line shapes: open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c and src/nvidia/src/kernel/gpu/gpu.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers import shapes
from parsers.contract import Benign, Event, Line, LineDialect, Record, Reject, Window
from parsers.shapes import shape

_AT = r"(?:PCI:)?(?P<device>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)"

# NVRM: GPU at PCI:0000:3b:00: GPU-1f0c2a77-9d44-4be1-8a37-0f6e55d1c0a2
_IDENTITY = re.compile(rf"NVRM: GPU at {_AT}: (?P<gpu_uuid>GPU-[0-9a-fA-F-]{{8,60}})")
# NVRM: GPU Board Serial Number: 1324021077045
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: ?(?P<serial>[\w-]{1,40})?")
# NVRM: GPU 0000:af:00.0: GPU serial number is 1324021077052.
_SERIAL_IS = re.compile(rf"NVRM: GPU {_AT}: GPU serial number is (?P<serial>[\w-]{{1,40}})")
_NO_SERIAL = ("0", "N", "NA", "None")

# NVRM: The NVIDIA GPU 0000:86:00.0
_BLOCK = re.compile(rf"The NVIDIA GPU {_AT}")
# NVRM: fallen off the bus and is not responding to commands.
_BLOCK_END = re.compile(r"(?:^|NVRM: ) {0,60}(?:\(PCI ID: [^)]{1,20}\) )?(?:installed in this system has )?fallen off the bus")
# NVRM: GPU 0000:d8:00.0: GPU has fallen off the bus.
_LOST = re.compile(rf"GPU (?:at )?{_AT}")
_OFF = "fallen off the bus"
_BLOCK_LINES = 5
# update_node: node gpu-007 reason set to: GPU has fallen off the bus
_HEARSAY = re.compile(r"\breason\b", re.IGNORECASE)

_FAILED = r"RmInitAdapter failed!|rm_init_adapter"
_SHAPES = (
    # NVRM: GPU 0000:b1:00.0: RmInitAdapter failed! (0x62:0x40:2393)
    shape("gpu.init_failed", rf"NVRM: (?:GPU {_AT}: )?RmInitAdapter failed! ?\(?(?P<state>[0-9a-fx:]{{0,40}})"),
    # NVRM: GPU 0000:b1:00.0: rm_init_adapter failed, device minor number 3
    shape(
        "gpu.init_failed",
        rf"NVRM: (?:GPU {_AT}: )?rm_init_adapter(?:\(\d{{1,3}}\))? failed",
        before=rf"NVRM: (?:GPU {_AT}: )?RmInitAdapter failed!",
    ),
    # NVRM: RmInitAdapter: Cannot initialize GSP firmware RM
    shape("gpu.init_failed", r"NVRM: (?:GPU \S{1,20} )?RmInitAdapter: (?P<state>Cannot .{1,100})", after=_FAILED),
    # NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress 0x3)
    # NVRM: kgspWaitForGfwBootOk_TU102: failed to wait for GFW boot complete: 0x65 VBIOS version 96.00.61.00.01
    shape(
        "gpu.init_failed",
        r"NVRM: (?:GPU\d{1,3} )?(?P<function>\w{1,60}): failed to wait for GFW",
        before=r"failed to wait for GFW",
        after=_FAILED,
        state="failed to wait for GFW boot",
    ),
    # nvidia: probe of 0000:b1:00.0 failed with error -1   nvidia 0000:b1:00.0: probe with driver nvidia failed with error -1
    shape("gpu.init_failed", rf"\bnvidia: probe of {_AT} failed with error (?P<state>-\d{{1,4}})", before=r"NVRM: .{0,60}(?:failed|BAR)"),
    shape(
        "gpu.init_failed",
        rf"\bnvidia {_AT}: probe with driver nvidia failed with error (?P<state>-\d{{1,4}})",
        before=r"NVRM: .{0,60}(?:failed|BAR)",
    ),
    # NVRM: The NVIDIA probe routine failed for 1 device(s).   NVRM: None of the NVIDIA devices were initialized.
    shape(
        "gpu.init_failed",
        r"NVRM: (?:The NVIDIA probe routine failed for|None of the NVIDIA .{1,20} were initialized)",
        before=r"NVRM: .{0,60}(?:failed|BAR)|nvidia: probe of|probe with driver nvidia",
        reach=12,
    ),
    # NVRM: BAR1 is 0M @ 0x0 (PCI:0000:b1:00.0)
    shape("gpu.init_failed", rf"NVRM: (?P<state>BAR\d is 0M @ 0x0) \({_AT}\)"),
    # NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:4e:00 (printing 1 of every 30).  The GPU likely needs to be reset.
    shape("gpu.reset_required", rf"NVRM: .{{0,120}}GPU (?:at )?{_AT}.{{0,80}}GPU likely needs to be reset"),
    shape("gpu.reset_required", r"NVRM: .{0,200}GPU likely needs to be reset"),
    # NVRM: API mismatch: the client has the version 550.127.05, but
    # NVRM: API mismatch: the client 'python3' (pid 41002)
    shape("gpu.driver_mismatch", r"NVRM: (?P<state>API mismatch): the client\b(?: '[^']{1,60}' \(pid (?P<pid>\d{1,10})\))?"),
    # NVRM: GPU 0000:3b:00.0: GPU is lost
    shape("gpu.off_bus", rf"NVRM: GPU (?:at )?{_AT}:? (?:GPU )?is lost\b"),
)


def _identity(window: Window, found: re.Match[str]) -> Event:
    line = window.line
    made = shapes.event("gpu.identity", line, found)
    for other in window.after(3):
        serial = _SERIAL.search(other.text[: shapes.HEAD])
        if serial and shapes.same_report(other, line):
            made.line_last = other.number
            made.attrs |= {"serial": serial["serial"]} if serial["serial"] not in (None, *_NO_SERIAL) else {}
            break
    return made


def _block_end(window: Window) -> int | None:
    """Number of the line that ends a `The NVIDIA GPU ... fallen off the bus` block opened here; None for another message."""
    for other in window.after(_BLOCK_LINES):
        if shapes.same_report(other, window.line) and _BLOCK_END.search(other.text[: shapes.HEAD]):
            return other.number
    return None


def _off_bus(window: Window, text: str) -> Event | Benign | Reject | None:
    line = window.line
    if "Xid (" in text or _HEARSAY.search(text):
        return None
    found = _BLOCK.search(text) or _LOST.search(text)
    if found:
        return shapes.event("gpu.off_bus", line, found)
    if _BLOCK_END.search(text) and any(
        _BLOCK.search(other.text[: shapes.HEAD]) and shapes.same_report(other, line) for other in window.before(_BLOCK_LINES)
    ):
        return Benign(line.number)
    if "NVRM" in text or "GPU" in text:
        return shapes.event("gpu.off_bus", line)
    return Reject(line.number, "off the bus: no GPU named", line.raw[:200])


def _opens_block(window: Window, text: str) -> Event | None:
    found = _BLOCK.search(text)
    end = _block_end(window) if found else None
    if end is None:
        return None
    made = shapes.event("gpu.off_bus", window.line, found)
    made.line_last = end
    said = [other.text[: shapes.MESSAGE].strip() for other in window.after(end - window.line.number)]
    made.message = " ".join([made.message, *(text.removeprefix("NVRM: ") for text in said)])[: shapes.MESSAGE]
    return made


def _serial(line: Line, text: str) -> Record | None:
    is_serial = _SERIAL_IS.search(text)
    if is_serial:
        return shapes.event("gpu.identity", line, is_serial)
    return Benign(line.number) if _SERIAL.search(text) else None


def parse(window: Window) -> Iterable[Record]:
    """The driver's own events that carry no Xid number."""
    text = window.line.text[: shapes.HEAD]
    identity = _IDENTITY.search(text)
    if identity:
        return (_identity(window, identity),)
    made = _off_bus(window, text) if _OFF in text else (_opens_block(window, text) or _serial(window.line, text))
    return (made,) if made else shapes.read(_SHAPES, window)


DIALECT = LineDialect(
    name="nvrm",
    needles=(_OFF,),
    hints=(
        "NVRM: GPU at ",
        "NVRM: GPU Board Serial",
        "The NVIDIA GPU ",
        "GPU serial number is",
        "rm_init_adapter",
        "RmInitAdapter",
        "failed to wait for GFW",
        "nvidia: probe of",
        "probe with driver nvidia",
        "NVIDIA probe routine failed",
        "devices were initialized",
        "NVRM: BAR",
        "likely needs to be reset",
        "NVRM: API mismatch",
        " is lost",
    ),
    parse=parse,
)
