"""Text for a hardware ticket: what the vendor asks for first, and where each fact is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from triage.escape import cell, clean
from triage.moments import shown

NOT_SEEN = "not in the logs read"
NO_HARDWARE = "No fault of a host or GPU is found here (layer {layer}): there is no hardware ticket to write."
BUG_REPORT = "nvidia-bug-report.log.gz of {host}, made before a reset or restart"


def ticket(report: Mapping[str, Any]) -> str:
    """Plain text, one part for each suspected host and GPU of the report."""
    rows = report["hardware"]
    if not rows:
        return "\n".join([NO_HARDWARE.format(layer=report["verdict"]["layer"].replace("_", " ")), clean(report["verdict"]["summary"]), ""])
    parts = [line for row in rows for line in _part(row, report)]
    return "\n".join([*_head(report), *parts, *_tail(report), ""])


def _head(report: Mapping[str, Any]) -> Iterable[str]:
    verdict, first = report["verdict"], report["hardware"][0]
    place = f"{first['host']}, GPU {first['device']}" if first["device"] else first["host"]
    yield f"Subject: {clean(place)}: {clean(report['title'])}"
    yield ""
    yield f"Incident   {clean(report['id'])}"
    yield f"Began      {shown(verdict['start']) if verdict['start'] else 'not known'} (UTC)"
    yield f"Finding    {clean(verdict['summary'])}"
    yield f"Confidence {verdict['confidence']}; rule {verdict['rule_id']}"
    yield f"Asked for  {report['rule']['action_title'] if report['rule'] else verdict['action'].replace('_', ' ')}"


def _part(row: Mapping[str, Any], report: Mapping[str, Any]) -> Iterable[str]:
    yield ""
    yield f"{clean(row['host'])} ({row['role']})"
    facts = (
        ("PCI slot", row["device"]),
        ("GPU UUID", row["uuid"]),
        ("Serial", row["serial"] or _whole_host(row)),
        ("Model", row["model"]),
        ("Rack", row["rack"]),
        ("Driver", row["driver"]),
        ("VBIOS", row["firmware"]),
    )
    for name, value in facts:
        yield f"  {name:<9} {clean(value) if value else NOT_SEEN}"
    for code in row["codes"]:
        when = " to ".join(dict.fromkeys(shown(ts) for ts in (code["first"], code["last"])))
        often = _many(code["lines"], "line") + ("" if code["bursts"] == 1 else f" in {code['bursts']} bursts")
        yield f"  {clean(code['code']):<22} {often}, {when}"
        yield f"    {cell(code['text'])}"
        for place in code["places"]:
            yield f"    at {clean(place)}"
    yield from _before(row["host"], report)


def _many(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _whole_host(row: Mapping[str, Any]) -> str:
    serials = row["host_serials"]
    return f"one of {', '.join(serials[:16])} (inventory of the host)" if serials else ""


def _before(host: str, report: Mapping[str, Any]) -> Iterable[str]:
    mine = [e for e in report["earlier"] if host in e["hosts"]]
    for row in mine[:5]:
        yield f"  earlier   {shown(row['start'])} {row['class']} {row['why']}: {clean(row['summary'], 160)}"


def _tail(report: Mapping[str, Any]) -> Iterable[str]:
    yield ""
    yield "To attach:"
    hosts = dict.fromkeys(row["host"] for row in report["hardware"] if report["verdict"]["layer"] in ("gpu", "interconnect"))
    wanted = [m["what"] for m in report["missing"]]
    for what in [*(BUG_REPORT.format(host=host) for host in hosts), *wanted]:
        yield f"  - {clean(what)}"
