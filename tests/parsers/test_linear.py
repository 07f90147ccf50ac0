"""No pattern's time grows faster than the text: each takes at most 0.1 s of processor time on the megabyte that is hardest on it.

The texts of a pattern are ranked at 16 KiB, and the hardest of them is tried at 1 MiB; `slow` tries the twelve hardest.
0.1 s is meant for a machine that takes NORMAL seconds for the reference, a plain pattern that matches each of a megabyte's characters. What
looks too slow is measured again together with the reference: on a machine that is slower, or busy, the limit grows by as much.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.parsers.patterns import Found, Text, collected, hard

LIMIT, LENGTH, RANKED_AT = 0.1, 1 << 20, 16 << 10
NOISE = 1.3  # patterns that match every character lie at the limit, and so does what a busy machine adds
NORMAL = 0.09
TRIES, MANY = 8, 12
REFERENCE = Found("reference", re.compile("[a-c]"), "finditer")
FOUND = collected()
RULES = Path(__file__).parents[2] / "rules"


def ranked(found: Found) -> list[Text]:
    """The texts of a pattern, the hardest first."""
    return sorted(hard(found), key=lambda text: -found.seconds(text.of(RANKED_AT)))


def check(found: Found, text: Text) -> None:
    """Within the limit in one of a few tries."""
    given = text.of(LENGTH)
    spent = found.seconds(given)
    for _ in range(TRIES):
        if spent <= LIMIT * NOISE:
            return
        slower = max(1.0, REFERENCE.seconds("a" * LENGTH) / NORMAL)
        spent = found.seconds(given) / slower
    assert spent <= LIMIT * NOISE, f"{spent:.2f} s on {LENGTH} characters of {given[:60]!r}: {found.pattern.pattern!r}"


def test_patterns_are_found() -> None:
    assert len(FOUND) > 600
    places = {found.place.split(".")[1].split(":")[0] for found in FOUND}
    assert places >= {"xid", "frames", "clocks", "nccl", "slurmctld", "storage", "train", "masking", "private", "redaction"}


def test_rules_hold_no_pattern() -> None:
    """A rule names codes, fields and numbers; one that named a pattern would be tried here as well."""
    told = [path for path in RULES.iterdir() if re.search(r"(?im)^\s*\w*(?:regexp?|pattern)\w*\s*=|\(\?[:=!<iP]", path.read_text())]
    assert told == []


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.place)
def test_a_pattern_is_linear(found: Found) -> None:
    check(found, ranked(found)[0])


@pytest.mark.slow
@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.place)
def test_a_pattern_is_linear_on_more_texts(found: Found) -> None:
    for text in ranked(found)[:MANY]:
        check(found, text)
