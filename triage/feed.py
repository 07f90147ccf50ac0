"""A stream as blocks: read ahead, needles found, digested, in threads of their own while the scanner works.

Reading, unpacking, searching and digesting release the interpreter's lock, so two cores are kept busy by one file.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, TypeVar

import blake3

from triage.inflate import as_stored
from triage.needles import Finder

Item = TypeVar("Item")
DEPTH, SHORT = 3, 4 << 10
"""DEPTH: blocks that a thread may be ahead of the next one."""


@dataclass(slots=True)
class Block:
    """Bytes of a stream from `start`, and the ends of needles that end in them, as offsets in the stream."""

    start: int
    data: bytes
    hits: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Feed:
    """Blocks of one stream. `cut` says why the stream ended before its end."""

    stream: IO[bytes]
    finder: Finder
    size: int
    cut: str = ""
    first: bytes = b""

    def open(self, least: int) -> bytes:
        """Read the first block, at least `least` bytes where there are as many; raises what the stream does when it gives none."""
        self.first = self._fill(max(self.size, least))
        return self.first

    def blocks(self, apart: bool, hasher: Hasher) -> Iterator[Block]:
        """All blocks in order, digested; with `apart` by a thread of its own, and by one more where reading is work too."""
        if not apart:
            return digested(self._found(self.read()), hasher)
        read = self.read() if as_stored(self.stream) else ahead(self.read())
        return ahead(digested(self._found(read), hasher))

    def _fill(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end or before damage."""
        parts: list[bytes] = []
        got = 0
        some = getattr(self.stream, "read1", self.stream.read)
        try:
            while got < size and (part := some(size - got)):
                parts.append(part)
                got += len(part)
        except EOFError as error:
            if not (parts or self.first):
                raise
            self.cut = str(error) or "ends too early"
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read(self) -> Iterator[Block]:
        """All blocks in order, not searched."""
        block, start = self.first, 0
        while block:
            yield Block(start, block)
            start += len(block)
            block = b"" if self.cut else self._fill(self.size)

    def _found(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Blocks with their hits, those across a border too."""
        reach = self.finder.longest - 1
        before = b""
        for block in blocks:
            seam = before + block.data[:reach]
            hits = [
                (block.start - len(before) + end, needle)
                for end, needle in (self.finder.find(seam) if before else ())
                if end - len(self.finder.needles[needle].text) < len(before) < end
            ]
            hits += [(block.start + end, needle) for end, needle in self.finder.find(block.data)]
            hits.sort()
            block.hits = hits
            before = block.data[-reach:] if len(block.data) >= reach else (before + block.data)[-reach:]
            yield block


def digested(blocks: Iterable[Block], hasher: Hasher) -> Iterator[Block]:
    """The blocks, each digested first."""
    for block in blocks:
        hasher.update(block.data)
        yield block


@dataclass(slots=True)
class _Failed:
    error: BaseException


class _End:
    pass


def ahead(source: Iterator[Item], depth: int = DEPTH) -> Iterator[Item]:
    """The items of `source`, made by a thread up to `depth` ahead; the thread is gone when this generator is."""
    line: queue.Queue[Item | _Failed | _End] = queue.Queue(depth)
    stop = threading.Event()

    def fill() -> None:
        try:
            for item in source:
                line.put(item)
                if stop.is_set():
                    return
            line.put(_End())
        except BaseException as error:
            line.put(_Failed(error))

    worker = threading.Thread(target=fill, name="triage-feed", daemon=True)
    worker.start()
    try:
        while not isinstance(item := line.get(), _End):
            if isinstance(item, _Failed):
                raise item.error
            yield item
    finally:
        stop.set()
        while worker.is_alive():
            _drain(line)
            worker.join(0.01)


def _drain(line: queue.Queue[Item]) -> None:
    try:
        while True:
            line.get_nowait()
    except queue.Empty:
        return


def newlines(buffer: bytes, start: int, end: int) -> int:
    """How many there are in buffer[start:end]; over long stretches numpy counts four times as fast."""
    if end - start < SHORT:
        return buffer.count(b"\n", start, end)
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(buffer, np.uint8, end - start, start) == 10))


class Hasher:
    """Digest of a stream and of its first n bytes for chosen n, in one pass."""

    def __init__(self, lengths: Iterable[int]) -> None:
        self._hash, self._size = blake3.blake3(), 0
        self._pending = sorted({n for n in lengths if n > 0}, reverse=True)
        self.prefixes: dict[int, str] = {}

    def update(self, block: bytes) -> None:
        at = 0
        while self._pending and self._pending[-1] <= self._size + len(block):
            length = self._pending.pop()
            cut = length - self._size
            self._hash.update(memoryview(block)[at:cut])
            at = cut
            self.prefixes[length] = self._hash.hexdigest(length=16)
        self._hash.update(memoryview(block)[at:] if at else block)
        self._size += len(block)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest(length=16)


__all__ = ["Block", "Feed", "Hasher", "ahead", "digested", "newlines"]
