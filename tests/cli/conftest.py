"""The command line in this process, and a database to ask."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engine.stories import story
from triage import cli


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def triage(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """`triage("now", path)` as the shell would start it."""

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["triage", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.app_main()
        out, err = capfd.readouterr()
        return Done(int(left.value.code or 0), out, err)

    return run


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a small story."""
    return story(tmp_path_factory.mktemp("story") / "logs")


@pytest.fixture(scope="session")
def db(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database of that story."""
    from triage.desk import Setup, ingest

    path = str(tmp_path_factory.mktemp("db") / "fleet.duckdb")
    ingest(Setup(path), [str(logs)])
    return path
