"""First inputs of each target, made from samples/ when a run begins; only what a run found is kept, in seeds/."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path

import zstandard

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
SEEDS = Path(__file__).with_name("seeds")
PART = 3000  # bytes of a sample that make one input


def _logs() -> Iterator[bytes]:
    for path in sorted(SAMPLES.glob("*/*.log")):
        yield path.read_bytes()[:PART]


def _dumps() -> Iterator[bytes]:
    for path in sorted((SAMPLES / "flight").iterdir()):
        if "expected" not in path.name:
            yield path.read_bytes()


def _packed() -> Iterator[bytes]:
    for text in list(_logs())[:12]:
        for data in (text, b"", text * 40):
            yield from (gzip.compress(data, mtime=0), bz2.compress(data), lzma.compress(data), zstandard.compress(data))
        yield gzip.compress(text, mtime=0) + b"\0\0" + gzip.compress(text, mtime=0)
        yield text.decode("utf-8", "replace").encode("utf-16")


def inputs(target: str) -> Iterator[bytes]:
    """Inputs of one target: scanner, frames, flight or inflate."""
    match target:
        case "scanner":
            yield from (bytes([n % 5]) + text for n, text in enumerate(_logs()))
        case "frames":
            yield from (line for text in _logs() for line in text.splitlines()[:20])
        case "flight":
            yield from _dumps()
        case "inflate":
            yield from _packed()


def kept(target: str) -> list[Path]:
    """Inputs that once broke a target."""
    return sorted(path for path in (SEEDS / target).glob("*") if path.is_file())
