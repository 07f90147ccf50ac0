"""Everything that was read, indexed for the questions of an incident: who ran where, what happened on a host, what was covered."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from triage.collectives import Dump
from triage.jobs import ACCOUNTING, Attempt
from triage.moments import DAY, MINUTE
from triage.topology import Topology


@dataclass(slots=True, eq=False)
class Burst:
    """A row of `bursts` with what the rulebook says of its code. Times are microseconds UTC, None where no stamp is near.

    place  among all bursts of the history, from 0
    """

    burst_id: str
    code: str
    family: str
    class_id: str | None
    role: str
    layer: str
    weight: int
    fatal: bool
    scope: str
    user_possible: bool
    manifestation: str | None
    signature: str
    message: str
    source_id: str
    line: int
    count: int = 1
    copies: int = 1
    host: str | None = None
    device: str | None = None
    first: int | None = None
    last: int | None = None
    timed: bool = True
    job_id: str | None = None
    attempt: int | None = None
    rank: int | None = None
    peer: str | None = None
    duration_s: float | None = None
    severity: str | None = None
    state: str | None = None
    signal: int | None = None
    exit_code: int | None = None
    op: str | None = None
    seq: int | None = None
    place: int = 0

    @property
    def start(self) -> int | None:
        """When it truly began: a collective timeout began its own duration before the line that tells it (DESIGN section 4)."""
        if self.first is not None and self.code == "nccl.timeout" and self.duration_s:
            return self.first - int(self.duration_s * 1_000_000)
        return self.first


@dataclass(frozen=True, slots=True)
class Rank:
    """Where a rank ran."""

    rank: int
    host: str | None
    device: str | None


@dataclass(frozen=True, slots=True)
class HostState:
    """An interval in which a host was down, drained, idle ...; `basis` tells an interval from a snapshot."""

    host: str
    state: str
    start: int | None
    end: int | None
    reason: str
    user: str
    basis: str
    source_id: str
    line: int


@dataclass(frozen=True, slots=True)
class Step:
    """A training step line."""

    seq: int
    ts: int | None
    duration_s: float | None
    value: float | None
    rank: int | None
    source_id: str
    line: int


LOST = {"slurm.node_down", "slurm.node_fail"}
FOREVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Runs:
    """The attempts of one host, indexed by time.

    starts    in order
    reach     latest end of the attempts up to and with each; FOREVER where one still runs
    freed     earliest end of an attempt that the accounting tells
    broken    ends of attempts that did not complete, in order
    """

    starts: list[int]
    reach: list[int]
    freed: int
    broken: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> Runs:
        timed = sorted((a for a in attempts if a.start is not None), key=lambda a: a.start or 0)
        reach: list[int] = []
        for attempt in timed:
            reach.append(max(reach[-1] if reach else 0, FOREVER if attempt.end is None else attempt.end))
        told = [a.end for a in timed if a.end is not None and ACCOUNTING & set((a.known_from or "").split())]
        broken = sorted(a.end for a in timed if a.end is not None and not (a.state or "").startswith("COMPLETED"))
        return cls([a.start or 0 for a in timed], reach, min(told, default=FOREVER), broken)

    def busy(self, ts: int) -> bool:
        """Whether one ran at `ts`, or ended then."""
        begun = bisect_right(self.starts, ts)
        return begun > 0 and self.reach[begun - 1] >= ts

    def broke(self, low: int, high: int) -> bool:
        """Whether one ended badly in [low, high]."""
        return bisect_left(self.broken, low) < bisect_right(self.broken, high)

    def next(self, ts: int) -> int | None:
        """The first start after `ts`."""
        begun = bisect_right(self.starts, ts)
        return self.starts[begun] if begun < len(self.starts) else None


IDLE_RUNS = Runs([], [], FOREVER)


def _times() -> array[int]:
    return array("q")


def _places() -> array[int]:
    return array("I")


class Mark(NamedTuple):
    """What the indexes need of a burst."""

    place: int
    burst_id: str
    host: str | None
    first: int | None
    fault: bool
    job_id: str | None
    attempt: int | None

    @classmethod
    def of(cls, burst: Burst) -> Mark:
        return cls(burst.place, burst.burst_id, burst.host, burst.first, is_fault(burst), burst.job_id, burst.attempt)


@dataclass(slots=True)
class Track:
    """The bursts of one host in order of time and id, those without a time first: when they begin and their places, a few bytes each."""

    keys: array[int] = field(default_factory=_times)
    places: array[int] = field(default_factory=_places)
    untimed: list[tuple[str, int]] = field(default_factory=list)
    _ids: list[str] = field(default_factory=list)

    def add(self, mark: Mark) -> None:
        """Marks come in order of time."""
        if mark.first is None:
            insort(self.untimed, (mark.burst_id, mark.place))
            return
        if not self.keys or self.keys[-1] != mark.first:
            self._ids = []
        at = bisect_right(self._ids, mark.burst_id)
        self._ids.insert(at, mark.burst_id)
        self.keys.append(mark.first)
        self.places.insert(len(self.keys) - len(self._ids) + at, mark.place)

    def finish(self) -> None:
        """All marks are there."""
        self._ids = []
        if self.untimed:
            self.keys = _times() + array("q", bytes(8 * len(self.untimed))) + self.keys
            self.places = array("I", (place for _, place in self.untimed)) + self.places

    def between(self, low: int, high: int) -> array[int]:
        """Places of those that begin in [low, high]."""
        return self.places[bisect_left(self.keys, low) : bisect_right(self.keys, high)]


@dataclass(slots=True)
class Breakages:
    """When a host was accused of breaking something, the shared, the user's and the guessed apart.

    days, window_us   so many days inside the window make a host unfit to stand in: it is as a lemon would be
    """

    days: int = 3
    window_us: int = 28 * DAY
    _by_host: defaultdict[str, array[int]] = field(default_factory=lambda: defaultdict(_times))

    def add(self, host: str, ts: int) -> None:
        insort(self._by_host[host], ts)

    def days_of(self, host: str, until: int) -> int:
        """Days with a breakage inside the window that ends at `until`."""
        times = self._by_host.get(host, _times())
        inside = times[bisect_right(times, until - self.window_us) : bisect_right(times, until)]
        return len({ts // DAY for ts in inside})

    def unfit(self, host: str, until: int) -> bool:
        return self.days_of(host, until) >= self.days


@dataclass(slots=True)
class History:
    """The indexed whole. `now` is the last stamp of the data; `paths` names each source."""

    now: int | None = None
    paths: dict[str, str] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    bursts: Sequence[Burst] = ()
    topology: Topology = field(default_factory=Topology)
    ranks: dict[tuple[str, int], dict[int, Rank]] = field(default_factory=dict)
    states: dict[str, list[HostState]] = field(default_factory=dict)
    spans: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    steps: dict[tuple[str, int], list[Step]] = field(default_factory=dict)
    dumps: dict[tuple[str, int], list[Dump]] = field(default_factory=dict)
    stacks: dict[tuple[str, int], list[Mapping[str, Any]]] = field(default_factory=dict)
    lemons: set[str] = field(default_factory=set)
    breakages: Breakages = field(default_factory=Breakages)
    _tracks: dict[str | None, Track] = field(default_factory=dict)
    _losses: dict[str, list[int]] = field(default_factory=dict)
    _by_job: dict[tuple[str, int], array[int]] = field(default_factory=dict)
    _runs: dict[str, list[Attempt]] = field(default_factory=dict)
    _runs_by_time: dict[str, Runs] = field(default_factory=dict)
    _faults: dict[str, array[int]] = field(default_factory=dict)

    def index(self, faults: Iterable[tuple[str, int]] = (), marks: Iterable[Mark] | None = None) -> History:
        """Build the indexes; call once after filling the lists.

        faults  (host, time) of those of bursts that were not loaded
        marks   of all bursts, in order of time, those without one last; where there are none the bursts are asked
        """
        self._index_bursts(_marks_of(self.bursts) if marks is None else marks)
        runs: defaultdict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            for host in attempt.hosts:
                runs[host].append(attempt)
        self._runs = dict(runs)
        self._runs_by_time = {host: Runs.of(attempts) for host, attempts in runs.items()}
        for host, ts in faults:
            self._faults.setdefault(host, _times()).append(ts)
        self._faults = {host: array("q", sorted(times)) for host, times in self._faults.items()}
        lost: defaultdict[str, list[int]] = defaultdict(list)
        for attempt in self.attempts:
            if attempt.failed_host:
                lost[attempt.failed_host].append(attempt.end or 0)
        self._losses = {host: sorted(ends) for host, ends in lost.items()}
        return self

    def _index_bursts(self, marks: Iterable[Mark]) -> None:
        tracks: defaultdict[str | None, Track] = defaultdict(Track)
        jobs: defaultdict[tuple[str, int], array[int]] = defaultdict(_places)
        failed: defaultdict[str, array[int]] = defaultdict(_times)
        for mark in marks:
            if mark.job_id is not None and mark.attempt is not None:
                jobs[mark.job_id, mark.attempt].append(mark.place)
            tracks[mark.host].add(mark)
            if mark.host is not None and mark.fault and mark.first is not None:
                failed[mark.host].append(mark.first)
        for track in tracks.values():
            track.finish()
        self._tracks, self._faults = dict(tracks), dict(failed)
        self._by_job = {key: array("I", sorted(places)) for key, places in jobs.items()}

    def at(self, places: Iterable[int]) -> list[Burst]:
        """The bursts at these places."""
        bursts = self.bursts
        return [bursts[place] for place in places]

    def of_job(self, attempt: Attempt) -> list[Burst]:
        """Bursts that the job's own records and output hold."""
        return self.at(self._by_job.get((attempt.job_id, attempt.attempt), ()))

    def on_host(self, host: str | None, low: int, high: int) -> list[Burst]:
        """Bursts of a host, or of none, that begin in [low, high]."""
        track = self._tracks.get(host)
        return self.at(track.between(low, high)) if track else []

    def track(self, host: str | None) -> Iterator[Burst]:
        """All bursts of a host, or of none."""
        track = self._tracks.get(host)
        return (self.bursts[place] for place in track.places) if track else iter(())

    def untimed(self) -> Iterator[tuple[str | None, list[Burst]]]:
        """By host, or none, the bursts without any time, in order of their id."""
        for host, track in self._tracks.items():
            if track.untimed:
                yield host, self.at(place for _, place in track.untimed)

    def untimed_on(self, host: str | None) -> list[Burst]:
        """Bursts of a host, or of none, without any time."""
        track = self._tracks.get(host)
        return self.at(sorted(place for _, place in track.untimed)) if track else []

    def hostless(self, low: int, high: int) -> list[Burst]:
        """What a machine wrote in [low, high] into a file that does not tell which machine; without a time, where one attempt is all."""
        found = [b for b in self.on_host(None, low, high) if b.first is not None]
        if len(self.attempts) == 1:
            found += self.untimed_on(None)
        return sorted(filter(is_hostless, found), key=lambda b: b.place)

    def losses(self, host: str, until: int | None) -> int:
        """How many attempts lost this host by `until`."""
        ends = self._losses.get(host, [])
        return len(ends) if until is None else bisect_right(ends, until)

    def runs_on(self, host: str) -> list[Attempt]:
        """Attempts that used a host."""
        return self._runs.get(host, [])

    def in_use(self) -> set[str]:
        """Hosts that any attempt used."""
        return set(self._runs)

    def runs_by_time(self, host: str) -> Runs:
        return self._runs_by_time.get(host, IDLE_RUNS)

    def last_fault(self, host: str, until: int) -> int | None:
        """When the host last showed a root or was lost, up to `until`."""
        faults = self._faults.get(host, _times())
        before = bisect_right(faults, until)
        return faults[before - 1] if before else None

    def job_at(self, host: str, ts: int) -> list[Attempt]:
        """Attempts that ran on a host at a moment."""
        return [a for a in self.runs_on(host) if a.start is not None and a.start <= ts and (a.end is None or ts <= a.end)]

    def covered(self, host: str, family: str, low: int, high: int) -> bool:
        """Whether a log of that family of the host covers [low, high]: one of its spans begins before and ends after, or lies within."""
        spans = self.spans.get((host, family), [])
        return any(first <= high and last >= low for first, last in spans)

    def covers_end(self, host: str, family: str, ts: int) -> bool:
        """Whether the host's log goes on past `ts`, so that its silence before means something."""
        return any(first <= ts <= last for first, last in self.spans.get((host, family), []))

    def state_at(self, host: str, ts: int) -> list[HostState]:
        """States that hold at `ts`: intervals around it and the last snapshot at or after it."""
        states = self.states.get(host, [])
        return [s for s in states if (s.start is None or s.start <= ts) and (s.end is None or s.end >= ts)]

    def hosts(self) -> set[str]:
        return set(self.topology.rows)

    def where(self, source_id: str) -> str:
        return self.paths.get(source_id, source_id)

    def rank_host(self, attempt: Attempt, rank: int | None) -> Rank | None:
        return None if rank is None else self.ranks.get((attempt.job_id, attempt.attempt), {}).get(rank)


def is_hostless(burst: Burst) -> bool:
    """Of a machine, by its family, and of one that neither line nor file names."""
    return burst.host is None and burst.job_id is None and burst.family not in ("scheduler", "training", "facility")


def is_fault(burst: Burst) -> bool:
    """Whether a host that shows this is no host to rely on."""
    return burst.role == "root" or burst.code in LOST


def _marks_of(bursts: Sequence[Burst]) -> Iterator[Mark]:
    """In order of time, after each burst was told its place."""
    for place, burst in enumerate(bursts):
        burst.place = place
    yield from map(Mark.of, sorted(bursts, key=lambda b: (b.first is None, b.first or 0)))


def spans_of(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """(host, family) -> covered spans, from rows of `coverage` with microsecond times; pieces closer than a minute are joined."""
    found: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if row["host"] and row["first"] is not None:
            found[row["host"], row["family"]].append((row["first"], row["last"]))
    return {key: _joined(sorted(spans)) for key, spans in found.items()}


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in spans:
        if joined and first <= joined[-1][1] + MINUTE:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
