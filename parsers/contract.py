"""What a dialect receives and what it returns. Light imports only; never `triage`.

A *line dialect* names literal needles; the scanner hands it each line that carries one, with the lines around it.
A *section dialect* opens at a header line and reads on until a line is not its own (tables).
A *document dialect* takes a whole file (JSON, flight-recorder pickles).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Quality(StrEnum):
    """How exact a time is (DESIGN: ts_quality)."""

    EXACT = "exact"
    YEAR_INFERRED = "year_inferred"
    BOOT_RELATIVE = "boot_relative"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Line:
    """One physical line after its wrappers, stamp and host were peeled.

    number   counted by newline bytes, from 1
    raw      the line as it stands, decoded, without its newline
    text     what the dialect reads: the message alone
    ts       microseconds since the epoch, UTC; a year-less stamp lies in the leap year 1972 until the file's year is known
    boot_s   seconds since boot, from a dmesg bracket
    host     as printed in the frame, not folded
    ident    syslog tag or journal identifier: kernel, slurmd, python3
    rank     from a prefix: `[rank3]:`, `[default7]:`, `3:` of srun -l
    label    a prefix that is neither host nor rank, such as pdsh's or a container's
    """

    number: int
    raw: str
    text: str
    ts: int | None = None
    quality: Quality = Quality.UNKNOWN
    zoned: bool = False
    boot_s: float | None = None
    host: str | None = None
    ident: str | None = None
    pid: int | None = None
    rank: int | None = None
    label: str | None = None


class Window(Protocol):
    """A candidate line and its neighbourhood."""

    @property
    def line(self) -> Line: ...

    def after(self, limit: int) -> Iterator[Line]:
        """At most `limit` following lines (and 64 KiB), peeled."""
        ...

    def before(self, limit: int) -> Iterator[Line]:
        """At most `limit` preceding lines (and 16 KiB), nearest first, peeled."""
        ...


@dataclass(slots=True)
class Event:
    """One thing that a line says. Column order is the table's order; times are microseconds UTC.

    ts, ts_quality, boot_s, host and rank are taken from the line's frame where the dialect leaves them empty.
    `peer` is the host or address that the line blames, `op`, `grp` and `seq` name a collective or a training step,
    `duration_s` and `value` are its time and its number (loss, count), `state` is a state, cause or reason in the tool's own words.
    """

    code: str
    message: str
    line_first: int
    line_last: int = 0
    ts: int | None = None
    ts_quality: Quality = Quality.UNKNOWN
    boot_s: float | None = None
    host: str | None = None
    device: str | None = None
    gpu_uuid: str | None = None
    mig: str | None = None
    job_id: str | None = None
    rank: int | None = None
    pid: int | None = None
    severity: str | None = None
    peer: str | None = None
    op: str | None = None
    grp: str | None = None
    seq: int | None = None
    duration_s: float | None = None
    value: float | None = None
    state: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    user: str | None = None
    attrs: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Reject:
    """A line that carries a needle and does not parse; kept, never dropped."""

    line: int
    reason: str
    text: str = ""


@dataclass(slots=True)
class Benign:
    """A line that carries a needle and is known to mean nothing."""

    line: int


@dataclass(slots=True)
class JobRecord:
    """What one record says of one attempt of a job; several records of an attempt are merged by (job_id, start).

    hosts are expanded names; gpus is the whole attempt's; start, end and submit are microseconds UTC; `basis` names the
    kind of record: sacct | scontrol | squeue | slurmctld | k8s.
    """

    job_id: str
    line: int
    basis: str
    name: str | None = None
    user: str | None = None
    partition: str | None = None
    state: str | None = None
    hosts: tuple[str, ...] = ()
    nodes: int | None = None
    gpus: int | None = None
    submit: int | None = None
    start: int | None = None
    end: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    preemptor: str | None = None
    restarts: int | None = None
    excluded: tuple[str, ...] = ()


@dataclass(slots=True)
class HostStateRecord:
    """A host's state at `ts` (snapshot) or from `ts` to `end`: up | idle | alloc | mixed | down | drain | boot | unknown."""

    host: str
    line: int
    basis: str
    state: str
    ts: int | None = None
    end: int | None = None
    reason: str | None = None
    user: str | None = None


@dataclass(slots=True)
class HostRecord:
    """What one record says of a host: inventory and topology. Empty fields say nothing."""

    host: str
    line: int
    basis: str
    gpus: int | None = None
    gpu_model: str | None = None
    gpu_serials: tuple[str, ...] = ()
    rack: str | None = None
    leaf: str | None = None
    rail: str | None = None
    ip: str | None = None


@dataclass(slots=True)
class RankRecord:
    """rank -> host and device of one communicator or launch; `nranks` tells whether it spans the job."""

    rank: int
    line: int
    basis: str
    host: str | None = None
    device: str | None = None
    nranks: int | None = None
    local_rank: int | None = None
    comm: str | None = None
    pid: int | None = None
    job_id: str | None = None


Record = Event | Reject | Benign | JobRecord | HostStateRecord | HostRecord | RankRecord


@dataclass(frozen=True, slots=True)
class LineDialect:
    """`parse` returns no record when the line is not its own.

    needles  a line that carries one of these and is claimed by nobody is a reject
    hints    worth a look; unclaimed they mean nothing
    """

    name: str
    needles: tuple[str, ...]
    parse: Callable[[Window], Iterable[Record]]
    hints: tuple[str, ...] = ()


class Section(Protocol):
    """A table that is being read."""

    def feed(self, line: Line) -> Iterable[Record] | None:
        """The records of this line; None when the line does not belong to the section any more."""
        ...

    def close(self) -> Iterable[Record]:
        """What was still held when the section ended."""
        ...


@dataclass(frozen=True, slots=True)
class SectionDialect:
    """`open` sees each line that carries an opener and returns a section, or None when it is not its header."""

    name: str
    openers: tuple[str, ...]
    open: Callable[[Line], Section | None]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole file. `name` is its last path component; content decides the dialect, the name only fills gaps (rank, host)."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class DocumentDialect:
    """`sniff` sees the first 64 KiB."""

    name: str
    sniff: Callable[[bytes], bool]
    parse: Callable[[Document], Iterable[Record]]


Dialect = LineDialect | SectionDialect | DocumentDialect
