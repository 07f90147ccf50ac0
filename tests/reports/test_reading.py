"""What the on-call reads: nothing twice, nothing of the other scheduler, no ticket for what no vendor mends, times in order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.reports.conftest import Make
from tests.reports.folders import big_folder
from triage import reports, screens
from triage.slack import MOST_BLOCKS, MOST_TEXT

CASES = Path(__file__).parents[2] / "samples" / "cases"
STORIES = (
    "gpu-off-the-bus", "type-error-on-one-rank", "kubernetes-node-lost", "rack-without-power", "preempted", "healthy",
    "host-memory-used-up", "flight-slow-rank", "file-server-evicts-all", "nan-loss-alone",
)  # fmt: skip
MOST_FIELDS, MOST_FIELD, MOST_HEADER = 10, 2000, 150
"""Slack's own limits of a section's fields, of one of them, and of a header."""


@pytest.fixture(scope="module")
def told(made: Make, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Reports of stories of all kinds and of a large one."""
    fleet = tmp_path_factory.mktemp("fleet")
    big_folder(fleet)
    return {name: made(CASES / name / "logs") for name in STORIES} | {"fleet": made(fleet)}


def inner(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from inner(part)


@pytest.mark.parametrize("name", [*STORIES, "fleet"])
def test_slack_keeps_its_limits(name: str, told: dict[str, dict[str, Any]]) -> None:
    blocks = json.loads(reports.render(told[name], "slack"))["blocks"]
    assert 0 < len(blocks) <= MOST_BLOCKS == 50
    assert all(len(part["text"]) <= MOST_TEXT == 3000 for part in inner(blocks) if isinstance(part.get("text"), str))
    for block in blocks:
        assert len(block.get("fields", [])) <= MOST_FIELDS
        assert all(0 < len(field["text"]) <= MOST_FIELD for field in block.get("fields", []))
        assert block["type"] != "header" or 0 < len(block["text"]["text"]) <= MOST_HEADER


@pytest.mark.parametrize("name", [*STORIES, "fleet"])
def test_markdown_is_what_it_looks_like(name: str, told: dict[str, dict[str, Any]]) -> None:
    text = reports.render(told[name], "md")
    kinds = [(token.type, token.info) for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text)]
    assert sum(kind == "table_open" for kind, _ in kinds) == len(re.findall(r"^\| --- ", text, re.MULTILINE))
    assert [info for kind, info in kinds if kind == "fence"] == re.findall(r"^`{3,9}(text|sh|mermaid)$", text, re.MULTILINE)
    assert sum(kind == "heading_open" for kind, _ in kinds) == len(re.findall(r"^#{1,3} ", text, re.MULTILINE))


def test_an_act_is_undone_in_the_words_of_its_scheduler(told: dict[str, dict[str, Any]]) -> None:
    assert told["gpu-off-the-bus"]["rule"]["undo"] == "scontrol update nodename=gpu-044 state=resume"


@pytest.mark.parametrize("name", ["type-error-on-one-rank", "rack-without-power", "file-server-evicts-all", "host-memory-used-up"])
def test_no_ticket_for_what_no_vendor_mends(name: str, told: dict[str, dict[str, Any]]) -> None:
    assert told[name]["hardware"] == []
    assert reports.render(told[name], "ticket").startswith("No fault of a host or GPU is found here")


def test_nothing_found_is_said_without_a_verdict(told: dict[str, dict[str, Any]]) -> None:
    quiet = told["healthy"]
    assert reports.render(quiet, "md").startswith(f"# {quiet['verdict']['summary']}\n\n## Jobs\n")
    assert "How sure" not in reports.render(quiet, "html").split("<script")[0]
    assert [block["type"] for block in json.loads(reports.render(quiet, "slack"))["blocks"]] == ["header", "section", "context"]


def test_a_line_without_a_stamp_stands_where_its_neighbours_do(told: dict[str, dict[str, Any]]) -> None:
    rows = told["type-error-on-one-rank"]["evidence"]
    assert (rows[0]["role"], rows[0]["ts"]) == ("root", None)
    times = [row["ts"] or row["about"] for row in rows]
    assert times == sorted(times)
    why = screens.now_screen(told["type-error-on-one-rank"], {}, "").split("\nWhy ")[1]
    assert re.match(r" +~\d\d:\d\d:\d\d KeyError", why)


def test_a_suspect_without_a_place_does_not_stand_beside_one_with(told: dict[str, dict[str, Any]]) -> None:
    assert [s["host"] for s in told["host-memory-used-up"]["suspects"]] == ["cn-15-26"]


def test_policy_misses_no_cause(told: dict[str, dict[str, Any]]) -> None:
    assert told["preempted"]["graph"]["edges"] == []
    assert "no root seen" in reports.render(told["kubernetes-node-lost"], "md")


def test_a_lost_node_of_kubernetes_is_named_and_asked_nothing_of_slurm(told: dict[str, dict[str, Any]]) -> None:
    lost = told["kubernetes-node-lost"]
    assert "cn-3-4" in lost["verdict"]["summary"]
    assert not re.search(r"slurmd log|scontrol|scancel", json.dumps([lost["missing"], lost["commands"]]))


def test_many_hosts_are_folded(told: dict[str, dict[str, Any]]) -> None:
    for fmt in ("md", "html"):
        line = next(part for part in reports.render(told["fleet"], fmt).splitlines() if "it only waited" in part)
        assert "k00-n[00-04,06-11]" in line
        assert len(line) < 800


def test_another_reading_is_named_by_its_class(told: dict[str, dict[str, Any]]) -> None:
    questions = [row["question"] for row in told["nan-loss-alone"]["questions"]]
    assert "Could it be fault of the program (T20) instead?" in questions
    assert "Could it come from elsewhere?" in questions
