"""Snapshots and verdicts of GPU tools: `nvidia-smi`, `nvidia-smi -q`, `dcgmi diag`, node health checks, rasdaemon.

Line shapes: nvidia-smi of drivers 535 to 580; DCGM 3 and 4; mej/nhc; rasdaemon's ras-mc-ctl.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from parsers import clocks, pci, shapes
from parsers.contract import Dialect, Event, Line, LineDialect, Quality, Record, SectionDialect, Window
from parsers.shapes import shape

_AT = r"(?P<device>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"

_SHAPES = (
    # Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU
    # Unable to determine the device handle for GPU3: 0000:3B:00.0: Unknown Error
    shape(
        "gpu.off_bus",
        rf"Unable to determine the device handle for (?:gpu|GPU)(?:\d{{1,3}}:)? ?{_AT}: ?"
        rf"(?P<state>GPU is lost|Unknown Error|No such device|Not Found)",
    ),
    # NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.
    shape("gpu.init_failed", r"NVIDIA-SMI has failed because it (?P<state>couldn't communicate with the NVIDIA driver)"),
    # Failed to initialize NVML: Driver/library version mismatch
    shape("gpu.driver_mismatch", r"Failed to initialize NVML: (?P<state>Driver/library version mismatch)"),
    # Failed to initialize NVML: Unknown Error
    shape("gpu.init_failed", r"Failed to initialize NVML: (?P<state>[^.]{1,80})"),
    # slurmd: error: Failed to get device handle for GPU 3: GPU is lost   error creating nvml.Device 5: nvml: GPU is lost
    shape(
        "gpu.off_bus",
        r"^(?!.{0,400}Allocate failed).{0,400}(?:[Ff]ailed to (?:get|retrieve) .{0,100}: |\bnvml: )(?P<state>GPU is lost)\b",
    ),
    # 1c:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff)
    shape("gpu.off_bus", rf"^{_AT} (?:3D|VGA compatible) controller: NVIDIA .{{0,120}}\((?P<state>rev ff)\)"),
    # No devices were found
    shape("gpu.init_failed", r"^(?P<state>No devices were found)\.?$"),
    # |  GPU Memory               | Fail - GPU: 3                                  |   | pcie | Fail |
    shape(
        "gpu.diag_failed",
        r"^\s{0,8}\| {0,4}(?P<test>[A-Za-z][\w ()/-]{0,40}?) {0,40}\| {0,4}Fail\b(?: - (?P<state>(?:GPUs?: )?[\w, :-]{1,60}))?",
        severity="fail",
    ),
    # ERROR:  nhc:  Health check failed:  check_hw_ib:  No IB port is ACTIVE (LinkUp 400 Gb/sec).
    shape("host.check_failed", r"(?:^|\bnhc\b.{0,40})Health check failed: {0,4}(?P<check>\w{1,60}): {0,4}(?P<state>.{1,200})"),
    shape("host.check_failed", r"(?:^|\bnhc\b.{0,40})Health check failed: {0,4}(?P<state>.{1,200})"),
    # slurmd: error: health_check failed: rc:1 output:GPU 3 is missing
    shape("host.check_failed", r"(?:^|error: )health[_ ]?check failed: rc:\d{1,6} output: ?(?P<state>.{0,200})"),
    # rasdaemon: 2026-02-10 14:23:05 +0000 1 Corrected error: memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (mc: 1 location: 0:0 ...)
    shape(
        "mem.ce",
        r"(?:rasdaemon|mc_event)\b.{0,120}? (?P<value>\d{1,9}) Corrected error(?:\(s\))?:? "
        r"(?P<state>.{1,60}?) (?:on|at) (?P<dimm>[^( ]{1,80})",
    ),
    shape(
        "mem.ue",
        r"(?:rasdaemon|mc_event)\b.{0,120}? (?P<value>\d{1,9}) (?:Uncorrected|Fatal) error(?:\(s\))?:? "
        r"(?P<state>.{1,60}?) (?:on|at) (?P<dimm>[^( ]{1,80})",
    ),
    # Uncorrected on DIMM Label(s): 'CPU_SrcID#0_MC#1_Chan#0_DIMM#0' location: 1:0:0:-1 errors: 2
    shape("mem.ce", r"\bCorrected on DIMM Label\(s\): '(?P<dimm>[^']{1,80})' .{0,60}errors: (?P<value>\d{1,9})"),
    shape("mem.ue", r"\b(?:Uncorrected|Fatal) on DIMM Label\(s\): '(?P<dimm>[^']{1,80})' .{0,60}errors: (?P<value>\d{1,9})"),
)


# |                           | Fail - GPU: 0                                  |   |           | GPU1: Fail        |
_MORE = re.compile(r"^\s{0,8}\| {4,60}\| {0,4}(?:Fail - (?P<gpus>GPUs?: [\d, ]{1,40})|(?P<gpu>GPU ?\d{1,3}): Fail\b)")
# | PCIe                      | Pass - GPUs: 1, 2                              |   no test of its own: | Warning: GPU1 | Error ... |
_TEST = re.compile(r"^\s{0,8}\| {0,4}(?!(?:Warning|Error|Info)\b)([A-Za-z][\w ()/-]{0,40}+)\|")


def _more(window: Window, found: re.Match[str]) -> Event:
    """A test's further verdicts stand below its name."""
    made = shapes.event("gpu.diag_failed", window.line, severity="fail", state=(found["gpus"] or found["gpu"]).strip())
    name = next((hit[1].strip() for other in window.before(40) if (hit := _TEST.match(other.raw[:200]))), None)
    made.attrs = {"test": name} if name else {}
    return made


def parse(window: Window) -> Iterable[Record]:
    """What a tool says of one GPU, host check or memory module in one line."""
    more = _MORE.match(window.line.raw[:200])
    return (_more(window, more),) if more else shapes.read(_SHAPES, window)


def _yes(value: str) -> bool:
    return value == "Yes"


def _active(value: str) -> bool:
    return value == "Active"


def _some(value: str) -> bool:
    return value.isdecimal() and int(value) > 0


def _needs(value: str) -> bool:
    return value not in ("None", "N/A", "")


_Finding = tuple[str, str, Callable[[str], bool], str]
# Field below its section: code, state, when it counts, severity.
_FINDINGS: Mapping[tuple[str, str], _Finding] = {
    ("Remapped Rows", "Pending"): ("gpu.reset_required", "row remap pending", _yes, "when drained"),
    ("Remapped Rows", "Remapping Failure Occurred"): ("gpu.remap_failed", "row remap failure", _yes, "critical"),
    ("Retired Pages", "Pending Page Blacklist"): ("gpu.reset_required", "page retirement pending", _yes, "when drained"),
    ("Volatile", "DRAM Uncorrectable"): ("gpu.ecc_uncorrectable", "volatile DRAM", _some, "critical"),
    ("Volatile", "SRAM Uncorrectable"): ("gpu.ecc_uncorrectable", "volatile SRAM", _some, "critical"),
    ("Volatile", "SRAM Uncorrectable Parity"): ("gpu.ecc_uncorrectable", "volatile SRAM parity", _some, "critical"),
    ("Volatile", "SRAM Uncorrectable SEC-DED"): ("gpu.ecc_uncorrectable", "volatile SRAM SEC-DED", _some, "critical"),
    ("Aggregate", "DRAM Uncorrectable"): ("gpu.ecc_uncorrectable", "aggregate DRAM", _some, "history"),
    ("Aggregate", "SRAM Uncorrectable"): ("gpu.ecc_uncorrectable", "aggregate SRAM", _some, "history"),
    ("Aggregate", "SRAM Uncorrectable Parity"): ("gpu.ecc_uncorrectable", "aggregate SRAM parity", _some, "history"),
    ("Aggregate", "SRAM Uncorrectable SEC-DED"): ("gpu.ecc_uncorrectable", "aggregate SRAM SEC-DED", _some, "history"),
    ("", "SRAM Threshold Exceeded"): ("gpu.ecc_uncorrectable", "SRAM threshold exceeded", _yes, "critical"),
    ("", "Channel Repair Pending"): ("gpu.reset_required", "channel repair pending", _yes, "when drained"),
    ("", "TPC Repair Pending"): ("gpu.reset_required", "TPC repair pending", _yes, "when drained"),
    ("", "Unrepairable Memory"): ("gpu.remap_failed", "unrepairable memory", _yes, "critical"),
    ("", "GPU Recovery Action"): ("gpu.reset_required", "", _needs, "advice"),
    ("Clocks", "HW Thermal Slowdown"): ("host.thermal", "HW Thermal Slowdown", _active, "warning"),
    ("Clocks", "HW Power Brake Slowdown"): ("host.power", "HW Power Brake Slowdown", _active, "warning"),
}
_SECTIONS = ("Remapped Rows", "Retired Pages", "Volatile", "Aggregate")


class SmiQuery:
    """`nvidia-smi -q`: indented `name : value` lines below a line for each GPU."""

    # GPU 00000000:3B:00.0
    _GPU = re.compile(rf"^GPU {_AT}\s*$")
    _FIELD = re.compile(r"^(?P<indent>\s{0,80})(?P<name>[A-Za-z][\w /()|.-]{0,50}?)\s{0,80}(?:: (?P<value>.{0,200}))?$")

    def __init__(self) -> None:
        self.device: str | None = None
        self.gpu_line: Line | None = None
        self.ts: int | None = None
        self.section = ""
        self.known: dict[str, str] = {}

    def feed(self, line: Line) -> Iterable[Record] | None:
        """The findings of this line; None when the snapshot is over."""
        raw = line.raw[:300].rstrip()
        found = self._GPU.match(raw)
        if found:
            done = self.close()
            self.device, self.gpu_line, self.section, self.known = pci.normal(found["device"]), line, "", {}
            return done
        field = self._FIELD.match(raw)
        if raw and (not field or (not field["indent"] and not field["value"])):
            return None
        return self._take(line, field) if field else ()

    def _take(self, line: Line, field: re.Match[str]) -> Iterable[Record]:
        name, value = field["name"], field["value"]
        if value is None:
            self._enter(name)
            return ()
        self.known[name] = value.strip()
        if name == "Timestamp":
            stamp = clocks.parse_stamp(value.strip())
            self.ts = stamp.ts if stamp else None
        known = _FINDINGS.get((self.section, name)) or _FINDINGS.get(("", name))
        if not known or not known[2](value.strip()):
            return ()
        code, state, _, severity = known
        return (self._event(code, line, state=state or value.strip(), severity=severity),)

    def _enter(self, name: str) -> None:
        if name in _SECTIONS:
            self.section = name
        elif name.startswith("Clocks"):
            self.section = "Clocks"
        elif not name.startswith(("HW Slowdown", "Remapping")):
            self.section = ""

    def _event(self, code: str, line: Line, state: str | None = None, severity: str | None = None) -> Event:
        uuid = self.known.get("GPU UUID")
        made = shapes.event(code, line, device=self.device, gpu_uuid=uuid, ts=self.ts, state=state, severity=severity)
        made.message = line.raw.strip()[: shapes.MESSAGE]
        made.ts_quality = Quality.EXACT if self.ts is not None else Quality.UNKNOWN
        return made

    def close(self) -> Iterable[Record]:
        """The identity of the GPU read last."""
        uuid, serial = self.known.get("GPU UUID"), self.known.get("Serial Number")
        if self.gpu_line is None or not uuid:
            return ()
        made = self._event("gpu.identity", self.gpu_line)
        made.attrs = {"serial": serial} if serial and serial not in ("N/A", "0") else {}
        return (made,)


def open_smi(line: Line) -> SmiQuery | None:
    """The banner of `nvidia-smi -q`."""
    return SmiQuery() if re.match(r"=+NVSMI LOG=+\s*$", line.raw[:120].strip()) else None


DIALECTS: tuple[Dialect, ...] = (
    LineDialect(
        name="gpu_tools",
        needles=(),
        hints=(
            "Unable to determine the device handle",
            "NVIDIA-SMI has failed",
            "Failed to initialize NVML",
            "| Fail",
            ": Fail",
            "No devices were found",
            ": GPU is lost",
            "(rev ff)",
            "Health check failed:",
            "check failed: rc:",
            "mc_event",
            "Corrected error",
            "Uncorrected error",
            "Fatal error",
            " on DIMM Label",
        ),
        parse=parse,
    ),
    SectionDialect(name="nvidia_smi", openers=("=NVSMI LOG=",), open=open_smi),
)
