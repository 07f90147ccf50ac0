"""Files are read by processes (triage.hands), one a core: parsing needs the interpreter, and an interpreter has one core.

What passes between them and us is our own pickles over their pipes.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import BinaryIO

from triage.dialects import dialects
from triage.faults import Fault
from triage.hands import Hand, is_file
from triage.ingest import SWITCH_S, Older, Options, Reader, in_order, lengths_of, unreadable
from triage.intake import Parsed
from triage.sources import Source, reopened


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


class ByHands:
    """As a `Reader` in this process reads sources, and in the same order (ingest.ReadAll)."""

    def __init__(self, hands: Sequence[Hand]) -> None:
        self._hands = hands

    def __call__(self, sources: Sequence[Source], options: Options, older: Older) -> Iterator[tuple[Source, Parsed]]:
        order = Order(options.families, options.zone, options.block, len(self._hands) < (os.cpu_count() or 1))
        free: SimpleQueue[Hand] = SimpleQueue()
        for hand in self._hands:
            free.put(hand)
        told: set[int] = set()
        here = Reader(options, older)

        def read(source: Source) -> Parsed:
            if not is_file(source):
                return here.read(source)
            hand = free.get()
            try:
                if hand.pid not in told:
                    told.add(hand.pid)
                    _say(hand, order)
                return _answer(hand, source, lengths_of(source, older))
            finally:
                free.put(hand)

        with ThreadPoolExecutor(len(self._hands)) as pool:
            yield from in_order(sources, lambda source: pool.submit(read, source), len(self._hands))


def _say(hand: Hand, what: object) -> None:
    assert hand.stdin is not None
    try:
        pickle.dump(what, hand.stdin)
        hand.stdin.flush()
    except BrokenPipeError:
        return  # it is gone; whoever waits for its answer hears that


def _answer(hand: Hand, source: Source, lengths: tuple[int, ...]) -> Parsed:
    assert hand.stdout is not None
    _say(hand, Task(source.path, lengths))
    try:
        got: Parsed | Fault = pickle.load(hand.stdout)  # our own process wrote it
    except (EOFError, OSError, pickle.UnpicklingError) as error:
        raise Fault(f"{source.path}: the process that read it was killed, of memory perhaps; leave it more, or leave it out") from error
    if isinstance(got, Fault):
        raise got
    if got.skipped and source.named:
        raise unreadable(source, got.skipped)
    return got


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
    sys.setswitchinterval(SWITCH_S)
    try:
        worker = _Worker(pickle.load(asked))  # our own parent wrote it
        while True:
            pickle.dump(worker.read(pickle.load(asked)), told, protocol=pickle.HIGHEST_PROTOCOL)
            told.flush()
    except (EOFError, BrokenPipeError):
        return


if __name__ == "__main__":
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints does not print into the answers
    serve(sys.stdin.buffer, out)
