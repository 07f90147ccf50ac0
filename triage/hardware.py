"""What a hardware ticket must say of a suspected host or GPU: identity, codes with counts, versions, and where it is written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triage.moments import iso, micros

if TYPE_CHECKING:
    from triage.decisions import Decision
    from triage.excerpt import Excerpt
    from triage.history import History
    from triage.store import Store

MOST_CODES, MOST_PLACES = 12, 3
IDENTITY = """SELECT device, gpu_uuid, attrs, ts_near FROM events WHERE code = 'gpu.identity' AND host = ? ORDER BY ts_near NULLS FIRST, event_id"""
CODES = """SELECT code, device, first, "last", "count", source_id, line, message FROM bursts
    WHERE host = ? AND (device = ? OR device IS NULL OR ? IS NULL) AND role IN ('root', 'cascade', 'precursor')
    ORDER BY first NULLS FIRST, burst_id"""


def hardware_of(decision: Decision, history: History, store: Store, excerpts: Mapping[str, Excerpt]) -> list[dict[str, Any]]:
    """One row a suspected host and device: model, uuid, serial, driver, firmware (null where no log says), rack, codes with places."""
    places = dict.fromkeys((s.host, s.device, s.role) for s in decision.finding.suspects if s.host)
    return [_row(str(host), device, role, history, store, excerpts) for host, device, role in places]


def _row(host: str, device: str | None, role: str, history: History, store: Store, excerpts: Mapping[str, Excerpt]) -> dict[str, Any]:
    inventory = history.topology.rows.get(host, {})
    uuid, serial = _identity(host, device, store)
    codes = _codes(host, device, history, store)
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


def _identity(host: str, device: str | None, store: Store) -> tuple[str | None, str | None]:
    """The last UUID and serial that a log ties to the device."""
    uuid: str | None = None
    serial: str | None = None
    for row in store.rows(IDENTITY, [host]):
        if device is None or row["device"] != device:
            continue
        attrs = json.loads(row["attrs"]) if row["attrs"] else {}
        uuid = row["gpu_uuid"] or uuid
        serial = str(attrs["serial"]) if attrs.get("serial") else serial
    return uuid, serial


def _codes(host: str, device: str | None, history: History, store: Store) -> list[dict[str, Any]]:
    groups: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in store.rows(CODES, [host, device, device]):
        groups[row["code"]].append(row)
    rows = [_code(code, group, history) for code, group in groups.items()]
    return sorted(rows, key=lambda r: (r["first"] or "", r["code"]))[:MOST_CODES]


def _code(code: str, group: Sequence[Mapping[str, Any]], history: History) -> dict[str, Any]:
    return {
        "code": code,
        "lines": sum(r["count"] for r in group),
        "bursts": len(group),
        "first": iso(micros(group[0]["first"])),
        "last": iso(micros(group[-1]["last"])),
        "text": group[-1]["message"],
        "places": [f"{history.where(r['source_id'])}:{r['line']}" for r in group[-MOST_PLACES:]],
    }
