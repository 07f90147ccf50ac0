"""Text made harmless, one reader at a time."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from triage import escape

GFM = MarkdownIt("gfm-like", {"html": True, "linkify": False})


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\x00b", "a␀b"),
        ("\x1b[31mred", "␛[31mred"),
        ("\u202eevil", "[U+202E]evil"),
        ("tab\there\u00a0too", "tab here too"),
        ("two\nlines", "two␊lines"),
        ("lone \ud800", "lone \ufffd"),
    ],
)
def test_clean_shows_what_cannot_be_seen(raw: str, shown: str) -> None:
    assert escape.clean(raw) == shown


def test_clean_counts_what_it_cuts() -> None:
    assert escape.clean("x" * 10_000, 5) == "xxxxx … (9,995 more characters)"


@pytest.mark.parametrize("raw", ["=1+1", "+1", "-1", "@SUM(A1)", " =x", "\t=x"])
def test_a_cell_is_no_formula(raw: str) -> None:
    assert escape.cell(raw).startswith("'")


@given(st.text(max_size=400))
def test_clean_is_one_printable_line(text: str) -> None:
    assert escape.clean(text).isprintable()


@given(st.text(max_size=200))
def test_a_code_span_holds_the_text_and_nothing_else(text: str) -> None:
    inline = GFM.parseInline(f"a {escape.md_code(text)} b")[0].children or []
    assert [token.type for token in inline] == ["text", "code_inline", "text"]


@given(st.text(max_size=200))
def test_prose_is_text(text: str) -> None:
    inline = GFM.parseInline(f"a {escape.md_prose(text)} b")[0].children or []
    assert {token.type for token in inline} <= {"text", "text_special"}


@given(st.lists(st.text(max_size=80), max_size=5))
def test_a_block_ends_where_it_should(lines: list[str]) -> None:
    tokens = GFM.parse(escape.md_block(lines))
    assert [token.type for token in tokens] == ["fence"]


@given(st.text(max_size=200))
def test_json_in_a_page_comes_back(text: str) -> None:
    written = escape.json_in_page({"text": text})
    assert not set("<>&") & set(written)
    assert json.loads(written) == {"text": text}


@pytest.mark.parametrize("raw", ["<!channel>", "<@U1>", "@here", "&lt;!here&gt;"])
def test_slack_calls_nobody(raw: str) -> None:
    shown = escape.mrkdwn(raw)
    assert "<" not in shown
    assert "@h" not in shown
    assert "&amp;" in shown if "&" in raw else True
