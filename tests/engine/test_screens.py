"""Screens: what a hostile log may print, and how much room it gets."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage import screens

HOSTILE = "a\x1b[31mred\x1b]0;title\x07\x00\u202e\u200b\x9b2J\r\nnext\tend\u2028\ud800"


def answer(**values: Any) -> dict[str, Any]:
    """An answer whose every text came from a log."""
    text = values.pop("text", HOSTILE)
    verdict = {
        "class": "T04",
        "symptom": 1,
        "manifestation": "fail_stop",
        "layer": "gpu",
        "action": "isolate_now",
        "confidence": "confirmed",
    }
    many = values.pop("many", 1)
    made: dict[str, Any] = {
        "verdict": verdict | {"summary": text, "rule_id": "x", "reason": text, "start": "2026-06-01T10:00:00Z", "end": None},
        "suspects": [{"host": text, "device": "0000:3b:00", "rank": 3, "role": "suspect", "score": 1.0, "why": text}] * many,
        "victims": [{"host": f"n{n}", "why": text} for n in range(many)],
        "jobs": [{"job_id": text, "gpu_hours_lost": 3.5, "gpus": 16, "basis": "start", "start": "2026-06-01T10:00:00Z", "end": None}]
        * many,
        "at_risk": [{"job_id": text, "hosts": [text], "why": text}] * many,
        "evidence": [{"source": text, "line": 3, "ts": "2026-06-01T10:00:00Z", "host": text, "text": text, "role": "root"}] * many,
        "alternatives": [{"class": "T24", "why": text}] * many,
        "missing": [{"what": text, "why": text, "command": text}] * many,
        "commands": [{"what": text, "command": text}] * many,
        "spares": [{"host": text, "why": text}] * many,
        "others": [{"id": text, "class": "T15", "hosts": [text], "start": None, "job_id": text, "action": "monitor"}] * many,
        "coverage": [{"host": text, "family": "kernel", "from": None, "to": None}] * many,
    }
    return made | values


def lines(**values: Any) -> list[str]:
    return screens.now_screen(answer(**values), {"T04": "GPU lost"}, HOSTILE, 120).split("\n")


def test_no_character_of_a_log_steers_the_terminal() -> None:
    text = "\n".join(lines())
    assert [c for c in text if not c.isprintable() and c != "\n"] == []


def test_a_quiet_answer_is_as_harmless() -> None:
    quiet = answer()
    quiet["verdict"]["class"] = "none"
    text = screens.now_screen(quiet, {}, HOSTILE, 120)
    assert [c for c in text if not c.isprintable() and c != "\n"] == []


@pytest.mark.parametrize("many", [1, 200])
def test_an_answer_fits_a_screen(many: int) -> None:
    shown = lines(many=many, text="x" * 5000)
    assert len([line for line in shown if "$ " not in line]) <= 45
    assert [len(line) for line in shown if len(line) > 120 and "$ " not in line] == []


def test_a_command_is_never_cut() -> None:
    command = "scontrol update nodename=n1 " + "y" * 400
    assert any(line.endswith(command) for line in lines(commands=[{"what": "take it out", "command": command}]))


def test_the_head_says_how_sure_what_and_where() -> None:
    head = lines(suspects=[{"host": "n7", "device": "0000:3b:00", "rank": 3, "role": "culprit", "score": 1.0, "why": ""}])[0]
    assert head.startswith("CONFIRMED  GPU lost (T04)  n7  GPU 0000:3b:00  rank 3")
    assert head.endswith("layer gpu, fail-stop")
    assert "no host to blame" in lines(suspects=[])[0]


def test_a_table_is_cut_to_its_width() -> None:
    text = screens.table([{"a": "x" * 400, "b": HOSTILE}, {"a": None, "b": 3}], {"a": "first", "b": "second"}, 80)
    assert max(map(len, text.split("\n"))) <= 80
    assert [c for c in text if not c.isprintable() and c != "\n"] == []


@given(st.text(max_size=60), st.integers(0, 40))
def test_cut_keeps_within_its_size(text: str, size: int) -> None:
    assert len(screens.cut(text, size)) <= max(size, 3)
    assert screens.cut(text, len(text)) == text


@given(st.text(max_size=60))
def test_safe_text_is_one_line_of_plain_characters(text: str) -> None:
    assert not {unicodedata.category(c) for c in screens.safe(text)} & {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
    assert len(screens.safe(text).splitlines()) <= 1


@pytest.mark.parametrize(
    ("hosts", "text"),
    [(["n1", "n2", "n3"], "n[1-3]"), (["n1"], "n1"), (["n[", "b"], "n[,b"), ([f"x{n}y" for n in range(0, 4000, 7)], "hosts)")],
)
def test_hosts_are_folded(hosts: list[str], text: str) -> None:
    assert screens.folded(hosts).endswith(text)


def test_the_root_stays_where_more_came_before_it_than_fits() -> None:
    before = [
        {"source": "a.log", "line": n, "ts": "2026-06-01T09:00:00Z", "host": "n2", "text": "sign", "role": "precursor"} for n in range(30)
    ]
    root = {"source": "b.log", "line": 7, "ts": "2026-06-01T10:00:00Z", "host": "n1", "text": "n1 the root", "role": "root"}
    shown = lines(evidence=[*before, root])
    assert any("b.log:7" in line and "n1 n1" not in line for line in shown)
    assert any(f"and {31 - screens.EVIDENCE_LINES} more" in line for line in shown)
