"""The notebooks run from top to bottom, hold no output and define nothing."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONGEST = 200


def cells(path: Path, kind: str = "code") -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def code(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path), 1):
        exec(compile(code(cell), f"{path.name}, code cell {number}", "exec"), space)
    assert capsys.readouterr().out


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_holds_no_output_and_defines_nothing(path: Path) -> None:
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells(path))
    defined = [
        node.name for cell in cells(path) for node in ast.walk(ast.parse(code(cell))) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    assert defined == []
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_begins_with_a_title_and_explains_itself(path: Path) -> None:
    texts = [code(cell) for cell in cells(path, "markdown")]
    assert texts[0].startswith("# ")
    assert len(texts) >= len(cells(path)) // 2
