"""Files that the user named, opened as streams of decompressed bytes: plain, .gz, .zst, .bz2, .xz, tar of those, folders, globs, `-`.

What the user named and cannot be read is an error; what is found while walking a folder and cannot be read is skipped and listed.
"""

from __future__ import annotations

import glob
import io
import os
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import IO

from triage.faults import InputFault
from triage.inflate import Extent, plain

Reader = IO[bytes]
EMPTY_NAMES = {".DS_Store", "Thumbs.db"}
SKIPPED_SUFFIXES = {".duckdb", ".wal", ".py", ".pyc", ".so", ".png", ".jpg", ".pdf", ".html", ".parquet", ".pt", ".safetensors", ".toml"}
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
LAST_MTIME = 4_102_444_800.0  # 2100-01-01: what an archive may claim
_COPY = 1 << 20


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


def in_text(path: str) -> str:
    """A path as text that can be stored and printed: bytes of a name that are no UTF-8 as `\\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def find(paths: Iterable[str], db: str | None = None) -> Found:
    """Every source under `paths`; raises InputFault for a named path that is missing, unreadable or of no known kind.

    db  a database of ours, which is passed over without a word where it lies among the logs
    """
    found = Found()
    for name in paths:
        for path in _expand(name):
            _add(path, found)
    own = {os.path.realpath(f"{db}{end}") for end in ("", ".wal")} if db else set()
    found.skipped = [(path, why) for path, why in found.skipped if os.path.realpath(path) not in own]
    return found


def reopened(path: str) -> Source | None:
    """A source that was found before, by its path; None when it is not there any more."""
    file = file_of(path)
    try:
        return next((s for s in find([file]).sources if s.path == path), None) if file else None
    except (InputFault, OSError, EOFError):
        return None


def file_of(path: str) -> str | None:
    """The regular file that holds a source: its path, or the part before a !member; None for pipes."""
    ends = [len(path), *(at for at, sign in enumerate(path) if sign == "!")]
    return next((path[:end] for end in ends if path != "-" and Path(path[:end]).is_file()), None)


def _expand(name: str) -> list[str]:
    if name == "-" or os.path.lexists(name):
        return [name]
    if matched := sorted(glob.glob(name, recursive=True)):
        return matched
    raise InputFault(name, "no such file or folder", "check the path")


def _add(name: str, found: Found) -> None:
    path = Path(name)
    if name == "-":
        _add_stdin(found)
    elif path.is_dir():
        _walk(path, found)
    elif path.is_fifo() and name.startswith(("/dev/fd/", "/proc/self/fd/")):  # a shell's <(command)
        found.sources.append(Source(name, lambda: _open_pipe(path), 0.0, True, 0))
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
    return _why_not_name(path) or (None if os.access(path, os.R_OK) else "not readable")


def _why_not_name(path: PurePosixPath | Path) -> str | None:
    if path.name in EMPTY_NAMES or path.name.startswith("."):
        return "hidden file"
    return f"{path.suffix} is no log" if path.suffix in SKIPPED_SUFFIXES else None


def _add_file(path: Path, named: bool, found: Found) -> None:
    try:
        stat = path.stat()
        is_tar = _is_tar(path)
    except OSError as error:
        if named:
            raise InputFault(str(path), error.strerror or "not readable", "check its permissions") from error
        found.skipped.append((str(path), error.strerror or "not readable"))
        return
    if is_tar:
        _add_archive(path, stat.st_mtime, named, found)
    else:
        found.sources.append(Source(str(path), lambda: _open_file(path), stat.st_mtime, named, stat.st_size))


def _is_tar(path: Path) -> bool:
    try:
        with _open_file(path) as stream:
            head = stream.read(TAR_MAGIC_AT + len(TAR_MAGIC))
    except EOFError:
        return False
    return head[TAR_MAGIC_AT:] == TAR_MAGIC


def _add_stdin(found: Found) -> None:
    stream = plain(sys.stdin.buffer)
    if stream.peek(TAR_MAGIC_AT + len(TAR_MAGIC))[TAR_MAGIC_AT:].startswith(TAR_MAGIC):
        _add_members("-", _copied(stream), 0.0, found)
    else:
        found.sources.append(Source("-", lambda: nullcontext(stream), 0.0, True, 0))


def _add_archive(path: Path, mtime: float, named: bool, found: Found) -> None:
    try:
        _add_members(str(path), _flat(path), mtime, found)
    except OSError as error:
        if named:
            raise InputFault(str(path), f"archive not readable: {error}", "unpack it and name the folder") from error
        found.skipped.append((str(path), f"archive not readable: {error}"))


def _add_members(path: str, archive: tuple[IO[bytes], str], mtime: float, found: Found) -> None:
    """Members of an archive; of one that ends too early those that are there."""
    flat, note = archive
    members, fault = _members(flat)
    if note or fault:
        found.skipped.append((path, f"archive not read to its end: {note or fault}"))
    for name, member in sorted(members.items()):
        label = f"{path}!{name}"
        if reason := _why_not_member(name, member):
            found.skipped.append((label, reason))
        else:
            when = member.mtime if 0 < member.mtime < LAST_MTIME else mtime
            found.sources.append(Source(label, _member_opener(flat, member), when, False, member.size))


def _flat(path: Path) -> tuple[IO[bytes], str]:
    """The archive as one plain file that can be sought in: itself, or unpacked into a nameless temporary one; what went wrong."""
    file = path.open("rb")
    head = file.read(TAR_MAGIC_AT + len(TAR_MAGIC))
    if head[TAR_MAGIC_AT:] == TAR_MAGIC:
        return file, ""
    file.close()
    with _open_file(path) as stream:
        return _copied(stream)


def _copied(stream: Reader) -> tuple[IO[bytes], str]:
    flat, note = tempfile.TemporaryFile(), ""  # noqa: SIM115 - its members are read later
    try:
        while block := stream.read1(_COPY):  # type: ignore[attr-defined]
            flat.write(block)
    except EOFError as error:
        note = str(error)
    flat.flush()
    return flat, note


def _members(flat: IO[bytes]) -> tuple[dict[str, tarfile.TarInfo], str]:
    """Members by a name that stays inside the archive (of several of one name the last, as tar unpacks them), and what is wrong."""
    members: dict[str, tarfile.TarInfo] = {}
    flat.seek(0)
    try:
        with tarfile.open(fileobj=flat, mode="r:", errorlevel=0) as archive:
            for member in archive:
                if not member.isdir():
                    members["/".join(p for p in PurePosixPath(member.name).parts if p not in ("/", "..", "."))] = member
    except (tarfile.TarError, ValueError, EOFError) as error:
        return members, str(error)
    return members, ""


def _why_not_member(name: str, member: tarfile.TarInfo) -> str | None:
    if member.issym() or member.islnk():
        return "a link"
    if not member.isreg() or member.issparse():
        return "not a regular file"
    return _why_not_name(PurePosixPath(name))


def _member_opener(flat: IO[bytes], member: tarfile.TarInfo) -> Callable[[], AbstractContextManager[Reader]]:
    start, size = member.offset_data, member.size

    @contextmanager
    def opened() -> Iterator[Reader]:
        yield plain(io.BufferedReader(Extent(flat, start, size, whole=True)))

    return opened


@contextmanager
def _open_file(path: Path) -> Iterator[Reader]:
    with path.open("rb", buffering=0) as raw:
        stat = os.fstat(raw.fileno())
        if S_ISREG(stat.st_mode) and stat.st_size:
            yield plain(io.BufferedReader(Extent(raw, 0, stat.st_size)))
        else:  # those of /proc say that they are empty
            yield plain(io.BufferedReader(raw))


@contextmanager
def _open_pipe(path: Path) -> Iterator[Reader]:
    with path.open("rb") as raw:
        yield plain(raw)
