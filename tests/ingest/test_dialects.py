"""Dialects of other distributions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from parsers import DIALECTS
from parsers.contract import LineDialect
from triage import dialects
from triage.faults import Fault
from triage.ingest import Options


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    made = ModuleType("acme_logs")
    monkeypatch.setitem(sys.modules, "acme_logs", made)
    points = [EntryPoint("acme", "acme_logs:DIALECT", dialects.GROUP)]
    monkeypatch.setattr(dialects, "entry_points", lambda group: points if group == dialects.GROUP else [])
    dialects.dialects.cache_clear()
    yield made
    dialects.dialects.cache_clear()


def test_others_come_after_ours(module: ModuleType) -> None:
    mine = LineDialect("acme", ("ACME-FAULT",), lambda _window: ())
    module.DIALECT = mine  # type: ignore[attr-defined]
    assert Options({}).dialects == (*DIALECTS, mine)


def test_a_broken_one_is_one_line(module: ModuleType) -> None:
    with pytest.raises(Fault, match=r"^parser acme \(acme_logs:DIALECT\): cannot be loaded: .*$"):
        dialects.dialects()
    module.DIALECT = "no dialect"  # type: ignore[attr-defined]
    with pytest.raises(Fault, match="is no dialect"):
        dialects.dialects()
