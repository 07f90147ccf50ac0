"""The same files in any order, at once or in two runs, give the same incidents."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.engine.stories import story
from triage import pipeline
from triage.desk import _families
from triage.ingest import Options, ingest
from triage.pipeline import refresh
from triage.rulebook import Rulebook
from triage.sources import Found, find
from triage.store import Store


def cases() -> list[Path]:
    """A few stories of the samples."""
    found = sorted((Path(__file__).parents[2] / "samples" / "cases").glob("*/logs"))
    return found[:: max(1, len(found) // 2)][:2]


def incidents(book: Rulebook, *runs: Found) -> list[dict[str, Any]]:
    with Store() as store:
        for run in runs:
            ingest(store, run, Options(_families(book)))
            refresh(store, book)
        return store.rows("incidents")


def check(book: Rulebook, folder: Path, rounds: int) -> list[dict[str, Any]]:
    files = find([str(folder)]).sources
    wanted = incidents(book, Found(list(files)))
    dice = random.Random(11)
    for _ in range(rounds):
        shuffled = dice.sample(files, len(files))
        cut = dice.randint(0, len(files))
        assert incidents(book, Found(shuffled)) == wanted
        assert incidents(book, Found(shuffled[:cut]), Found(shuffled[cut:])) == wanted
    return wanted


def test_a_small_story(book: Rulebook, tmp_path: Path) -> None:
    wanted = check(book, story(tmp_path / "logs"), 2)
    assert [(i["class"], i["hosts"][0], i["jobs"]) for i in wanted if i["kind"] == "job"] == [("T04", "n2", ["8842"])]


def test_events_in_portions_give_the_same_bursts(book: Rulebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find([str(story(tmp_path / "logs"))])
    with Store() as store:
        ingest(store, found, Options(_families(book)))
        refresh(store, book)
        whole = store.frame("bursts")
        monkeypatch.setattr(pipeline, "PORTION", 1)
        pipeline.build_bursts(store, book)
        assert store.frame("bursts").equals(whole)
        assert whole["host"].n_unique() > 2


@pytest.mark.parametrize("folder", cases(), ids=lambda path: path.parent.name)
def test_a_sample_story(book: Rulebook, folder: Path) -> None:
    assert check(book, folder, 1)


def test_a_file_that_grew_between_two_runs(book: Rulebook, tmp_path: Path) -> None:
    whole = story(tmp_path / "whole")
    early = tmp_path / "early"
    shutil.copytree(whole, early)
    text = (early / "n2.kern.log").read_text()
    (early / "n2.kern.log").write_text(text[: text.index("2026-06-01T12")])
    wanted = incidents(book, find([str(whole)]))
    grown = incidents(book, find([str(early)]), find([str(whole)]))
    assert [(i["incident_id"], i["class"], i["rule_id"]) for i in grown] == [(i["incident_id"], i["class"], i["rule_id"]) for i in wanted]
