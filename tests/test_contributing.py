"""The worked examples of CONTRIBUTING.md work as they are printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from parsers import frames
from parsers.contract import Line, LineDialect
from triage import rulebook

# ```toml
# # site/decisions.toml
_BLOCK = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(_BLOCK.findall(TEXT))


class Alone:
    """A window on one line."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def after(self, limit: int) -> Iterator[Line]:
        return iter(())

    def before(self, limit: int) -> Iterator[Line]:
        return iter(())


@pytest.fixture
def dialect() -> LineDialect:
    space: dict[str, object] = {"__name__": "parsers.coolant"}
    exec(compile(FILES["parsers/coolant.py"], "CONTRIBUTING.md", "exec"), space)
    made = space["DIALECT"]
    assert isinstance(made, LineDialect)
    return made


def test_the_parser_reads_its_sample(dialect: LineDialect) -> None:
    got = []
    for number, raw in enumerate(FILES["samples/coolant/flow.log"].splitlines(), 1):
        records = list(dialect.parse(Alone(frames.peel(number, raw)))) if any(needle in raw for needle in dialect.needles) else []
        got += [asdict(record) | {"record": "event"} for record in records] or [{"record": "reject", "line": number}]
    wanted = [json.loads(line) for line in FILES["samples/coolant/flow.expected.jsonl"].splitlines()]
    assert [{key: row[key] for key in want} for row, want in zip(got, wanted, strict=True)] == wanted


def test_the_rule_is_sound_and_decides_its_sample(tmp_path: Path) -> None:
    for name, text in FILES.items():
        if name.startswith("site/"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    book = rulebook.load(tmp_path / "site")
    assert [str(fault) for fault in rulebook.check(book) if "site" in str(fault)] == []
