"""What runs on a worker: files are read, their rows are landed, and the manifest goes back. Imported there by name, so it is small."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from triage.dialects import dialects
from triage.faults import Fault
from triage.ingest import Options, Reader
from triage.intake import Parsed
from triage.landing import Landing
from triage.schema import VERSION
from triage.sources import Source, find


@dataclass(frozen=True, slots=True)
class Order:
    """How every worker is to read: the same program with the same dialects, families of codes, zone and block size."""

    spool: str
    families: tuple[tuple[str, str], ...]
    zone: str | None
    block: int
    program: str
    dialects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One source of a file: what follows its path (!member), the name of its reading, lengths whose digests are wanted."""

    suffix: str
    reading: str
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """One file on disk. `path` is absolute; `shown` as the user named it."""

    path: str
    shown: str
    size: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Files that are read and landed together: one large one, or many small ones."""

    files: tuple[File, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def readings(self) -> list[str]:
        return [member.reading for file in self.files for member in file.members]


@dataclass(frozen=True, slots=True)
class Done:
    """The manifest of a task, and the seconds that it took."""

    manifest: str
    seconds: float


def order_of(options: Options, spool: str) -> Order:
    """The order that this process gives."""
    names = tuple(d.name for d in options.dialects)
    return Order(spool, tuple(sorted(options.families.items())), options.zone, options.block, program(), names)


def program() -> str:
    """Version of this program and of its tables."""
    try:
        return f"{version('gpu-triage')} tables {VERSION}"
    except PackageNotFoundError:
        return f"checkout tables {VERSION}"


def read(order: Order, task: Task) -> Done:
    """Read every source of a task; raises Fault when this worker would read otherwise than was ordered."""
    began = time.perf_counter()
    _check(order)
    try:
        manifest = Landing(order.spool).land(_readings(order, task))
    except OSError as error:
        raise Fault(f"--spool {order.spool}: cannot be written by a worker: {error.strerror or error}") from error
    return Done(manifest, time.perf_counter() - began)


def _readings(order: Order, task: Task) -> Iterator[tuple[str, Parsed]]:
    for file in task.files:
        there = _there(file)
        for member in file.members:
            source = there.get(member.suffix)
            gone = Parsed({}, skipped="not there any more, or not readable on the worker")
            yield member.reading, _parsed(order, source, file, member) if source else gone


def _check(order: Order) -> None:
    if order.program != program():
        raise Fault(f"a worker runs gpu-triage {program()}, this is {order.program}; install the same version on all workers")
    if order.dialects != tuple(d.name for d in dialects()):
        raise Fault("a worker knows other dialects than this machine; install the same packages of parsers on all workers")


def _there(file: File) -> dict[str, Source]:
    """The sources of a file by what follows its path."""
    try:
        return {s.path.removeprefix(file.path): s for s in find([file.path]).sources}
    except Fault:
        return {}


_lengths: ContextVar[tuple[int, ...]] = ContextVar("lengths", default=())


def _parsed(order: Order, source: Source, file: File, member: Member) -> Parsed:
    """What the source holds; what cannot be read is told, and whoever ordered it decides what that means."""
    token = _lengths.set(member.lengths)
    try:
        return _reader(order).read(replace(source, path=file.shown + member.suffix, named=False))
    finally:
        _lengths.reset(token)


@lru_cache(maxsize=1)
def _reader(order: Order) -> Reader:
    options = Options(dict(order.families), order.zone, dialects(), order.block, threads=1)
    return Reader(options, lambda _head: _lengths.get())
