"""Kernel, driver, fabric, storage, controller and tool dialects against their sample folders."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import disks, fabric, gpu_tools, ipmi, kernel, links, nvrm, oom, pcie, shapes, storage, xid
from parsers.contract import Benign, Dialect, Event, Line, LineDialect, Record, Reject, SectionDialect
from parsers.frames import peel_all

SAMPLES = Path(__file__).parents[2] / "samples"
MODULES: tuple[ModuleType, ...] = (xid, nvrm, kernel, oom, pcie, links, disks, storage, fabric, ipmi, gpu_tools)


def dialects_of(module: ModuleType) -> tuple[Dialect, ...]:
    many: tuple[Dialect, ...] = getattr(module, "DIALECTS", ())
    return many or (module.DIALECT,)


DIALECTS = {d.name: d for module in MODULES for d in dialects_of(module)}
LINE_DIALECTS = [d for d in DIALECTS.values() if isinstance(d, LineDialect)]
LOGS = sorted(path for name in DIALECTS for path in (SAMPLES / name).glob("*.log"))


class Around:
    """A window over a list of lines, with the limits of the contract."""

    def __init__(self, lines: list[Line], at: int) -> None:
        self.lines, self.at = lines, at

    @property
    def line(self) -> Line:
        return self.lines[self.at]

    def after(self, limit: int) -> Iterator[Line]:
        return iter(self.lines[self.at + 1 : self.at + 1 + limit])

    def before(self, limit: int) -> Iterator[Line]:
        return iter(self.lines[max(0, self.at - limit) : self.at][::-1])


def peeled(data: bytes) -> list[Line]:
    rows = data.decode("utf-8", "replace").split("\n")
    return [line for number, row in enumerate(rows, 1) for line in peel_all(number, row)]


def of_lines(dialect: LineDialect, lines: list[Line]) -> Iterator[Record]:
    for at, line in enumerate(lines):
        if any(word in line.raw for word in (*dialect.needles, *dialect.hints)):
            yield from dialect.parse(Around(lines, at))


def of_sections(dialect: SectionDialect, lines: list[Line]) -> Iterator[Record]:
    section = None
    for line in lines:
        if section is not None:
            more = section.feed(line)
            if more is not None:
                yield from more
                continue
            yield from section.close()
        section = dialect.open(line) if any(word in line.raw for word in dialect.openers) else None
    if section is not None:
        yield from section.close()


def records(name: str, data: bytes) -> list[Record]:
    dialect, lines = DIALECTS[name], peeled(data)
    return list(of_lines(dialect, lines) if isinstance(dialect, LineDialect) else of_sections(dialect, lines))  # type: ignore[arg-type]


def shown(record: Record, keys: list[str]) -> dict[str, object]:
    kind = "event" if isinstance(record, Event) else "reject"
    return {key: kind if key == "record" else getattr(record, key) for key in keys}


def place(row: dict[str, object]) -> tuple[object, ...]:
    return (row["record"], row.get("line", row.get("line_first")), row.get("code"))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_sample_yields_exactly_what_is_expected(log: Path) -> None:
    rows = [json.loads(row) for row in log.with_suffix(".expected.jsonl").read_text().splitlines()]
    got = [r for r in records(log.parent.name, log.read_bytes()) if not isinstance(r, Benign)]
    known = {place(row): list(row) for row in rows}
    plain = ["record", "line_first", "code"]
    found = [shown(r, known.get((shown(r, plain)["record"], r.line_first, r.code), plain)) for r in got if isinstance(r, Event)]
    found += [shown(r, ["record", "line", "reason"]) for r in got if isinstance(r, Reject)]
    assert sorted(found, key=str) == sorted(rows, key=str)


@pytest.mark.parametrize("name", DIALECTS)
def test_folder_holds_a_hostile_and_a_neighbours_log(name: str) -> None:
    assert {"hostile.log", "neighbour.log"} <= {path.name for path in (SAMPLES / name).iterdir()}
    assert (SAMPLES / name / "neighbour.expected.jsonl").read_text() == ""


def test_no_line_is_claimed_by_two_dialects() -> None:
    for log in LOGS:
        lines = peeled(log.read_bytes())
        for at, line in enumerate(lines):
            claims = [d.name for d in LINE_DIALECTS if list(of_lines(d, lines[at : at + 1]))]
            assert len(claims) <= 1, (log, line.number, claims)


def test_every_needle_leaves_a_trace() -> None:
    for log in LOGS:
        lines = peeled(log.read_bytes())
        for at, line in enumerate(lines):
            if any(word in line.raw for d in LINE_DIALECTS for word in d.needles):
                assert any(list(d.parse(Around(lines, at))) for d in LINE_DIALECTS), (log, line.number)


def shapes_of(module: ModuleType) -> Iterator[shapes.Shape]:
    for value in vars(module).values():
        if isinstance(value, tuple):
            yield from (row for row in value if isinstance(row, shapes.Shape))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_shape_is_sampled(module: ModuleType) -> None:
    folders = [SAMPLES / d.name for d in dialects_of(module)]
    texts = [line.text for folder in folders for log in folder.glob("*.log") for line in peeled(log.read_bytes())]
    rows = list(dict.fromkeys(shapes_of(module)))
    bare = [row.pattern.pattern for row in rows if not any(row.pattern.search(text) for text in texts)]
    assert bare == []


def test_every_code_has_a_known_spelling() -> None:
    codes = Counter(
        row["code"] for log in LOGS for row in map(json.loads, log.with_suffix(".expected.jsonl").read_text().splitlines()) if "code" in row
    )
    assert all(code.count(".") == 1 and code == code.lower() for code in codes)


EVERY_LINE = [row for log in LOGS for row in log.read_bytes().decode("utf-8", "replace").split("\n") if row]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(EVERY_LINE), st.data())
def test_a_garbled_line_raises_nothing(row: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(row)))
    lines = peeled((row[:at] + data.draw(st.text(max_size=8)) + row[at + data.draw(st.integers(0, 6)) :]).encode("utf-8", "replace"))
    for name, dialect in DIALECTS.items():
        made = of_lines(dialect, lines) if isinstance(dialect, LineDialect) else of_sections(dialect, lines)  # type: ignore[arg-type]
        assert all(isinstance(r, Event | Reject | Benign) for r in made), name
