"""A log that is read as it grows gives the rows of one whole read, however its bytes come."""

from __future__ import annotations

import io
import random
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.watch.tables import agree, options, rows_of
from triage.dialects import dialects
from triage.ingest import Options, Reader, Report, Shelf
from triage.intake import Parsed
from triage.scanner import Scanner
from triage.sources import Source
from triage.store import Store
from triage.watch_growth import Growth

SAMPLES = sorted((Path(__file__).parents[2] / "samples").glob("*/*.log"))


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner(dialects())


@pytest.fixture(scope="module")
def how() -> Options:
    return options()


def medley(seed: int, size: int) -> bytes:
    """Samples of all dialects one after the other, whole, with quiet stretches between, over and over."""
    shuffled = random.Random(seed)
    parts: list[bytes] = []
    total = 0
    while total < size:
        part = shuffled.choice(SAMPLES).read_bytes()
        if len(part) > 32 << 10 or part[:1] in (b"{", b"["):
            continue
        quiet = b"".join(b"step %d of a run, all is well\n" % n for n in range(shuffled.choice((0, 3, 900))))
        parts += [part, b"" if part.endswith(b"\n") else b"\n", quiet]
        total += len(part) + len(quiet)
    return b"".join(parts)


def source_of(data: bytes) -> Source:
    return Source("/logs/mixed.log", lambda: nullcontext(io.BytesIO(data)), 1_780_000_000.0, True, len(data))


def rows_in(parsed: Parsed) -> dict[str, list[str]]:
    with Store() as store:
        shelf = Shelf(store)
        shelf.take(source_of(b""), parsed, Report())
        shelf.flush()
        return rows_of(store)


@pytest.mark.parametrize("seed", range(3))
def test_any_pieces_give_the_rows_of_the_whole(seed: int, scanner: Scanner, how: Options) -> None:
    data = medley(seed, 400 << 10)
    pieces = random.Random(seed)
    growth = Growth(scanner, how.families, None)
    growth.feed(data[: 64 << 10])
    while growth.size < len(data):
        growth.feed(data[growth.size :][: pieces.choice((1, 80, 4096, 70_000))])
        if pieces.random() < 0.05:
            growth.snapshot(source_of(data[: growth.size]))
    reader = Reader(how, lambda _head: ())
    agree(rows_in(growth.snapshot(source_of(data))), rows_in(reader.read(source_of(data))))


def test_a_snapshot_is_the_whole_of_what_there_is(scanner: Scanner, how: Options) -> None:
    data = medley(7, 300 << 10)
    cut = len(data) - 41
    growth = Growth(scanner, how.families, None)
    growth.feed(data[:cut])
    reader = Reader(how, lambda _head: ())
    agree(rows_in(growth.snapshot(source_of(data[:cut]))), rows_in(reader.read(source_of(data[:cut]))))
    growth.feed(data[cut:])
    agree(rows_in(growth.snapshot(source_of(data))), rows_in(reader.read(source_of(data))))


def test_a_needle_across_two_pieces_is_found(scanner: Scanner, how: Options) -> None:
    line = b"Mar  2 04:11:07 gpu-7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    data = b"all is well\n" * 8000 + line
    for cut in range(len(data) - len(line), len(data), 7):
        growth = Growth(scanner, how.families, None)
        growth.feed(data[:cut])
        growth.feed(data[cut:])
        assert growth.telling
        assert growth.snapshot(source_of(data)).source["events"] == 1
        assert not growth.telling or growth._pass.hits


def test_growth_without_a_needle_tells_nothing(scanner: Scanner, how: Options) -> None:
    growth = Growth(scanner, how.families, None)
    growth.feed(b"all is well\n" * 30_000)
    growth.snapshot(source_of(b""))
    growth.feed(b"all is well\n")
    assert not growth.telling
