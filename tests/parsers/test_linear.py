"""No pattern's time grows faster than the text: each takes at most 0.1 s of processor time on the text that is hardest on it.

64 KiB is what the scanner hands on of a line; dialects of whole files are given 1 MiB.
"""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from tests.parsers.patterns import Found, collected, hard

LIMIT = 0.1  # seconds, the better of two
# A text an eighth as long is tried first: where it takes a 64th of the limit, even a square law keeps to the limit.
SHORTER = 8
FOUND = collected()


def seconds(found: Found, text: str) -> float:
    """Processor time of one call; all matches are taken where the code takes all."""
    pattern: re.Pattern[Any] = found.pattern
    given = text.encode("utf-8") if isinstance(pattern.pattern, bytes) else text
    began = time.process_time()
    if found.call in ("match", "fullmatch"):
        getattr(pattern, found.call)(given)
    else:
        for _ in pattern.finditer(given):
            pass
    return time.process_time() - began


def test_patterns_are_found() -> None:
    assert len(FOUND) > 300
    assert {f.place.split(".")[1] for f in FOUND} >= {"xid", "frames", "clocks", "nccl", "slurmctld", "masking"}


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.place)
def test_a_pattern_is_linear(found: Found) -> None:
    for short, text in zip(hard(found, found.length // SHORTER), hard(found, found.length), strict=True):
        spent = seconds(found, short) * SHORTER**2
        if spent > LIMIT:
            spent = seconds(found, text)
        if spent > LIMIT:
            spent = min(spent, seconds(found, text))
        assert spent <= LIMIT, f"{spent:.2f} s on {len(text)} characters of {text[:60]!r}: {found.pattern.pattern!r}"
