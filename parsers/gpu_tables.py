"""Tables of GPU tools: `nvidia-smi` itself, the rows of `nvidia-smi --query-gpu --format=csv`, `dcgmi health` and `dcgmi diag -j`.

Table shapes: nvidia-smi of drivers 450 to 580; DCGM 3 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from parsers import clocks, pci, shapes
from parsers.contract import Dialect, Document, DocumentDialect, Event, Line, Quality, Record, Reject, SectionDialect
from parsers.json_fields import load

_WIDTH = 400


def _cells(line: Line) -> list[str] | None:
    """The cells of a boxed row; none of a rule; None when the line is no part of a box."""
    text = line.raw[:_WIDTH].strip()
    if text[:1] not in ("|", "+", ""):
        return None
    return [cell.strip() for cell in text.strip("|").split("|")] if text[:1] == "|" else []


class SmiTable:
    """The plain table: a row names a GPU, its bus and its uncorrected errors; the one below shows what it answers."""

    # 0  NVIDIA H100 80GB HBM3          On
    _GPU = re.compile(r"\d{1,3} {1,6}\S")

    def __init__(self) -> None:
        self.device: str | None = None

    def feed(self, line: Line) -> Iterable[Record] | None:
        """The findings of a row; None below the table."""
        cells = _cells(line)
        if cells is None:
            return None
        if len(cells) < 3:
            return ()
        device = pci.normal(cells[1].partition(" ")[0]) if self._GPU.match(cells[0]) else None
        if device:
            self.device = device
            return self._errors(line, cells[2])
        lost = self.device is not None and (cells[0].count("ERR!") > 1 or "Unknown Error" in cells[1] or "GPU is lost" in cells[1])
        made = _event("gpu.off_bus", line, self.device, "ERR!") if lost else None
        self.device = None
        return (made,) if made else ()

    def _errors(self, line: Line, count: str) -> Iterable[Record]:
        if not (count.isascii() and count.isdigit() and len(count) < 10 and int(count)):
            return ()
        made = _event("gpu.ecc_uncorrectable", line, self.device, "volatile", "critical")
        made.value = float(count)
        return (made,)

    def close(self) -> Iterable[Record]:
        return ()


def _event(code: str, line: Line, device: str | None, state: str, severity: str | None = None) -> Event:
    made = shapes.event(code, line, device=device, state=state, severity=severity)
    made.message = line.raw.strip()[: shapes.MESSAGE]
    return made


def open_table(line: Line) -> SmiTable | None:
    """The line with the versions: | NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |."""
    return SmiTable() if re.match(r"\s{0,8}\| NVIDIA-SMI [\d.]{1,20} {1,20}Driver Version: ", line.raw[:80]) else None


def _some(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) < 12 and int(value) > 0


def _yes(value: str) -> bool:
    return value in ("Yes", "1", "True", "Pending")


def _active(value: str) -> bool:
    return value == "Active"


def _needs(value: str) -> bool:
    return value not in ("None", "0", "") and not value.startswith(("N/A", "[N/A", "[Not"))


_Finding = tuple[str, str | None, Callable[[str], bool], str]
# Column, without the alias that newer drivers gave it: code, state (None: the value), when it counts, severity.
_COLUMNS: Mapping[str, _Finding] = {
    "ecc.errors.uncorrected.volatile.total": ("gpu.ecc_uncorrectable", "volatile", _some, "critical"),
    "ecc.errors.uncorrected.volatile.dram": ("gpu.ecc_uncorrectable", "volatile DRAM", _some, "critical"),
    "ecc.errors.uncorrected.volatile.sram": ("gpu.ecc_uncorrectable", "volatile SRAM", _some, "critical"),
    "ecc.errors.uncorrected.aggregate.total": ("gpu.ecc_uncorrectable", "aggregate", _some, "history"),
    "ecc.errors.uncorrected.aggregate.dram": ("gpu.ecc_uncorrectable", "aggregate DRAM", _some, "history"),
    "ecc.errors.uncorrected.aggregate.sram": ("gpu.ecc_uncorrectable", "aggregate SRAM", _some, "history"),
    "remapped_rows.pending": ("gpu.reset_required", "row remap pending", _yes, "when drained"),
    "remapped_rows.failure": ("gpu.remap_failed", "row remap failure", _yes, "critical"),
    "retired_pages.pending": ("gpu.reset_required", "page retirement pending", _yes, "when drained"),
    "gpu_recovery_action": ("gpu.reset_required", None, _needs, "advice"),
    "clocks_event_reasons.hw_thermal_slowdown": ("host.thermal", "HW Thermal Slowdown", _active, "warning"),
    "clocks_event_reasons.hw_power_brake_slowdown": ("host.power", "HW Power Brake Slowdown", _active, "warning"),
}
_BUS, _UUID, _SERIAL = ("pci.bus_id", "gpu_bus_id"), ("uuid", "gpu_uuid"), ("serial", "gpu_serial")
_COLUMN = re.compile(r"[a-z][\w.]{1,80}(?: \[[\w/%]{1,8}\])?")
# [GPU is lost]   [Unknown Error]
_LOST = re.compile(r"\[?(?P<state>GPU is lost|Unknown Error|GPU requires reset)\]?")


class SmiRows:
    """Rows below the names of the columns that were asked for. Of a loop over the same GPU only changes are told."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns
        self.told: dict[tuple[str, str], str] = {}

    def feed(self, line: Line) -> Iterable[Record] | None:
        """What the row says anew; None for a line that is no row."""
        cells = [cell.strip() for cell in line.raw[: 10 * _WIDTH].split(",")]
        if len(cells) != len(self.columns):
            return None
        row = dict(zip(self.columns, cells, strict=True))
        if list(row) == cells:
            return ()
        return self._findings(line, row)

    def _findings(self, line: Line, row: Mapping[str, str]) -> list[Record]:
        device = pci.normal(_first(row, _BUS) or "")
        who = device or _first(row, _UUID) or row.get("index") or ""
        found: list[Record] = []
        lost = next((hit for value in row.values() if (hit := _LOST.fullmatch(value))), None)
        if self._is_new(who, "lost", lost["state"] if lost else "") and lost:
            code = "gpu.reset_required" if "reset" in lost["state"] else "gpu.off_bus"
            found.append(self._told(code, line, row, lost["state"], None))
        for column, value in row.items():
            known = _COLUMNS.get(column.replace("clocks_throttle_reasons", "clocks_event_reasons"))
            if known and self._is_new(who, column, value if known[2](value) else "") and known[2](value):
                found.append(self._told(known[0], line, row, known[1] or value, known[3], value))
        if device and (uuid := _first(row, _UUID)) and self._is_new(who, "uuid", uuid):
            made = self._told("gpu.identity", line, row, None, None)
            serial = _first(row, _SERIAL)
            made.attrs = {"serial": serial} if serial and serial.isalnum() and serial != "0" else {}
            found.append(made)
        return found

    def _is_new(self, who: str, what: str, value: str) -> bool:
        was, self.told[who, what] = self.told.get((who, what), ""), value
        return was != value

    def _told(self, code: str, line: Line, row: Mapping[str, str], state: str | None, severity: str | None, value: str = "") -> Event:
        uuid = _first(row, _UUID)
        made = shapes.event(code, line, device=pci.normal(_first(row, _BUS) or ""), state=state, severity=severity)
        made.message = line.raw.strip()[: shapes.MESSAGE]
        made.gpu_uuid = uuid if uuid and uuid.startswith("GPU-") else None
        made.value = float(value) if _some(value) and code == "gpu.ecc_uncorrectable" else None
        stamp = clocks.parse_stamp(row.get("timestamp", ""))
        if stamp and stamp.ts is not None:
            made.ts, made.ts_quality = stamp.ts, Quality.EXACT
        return made

    def close(self) -> Iterable[Record]:
        return ()


def _first(row: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((row[name] for name in names if row.get(name)), None)


def open_rows(line: Line) -> SmiRows | None:
    """timestamp, index, uuid, pci.bus_id, ecc.errors.uncorrected.volatile.total, temperature.gpu."""
    cells = [cell.strip() for cell in line.raw[: 10 * _WIDTH].split(",")]
    if len(cells) < 2 or not all(_COLUMN.fullmatch(cell) for cell in cells):
        return None
    columns = [cell.partition(" ")[0] for cell in cells]
    plain = [column.replace("clocks_throttle_reasons", "clocks_event_reasons") for column in columns]
    identifies = any(column in _BUS for column in columns) and any(column in _UUID for column in columns)
    return SmiRows(columns) if identifies or any(column in _COLUMNS for column in plain) else None


class DcgmHealth:
    """`dcgmi health -c`: GPU, subsystem and verdict, with the tool's sentence below. Warnings are no failure."""

    # -> 3 | -> Errors | -> Memory system
    _GPU = re.compile(r"-> {1,3}(?:GPU {0,2})?(\d{1,3})")
    _PART = re.compile(r"-> {1,3}([A-Z]\w{1,20}(?: [\w-]{1,20}){0,3})")

    def __init__(self) -> None:
        self.gpu = ""
        self.held: Event | None = None

    def feed(self, line: Line) -> Iterable[Record] | None:
        """The verdict of a subsystem, once its sentence was read; None below the table."""
        cells = _cells(line)
        if cells is None:
            return None
        if len(cells) < 2:
            return ()
        name, verdict = cells[0], cells[1]
        if not name and self.held and verdict:
            self.held.state = f"{self.held.state}: {verdict}" if ":" not in (self.held.state or "") else f"{self.held.state} {verdict}"
            self.held.line_last = line.number
            return ()
        done = self.close()
        self._enter(line, name, verdict)
        return done

    def _enter(self, line: Line, name: str, verdict: str) -> None:
        if gpu := self._GPU.fullmatch(name):
            self.gpu = gpu[1]
        elif (part := self._PART.fullmatch(name)) and verdict == "Failure" and part[1] != "Errors":
            self.held = _event("gpu.diag_failed", line, None, part[1], "fail")
            self.held.attrs = {"test": part[1]} | ({"gpu": self.gpu} if self.gpu else {})

    def close(self) -> Iterable[Record]:
        """The verdict read last."""
        held, self.held = self.held, None
        return (held,) if held else ()


def open_health(line: Line) -> DcgmHealth | None:
    """The table's title: | Health Monitor Report |."""
    return DcgmHealth() if re.match(r"\s{0,8}\| {1,40}Health Monitor Report {1,80}\|", line.raw[:200]) else None


def _is_diag(head: bytes) -> bool:
    return head.lstrip()[:1] == b"{" and b"DCGM" in head[:400] and b'"test_categories"' in head


def _diag(document: Document) -> Iterator[Record]:
    """`{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": ..., "results": [{"gpu_id": "3", "status": "Fail"}]}]}]}}`."""
    try:
        whole: object = load(document.data[: 16 << 20])
    except (ValueError, RecursionError):
        yield Reject(1, "not a report of dcgmi diag: no JSON")
        return
    last = document.data.count(b"\n") + 1
    for report in whole.values() if isinstance(whole, dict) else ():
        for category in _items(report, "test_categories"):
            for test in _items(category, "tests"):
                for result in (result for result in _items(test, "results") if str(result.get("status", "")).lower() == "fail"):
                    yield _verdict(str(test.get("name", ""))[:80], result, last)


def _items(value: object, key: str) -> list[dict[str, object]]:
    inner = value.get(key) if isinstance(value, dict) else None
    return [item for item in inner if isinstance(item, dict)] if isinstance(inner, list) else []


def _verdict(test: str, result: dict[str, object], last: int) -> Event:
    gpu = next((str(result[key])[:20] for key in ("gpu_id", "entity_id", "gpu_ids") if key in result), None)
    warnings = [str(warning.get("warning", "")) for warning in _items(result, "warnings")]
    told = " ".join([*warnings, str(result.get("info", "")) if not warnings else ""]).strip()
    made = Event("gpu.diag_failed", f"{test} failed: {told}"[: shapes.MESSAGE], 1, last, severity="fail")
    made.state = told[:200] or (f"GPU: {gpu}" if gpu is not None else None)
    made.attrs["test"] = test
    made.attrs |= {"gpu": gpu} if gpu is not None else {}
    return made


DIALECTS: tuple[Dialect, ...] = (
    DocumentDialect("dcgm_diag", _is_diag, _diag),
    SectionDialect("smi_table", ("| NVIDIA-SMI ",), open_table),
    SectionDialect(
        "smi_rows",
        ("pci.bus_id", "gpu_bus_id", "ecc.errors.", "remapped_rows.", "retired_pages.", "_reasons.", "recovery_action"),
        open_rows,
    ),
    SectionDialect("dcgm_health", ("Health Monitor Report",), open_health),
)
