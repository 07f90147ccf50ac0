"""Sources go to workers by file, and come back in their order as if they had been read here."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import blake3

from triage.crew import Crew, Place, assembled
from triage.faults import Fault
from triage.ingest import Older, Options, Reader, lengths_of, unreadable
from triage.intake import Parsed
from triage.landing import Landed, Landing
from triage.sources import Source, file_of
from triage.worker import Done, File, Member, Order, Task, order_of

BATCH_BYTES, BATCH_FILES = 32 << 20, 64
"""On disk: what is read as one task, so that small files do not cost a round trip and a Parquet file each."""


@dataclass(slots=True)
class _Ordered:
    """A source, and the file and reading under which a worker finds it; neither for a pipe, which only this process can read."""

    source: Source
    file: str = ""
    suffix: str = ""
    reading: str = ""


def spool_of(place: Place, stated: str | None, db: str, paths: Sequence[str]) -> str:
    """The folder to land in: stated, or for workers of this machine a hidden one beside the database; raises Fault."""
    if stated is None and place.shared:
        raise Fault("--dask: the workers need a folder that they all see; name it with --spool DIR")
    if stated is not None and "://" in stated:
        return stated
    spool = Path(stated) if stated is not None else Path(db).absolute().with_name(f".{Path(db).name}.spool")
    for path in paths if stated is not None else ():
        if Path(path).is_dir() and spool.resolve().is_relative_to(Path(path).resolve()):
            raise Fault(f"--spool {stated}: lies in {path}, which is read; name a folder elsewhere")
    try:
        spool.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Fault(f"--spool {spool}: cannot be made: {error.strerror}") from error
    return str(spool.absolute())


class Dispatch:
    """Reads sources with the workers of a place (`ingest.ReadAll`). What an earlier run has landed is not read again."""

    def __init__(self, place: Place, spool: str) -> None:
        self.place, self.spool = place, spool
        self.reused = 0

    def __call__(self, sources: Sequence[Source], options: Options, older: Older) -> Iterator[tuple[Source, Parsed]]:
        landing = Landing(self.spool)
        order = order_of(options, self.spool)
        ordered = [_ordered(source, order) for source in sources]
        ready = landing.find(o.reading for o in ordered if o.reading)
        self.reused = len(ready)
        tasks = _tasks([o for o in ordered if o.reading and o.reading not in ready], older)
        here = Reader(options, older)
        if not tasks:
            yield from _in_order(ordered, ready, iter(()), here)
        else:
            with assembled(self.place, self.spool) as crew:
                yield from _in_order(ordered, ready, _landed(crew, order, tasks, landing), here)
        landing.sweep()


def _in_order(
    ordered: Sequence[_Ordered], ready: dict[str, Landed], coming: Iterator[tuple[str, Landed]], here: Reader
) -> Iterator[tuple[Source, Parsed]]:
    """Each source with what was read; what ends early waits, as a manifest."""
    uses = Counter(one.reading for one in ordered)
    for one in ordered:
        if not one.reading:
            yield one.source, here.read(one.source)
            continue
        while one.reading not in ready:
            name, landed = next(coming)
            ready[name] = landed
        uses[one.reading] -= 1
        got = ready[one.reading] if uses[one.reading] else ready.pop(one.reading)
        if got.skipped and one.source.named:
            raise unreadable(one.source, got.skipped)
        yield one.source, got


def _landed(crew: Crew, order: Order, tasks: Sequence[Task], landing: Landing, singly: bool = False) -> Iterator[tuple[str, Landed]]:
    """Readings as they end. Files that were read or waited on a worker when it died are tried once more, each alone."""
    suspects: list[Task] = []
    for place, done in crew.read(order, tasks, singly):
        if isinstance(done, Done):
            yield from landing.landed(done.manifest).items()
        elif singly:
            yield from ((name, Landed({}, skipped=str(done))) for name in tasks[place].readings)
        else:
            suspects += [Task((file,)) for file in tasks[place].files]
    if suspects:
        yield from _landed(crew, order, suspects, landing, singly=True)


def _ordered(source: Source, order: Order) -> _Ordered:
    """The file of a source, and the name of its reading in the file's present state."""
    file = file_of(source.path)
    if file is None:
        return _Ordered(source)
    stat = os.stat(file)
    suffix = source.path.removeprefix(file)
    state = (source.path, os.path.realpath(file), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    name = blake3.blake3(repr((state, order.families, order.zone, order.program, order.dialects)).encode()).hexdigest(length=16)
    return _Ordered(source, file, suffix, name)


def _tasks(ordered: Iterable[_Ordered], older: Older) -> list[Task]:
    """Files with all their members, small ones together."""
    members: dict[str, list[Member]] = {}
    for one in {o.reading: o for o in ordered}.values():
        members.setdefault(one.file, []).append(Member(one.suffix, one.reading, lengths_of(one.source, older)))
    files = [File(os.path.abspath(file), file, os.stat(file).st_size, tuple(found)) for file, found in members.items()]
    return [Task(tuple(batch)) for batch in _batches(files)]


def _batches(files: Iterable[File]) -> Iterator[list[File]]:
    """In their order, as many as are small together."""
    batch: list[File] = []
    for file in files:
        if batch and (sum(f.size for f in batch) + file.size > BATCH_BYTES or sum(len(f.members) for f in batch) >= BATCH_FILES):
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch
