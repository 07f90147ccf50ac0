"""Network links in the kernel log: InfiniBand ports, Ethernet carriers, mlx5 port modules and firmware health.

Line shapes: Linux drivers/net/ethernet/mellanox/mlx5/core (events.c, health.c, en_main.c), intel/{ixgbe,i40e,ice}, broadcom/bnxt,
drivers/net/bonding/bond_main.c; systemd-networkd; NetworkManager.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers import shapes
from parsers.contract import Benign, Event, LineDialect, Record, Window
from parsers.shapes import shape

_AT = r"(?P<device>\b[0-9a-f]{4,8}+:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_ANY = shapes.ANY_CASE

_HCA = r"(?:mlx\d_|ibp|rocep|hfi1_|bnxt_re|qedr)\w{1,14}"
# Intel and Broadcom print the driver's name, and the interface a second time.
_DRIVER = r"\b(?=[ieabrq])(?:i40e|ixgbe|igb|igc|ice|e1000e?|bnxt_en|r8169|atlantic|be2net|qede)\b[^:]{0,30}"

_INFINIBAND = (
    # mlx5_core 0000:1a:00.0 mlx5_1: Port: 1 Link DOWN
    shape("ib.link_down", rf"(?:{_AT}:? )?(?P<op>{_HCA}): Port:? (?P<port>\d{{1,3}}):? (?P<state>(?:Link )?DOWN)\b"),
    # mlx5_core 0000:1a:00.0 mlx5_1: Port: 1 Link ACTIVE
    shape("ib.link_up", rf"(?:{_AT}:? )?(?P<op>{_HCA}): Port:? (?P<port>\d{{1,3}}):? (?P<state>(?:Link )?ACTIVE)\b"),
    # mlx5_core 0000:1b:00.0 mlx5_1: Port: 1 Link INIT
    shape("", r"Port: \d{1,3} Link (?:INIT|ARMED|ARM)\b"),
    # hfi1 0000:3d:00.0: hfi1_0: set_link_state: current ACTIVE, new OFFLINE
    shape("ib.link_down", rf"{_AT}: (?P<op>hfi1_\d{{1,2}}): set_link_state: current ACTIVE, new (?P<state>OFFLINE|DN_\w{{1,12}})"),
)
_DRIVER_AT = rf"(?:{_AT}:[^.]{{0,60}} )?"
_MODULE = (
    # mlx5_core 0000:1c:00.0: Port module event[error]: module 0, Cable error, High Temperature
    # mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, High Temperature
    shape("ib.port_event", rf"{_DRIVER_AT}Port module event\[error\]: module (?P<port>\d{{1,3}}), (?P<state>.{{1,100}})", severity="error"),
    # mlx5_core 0000:43:00.1: Port module event: module 1, Cable plugged
    shape("", r"Port module event: module \d{1,3}, Cable (?:plugged|enabled)"),
    # mlx5_core 0000:43:00.1: Port module event: module 1, Cable unplugged
    shape("ib.port_event", rf"{_DRIVER_AT}Port module event: module (?P<port>\d{{1,3}}), (?P<state>Cable unplugged)", severity="info"),
    # mlx5_core 0000:1c:00.0: mlx5_pcie_event:299:(pid 52007): Detected insufficient power on the PCIe slot (27W).
    shape(
        "ib.port_event",
        rf"{_DRIVER_AT}(?P<state>Detected insufficient power on the PCIe slot)(?: \((?P<watts>\d{{1,4}})W\))?",
        severity="warning",
    ),
    # mlx5_core 0000:21:00.0: poll_health:825: device's health compromised - reached miss count.
    shape("ib.port_event", rf"{_DRIVER_AT}(?P<state>device's health compromised)", severity="fatal"),
    # mlx5_core 0000:21:00.0: print_health_info:430:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:
    shape("ib.port_event", rf"{_DRIVER_AT}Health issue observed, (?P<state>[\w ]{{1,80}}+), severity\(\d\) (?P<severity>\w{{1,12}})"),
    # mlx5_core 0000:21:00.0: poll_health:815: Fatal error 1 detected
    shape("ib.port_event", rf"{_AT}: .{{0,60}}poll_health.{{0,24}}: (?P<state>Fatal error \d{{1,3}} detected)", severity="fatal"),
    # mlx5_core 0000:21:00.0: print_health_info:458:(pid 0): synd 0x8: unrecoverable hardware error
    shape(
        "ib.port_event",
        rf"{_DRIVER_AT}\bsynd 0x(?!0+:)[0-9a-f]{{1,4}}: (?P<state>[\w ]{{1,80}})",
        severity="fatal",
        before=r"Health issue observed|\bsynd 0x(?!0+:)[0-9a-f]{1,4}: ",
        reach=12,
    ),
    # mlx5_core 0000:21:00.0: wait_func:964:(pid 112): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource
    shape(
        "ib.port_event",
        rf"{_DRIVER_AT}\b(?P<state>[A-Z0-9_]{{2,40}}+\(0x\w{{1,4}}\)) .{{0,60}}Will cause a leak of a command resource",
        severity="fatal",
    ),
    # NETDEV WATCHDOG: ens7f0 (mlx5_core): transmit queue 4 timed out
    shape(
        "ib.port_event",
        r"NETDEV WATCHDOG: (?P<op>[\w.@-]{1,20}) \(\w{1,20}\): (?P<state>transmit queue (?:\d{1,4} )?timed out)",
        severity="error",
    ),
    # mlx5_core 0000:21:00.0 ens7f0: TX timeout detected
    shape("ib.port_event", rf"{_AT}:? (?P<op>[\w@.-]{{1,20}}+): (?P<state>TX timeout detected)", severity="error"),
    # mlx5_core 0000:21:00.0 ens7f0: TX timeout on queue: 4, SQ: 0x8a, CQ: 0x403, SQ Cons: 0x8b SQ Prod: 0x8d
    shape(
        "ib.port_event",
        rf"{_AT}:? (?P<op>[\w@.-]{{1,20}}+): (?P<state>TX timeout on queue)",
        severity="error",
        before=r"TX timeout detected|TX timeout on queue|transmit queue (?:\d{1,4} )?timed out",
        reach=40,
    ),
    # mlx5_core 0000:21:00.0: temp_warn:178:(pid 0): High temperature on sensors with bit set 0x1
    shape("ib.port_event", rf"{_DRIVER_AT}(?P<state>High temperature on sensors)", severity="warning"),
)
_ETHERNET = (
    # ixgbe 0000:01:00.0 eth0: NIC Link is Down   tg3 0000:02:00.0 eno1: Link is down   mlx5_core 0000:41:00.0 enp65s0f0np0: Link down
    shape(
        "eth.link_down",
        rf"{_AT}:? (?P<op>[\w@.-]{{1,20}}+): (?:\w{{1,10}}: [\w.-]{{1,20}} )?(?P<state>(?:NIC )?Link (?:is )?down)\b",
        flags=_ANY,
    ),
    shape(
        "eth.link_up",
        rf"{_AT}:? (?P<op>[\w@.-]{{1,20}}+): (?:\w{{1,10}}: [\w.-]{{1,20}} )?(?P<state>(?:NIC )?Link (?:is )?up)\b",
        flags=_ANY,
    ),
    # igb 0000:07:00.0 eno1: igb: eno1 NIC Link is Down   e1000e: eno1 NIC Link is Down
    # i40e: enp1s0f0: NIC Link is Down   bnxt_en: eth2: NIC Link is Down   r8169: eth0: link down
    shape("eth.link_down", _DRIVER + r": (?P<op>[\w.-]{1,20}):? (?P<state>(?:NIC )?Link (?:is )?down)\b", flags=_ANY),
    shape("eth.link_up", _DRIVER + r": (?P<op>[\w.-]{1,20}):? (?P<state>(?:NIC )?Link (?:is )?up)\b", flags=_ANY),
    # bond0: (slave eth0): link status definitely down, disabling slave
    shape("eth.link_down", r"\b(?P<grp>\w{1,20}+): \(slave (?P<op>[\w.-]{1,20})\): (?P<state>link status definitely down)"),
    shape("eth.link_up", r"\b(?P<grp>\w{1,20}+): \(slave (?P<op>[\w.-]{1,20})\): (?P<state>link status definitely up)"),
    # bonding: bond0: link status definitely down for interface eth0, disabling it
    shape("eth.link_down", r"\b(?P<grp>\w{1,20}+): (?P<state>link status definitely down) for interface (?P<op>[\w.-]{1,20})"),
    shape("eth.link_up", r"\b(?P<grp>\w{1,20}+): (?P<state>link status definitely up) for interface (?P<op>[\w.-]{1,20})"),
    # bond0: now running without any active interface!
    shape("eth.link_down", r"\b(?P<op>\w{1,20}+): (?P<state>now running without any active interface)", severity="critical"),
    # systemd-networkd[812]: eno1: Lost carrier   dhcpcd[911]: eno1: carrier lost
    shape("eth.link_down", r"(?:^|: )(?P<op>[\w.@-]{1,20}): (?P<state>Lost carrier|carrier lost)\b", flags=_ANY),
    shape("eth.link_up", r"(?:^|: )(?P<op>[\w.@-]{1,20}): (?P<state>Gained carrier|carrier acquired)\b", flags=_ANY),
    # NetworkManager[1021]: <info>  [1735689600.1234] device (eno1): carrier: link connected
    shape("eth.link_up", r"device \((?P<op>[\w.@-]{1,20})\): carrier: (?P<state>link connected)"),
    # NetworkManager[1021]: <info>  [1735689600.1234] device (eno1): state change: activated -> unavailable (reason 'carrier-changed', ...)
    shape(
        "eth.link_down", r"device \((?P<op>[\w.@-]{1,20})\): state change: activated -> unavailable \(reason '(?P<state>carrier-changed)'"
    ),
)
_SHAPES = (*_INFINIBAND, *_MODULE, *_ETHERNET)

# Network interfaces of InfiniBand ports: ib0, ibp94s0.
_IPOIB = {"eth.link_down": "ib.link_down", "eth.link_up": "ib.link_up"}
# Interfaces without a cable come and go with containers and virtual machines.
_VIRTUAL = re.compile(
    r"^(?:cali|veth|docker|br-|virbr|lo$|tap|tun|flannel|cni|vxlan|kube|lxc|lxd|ovs|wg\d|dummy|ifb|nodelocal|gre|sit|ipvl|macv|usb|enx|enp\d+s\d+u)"
)
# Drivers report every port as down, and every empty cage as unplugged, while they probe.
_BOOT_S = 180.0
_PROBING = re.compile(
    r"\bLinux version \d|firmware version: |: renamed from |Supported tc offload|E-Switch: Total vports|available PCIe"
    r" bandwidth|MLX5E: StrdRq"
)
_NEAR = 40
_CALM_AT_BOOT = ("ib.link_down", "eth.link_down", "ib.port_event")


def _was_up(window: Window, name: str) -> bool:
    """Whether the lines before show this link up: then it went down, boot or not."""
    up = re.compile(rf"\b{re.escape(name)}\b.{{0,40}}(?:Link ACTIVE|Link (?:is )?up\b|definitely up|Gained carrier)", re.IGNORECASE)
    return any(up.search(other.text[: shapes.HEAD]) for other in window.before(10 * _NEAR))


def _is_booting(window: Window) -> bool:
    line = window.line
    if line.boot_s is not None:
        return line.boot_s < _BOOT_S
    near = (other for lines in (window.before(_NEAR), window.after(6)) for other in lines)
    return any(shapes.same_host(other, line) and _PROBING.search(other.text[: shapes.HEAD]) for other in near)


def _is_calm(made: Event, window: Window) -> bool:
    if made.op and _VIRTUAL.search(made.op):
        return True
    is_fault = made.code == "ib.port_event" and made.severity != "info"
    if made.code not in _CALM_AT_BOOT or is_fault or not _is_booting(window):
        return False
    return not (made.op and _was_up(window, made.op))


def parse(window: Window) -> Iterable[Record]:
    """A link or port that changed; virtual interfaces and ports that a booting driver finds without a cable are benign."""
    for made in shapes.read(_SHAPES, window):
        if not isinstance(made, Event):
            return (made,)
        if _is_calm(made, window):
            return (Benign(window.line.number),)
        made.code = _IPOIB.get(made.code, made.code) if made.op and re.match(r"ib[\dps]", made.op) else made.code
        made.attrs |= {"interface": made.op} if made.op else {}
        made.op = made.grp = None
        return (made,)
    return ()


DIALECT = LineDialect(
    name="links",
    needles=(),
    hints=(
        "Link DOWN",
        "Link ACTIVE",
        "Link INIT",
        ": Port ",
        "set_link_state",
        "Port module event",
        "insufficient power",
        "health compromised",
        "Health issue observed",
        "poll_health",
        "High temperature on sensors",
        ": synd 0x",
        "leak of a command resource",
        "NETDEV WATCHDOG",
        "TX timeout ",
        "Link is ",
        "link is ",
        "Link down",
        "Link up",
        "link down",
        "link up",
        "link status definitely",
        "without any active interface",
        "carrier",
    ),
    parse=parse,
)
