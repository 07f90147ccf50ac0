"""The year of year-less stamps, and the zone of stamps that name none, for one source whose stamps are too many to keep.

Year-less stamps are thinned to runs of one day each; a day's stamps all move alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from parsers import clocks

YEARLESS = range(63_072_000_000_000, 94_694_400_000_000)
"""Year-less stamps lie in 1972 until their year is known, microseconds."""
RUNS, KEPT = 4096, 1024
DATED = -1


def is_yearless(ts: int | None) -> bool:
    """Whether a stamp still waits for its year."""
    return ts is not None and YEARLESS.start <= ts < YEARLESS.stop


@dataclass(slots=True)
class Runs:
    """Year-less stamps in file order, one per run of a day, with their places in the file."""

    days: list[tuple[int, int]] = field(default_factory=list)
    _day: int = -1
    _run: int = DATED
    _latest: dict[int, int] = field(default_factory=dict)

    def of(self, ts: int | None, place: int) -> int:
        """The run of a stamp; DATED for one that has a year, or for none."""
        if ts is None or not YEARLESS.start <= ts < YEARLESS.stop:
            return DATED
        day = ts // clocks.DAY
        if day != self._day:
            known = self._latest.get(day) if len(self.days) >= RUNS else None
            if known is None:
                known = len(self.days)
                self.days.append((place, ts))
            self._day, self._run = day, known
            self._latest[day] = known
        return self._run


@dataclass(slots=True)
class Thinned:
    """Stamps that have a year: both ends, and at most 1024 evenly spread ones."""

    first: int | None = None
    last: int | None = None
    _kept: list[int] = field(default_factory=list)
    _step: int = 1
    _seen: int = 0

    def add(self, ts: int) -> None:
        self.first = ts if self.first is None or ts < self.first else self.first
        self.last = ts if self.last is None or ts > self.last else self.last
        if self._seen % self._step == 0:
            self._kept.append(ts)
            if len(self._kept) > KEPT:
                self._kept = self._kept[::2]
                self._step *= 2
        self._seen += 1

    def stamps(self) -> list[int]:
        return [] if self.first is None or self.last is None else [self.first, *self._kept, self.last]


def moves(parts: Sequence[Runs], anchor: int, dated: Sequence[int]) -> list[list[int]]:
    """For each part, by how many microseconds the stamps of each run move to reach their year.

    The parts are looks at one file, merged by place. `anchor` is the latest moment at which the file can end, `dated` are its stamps
    that have a year.
    """
    merged = sorted((place, which, run, ts) for which, part in enumerate(parts) for run, (place, ts) in enumerate(part.days))
    placed = clocks.infer_years([ts for *_, ts in merged], anchor, dated)
    found = [[0] * len(part.days) for part in parts]
    for (_, which, run, ts), there in zip(merged, placed, strict=True):
        found[which][run] = there - ts
    return found


def moved(ts: int | None, run: int, by: Sequence[int], zone: clocks.Zone | None) -> int | None:
    """One stamp in its year, and from a stated zone to UTC where it was year-less; other stamps were read in that zone already."""
    if ts is None or run == DATED:
        return ts
    there = ts + by[run]
    return there if zone is None else there - clocks.offset(there, zone)


def all_moved(stamps: Iterable[int | None], runs: Iterable[int], by: Sequence[int], zone: clocks.Zone | None) -> list[int | None]:
    """`moved` for columns."""
    return [ts if run == DATED else moved(ts, run, by, zone) for ts, run in zip(stamps, runs, strict=True)]
