"""Files that are followed: found by name, known by device and inode, through growth, rotation, truncation and rewriting.

Looking is `stat` of what is known and a walk for what is new; a file is opened only when it has changed.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG
from typing import IO

from triage import sources
from triage.faults import InputFault
from triage.inflate import Extent, plain
from triage.sources import Source

MOST_OPEN, FORGOTTEN = 256, 600.0
"""Files that are held open, so that their last lines are read after they lost their name; seconds for which such a one is."""
Key = tuple[int, int]


@dataclass(slots=True)
class Followed:
    """One file. `seen` is its path, size and mtime at the last read; `label` is shown in place of the path."""

    key: Key
    path: str
    size: int = 0
    mtime_ns: int = 0
    label: str = ""
    descriptor: int | None = None
    seen: tuple[str, int, int] = ("", 0, 0)
    head: bytes = b""
    source_ids: tuple[str, ...] = ()
    lost: bool = False

    @property
    def state(self) -> tuple[str, int, int]:
        return self.path, self.size, self.mtime_ns

    @property
    def changed(self) -> bool:
        """Whether it holds bytes and has grown, was rewritten or has another name since it was read."""
        return self.size > 0 and self.seen != self.state

    def hold(self) -> int:
        """An open descriptor of the file; raises OSError."""
        if self.descriptor is None:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self.descriptor

    def drop(self) -> None:
        """Close it."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def read(self, start: int, size: int) -> bytes:
        """At most `size` bytes from `start`; raises OSError."""
        return os.pread(self.hold(), size, start)

    def whole(self) -> list[Source]:
        """What a read of the whole gives: one source, of an archive its members; raises InputFault when it is gone."""
        if self.lost and self.descriptor is not None:
            return [self.plain()]
        found = sources.find([self.path]).sources
        return [replace(source, named=False, path=source.path.replace(self.path, self.shown, 1)) for source in found]

    def plain(self) -> Source:
        """The open file as a source, whatever its name is now."""
        return Source(self.shown, self._stream, self.mtime_ns / 1e9, False, self.size)

    def _stream(self) -> AbstractContextManager[IO[bytes]]:
        """The bytes of a file that has no name here any more."""
        file = os.fdopen(os.dup(self.hold()), "rb", buffering=0)
        return plain(BufferedReader(Extent(file, 0, self.size)))

    @property
    def shown(self) -> str:
        return self.label or self.path


@dataclass(slots=True)
class Roster:
    """All files under the paths that the user named. A path may be gone for a while: a log that is rotated is between two names."""

    paths: tuple[str, ...]
    labels: dict[str, str] = field(default_factory=dict)
    known: dict[Key, Followed] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise InputFault for a named path that is not there at the start or is not readable; later it may be gone for a while."""
        for name in self.paths:
            if not _expanded(name):
                raise InputFault(name, "no such file or folder", "check the path")
            if os.path.lexists(name) and not os.access(name, os.R_OK):
                raise InputFault(name, "not readable", "check its permissions")
            if os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name)):
                raise InputFault(name, "not a file or folder", "pipe it: COMMAND | triage watch -")

    def look(self) -> list[Followed]:
        """Stat everything; the files that have changed since they were read, by name."""
        seen = self._names()
        for key, (path, named, stat) in seen.items():
            self._meet(key, path, named, stat)
        for key in [k for k in self.known if k not in seen]:
            self._miss(key)
        return sorted((f for f in self.known.values() if f.changed), key=lambda f: f.path)

    def _names(self) -> dict[Key, tuple[str, bool, os.stat_result]]:
        """Every regular file by device and inode; of several names the one that is known already, else the first."""
        found: dict[Key, tuple[str, bool, os.stat_result]] = {}
        self.skipped.clear()
        for path, named in self._walk():
            try:
                stat = os.stat(path)
            except OSError as error:
                self.skipped[path] = error.strerror or "not readable"
                continue
            if not S_ISREG(stat.st_mode):
                continue
            key = (stat.st_dev, stat.st_ino)
            held = self.known.get(key)
            if key not in found or (held is not None and held.path == path):
                found[key] = (path, named, stat)
        return found

    def _walk(self) -> Iterator[tuple[str, bool]]:
        for name in self.paths:
            for path in _expanded(name):
                if os.path.isdir(path):
                    yield from ((inner, False) for inner in _inside(path, self._refuse))
                else:
                    yield path, True

    def _refuse(self, path: str, reason: str) -> None:
        self.skipped[path] = reason

    def _meet(self, key: Key, path: str, named: bool, stat: os.stat_result) -> None:
        file = self.known.get(key)
        if file is None:
            file = self.known[key] = Followed(key, path, label=self.labels.get(os.path.dirname(path), ""))
        file.path, file.size, file.mtime_ns, file.lost = path, stat.st_size, stat.st_mtime_ns, False
        if named:
            self._hold(file)

    def _hold(self, file: Followed) -> None:
        try:
            file.hold()
        except OSError as error:
            self.skipped[file.path] = error.strerror or "not readable"

    def _miss(self, key: Key) -> None:
        """A file that is under none of the paths any more: read on while it is open here, under its new name if it has one."""
        file = self.known[key]
        if file.descriptor is None:
            del self.known[key]
            return
        try:
            stat = os.fstat(file.descriptor)
        except OSError:  # its file system is gone
            file.drop()
            return
        file.size, file.mtime_ns = stat.st_size, stat.st_mtime_ns
        name = _name_of(key, os.path.dirname(file.path) or ".")
        file.path, file.lost = name or file.path, name is None

    def trim(self) -> None:
        """Close what was read to its end and is not one of the files that changed last."""
        held = sorted((f for f in self.known.values() if f.descriptor is not None and not f.changed), key=lambda f: -f.mtime_ns)
        for place, file in enumerate(held):
            if place >= MOST_OPEN or (file.lost and time.time() - file.mtime_ns / 1e9 > FORGOTTEN):
                file.drop()

    def close(self) -> None:
        """Close all."""
        for file in self.known.values():
            file.drop()


def _expanded(name: str) -> list[str]:
    return [name] if os.path.lexists(name) else sorted(glob.glob(name, recursive=True))


def _inside(root: str, refuse: Callable[[str, str], None]) -> Iterator[str]:
    """The logs under a folder, as a walk of `triage ingest` takes them."""

    def failed(error: OSError) -> None:
        refuse(str(error.filename), "folder not readable")

    for folder, names, files in os.walk(root, onerror=failed):
        names[:] = sorted(n for n in names if not n.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            if reason := sources._why_not(path):
                refuse(str(path), reason)
            else:
                yield str(path)


def _name_of(key: Key, folder: str) -> str | None:
    """Where a file that was renamed inside its folder is now."""
    try:
        with os.scandir(folder) as entries:
            return next((e.path for e in entries if e.is_file(follow_symlinks=False) and _key(e) == key), None)
    except OSError:
        return None


def _key(entry: os.DirEntry[str]) -> Key:
    stat = entry.stat(follow_symlinks=False)
    return stat.st_dev, stat.st_ino


def copies_of(path: str, head: bytes, least: int) -> Iterable[str]:
    """Files beside `path` named after it that begin with `head` and are at least `least` long: where a rotation copied it to."""
    folder, name = os.path.split(path)
    for entry in sorted(Path(folder or ".").glob(glob.escape(name) + "?*")):
        try:
            if entry.is_file() and entry.stat().st_size >= least:
                with entry.open("rb") as stream:
                    if stream.read(len(head)) == head:
                        yield str(entry)
        except OSError:
            continue
