"""Files that the user named, opened as streams of decompressed bytes: plain, .gz, .zst, .bz2, .xz, tar of those, folders, globs, `-`.

What the user named and cannot be read is an error; what is found while walking a folder and cannot be read is skipped and listed.
"""

from __future__ import annotations

import glob
import io
import os
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from triage.faults import InputFault

Reader = IO[bytes]
GZIP, ZSTD, BZIP, XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00"
EMPTY_NAMES = {".DS_Store", "Thumbs.db"}
SKIPPED_SUFFIXES = {".duckdb", ".wal", ".py", ".pyc", ".so", ".png", ".jpg", ".pdf", ".html", ".parquet", ".pt", ".safetensors", ".toml"}
BOMB_RATIO, BOMB_FLOOR = 1000, 1 << 30
"""A compressed file may not grow by more than 1000 once past 1 GiB: deflate's own limit is 1032, reached only by filler."""


@dataclass(frozen=True, slots=True)
class Source:
    """One stream of log bytes. `path` is what the user can open again; archive members carry `!member`."""

    path: str
    open: Callable[[], AbstractContextManager[Reader]]
    mtime: float
    named: bool
    size: int


@dataclass(slots=True)
class Found:
    """What a walk gave: sources in name order, and what was passed over with the reason."""

    sources: list[Source] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def find(paths: Iterable[str]) -> Found:
    """Every source under `paths`; raises InputFault for a named path that is missing, unreadable or of no known kind."""
    found = Found()
    for name in paths:
        for path in _expand(name):
            _add(path, found)
    return found


def _expand(name: str) -> list[str]:
    if name == "-" or os.path.lexists(name):
        return [name]
    if matched := sorted(glob.glob(name, recursive=True)):
        return matched
    raise InputFault(name, "no such file or folder", "check the path")


def _add(name: str, found: Found) -> None:
    if name == "-":
        found.sources.append(Source("-", _stdin, 0.0, True, 0))
        return
    path = Path(name)
    if path.is_dir():
        _walk(path, found)
    elif not path.is_file():
        raise InputFault(name, "not a file or folder", "name a regular file")
    elif not os.access(path, os.R_OK):
        raise InputFault(name, "not readable", "check its permissions")
    else:
        _add_file(path, True, found)


def _walk(root: Path, found: Found) -> None:
    def refuse(error: OSError) -> None:
        if Path(str(error.filename)) == root:
            raise InputFault(str(root), "folder not readable", "check its permissions") from error
        found.skipped.append((str(error.filename), "folder not readable"))

    for folder, names, files in os.walk(root, onerror=refuse):
        names.sort()
        names[:] = [n for n in names if not n.startswith(".")]
        for file in sorted(files):
            path = Path(folder, file)
            reason = _why_not(path)
            if reason:
                found.skipped.append((str(path), reason))
            else:
                _add_file(path, False, found)


def _why_not(path: Path) -> str | None:
    if path.is_symlink() and not path.exists():
        return "broken link"
    if not path.is_file():
        return "not a regular file"
    if path.name in EMPTY_NAMES or path.name.startswith("."):
        return "hidden file"
    if path.suffix in SKIPPED_SUFFIXES:
        return f"{path.suffix} is no log"
    return None if os.access(path, os.R_OK) else "not readable"


def _add_file(path: Path, named: bool, found: Found) -> None:
    stat = path.stat()
    if _is_tar(path):
        _add_members(path, stat.st_mtime, named, found)
    else:
        found.sources.append(Source(str(path), lambda: _open_file(path), stat.st_mtime, named, stat.st_size))


def _is_tar(path: Path) -> bool:
    looks = path.name.endswith((".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tbz2", ".txz"))
    if looks:
        return True
    with path.open("rb") as stream:
        stream.seek(257)
        return stream.read(5) == b"ustar"


def _add_members(path: Path, mtime: float, named: bool, found: Found) -> None:
    try:
        with _open_file(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            members = [(m.name, m.mtime, m.size) for m in archive if m.isfile()]
    except (tarfile.TarError, OSError, EOFError) as error:
        if named:
            raise InputFault(str(path), f"archive not readable: {error}", "unpack it and name the folder") from error
        found.skipped.append((str(path), f"archive not readable: {error}"))
        return
    for name, when, size in sorted(members):
        found.sources.append(Source(f"{path}!{name}", _member_opener(path, name), when or mtime, False, size))


def _member_opener(path: Path, name: str) -> Callable[[], AbstractContextManager[Reader]]:
    @contextmanager
    def opened() -> Iterator[Reader]:
        with _open_file(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                inner = archive.extractfile(member) if member.name == name and member.isfile() else None
                if inner is not None:
                    yield decompressed(io.BufferedReader(inner), 0)  # type: ignore[arg-type]
                    return
        raise OSError(f"{name} is gone from {path}")

    return opened


@contextmanager
def _open_file(path: Path) -> Iterator[Reader]:
    with path.open("rb") as raw:
        yield decompressed(raw, path.stat().st_size)


@contextmanager
def _stdin() -> Iterator[Reader]:
    yield decompressed(sys.stdin.buffer, 0)


def decompressed(raw: IO[bytes], size: int) -> Reader:
    """The stream as plain bytes, by its magic number; `size` in bytes bounds how far it may grow, 0 when unknown."""
    head = raw.peek(6)[:6] if hasattr(raw, "peek") else b""
    opened: Reader
    if head.startswith(GZIP):
        from isal import igzip

        opened = igzip.GzipFile(fileobj=raw)
    elif head.startswith(ZSTD):
        import zstandard

        opened = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))  # type: ignore[arg-type]
    elif head.startswith(BZIP):
        import bz2

        opened = bz2.BZ2File(raw)
    elif head.startswith(XZ):
        import lzma

        opened = lzma.LZMAFile(raw)
    else:
        return raw
    return _Bounded(opened, max(BOMB_FLOOR, size * BOMB_RATIO)) if size else opened  # type: ignore[return-value]


class _Bounded:
    """A decompressed stream that stops with one clear fault instead of filling the machine."""

    def __init__(self, stream: Reader, limit: int) -> None:
        self._stream, self._left = stream, limit

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise OSError("decompresses to more than 1000 times its size: looks like a decompression bomb")
        return block
