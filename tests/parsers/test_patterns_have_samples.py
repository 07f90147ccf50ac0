"""No pattern without a sample: each is met by a line, a field of a line or a file's name in samples/."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parsers.frames import peel_all
from tests.parsers.patterns import collected

SAMPLES = Path(__file__).parents[2] / "samples"
# patterns of one field see what stands between these
_BETWEEN = re.compile(r"[\s\"'=,()\[\]{};]+|: ")
LONGEST, MOST_LINES = 20_000, 4000


def _texts() -> set[str]:
    """Raw lines, their peeled texts, their fields, whole small documents and file names."""
    found: set[str] = set()
    for path in sorted(p for p in SAMPLES.rglob("*") if p.is_file() and "cases" not in p.parts and p.suffix != ".jsonl"):
        text = path.read_bytes().decode("latin-1" if b"\x80\x02" in path.read_bytes()[:2] else "utf-8", "replace")
        found |= {path.name, text[:200_000]}
        for line in text.split("\n")[:MOST_LINES]:
            found |= {line, *_BETWEEN.split(line[:LONGEST])}
            found |= {part.text for part in peel_all(1, line[:LONGEST])}
    return found


def _is_met(pattern: re.Pattern[Any], texts: set[str], raw: set[bytes]) -> bool:
    among: Iterable[Any] = raw if isinstance(pattern.pattern, bytes) else texts
    return any(pattern.search(text) for text in among)


def test_every_pattern_of_a_dialect_is_met_by_a_sample() -> None:
    texts = _texts()
    raw = {text.encode("latin-1", "replace") for text in texts}
    ours = [found for found in collected() if found.place.startswith("parsers.")]
    assert len(ours) > 500
    assert [found.place for found in ours if not _is_met(found.pattern, texts, raw)] == []
