"""Large reads by processes of their own, one a core: parsing needs the interpreter, and an interpreter has one core.

The processes are ours, started without the current folder on their module path and without the caller's main module; what passes between
them and us is our own pickles over their pipes.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import local
from typing import BinaryIO

from triage.dialects import dialects
from triage.faults import Fault
from triage.ingest import Older, Options, Reader, in_order, lengths_of, unreadable
from triage.intake import Parsed
from triage.sources import Source, reopened

LARGE = 128 << 20
"""Bytes, unpacked as far as one can guess, whose reading outlasts the start of a process."""
PACKED, RATIO = (".gz", ".zst", ".xz", ".bz2", ".tgz"), 8
_COMMAND = (sys.executable, "-P", "-m", "triage.reading")


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is told first. `apart`: search in a thread of its own, where there are fewer files than cores."""

    families: dict[str, str]
    zone: str | None
    block: int
    apart: bool


@dataclass(frozen=True, slots=True)
class Task:
    """A file, and the lengths at which a known one may end that begins like it."""

    path: str
    lengths: tuple[int, ...]


def worthwhile(sources: Sequence[Source], options: Options) -> bool:
    """Whether there is so much to read that processes pay, and they would read as this one does."""
    size = sum(s.size * (RATIO if s.path.endswith(PACKED) else 1) for s in sources if _is_file(s))
    return size >= LARGE and options.threads != 1 and tuple(options.dialects) == dialects()


def read_apart(sources: Sequence[Source], options: Options, older: Older) -> Iterator[tuple[Source, Parsed]]:
    """As a `Reader` in this process reads them, and in the same order (ingest.ReadAll)."""
    files = sum(map(_is_file, sources))
    processes = max(1, min(options.threads or os.cpu_count() or 1, files))
    apart = files < (os.cpu_count() or 1)
    crew = _Crew(Order(options.families, options.zone, options.block, apart), Reader(options, older), older)
    try:
        with ThreadPoolExecutor(processes) as pool:
            yield from in_order(sources, lambda source: pool.submit(crew.read, source), processes)
    finally:
        crew.dismiss()


def _is_file(source: Source) -> bool:
    """Pipes, and members of archives, are read where they were found."""
    return source.path != "-" and Path(source.path).is_file()


class _Hand:
    """One process that reads."""

    def __init__(self, order: Order) -> None:
        self._process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=-1)
        self._say(order)

    def _say(self, what: object) -> None:
        assert self._process.stdin is not None
        pickle.dump(what, self._process.stdin)
        self._process.stdin.flush()

    def read(self, task: Task) -> Parsed | Fault:
        """What the process made of the file; raises EOFError or OSError when it is gone."""
        assert self._process.stdout is not None
        self._say(task)
        answer: Parsed | Fault = pickle.load(self._process.stdout)
        return answer

    def dismiss(self) -> None:
        self._process.kill()
        self._process.communicate()


class _Crew:
    """A process for each thread that asks."""

    def __init__(self, order: Order, here: Reader, older: Older) -> None:
        self._order, self._here, self._older = order, here, older
        self._mine, self._all = local(), list[_Hand]()

    def read(self, source: Source) -> Parsed:
        if not _is_file(source):
            return self._here.read(source)
        try:
            hand = self._hand()
        except OSError:  # no processes to be had
            return self._here.read(source)
        try:
            got = hand.read(Task(source.path, lengths_of(source, self._older)))
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise Fault(f"{source.path}: the process that read it was killed, of memory perhaps; leave it more, or leave it out") from error
        if isinstance(got, Fault):
            raise got
        if got.skipped and source.named:
            raise unreadable(source, got.skipped)
        return got

    def _hand(self) -> _Hand:
        if not hasattr(self._mine, "hand"):
            self._mine.hand = _Hand(self._order)
            self._all.append(self._mine.hand)
        hand: _Hand = self._mine.hand
        return hand

    def dismiss(self) -> None:
        for hand in self._all:
            hand.dismiss()


class _Worker:
    """The other end: reads what it is told until nothing more comes, which is also how it learns that its parent is gone."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._lengths: tuple[int, ...] = ()
        self._reader = Reader(Options(order.families, order.zone, dialects(), order.block, threads=1), lambda _head: self._lengths)

    def read(self, task: Task) -> Parsed | Fault:
        source, self._lengths = reopened(task.path), task.lengths
        if source is None:
            return Parsed({}, skipped="not there any more, or not readable")
        try:
            return self._reader.read(replace(source, path=task.path, named=False), self._order.apart)
        except Fault as fault:
            return Fault(str(fault))


def serve(asked: BinaryIO, told: BinaryIO) -> None:
    """Answer tasks; Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = _Worker(pickle.load(asked))
    while True:
        try:
            task = pickle.load(asked)
        except EOFError:
            return
        pickle.dump(worker.read(task), told, protocol=pickle.HIGHEST_PROTOCOL)
        told.flush()


if __name__ == "__main__":
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints does not print into the answers
    serve(sys.stdin.buffer, out)
