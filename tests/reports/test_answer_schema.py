"""The published schema is what the types say, and every answer we can make meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.reports.conftest import Make
from triage import report_schema
from triage.answer_schema import Answer, check, json_schema

ROOT = Path(__file__).parents[2]
KEYS = {field.alias or name for name, field in Answer.model_fields.items()} - {"explain"}
FOLDERS = [
    *sorted((ROOT / "samples" / "cases").glob("*/logs")),
    *sorted(ROOT.parent.joinpath("shared", "cases").glob("*/logs")),
    ROOT / "samples" / "hostile",
    Path(__file__).parent / "small" / "logs",
]


def answer_in(report: dict[str, Any]) -> dict[str, Any]:
    return {key: report[key] for key in KEYS}


@pytest.mark.parametrize(("name", "text"), [("answer", json_schema()), ("report", report_schema.json_schema())])
def test_the_files_are_up_to_date(name: str, text: str) -> None:
    path = ROOT / "triage" / f"{name}.schema.json"
    assert path.read_text(encoding="utf-8") == text, f"python -m triage.{name}_schema > triage/{name}.schema.json"


@pytest.mark.parametrize("folder", FOLDERS, ids=[f"{p.parent.name}/{p.name}" for p in FOLDERS])
def test_answers_meet_it(folder: Path, made: Make) -> None:
    report = json.loads(json.dumps(made(folder)))
    check(answer_in(report))
    report_schema.check(report)


def test_an_empty_folder_meets_it(made: Make, tmp_path: Path) -> None:
    report = made(tmp_path)
    check(answer_in(report))
    report_schema.check(report)


def test_it_is_strict(made: Make) -> None:
    answer = answer_in(made(Path(__file__).parent / "small" / "logs"))
    wrong: list[tuple[str, Any]] = [("schema", 2), ("rejects", "0"), ("surprise", 1), ("verdict", {**answer["verdict"], "class": "T99"})]
    for key, value in wrong:
        with pytest.raises(ValidationError):
            check({**answer, key: value})
    with pytest.raises(ValidationError):
        report_schema.check(answer)


def test_no_object_of_the_schema_is_open() -> None:
    schemas = [json.loads(text) for text in (json_schema(), report_schema.json_schema())]
    objects = [part for schema in schemas for part in (schema, *schema["$defs"].values())]
    assert [o["title"] for o in objects if o.get("type") == "object" and o.get("additionalProperties") is not False] == []
