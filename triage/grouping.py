"""Loose bursts put together in one pass over time: those of a host without a long gap, then hosts that began together with one class.

What is kept of a burst is its place, a few bytes, so that a group may be of any size; what can no longer grow is given away at once.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from operator import attrgetter

from triage.history import FOREVER, Burst

Late = Mapping[str | None, tuple[Sequence[Burst], int]]


@dataclass(slots=True, eq=False)
class Group:
    """Bursts of one host (None: of no host) with no gap longer than the quiet one; the first of them is its head."""

    head: str
    host: str | None
    class_id: str | None
    role: str
    first: int | None
    last: int | None
    run: Run
    places: array[int] = field(default_factory=lambda: array("I"))
    open: bool = True

    def add(self, burst: Burst) -> None:
        self.places.append(burst.place)
        self.last = burst.last

    def goes_on(self, ts: int, gap: int) -> bool:
        """Whether a burst that begins at `ts` belongs here."""
        return self.last is not None and ts - self.last <= gap


@dataclass(slots=True, eq=False)
class Run:
    """Groups of different hosts whose heads are of one class and close together, in order of time and host."""

    groups: list[Group] = field(default_factory=list)
    growing: int = 0
    open: bool = True

    def goes_on(self, ts: int, window: int) -> bool:
        """Whether a group whose head begins at `ts` belongs here."""
        since = self.groups[-1].first
        return since is not None and ts - since <= window


class Gathering:
    """One pass.

    gap     microseconds of quiet that end a group
    window  from one head to the next of a run
    late    by host: bursts without a time, in order of id, which belong to its last group, and how many others it has
    """

    def __init__(self, gap: int, window: int, late: Late) -> None:
        self._gap, self._window = gap, window
        self._late, self._left = late, {host: left for host, (_, left) in late.items()}
        self._groups: dict[str | None, Group] = {}
        self._runs: dict[str | None, Run] = {}
        self._growing: dict[Run, None] = {}
        self._done: list[Run] = []
        self._due: list[tuple[int, int, Group | Run]] = []
        self._number = count()

    def runs(self, bursts: Iterable[Burst]) -> Iterator[tuple[int, list[Run]]]:
        """(time, complete runs): all that come later begin at that time or after it. `bursts` are in order of time, each with one."""
        for host, (rows, left) in self._late.items():
            if not left:
                self._end_with(self._opened(rows[0], host), rows)
        for ts, tick in groupby(bursts, attrgetter("first")):
            assert ts is not None
            self._settle(ts)
            if self._done:
                yield self._since(ts), self._taken()
            self._take(ts, sorted(tick, key=attrgetter("burst_id")))
        for group in list(self._groups.values()):
            self._close(group)
        for run in list(self._growing):
            self._end(run)
        yield FOREVER, self._taken()

    def _taken(self) -> list[Run]:
        done, self._done = self._done, []
        return done

    def _since(self, ts: int) -> int:
        """When the first run began that still grows."""
        first = next(iter(self._growing), None)
        return ts if first is None else first.groups[0].first or 0

    def _take(self, ts: int, bursts: Sequence[Burst]) -> None:
        begun: list[Group] = []
        for burst in bursts:
            group = self._groups.get(burst.host)
            if group is None or not group.goes_on(ts, self._gap):
                if group is not None:
                    self._close(group)
                group = self._opened(burst, burst.host)
                begun.append(group)
            group.add(burst)
            if burst.host in self._left:
                self._left[burst.host] -= 1
                if not self._left[burst.host]:
                    self._end_with(group, self._late[burst.host][0])
        for group in sorted(begun, key=lambda g: g.host or ""):
            self._join(group, ts)

    def _opened(self, head: Burst, host: str | None) -> Group:
        group = Group(head.burst_id, host, head.class_id, head.role, head.first, head.last, Run())
        self._groups[host] = group
        return group

    def _join(self, group: Group, ts: int) -> None:
        """Put a new group into the run of its class, if that goes on; what is of no host stays alone."""
        run = self._runs.get(group.class_id) if group.host is not None else None
        if run is None or not run.goes_on(ts, self._window):
            run = group.run
            self._growing[run] = None
            self._wait(ts + self._window, run)
            if group.host is not None:
                self._runs[group.class_id] = run
        run.groups.append(group)
        run.growing += group.open
        group.run = run
        self._wait(group.first or 0, group)

    def _end_with(self, group: Group, rows: Sequence[Burst]) -> None:
        """The last group of a host takes those without a time."""
        for burst in rows:
            group.add(burst)
        self._close(group)
        if group.first is None:
            group.run.groups.append(group)
            self._done.append(group.run)

    def _wait(self, until: int, thing: Group | Run) -> None:
        heapq.heappush(self._due, (until, next(self._number), thing))

    def _settle(self, ts: int) -> None:
        """End what a burst at `ts` or later cannot belong to."""
        while self._due and self._due[0][0] < ts:
            thing = heapq.heappop(self._due)[2]
            if isinstance(thing, Run):
                since = thing.groups[-1].first or 0
                if thing.goes_on(ts, self._window):
                    self._wait(since + self._window, thing)
                else:
                    self._end(thing)
            elif thing.open:
                if thing.last is not None and thing.goes_on(ts, self._gap):
                    self._wait(thing.last + self._gap, thing)
                else:
                    self._close(thing)

    def _close(self, group: Group) -> None:
        """Nothing more belongs to a group."""
        if group.open:
            group.open = False
            if self._groups.get(group.host) is group:
                del self._groups[group.host]
            if group.run.groups:
                group.run.growing -= 1
                self._give(group.run)

    def _end(self, run: Run) -> None:
        """No group joins a run any more."""
        run.open = False
        class_id = run.groups[0].class_id
        if self._runs.get(class_id) is run:
            del self._runs[class_id]
        self._give(run)

    def _give(self, run: Run) -> None:
        if not run.open and not run.growing and run in self._growing:
            del self._growing[run]
            self._done.append(run)
