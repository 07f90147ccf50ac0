"""Rows of `coverage`: which host and family a source covers, and from when to when, so that silence can be read.

Read from samples (both ends of the file and a line per 256 KiB), never by parsing every line; `sampled` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from parsers.contract import Event, Line, Quality
from parsers.hosts import fold
from triage.scanner import Claim

KERNEL_IDENTS = {"kernel", "kern"}
SCHEDULER_IDENTS = {"slurmctld", "slurmd", "slurmdbd", "slurmstepd"}
FAMILIES = {"gpu": "kernel", "host": "kernel", "network": "kernel", "storage": "kernel", "scheduler": "scheduler", "training": "training"}
NOT_KERNEL = {"ipmi": "bmc", "fabricmanager": "fabric"}


@dataclass(slots=True)
class Span:
    """Hosts, families and times that the samples of one source showed."""

    seen: dict[tuple[str | None, str | None], list[int]] = field(default_factory=dict)
    count: int = 0

    def see(self, line: Line) -> None:
        if line.ts is None and line.boot_s is None:
            return
        self.count += 1
        family = _family_of(line)
        host = fold(line.host) if line.host else None
        self.seen.setdefault((host, family), []).extend([line.ts] if line.ts is not None else [])

    def stamps(self) -> list[int]:
        return [ts for stamps in self.seen.values() for ts in stamps]


def _family_of(line: Line) -> str | None:
    if line.boot_s is not None or line.ident in KERNEL_IDENTS:
        return "kernel"
    if line.ident in SCHEDULER_IDENTS:
        return "scheduler"
    return None


def build(source_id: str, span: Span, claims: Iterable[Claim], families: dict[str, str], shift: dict[int, int]) -> list[dict[str, Any]]:
    """One dict per (host, family). `shift` maps a year-less sample stamp to its dated one."""
    found: dict[tuple[str | None, str], list[int]] = {}
    lines: dict[tuple[str | None, str], int] = {}
    own = _claimed_family(claims, families)
    for (host, family), stamps in span.seen.items():
        key = (host, family or own or "text")
        found.setdefault(key, []).extend(shift.get(ts, ts) for ts in stamps)
        lines[key] = lines.get(key, 0) + max(1, len(stamps))
    for claim in claims:
        event = claim.record
        if isinstance(event, Event) and event.ts is not None and event.ts_quality in (Quality.EXACT, Quality.YEAR_INFERRED):
            key = (fold(event.host) if event.host else None, coverage_family(event.code, families))
            if own != "scheduler" or key[1] == "scheduler":
                found.setdefault(key, []).append(event.ts)
                lines[key] = lines.get(key, 0) + 1
    return [
        {
            "source_id": source_id,
            "host": host,
            "family": family,
            "first": min(stamps, default=None),
            "last": max(stamps, default=None),
            "lines": lines[host, family],
            "sampled": True,
        }
        for (host, family), stamps in sorted(found.items(), key=lambda item: (item[0][0] or "", item[0][1]))
    ]


def coverage_family(code: str, families: dict[str, str]) -> str:
    """The kind of log that an event code is read from."""
    prefix = code.split(".")[0]
    return NOT_KERNEL.get(prefix) or FAMILIES.get(families.get(code, families.get(prefix, prefix)), "training")


def _claimed_family(claims: Iterable[Claim], families: dict[str, str]) -> str | None:
    votes: dict[str, int] = {}
    for claim in claims:
        if isinstance(claim.record, Event):
            family = coverage_family(claim.record.code, families)
            votes[family] = votes.get(family, 0) + 1
        elif type(claim.record).__name__ in {"JobRecord", "HostStateRecord"}:
            votes["scheduler"] = votes.get("scheduler", 0) + 1
    return max(sorted(votes), key=lambda f: votes[f]) if votes else None
