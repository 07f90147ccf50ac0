"""Whatever the blocks, the order or the split, the same bytes give the same tables; every needle is accounted for."""

from __future__ import annotations

import io
import shutil
import tempfile
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsers import DIALECTS
from parsers.contract import Benign, Event, Line, Reject
from parsers.frames import peel_all
from tests.ingest.logs import HOSTS, LINES, framed, logs
from tests.ingest.tables import FAMILIES, raw, read
from triage.intake import Intake
from triage.repeat import Repeats
from triage.scanner import Kept, Scanned, Scanner
from triage.sources import Source

SLOW = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


@cache
def scanner(block: int = 1 << 20) -> Scanner:
    return Scanner(DIALECTS, block)


def source(data: bytes) -> Source:
    return Source("kern.log", lambda: nullcontext(io.BytesIO(data)), 1.77e9, True, len(data))


def tables(data: bytes, block: int, apart: bool = False) -> object:
    """All rows that a source of these bytes becomes."""
    intake = Intake(FAMILIES)
    scanned = scanner(block).scan(io.BytesIO(data), "kern.log", intake, apart=apart)
    parsed = intake.finish(source(data), scanned, None)
    frames = [(name, frame.rows()) for name, frame in parsed.frames()]
    return parsed.source, parsed.tables, frames


@SLOW
@given(logs(), st.sampled_from((100, 999, 4096, 70_000)))
def test_blocks_change_nothing(data: bytes, block: int) -> None:
    whole = tables(data * 3, 1 << 22)
    assert tables(data * 3, block) == whole
    assert tables(data * 3, block, apart=True) == whole


def test_a_needle_behind_the_cut_of_a_long_line_is_read() -> None:
    """A line that is taken in parts, a needle at each place around the ends of the parts."""
    fault = b"NVRM: Xid (PCI:0000:3b:00): 74, pid=1, NVLink: fatal error"
    for place in range(69_000, 75_000, 97):
        data = b"Mar  2 04:00:00 qx-01 kernel: " + b"a" * place + b" " + fault + b" " + b"b" * 130_000 + b"\n"
        assert tables(data, 4096) == tables(data, 1 << 22), place


@SLOW
@given(logs())
def test_a_repeated_line_reads_as_if_parsed(data: bytes) -> None:
    fast = tables(data, 1 << 20)
    found = Repeats.find
    try:
        Repeats.find = lambda *_: None  # type: ignore[method-assign]
        assert tables(data, 1 << 20) == fast
    finally:
        Repeats.find = found  # type: ignore[method-assign]


def test_a_flood_behind_many_lines_of_their_own_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triage.repeat.PATIENCE", 50)
    parsed: list[int] = []

    def counted(number: int, raw: str) -> list[Line]:
        parsed.append(number)
        return peel_all(number, raw)

    monkeypatch.setattr("triage.scanner.peel_all", counted)
    own = [framed(n, "qx-01", f"NVRM: Xid (PCI:0000:3b:00): 13, pid={n}, name=x", 1) for n in range(200)]
    flood = [framed(200 + n % 7, "qx-01", "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", 1) for n in range(2000)]
    scanner().scan(io.BytesIO(("\n".join(own + flood) + "\n").encode()), "kern.log", Kept())
    assert len([n for n in parsed if n > 200]) < 200


@SLOW
@given(logs())
def test_every_needle_is_accounted_for(data: bytes) -> None:
    kept = Kept()
    scanned: Scanned = scanner().scan(io.BytesIO(data), "kern.log", kept)
    told: set[int] = set()
    for record in (claim.record for claim in kept.claims):
        if isinstance(record, Event):
            told.update(range(record.line_first, record.line_last + 1))
        elif isinstance(record, Reject | Benign):
            told.add(record.line)
    strong = [n.text for n in scanner().needles if n.strong and b"Job" not in n.text]
    with_needle = {number for number, line in enumerate(data.split(b"\n"), 1) if any(text in line for text in strong)}
    assert with_needle <= told
    assert scanned.needle_lines <= len(with_needle)


@SLOW
@given(st.lists(logs(), min_size=2, max_size=4, unique=True), st.randoms())
def test_order_and_split_change_nothing(parts: list[bytes], chance: object) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        paths = [folder / f"{HOSTS[n % 3]}-{n}.kern.log" for n in range(len(parts))]
        for path, data in zip(paths, parts, strict=True):
            path.write_bytes(data)
        read(folder / "a.duckdb", [paths])
        read(folder / "b.duckdb", [[p] for p in reversed(paths)])
        read(folder / "c.duckdb", [paths[:1], paths[1:], paths])
        want = raw(folder / "a.duckdb")
        assert raw(folder / "b.duckdb") == want
        assert raw(folder / "c.duckdb") == want
    finally:
        shutil.rmtree(folder)


@SLOW
@given(st.lists(st.tuples(st.sampled_from((0, 1, 1, 7)), st.sampled_from(LINES[:3]), st.sampled_from((0, 1, 2))), min_size=1, max_size=5))
def test_a_flood_is_counted_exactly(kinds: list[tuple[int, str, int]]) -> None:
    lines, second = [], 0
    for step, text, kind in kinds:
        for _ in range(50):
            second += step
            lines.append(framed(second, "qx-01", text, kind))
    data = ("\n".join(lines) + "\n").encode()
    intake = Intake(FAMILIES)
    scanned = scanner().scan(io.BytesIO(data), "kern.log", intake)
    parsed = intake.finish(source(data), scanned, None)
    assert parsed.source["events"] == scanned.needle_lines == len(lines)
    assert parsed.events is not None
    assert sum(frame["repeats"].sum() for frame in parsed.events.frames()) == len(lines)
