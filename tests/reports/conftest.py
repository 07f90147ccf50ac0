"""Reports of folders of logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triage import desk
from triage.answers import Question, answer, choose
from triage.pipeline import judge, load
from triage.reports import Read, report_of
from triage.rulebook import Rulebook
from triage.store import Store

Make = Callable[[str | Path], dict[str, Any]]


@pytest.fixture(scope="session")
def made(book: Rulebook) -> Make:
    """The report of the incident that `now` would answer with."""

    def make(path: str | Path) -> dict[str, Any]:
        with Store() as store:
            desk.read(store, [str(path)], book, None)
            analysis = judge(load(store, book), book)
            decision = choose(analysis, Question())
            return report_of(analysis, decision, book, answer(analysis, book, Question(), 0), Read.of(store))

    return make
