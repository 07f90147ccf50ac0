"""One spelling for a PCI device: `dddd:bb:dd`, lower case, function 0 dropped."""

from __future__ import annotations

import re

# PCI:0000:3b:00 | 00000000:3B:00.0 | 3b:00.0 | 0000:5e:00.1
_ADDRESS = re.compile(r"[\s(\[]*+(?:PCI:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])(?:\.([0-7]))?(?![\w.:])", re.IGNORECASE)
# 3b000 | 0x1a000 | 100000
_BUS_ID = re.compile(r"(?:0x)?([0-9a-f]{1,12})", re.IGNORECASE)
# GPU-I:05 GPU-CI:01
_MIG = re.compile(r"\bGPU-I:(\d{1,4})(?:[ ,]+GPU-CI:(\d{1,4}))?")


def _spell(domain: int, bus: int, device: int, function: int) -> str:
    return f"{domain:04x}:{bus:02x}:{device:02x}" + (f".{function}" if function else "")


def normal(text: str) -> str | None:
    """The device that `text` begins with, as `dddd:bb:dd` or `dddd:bb:dd.f`; None when it is not an address."""
    found = _ADDRESS.match(text)
    if not found:
        return None
    domain, bus, device, function = found.groups()
    return _spell(int(domain or "0", 16), int(bus, 16), int(device, 16), int(function or "0"))


def from_bus_id(text: str) -> str | None:
    """The device of an NCCL busId: hexadecimal `domain<<20 | bus<<12 | device<<4 | function`, or an address in full.

    Source: NCCL's busIdToInt64, which drops the separators of `dddd:bb:dd.f` and reads the digits as one number.
    """
    text = text.strip()
    if ":" in text:
        return normal(text)
    found = _BUS_ID.fullmatch(text)
    if not found:
        return None
    number = int(found[1], 16)
    domain, bus, device, function = number >> 20, number >> 12 & 0xFF, number >> 4 & 0xFF, number & 0xF
    if number == 0 or device > 0x1F or function > 7 or domain > 0xFFFFFFFF:
        return None
    return _spell(domain, bus, device, function)


def mig(text: str) -> str | None:
    """GPU instance and compute instance in `text` as `5/1`, the GPU instance alone as `5`; None without one."""
    found = _MIG.search(text)
    if not found:
        return None
    return str(int(found[1])) + (f"/{int(found[2])}" if found[2] else "")
