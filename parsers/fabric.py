"""Fabric software: NVIDIA fabric manager, the opensm subnet manager, `ibstat` and `rdma link`.

Line shapes: nvidia-fabricmanager.log of drivers 535 to 570; opensm/osm_drop_mgr.c and osm_state_mgr.c; infiniband-diags; iproute2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers import shapes
from parsers.contract import Dialect, Event, Line, LineDialect, Record, SectionDialect, Window
from parsers.shapes import shape

# [Mar 03 2026 04:10:11] [ERROR] [tid 2207] detected NVSwitch fatal error 24007 on fid 0 on NVSwitch pci bus id 00000000:0a:00.0
#   physical id 2 port 18   (one line)
_DETECTED = re.compile(
    r"detected NVSwitch (?P<severity>fatal|non-fatal) error (?P<sxid>\d{4,6}) on fid "
    r"(?P<fid>\d{1,4}) on NVSwitch pci bus id (?P<device>[0-9a-fA-F:.]{7,17})"
    r"(?: physical id (?P<switch>\d{1,4}))?(?: port (?P<port>\d{1,4}))?"
)
# [ERROR] [tid 911] request to query NVSwitch device information from NVSwitch driver failed with error:...
_LEVEL = re.compile(r"\[(?P<severity>ERROR|CRITICAL|FATAL)\] ?(?:\[tid \d{1,9}\] ?)")

_SERVICES = frozenset(("nv-fabricmanager", "nvidia-fabricmanager", "nvidia-fabricmanager-start.sh", "nvidia-fabricmanager-wrapper"))
# nv-fabricmanager[1120]: failed to configure all the available GPUs or NVSwitches to route NVLink traffic.
_SAID = re.compile(r"\b(?:[Ff]ailed|[Ff]atal error)\b|with error:")

# Mar 03 04:10:11 330417 [7F3A2700] 0x02 -> drop_mgr_remove_port: Removed port with GUID:0x506b... LID range [12, 12] of node:gpu-012 mlx5_0
_OPENSM = (
    shape(
        "ib.link_down",
        r"(?P<state>Removed port) with GUID:(?P<guid>0x[0-9a-f]{1,16}) LID range \[[^\]]{1,20}\] of node:"
        r"(?P<host>[A-Za-z0-9][\w.-]{0,80}) (?P<interface>[\w-]{1,20})",
    ),
    shape(
        "ib.link_up",
        r"(?P<state>Discovered new port) with GUID:(?P<guid>0x[0-9a-f]{1,16}) LID range \[[^\]]{1,20}\] of node: ?"
        r"(?P<host>[A-Za-z0-9][\w.-]{0,80}) (?P<interface>[\w-]{1,20})",
    ),
    # log_trap_info: Received Generic Notice type:1 num:128 (Link state change) Producer:2 (Switch) from LID:12: names no host
    shape("", r"Received Generic Notice type:\d"),
)
_SERVICE = (
    # systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.
    # systemd[1]: nvidia-fabricmanager.service: Main process exited, code=exited, status=1/FAILURE
    shape(
        "fabricmanager.down",
        r"nvidia-fabricmanager\.service: (?P<state>Failed with result '[\w-]{1,40}'"
        r"|(?:Main|Control) process exited, code=(?:exited|dumped), status=[1-9]\d{0,2}/\w{1,20})",
    ),
    # systemd[1]: Failed to start NVIDIA fabric manager service.
    # systemd[1]: Failed to start nvidia-fabricmanager.service - NVIDIA fabric manager service.
    shape("fabricmanager.down", r"(?P<state>Failed to start (?:nvidia-fabricmanager|NVIDIA fabric manager))"),
)
_RDMA = (
    # link mlx5_1/1 state DOWN physical_state POLLING netdev ibp94s0   1/1: mlx5_1/1: state DOWN physical_state POLLING
    shape(
        "ib.link_down",
        r"^\s{0,8}(?:link |\d{1,4}/\d{1,3}: )(?P<interface>\w{1,20}/\d{1,3}):? .{0,80}"
        r"state DOWN physical_state (?P<state>POLLING|LINK_ERROR_RECOVER\w{0,8})",
    ),
)


def _fabric_manager(line: Line) -> Event | None:
    text = line.text[: shapes.HEAD]
    found = _DETECTED.search(text)
    if found:
        return shapes.event("fabricmanager.error", line, found, state=f"SXid {found['sxid']}")
    level = _LEVEL.search(line.raw[: shapes.HEAD])
    if not level and line.ident in _SERVICES and _SAID.search(text):
        return shapes.event("fabricmanager.error", line, severity="error")
    if not level:
        return None
    made = shapes.event("fabricmanager.error", line, severity=level["severity"].lower())
    made.message = line.raw[level.end() : level.end() + shapes.MESSAGE].strip()
    return made


def parse(window: Window) -> Iterable[Record]:
    """Errors of the fabric manager; ports that the subnet manager lost or found, with the host that its node description names."""
    made = _fabric_manager(window.line)
    return (made,) if made else shapes.read((*_OPENSM, *_SERVICE, *_RDMA), window)


# A port that is administratively off reads Disabled; Polling means that it looks for a partner.
_BROKEN = ("Polling", "LinkErrorRecovery", "PhyTest")


def _port_down(line: Line | None, state: str | None, physical: str | None, layer: str | None, **place: str) -> tuple[Event, ...]:
    """The event of a port that should be up and is not, at the line that tells its state."""
    if line is None or (state or "").upper() != "DOWN" or physical not in _BROKEN or layer == "Ethernet":
        return ()
    made = shapes.event("ib.link_down", line, state=physical, severity="snapshot")
    made.attrs = dict(place)
    return (made,)


class IbStat:
    """`ibstat` output, one adapter and its ports."""

    # State: Down   Physical state: Polling
    _FIELD = re.compile(r"^\s++(?P<name>\w[\w ]{0,39}): ?(?P<value>.{0,80})$")

    def __init__(self, adapter: str) -> None:
        self.adapter = adapter
        self.port = ""
        self.fields: dict[str, str] = {}
        self.state_line: Line | None = None

    def feed(self, line: Line) -> Iterable[Record] | None:
        """The event of a port, given once the next one begins."""
        found = self._FIELD.match(line.raw[:200])
        if not found:
            return None
        name, value = found["name"].strip(), found["value"].strip()
        if name.startswith("Port ") and not value:
            done = self.close()
            self.port, self.fields, self.state_line = name[5:], {}, None
            return done
        self.fields[name] = value
        if name == "State":
            self.state_line = line
        return ()

    def close(self) -> Iterable[Record]:
        """The event of the port read last."""
        told = (self.fields.get(name) for name in ("State", "Physical state", "Link layer"))
        return _port_down(self.state_line, *told, interface=self.adapter, port=self.port)


class IbStatus:
    """`ibstatus`: a line that names device and port, and its fields indented below."""

    # phys state:	 2: Polling
    _FIELD = re.compile(r"^\s++(?P<name>[a-z][a-z_ ]{0,20}):\s{0,8}(?:\d{1,2}: )?(?P<value>.{0,60})$")

    def __init__(self, adapter: str, port: str) -> None:
        self.adapter, self.port = adapter, port
        self.fields: dict[str, str] = {}
        self.state_line: Line | None = None

    def feed(self, line: Line) -> Iterable[Record] | None:
        """Nothing until the block ends; None for a line that is no field."""
        found = self._FIELD.match(line.raw[:200])
        if not found:
            return None
        self.fields[found["name"]] = found["value"].strip()
        if found["name"] == "state":
            self.state_line = line
        return ()

    def close(self) -> Iterable[Record]:
        """The event of the port."""
        told = (self.fields.get(name) for name in ("state", "phys state", "link_layer"))
        return _port_down(self.state_line, *told, interface=self.adapter, port=self.port)


def open_ibstatus(line: Line) -> IbStatus | None:
    """A port's block begins: Infiniband device 'mlx5_0' port 1 status:."""
    found = re.match(r"Infiniband device '(\w{1,20})' port (\d{1,3}) status:\s*$", line.raw[:80])
    return IbStatus(found[1], found[2]) if found else None


def open_ibstat(line: Line) -> IbStat | None:
    """An adapter's block begins: CA 'mlx5_0'."""
    found = re.match(r"CA '(\w{1,20})'\s*$", line.raw[:60])
    return IbStat(found[1]) if found else None


DIALECTS: tuple[Dialect, ...] = (
    LineDialect(
        name="fabric",
        needles=(),
        hints=(
            "detected NVSwitch",
            "[ERROR] [tid",
            "[CRITICAL] [tid",
            "[FATAL] [tid",
            "fabricmanager[",
            "fabricmanager-start.sh[",
            "Removed port with GUID",
            "Discovered new port with GUID",
            "Received Generic Notice",
            "physical_state",
            "nvidia-fabricmanager.service: ",
            "Failed to start NVIDIA fabric",
            "Failed to start nvidia-fabric",
        ),
        parse=parse,
    ),
    SectionDialect(name="ibstat", openers=("CA '",), open=open_ibstat),
    SectionDialect(name="ibstatus", openers=("Infiniband device '",), open=open_ibstatus),
)
