"""Inputs that once broke a layer, and the samples that fuzzing begins with, hold now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import corpora
from tests.fuzz.targets import TARGETS

SEEDS = [pytest.param(target, path, id=f"{target}/{path.name}") for target in TARGETS for path in corpora.kept(target)]


@pytest.mark.parametrize(("target", "path"), SEEDS)
def test_a_kept_input_holds(target: str, path: Path) -> None:
    TARGETS[target](path.read_bytes())


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_the_first_inputs_hold(target: str) -> None:
    given = list(corpora.inputs(target))
    assert given
    for data in given[:: max(1, len(given) // 40)]:
        TARGETS[target](data)
