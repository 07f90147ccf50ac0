"""PCI addresses, bus ids and MIG ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import pci

DOMAIN, BUS, DEVICE, FUNCTION = st.integers(0, 0xFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7)


@pytest.mark.parametrize(
    "text",
    [
        "0000:3b:00",
        "3b:00.0",
        "00000000:3B:00.0",
        "PCI:0000:3b:00",
        "PCI:0000:3b:00 GPU-I:05 GPU-CI:01",
        "(PCI:0000:3b:00)",
        "0000:3b:00.0,",
    ],
)
def test_every_spelling_is_one_device(text: str) -> None:
    assert pci.normal(text) == "0000:3b:00"


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("0000:5e:00.1", "0000:5e:00.1"),
        ("PCI:0018:01:00", "0018:01:00"),
        ("10000:e1:00.0", "10000:e1:00"),
        ("12:30:45", None),
        ("0000:3b:20", None),
        ("", None),
        ("PCI:", None),
        ("GPU-3d9ab4f0", None),
        ("0000:3b:00:11", None),
        ("0000:3b:00.8", None),
    ],
)
def test_others(text: str, device: str | None) -> None:
    assert pci.normal(text) == device


@given(DOMAIN, BUS, DEVICE, FUNCTION)
def test_spellings_and_bus_ids_agree(domain: int, bus: int, device: int, function: int) -> None:
    short = pci.normal(f"{domain:04X}:{bus:02X}:{device:02X}.{function}")
    assert short is not None and pci.normal(short) == short == short.lower()
    assert pci.normal(f"PCI:{domain:08x}:{bus:02x}:{device:02x}.{function}") == short
    number = domain << 20 | bus << 12 | device << 4 | function
    if number:
        assert pci.from_bus_id(f"{number:x}") == pci.from_bus_id(f"0x{number:x}") == short


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("3b000", "0000:3b:00"),
        ("1a000", "0000:1a:00"),
        ("0x1a000", "0000:1a:00"),
        ("100000", "0001:00:00"),
        ("0000:1a:00.0", "0000:1a:00"),
        ("0", None),
        ("zz", None),
        ("", None),
        ("fffff", None),
        ("1" * 40, None),
    ],
)
def test_bus_ids(text: str, device: str | None) -> None:
    assert pci.from_bus_id(text) == device


@pytest.mark.parametrize(
    ("text", "mig"),
    [("PCI:0000:87:00 GPU-I:05 GPU-CI:01", "5/1"), ("(PCI:0000:87:00 GPU-I:03)", "3"), ("PCI:0000:87:00", None), ("GPU-I:x", None)],
)
def test_mig(text: str, mig: str | None) -> None:
    assert pci.mig(text) == mig


@given(st.text())
def test_never_raises(text: str) -> None:
    pci.normal(text)
    pci.from_bus_id(text)
    pci.mig(text)
