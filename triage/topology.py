"""Hosts and what they share. Writes nothing; `hosts` is built here from records, best source first, else guessed from names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RANKING = ("csv", "slurm", "topology", "scontrol", "sinfo", "k8s", "slurm_json")
_TAIL = re.compile(r"^(?P<stem>.*?[^0-9])(?P<number>[0-9]+)$")
_GROUPED = re.compile(r"^(?P<group>[A-Za-z]+[0-9]+)[-_]?[A-Za-z]+[0-9]+$|^(?P<group2>[A-Za-z]+[-_]?[0-9]+[-_][0-9]+)[-_][A-Za-z0-9]+$")
LEVELS = ("rack", "leaf", "rail")
MIN_GUESS = 2


def build(records: Iterable[Mapping[str, Any]], seen: Iterable[str]) -> list[dict[str, Any]]:
    """One row per host of `records` (host_records) or `seen` (names from any log); the first source that says a field wins."""
    ordered = sorted(records, key=lambda r: (_place(r["basis"]), r["source_id"], r["line"]))
    rows: dict[str, dict[str, Any]] = {}
    for record in ordered:
        row = rows.setdefault(record["host"], {"host": record["host"], "topology_from": None})
        for name in ("gpus", "gpu_model", "gpu_serials", *LEVELS, "ip"):
            if record.get(name) and not row.get(name):
                row[name] = record[name]
                if name in LEVELS:
                    row["topology_from"] = row["topology_from"] or record["basis"]
    for host in seen:
        rows.setdefault(host, {"host": host, "topology_from": None})
    _guess_racks(rows)
    return [rows[h] for h in sorted(rows)]


def _place(basis: str) -> int:
    return RANKING.index(basis) if basis in RANKING else len(RANKING)


def _guess_racks(rows: dict[str, dict[str, Any]]) -> None:
    """`r12-n03` reads as rack r12; a guess, marked so, only where nothing better is known and the groups differ."""
    guesses = {h: g for h, row in rows.items() if not any(row.get(level) for level in LEVELS) and (g := group_in(h))}
    sizes: defaultdict[str, int] = defaultdict(int)
    for group in guesses.values():
        sizes[group] += 1
    for host, group in guesses.items():
        if sizes[group] >= MIN_GUESS or len(sizes) > 1:
            rows[host] |= {"rack": group, "topology_from": "guess"}


def group_in(host: str) -> str | None:
    """The part of a two-part name that reads as a rack: `r12` of `r12-n03`."""
    match = _GROUPED.match(host)
    return (match["group"] or match["group2"]) if match else None


@dataclass(slots=True)
class Topology:
    """Answers what hosts share."""

    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Topology:
        return cls({r["host"]: r for r in rows}, {r["ip"]: r["host"] for r in rows if r.get("ip")})

    def part(self, host: str, level: str) -> str | None:
        value = self.rows.get(host, {}).get(level)
        return str(value) if value else None

    def guessed(self, host: str) -> bool:
        return self.rows.get(host, {}).get("topology_from") == "guess"

    def shared(self, hosts: Iterable[str]) -> tuple[str, str] | None:
        """(level, name) of the smallest part that all `hosts` lie in: rack, then leaf."""
        names = sorted(set(hosts))
        for level in ("rack", "leaf"):
            parts = {self.part(h, level) for h in names}
            if len(names) > 1 and len(parts) == 1 and (only := parts.pop()):
                return level, only
        return None

    def members(self, level: str, name: str) -> list[str]:
        return sorted(h for h, row in self.rows.items() if row.get(level) == name)

    def near(self, host: str, others: Iterable[str]) -> str | None:
        """The closest level (leaf, rack, rail) at which `host` lies with one of `others`."""
        for level in ("leaf", "rack", "rail"):
            mine = self.part(host, level)
            if mine and any(self.part(o, level) == mine for o in others):
                return level
        return None
