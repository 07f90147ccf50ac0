"""The raw lines around evidence, read again from where they came from, and only shown when the bytes are still the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from triage import sources
from triage.faults import Fault
from triage.feed import Hasher
from triage.scanner import MARKS

MARGIN, CUT, BLOCK = 2, 2048, 1 << 20
NOT_READ = "the file was not read again"
GONE = "the file is not there any more"
CHANGED = "the file has changed since it was read"
UNREADABLE = "the file cannot be read any more"
BINARY = "binary data, no lines to show"

# NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build
# Driver Version                            : 570.86.15
_DRIVER = re.compile(rb"(?:NVRM: loading NVIDIA UNIX [A-Za-z0-9_ ]{0,60}  |Driver Version {0,40}: {0,4})(\d{3}\.\d{1,4}(?:\.\d{1,4})?)")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
# VBIOS Version                         : 96.00.74.00.1A
_FIRMWARE = re.compile(rb"VBIOS Version {0,40}: {0,4}([0-9A-Fa-f.]{8,20})")


@dataclass(slots=True)
class Excerpt:
    """Lines of one source by number; `note` says why there are none. Versions are of the driver and the video BIOS, where seen."""

    lines: dict[int, str] = field(default_factory=dict)
    note: str = ""
    driver: str = ""
    firmware: str = ""


def around(number: int, margin: int = MARGIN) -> range:
    """The numbers of a line and its neighbours."""
    return range(max(1, number - margin), number + margin + 1)


def read(row: Mapping[str, Any], numbers: Iterable[int]) -> Excerpt:
    """Lines of a source; `row` is its row of `sources` (path, digest, bytes, marks). Never raises for what a file may hold."""
    wanted = sorted(set(numbers))
    try:
        source = next((s for s in sources.find([_container(row["path"])]).sources if s.path == row["path"]), None)
        if source is None or row["path"] == "-":
            return Excerpt(note=GONE)
        with source.open() as stream:
            return _read(stream, row, wanted)
    except Fault:
        return Excerpt(note=GONE)
    except Exception:  # a packed or binary file may break its decoder in any way; the report is written all the same
        return Excerpt(note=UNREADABLE)


def _container(path: str) -> str:
    """`bundle.tar!n1/kern.log` lies in `bundle.tar`."""
    return path.split("!", 1)[0]


def _read(stream: IO[bytes], row: Mapping[str, Any], wanted: list[int]) -> Excerpt:
    hasher, picker, excerpt = Hasher([*MARKS, row["bytes"] or 0]), _Picker(wanted), Excerpt()
    size = 0
    while block := stream.read(BLOCK):
        hasher.update(block)
        picker.feed(block)
        size += len(block)
        _versions(block, excerpt)
        if picker.done and _proven(hasher, row, picker.end):
            break
    if not _proven(hasher, row, min(picker.end or size, row["bytes"] or 0)):
        return Excerpt(note=CHANGED)
    if _binary(b"".join(picker.lines.values())):
        return Excerpt(note=BINARY, driver=excerpt.driver, firmware=excerpt.firmware)
    excerpt.lines = {number: line.rstrip(b"\r").decode("utf-8", "replace") for number, line in sorted(picker.lines.items())}
    return excerpt


def _binary(text: bytes) -> bool:
    """More than a tenth control bytes; a log with a hole of NULs in one line is still a log."""
    return len(_CONTROL.findall(text)) * 10 > len(text)


def _proven(hasher: Hasher, row: Mapping[str, Any], upto: int) -> bool:
    """Whether a digest kept at reading time covers the first `upto` bytes and agrees."""
    kept = dict(zip(MARKS, row["marks"] or (), strict=False)) | {row["bytes"]: row["digest"]}
    return any(length >= upto and hasher.prefixes.get(length) == digest for length, digest in kept.items())


def _versions(block: bytes, excerpt: Excerpt) -> None:
    if not excerpt.driver and (found := _DRIVER.search(block)):
        excerpt.driver = found[1].decode()
    if not excerpt.firmware and (found := _FIRMWARE.search(block)):
        excerpt.firmware = found[1].decode()


class _Picker:
    """Keeps chosen lines of a stream of blocks, at most 2 KiB of each. `end` is the offset after the last of them."""

    def __init__(self, wanted: list[int]) -> None:
        self.wanted, self.last = frozenset(wanted), max(wanted, default=0)
        self.lines: dict[int, bytes] = {}
        self.number, self.end, self.done = 1, 0, not wanted

    def feed(self, block: bytes) -> None:
        breaks = block.count(b"\n")
        if not self.done and any(self.number <= n <= self.number + breaks for n in self.wanted):
            for number, part in enumerate(block.split(b"\n"), self.number):
                if number in self.wanted and (part or number < self.number + breaks):
                    self.lines[number] = (self.lines.get(number, b"") + part[:CUT])[:CUT]
        self.number += breaks
        if not self.done:
            self.end += len(block)
            self.done = self.number > self.last
