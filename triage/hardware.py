"""What a hardware ticket must say of a suspected host or GPU: identity, codes with counts, versions, and where it is written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triage.moments import iso

if TYPE_CHECKING:
    from triage.decisions import Decision
    from triage.excerpt import Excerpt
    from triage.history import Burst, History

MOST_CODES, MOST_PLACES = 12, 3
TELLING = ("root", "cascade", "precursor")
NOT_OF_A_HOST = {"user", "storage", "facility", "scheduler"}
"""Layers whose faults no vendor mends in a host, whichever host they show on."""


def hardware_of(
    decision: Decision, history: History, identities: Sequence[Mapping[str, Any]], excerpts: Mapping[str, Excerpt]
) -> list[dict[str, Any]]:
    """One row a suspected host and device, none where the fault is not of a host.

    model, uuid, serial, driver, firmware (null where no log says), rack, codes with places.
    """
    if decision.layer in NOT_OF_A_HOST:
        return []
    places = dict.fromkeys((s.host, s.device, s.role) for s in decision.finding.suspects if s.host)
    return [_row(str(host), device, role, history, identities, excerpts) for host, device, role in places]


def _row(
    host: str, device: str | None, role: str, history: History, identities: Sequence[Mapping[str, Any]], excerpts: Mapping[str, Excerpt]
) -> dict[str, Any]:
    inventory = history.topology.rows.get(host, {})
    uuid, serial = _identity(host, device, identities)
    codes = _codes(host, device, history)
    here = [excerpts[p] for p in {place.rsplit(":", 1)[0] for c in codes for place in c["places"]} if p in excerpts]
    return {
        "host": host,
        "device": device,
        "role": role,
        "uuid": uuid,
        "serial": serial,
        "host_serials": list(inventory.get("gpu_serials") or []),
        "model": inventory.get("gpu_model"),
        "rack": inventory.get("rack"),
        "driver": next((e.driver for e in here if e.driver), None),
        "firmware": next((e.firmware for e in here if e.firmware), None),
        "codes": codes,
    }


def _identity(host: str, device: str | None, identities: Sequence[Mapping[str, Any]]) -> tuple[str | None, str | None]:
    """The last UUID and serial that a log ties to the device."""
    uuid: str | None = None
    serial: str | None = None
    for row in identities:
        if device is None or (row["host"], row["device"]) != (host, device):
            continue
        attrs = json.loads(row["attrs"]) if row["attrs"] else {}
        uuid = row["gpu_uuid"] or uuid
        serial = str(attrs["serial"]) if attrs.get("serial") else serial
    return uuid, serial


def _codes(host: str, device: str | None, history: History) -> list[dict[str, Any]]:
    groups: defaultdict[str, list[Burst]] = defaultdict(list)
    for burst in history.bursts:
        if burst.host == host and burst.role in TELLING and (device is None or burst.device in (None, device)):
            groups[burst.code].append(burst)
    rows = [_code(code, sorted(group, key=lambda b: (b.first or 0, b.burst_id)), history) for code, group in groups.items()]
    return sorted(rows, key=lambda r: (r["first"] or "", r["code"]))[:MOST_CODES]


def _code(code: str, group: Sequence[Burst], history: History) -> dict[str, Any]:
    return {
        "code": code,
        "lines": sum(b.count for b in group),
        "bursts": len(group),
        "first": iso(group[0].first),
        "last": iso(group[-1].last),
        "text": group[-1].message,
        "places": [f"{history.where(b.source_id)}:{b.line}" for b in group[-MOST_PLACES:]],
    }
