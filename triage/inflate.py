"""Packed bytes as plain ones: .gz, .zst, .bz2, .xz by their magic number, and UTF-16 with a byte order mark as UTF-8.

What a damaged stream gave before the damage is kept: each read hands out what is there and only the next one fails.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import os
from collections.abc import Callable
from typing import IO, Protocol

GZIP, ZSTD, BZIP, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00"
BOMB_RATIO, BOMB_FLOOR = 1000, 1 << 30
"""Past 1 GiB a stream may be at most 1000 times what it was packed into: deflate's own limit is 1032, reached only by filler."""
_PACKED, _PLAIN, _MEMORY, _HEAD = 128 << 10, 256 << 10, 256 << 20, 512


class CutError(EOFError):
    """A stream that ends too early; what came before it is good."""


class _Machine(Protocol):
    """What the standard library and isal call a decompressor."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


class Extent(io.RawIOBase):
    """`size` bytes of an open file from `start`, so that a file that grows while it is read ends where it ended when opened."""

    def __init__(self, file: IO[bytes], start: int, size: int, whole: bool = False) -> None:
        self._file, self._at, self._end, self._whole = file, start, start + size, whole

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        want = min(len(target), self._end - self._at)
        got = os.preadv(self._file.fileno(), [target[:want]], self._at) if want > 0 else 0
        if want > 0 and not got and self._whole:
            raise CutError(f"ends {self._end - self._at} bytes too early")
        self._at += got
        return got


def _unpacked(read: Callable[[], bytes]) -> bytes:
    """Each library has an error of its own for damaged data; here it is one."""
    try:
        return read()
    except Exception as error:
        raise CutError(f"packed data is damaged: {error}") from error


class _Bounded:
    """Counts what goes in and what comes out, and stops a bomb."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._packed, self._plain = raw, 0, 0

    def read(self, size: int = _PACKED) -> bytes:
        data = self._raw.read(size)
        self._packed += len(data)
        return data

    def allow(self, got: int) -> None:
        self._plain += got
        if self._plain > max(BOMB_FLOOR, self._packed * BOMB_RATIO):
            raise OSError(f"unpacks to more than {BOMB_RATIO} times its size past {BOMB_FLOOR >> 30} GiB: looks like a decompression bomb")


class Inflated(io.RawIOBase):
    """A stream of one or more gzip, bzip2 or xz members; bytes behind the last one are ignored, as gzip does."""

    def __init__(self, raw: IO[bytes], make: Callable[[], _Machine], magic: bytes) -> None:
        self._source, self._make, self._magic = _Bounded(raw), make, magic
        self._machine, self._rest, self._over = make(), b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        data = self._some(len(target))
        target[: len(data)] = data
        return len(data)

    def _some(self, size: int) -> bytes:
        data = b""
        while not data and not self._over:
            if self._machine.eof:
                self._next_member()
                continue
            packed = self._rest or (self._source.read() if self._machine.needs_input else b"")
            if not packed and self._machine.needs_input:
                raise CutError("packed data ends too early")
            self._rest = b""
            data = _unpacked(lambda given=packed: self._machine.decompress(given, size))  # type: ignore[misc]
        self._source.allow(len(data))
        return data

    def _next_member(self) -> None:
        rest = self._machine.unused_data.lstrip(b"\0")
        while len(rest) < len(self._magic) and (more := self._source.read()):
            rest = (rest + more).lstrip(b"\0")
        self._over = not rest.startswith(self._magic)
        if not self._over:
            self._machine, self._rest = self._make(), rest


class _Unzstd(io.RawIOBase):
    """Zstandard frames; one that states its size must reach it."""

    def __init__(self, raw: IO[bytes], stated: int) -> None:
        import zstandard

        self._source, self._left = _Bounded(raw), stated
        self._stream = zstandard.ZstdDecompressor().stream_reader(self._source, read_across_frames=True)  # type: ignore[arg-type]

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        data = _unpacked(lambda: self._stream.read(len(target)))
        self._source.allow(len(data))
        target[: len(data)] = data
        if not data and self._left > 0:
            raise CutError("packed data ends too early")
        self._left -= len(data)
        return len(data)


class _Transcoded(io.RawIOBase):
    """UTF-16 as UTF-8."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._decoder = stream, codecs.getincrementaldecoder("utf-16")("replace")
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            raw = self._stream.read(_PLAIN)
            text = self._decoder.decode(raw, not raw)
            self._ready = text.encode("utf-8", "replace")
            if not raw:
                break
        data = self._ready[: len(target)]
        self._ready = self._ready[len(data) :]
        target[: len(data)] = data
        return len(data)


def as_stored(stream: IO[bytes]) -> bool:
    """Whether the bytes of a stream come as they lie in a file, so that reading them costs next to nothing."""
    return isinstance(getattr(stream, "raw", stream), Extent | io.FileIO)


def plain(raw: IO[bytes]) -> io.BufferedReader:
    """The stream as plain bytes of text; raises OSError or EOFError where its first bytes cannot be unpacked."""
    packed: io.BufferedReader = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw, _PLAIN)  # type: ignore[arg-type]
    stream = _inflated(packed, packed.peek(_HEAD)[:_HEAD])
    return io.BufferedReader(_Transcoded(stream), _PLAIN) if _is_utf16(stream.peek(_HEAD)[:_HEAD]) else stream


def _is_utf16(head: bytes) -> bool:
    """A byte order mark, and zero bytes as text of mostly ASCII has them: a mark alone may be chance."""
    return head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and (len(head) < 4 or head.count(0) >= len(head) // 4)


def _inflated(packed: io.BufferedReader, head: bytes) -> io.BufferedReader:
    raw: io.RawIOBase
    if head.startswith(GZIP):
        from isal import igzip_lib

        raw = Inflated(packed, lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP), GZIP)
    elif head.startswith(ZSTD):
        raw = _Unzstd(packed, _stated(head))
    elif head.startswith(BZIP) and head[3:4].isdigit():
        raw = Inflated(packed, bz2.BZ2Decompressor, BZIP)
    elif head.startswith(XZ):
        raw = Inflated(packed, lambda: lzma.LZMADecompressor(memlimit=_MEMORY), XZ)
    else:
        return packed
    return io.BufferedReader(raw, _PLAIN)


def _stated(head: bytes) -> int:
    """Plain size that a zstd frame's header states; 0 when it does not."""
    import zstandard

    try:
        return max(0, zstandard.frame_content_size(head))
    except zstandard.ZstdError:
        return 0
