"""No pattern's time grows faster than the text: each stays below 0.1 s on 64 KiB of the text that is hardest on it."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from tests.parsers.patterns import Found, collected, hard

LIMIT = 0.1  # seconds, the better of two
FOUND = collected()


def seconds(found: Found, text: str) -> float:
    """How long one call takes; all matches are taken where the code takes all."""
    pattern: re.Pattern[Any] = found.pattern
    given = text.encode("utf-8") if isinstance(pattern.pattern, bytes) else text
    began = time.perf_counter()
    if found.call in ("match", "fullmatch"):
        getattr(pattern, found.call)(given)
    else:
        for _ in pattern.finditer(given):
            pass
    return time.perf_counter() - began


def test_patterns_are_found() -> None:
    assert len(FOUND) > 300
    assert {f.place.split(".")[1] for f in FOUND} >= {"xid", "frames", "clocks", "nccl", "slurmctld", "redact"}


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.place)
def test_a_pattern_is_linear(found: Found) -> None:
    for text in hard(found):
        spent = seconds(found, text)
        if spent > LIMIT:
            spent = min(spent, seconds(found, text))
        assert spent <= LIMIT, f"{spent:.2f} s on {len(text)} characters of {text[:60]!r}: {found.pattern.pattern!r}"
