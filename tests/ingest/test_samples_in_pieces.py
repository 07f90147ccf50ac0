"""Every sample gives the same rows whatever the block size, and all of them the same tables whatever the order or the number of calls."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.ingest.tables import raw, read
from tests.ingest.test_properties import tables

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = sorted(
    path
    for path in SAMPLES.rglob("*")
    if path.is_file() and not {"cases", "decisions"} & set(path.parts) and path.suffix in (".log", ".txt", ".out") and path.stat().st_size
)


def test_samples_are_found() -> None:
    assert len(FILES) > 150


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SAMPLES)) for path in FILES])
def test_blocks_change_nothing_of_a_sample(path: Path) -> None:
    data = path.read_bytes()
    whole = tables(data, 1 << 22)
    for block in (64, 999, 4096):
        assert tables(data, block) == whole, block


def test_order_and_split_change_nothing_of_the_samples(tmp_path: Path) -> None:
    shuffled = random.Random(7).sample(FILES, len(FILES))
    read(tmp_path / "a.duckdb", [FILES])
    read(tmp_path / "b.duckdb", [shuffled])
    read(tmp_path / "c.duckdb", [shuffled[: len(FILES) // 2], shuffled[len(FILES) // 2 :], FILES[:9]])
    want = raw(tmp_path / "a.duckdb")
    assert raw(tmp_path / "b.duckdb") == want
    assert raw(tmp_path / "c.duckdb") == want
