"""Rows of `coverage`: which host and family a source covers, and from when to when, so that silence can be read.

Read from samples (both ends of the file and lines at growing distances, at most 256 KiB apart), never by parsing every line;
`sampled` says so. Where the samples show several hosts, a few KiB at each place are looked through for more of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from parsers import clocks
from parsers.contract import Line
from parsers.frames import peel
from parsers.hosts import fold
from triage.dating import DATED, Runs, Thinned, moved

KERNEL_IDENTS = {"kernel", "kern"}
SCHEDULER_IDENTS = {"slurmctld", "slurmd", "slurmdbd", "slurmstepd"}
FAMILIES = {"gpu": "kernel", "host": "kernel", "network": "kernel", "storage": "kernel", "scheduler": "scheduler", "training": "training"}
NOT_KERNEL = {"ipmi": "bmc", "fabricmanager": "fabric"}
GLANCED, LONGEST = 20_000, 400
# Mar  2 04:00:00 gpu-7 kernel: ... | <4>2026-03-02T04:00:00.123456+00:00 gpu-7 slurmd[812]: ...
_FRAMED = re.compile(
    rb"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d:.,+Z-]{0,16}) {1,2}"
    rb"([^\s:\[\]]{1,64}) {1,2}(kernel|slurm\w{1,8})?"
)
Key = tuple[str | None, str | None]


@dataclass(slots=True)
class Stretch:
    """From when to when; year-less stamps by their first and last run of days, (run, earliest, latest)."""

    count: int = 0
    first: int | None = None
    last: int | None = None
    head: tuple[int, int, int] | None = None
    tail: tuple[int, int, int] | None = None
    boots: tuple[float, float] | None = None

    def booted(self, seconds: float) -> None:
        """A line that has only seconds since boot."""
        low, high = self.boots or (seconds, seconds)
        self.boots = (min(low, seconds), max(high, seconds))

    def add(self, ts: int, run: int, count: int = 1) -> None:
        self.count += count
        if run == DATED:
            self.first = ts if self.first is None else min(self.first, ts)
            self.last = ts if self.last is None else max(self.last, ts)
        else:
            self.head = _widened(self.head, run, ts, run < self.head[0]) if self.head else (run, ts, ts)
            self.tail = _widened(self.tail, run, ts, run > self.tail[0]) if self.tail else (run, ts, ts)

    def ends(self, by: list[int], zone: clocks.Zone | None) -> Iterator[int]:
        """Its earliest and latest stamps, in their years."""
        yield from (ts for ts in (self.first, self.last) if ts is not None)
        for part in (self.head, self.tail):
            if part:
                run, low, high = part
                yield from (there for ts in (low, high) if (there := moved(ts, run, by, zone)) is not None)


def _widened(part: tuple[int, int, int], run: int, ts: int, farther: bool) -> tuple[int, int, int]:
    if farther:
        return run, ts, ts
    return (run, min(part[1], ts), max(part[2], ts)) if run == part[0] else part


@dataclass(slots=True)
class Stretches:
    """A stretch for each host and family."""

    of: dict[Key, Stretch] = field(default_factory=dict)

    def add(self, key: Key, ts: int | None, run: int, count: int = 1) -> None:
        stretch = self.of.get(key)
        if stretch is None:
            stretch = self.of[key] = Stretch()
        if ts is None:
            stretch.count += count
        else:
            stretch.add(ts, run, count)


@dataclass(slots=True)
class Span:
    """Hosts, families and times that the samples of one source showed."""

    seen: Stretches = field(default_factory=Stretches)
    runs: Runs = field(default_factory=Runs)
    dated: Thinned = field(default_factory=Thinned)
    zoned: int = 0
    unzoned: int = 0
    hosts: set[str] = field(default_factory=set)
    _lines: dict[tuple[bytes, bytes], tuple[tuple[bytes, int], tuple[bytes, int]]] = field(default_factory=dict)

    def see(self, line: Line, place: int) -> None:
        """One peeled sample."""
        if line.ts is None and line.boot_s is None:
            return
        run = self.runs.of(line.ts, place)
        if line.ts is not None:
            self.zoned += line.zoned
            self.unzoned += not line.zoned
            if run == DATED:
                self.dated.add(line.ts)
        host = fold(line.host) if line.host else None
        if host:
            self.hosts.add(host)
        key = (host, _family_of(line))
        self.seen.add(key, line.ts, run)
        if line.ts is None and line.boot_s is not None:
            self.seen.of[key].booted(line.boot_s)

    def glance(self, region: bytes, place: int) -> None:
        """Raw lines of a log of several hosts: the first and the last of each host and kind are kept, to be read in the end."""
        if len(self.hosts) < 2:
            return
        for raw in region.split(b"\n")[:-1]:
            found = _FRAMED.match(raw)
            if found:
                key, here = (found[1], found[2] or b""), (raw[:LONGEST], place)
                known = self._lines.get(key)
                if known is not None or len(self._lines) < GLANCED:
                    self._lines[key] = (known[0] if known else here, here)
            place += len(raw) + 1

    def finish(self) -> None:
        """Read the lines that were only glanced at."""
        kept = sorted({pair for pairs in self._lines.values() for pair in pairs}, key=lambda pair: pair[1])
        self._lines.clear()
        for raw, place in kept:
            self.see(peel(0, raw.decode("utf-8", "replace")), place)

    @property
    def kernel(self) -> bool:
        """Whether some sample is of a kernel."""
        return any(family == "kernel" for _, family in self.seen.of)


def _family_of(line: Line) -> str | None:
    if line.boot_s is not None or line.ident in KERNEL_IDENTS:
        return "kernel"
    if line.ident in SCHEDULER_IDENTS:
        return "scheduler"
    return None


@dataclass(frozen=True, slots=True)
class Part:
    """Stretches of one look at a source, and how its year-less stamps move."""

    stretches: Stretches
    by: list[int]


def build(source_id: str, samples: Part, events: Part, own: str | None, zone: clocks.Zone | None) -> list[dict[str, Any]]:
    """One dict per (host, family); `own` is the family that most of the source's records are of, for lines that do not say theirs."""
    found: dict[tuple[str | None, str], tuple[list[int], int]] = {}
    for part, is_event in ((samples, False), (events, True)):
        for (host, family), stretch in part.stretches.of.items():
            kind = family or own or "text"
            if is_event and own == "scheduler" and kind != "scheduler":
                continue
            stamps, lines = found.get((host, kind), ([], 0))
            found[host, kind] = ([*stamps, *stretch.ends(part.by, zone)], lines + max(1, stretch.count))
    return [
        {
            "source_id": source_id,
            "host": host,
            "family": family,
            "first": min(stamps, default=None),
            "last": max(stamps, default=None),
            "boot_first": _boots(samples, host, family)[0],
            "boot_last": _boots(samples, host, family)[1],
            "lines": lines,
            "sampled": True,
        }
        for (host, family), (stamps, lines) in sorted(found.items(), key=lambda item: (item[0][0] or "", item[0][1]))
    ]


def _boots(samples: Part, host: str | None, family: str) -> tuple[float | None, float | None]:
    """Seconds since boot of the first and last sample that has nothing else."""
    stretch = samples.stretches.of.get((host, family))
    return stretch.boots if stretch is not None and stretch.boots is not None else (None, None)


def coverage_family(code: str, families: dict[str, str]) -> str:
    """The kind of log that an event code is read from."""
    prefix = code.split(".")[0]
    return NOT_KERNEL.get(prefix) or FAMILIES.get(families.get(code, families.get(prefix, prefix)), "training")
