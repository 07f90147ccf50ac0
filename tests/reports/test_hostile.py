"""Text of logs stays text in every way out: no element, attribute, link, mention, escape or formula comes from it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.reports.conftest import Make
from triage import reports
from triage.screens import now_screen
from triage.slack import MOST_BLOCKS, MOST_TEXT

HOSTILE = Path(__file__).parents[2] / "samples" / "hostile"
ATTRIBUTE = re.compile(r"^[\w ,.:;()=#%/'+·-]*$")
TAGS = set(
    "html head meta title style body a main header h1 h2 h3 dl div dt dd p pre code table thead tr th tbody td span b details summary "
    "ul ol li label input script".split()
)
PAYLOAD = re.compile(r"zq[a-j]")


class Reader(HTMLParser):
    """Tags, attributes and texts by the element that holds them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1][0] if self.tags else "", data))


@pytest.fixture(scope="module")
def hostile(made: Make) -> dict[str, Any]:
    return made(HOSTILE)


@pytest.fixture(scope="module")
def page(hostile: dict[str, Any]) -> str:
    return reports.render(hostile, "html")


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def test_the_payloads_did_arrive(hostile: dict[str, Any]) -> None:
    found = set(PAYLOAD.findall(json.dumps(hostile)))
    assert found >= {"zqa", "zqb", "zqc", "zqd", "zqe", "zqh"}


def test_no_element_or_attribute_of_the_page_comes_from_a_log(page: str) -> None:
    reader = read(page)
    assert {tag for tag, _ in reader.tags} <= TAGS
    for tag, attributes in reader.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert not PAYLOAD.search(value or "")
            assert tag == "meta" or ATTRIBUTE.match(value or ""), (tag, name, value)
    assert [a["href"] for t, a in reader.tags if t == "a"] == ["#evidence"]
    assert not [t for t, a in reader.tags if "src" in a]


def test_the_page_has_two_scripts_and_only_they_may_run(page: str) -> None:
    scripts = [a for t, a in read(page).tags if t == "script"]
    assert [a.get("type") for a in scripts] == ["application/json", None, None]
    policy = next(a["content"] for t, a in read(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert policy.count("sha256-") == 2


def test_data_of_the_page_is_json_that_cannot_end_its_element(page: str) -> None:
    data = page.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert not set("<>&") & set(data)
    assert json.loads(data)["timeline"]["events"]


def test_no_control_or_direction_character_gets_through(hostile: dict[str, Any], page: str) -> None:
    ours = page.split("<script>")[0]
    outputs = {"html": ours} | {fmt: reports.render(hostile, fmt) for fmt in ("md", "slack", "json", "ticket")}
    outputs["text"] = now_screen(hostile, {}, "")
    for fmt, text in outputs.items():
        bad = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") and c not in "\n\u2060"}
        assert not bad, (fmt, bad)


def tokens(text: str) -> Iterator[tuple[str, str]]:
    for token in MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(text):
        yield token.type, token.content
        for child in token.children or ():
            yield child.type, child.content


def test_markdown_of_logs_is_dead(hostile: dict[str, Any]) -> None:
    text = reports.render(hostile, "md")
    kinds = list(tokens(text))
    html = [content for kind, content in kinds if kind in ("html_inline", "html_block")]
    assert all(re.fullmatch(r"(<!-- /?triage:keep [a-z]+ -->\s*)+", part) or part.startswith("<!-- triage:keep ") for part in html), html
    assert not [content for kind, content in kinds if kind in ("link_open", "image")]
    prose = " ".join(content for kind, content in kinds if kind == "text")
    assert not re.search(r"@\w|://|www\.|#\d", prose)


def test_a_log_cannot_fill_the_places_of_people(hostile: dict[str, Any]) -> None:
    text = reports.render(hostile, "md")
    again = reports.keep(hostile, text)
    assert set(again["people"].values()) == {""}


def test_rows_of_markdown_tables_keep_their_columns(hostile: dict[str, Any]) -> None:
    columns = 0
    for line in reports.render(hostile, "md").splitlines():
        if not line.startswith("|"):
            columns = 0
            continue
        count = len(re.findall(r"(?<!\\)\|", line))
        assert columns in (0, count), line
        columns = count


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)
    elif isinstance(value, str):
        yield value


def test_slack_mentions_nobody_and_keeps_its_limits(hostile: dict[str, Any]) -> None:
    payload = json.loads(reports.render(hostile, "slack"))
    assert len(payload["blocks"]) <= MOST_BLOCKS
    for text in texts_of(payload):
        assert len(text) <= MOST_TEXT
        assert "<" not in text and ">" not in text
        assert not re.search(r"@\w", text)
        assert not re.search(r"&(?!amp;|lt;|gt;)", text)
    for block in payload["blocks"]:
        if "text" in block and block["text"]["type"] == "mrkdwn":
            assert block["text"]["verbatim"] is True
            assert block["text"]["text"].count("```") % 2 == 0


def test_no_line_of_plain_text_begins_like_a_formula(hostile: dict[str, Any]) -> None:
    for line in reports.render(hostile, "ticket").splitlines():
        assert not line.strip().startswith(("=", "+", "@"))
    cells = [text.strip() for tag, text in read(reports.render(hostile, "html")).texts if tag == "td"]
    assert not [c for c in cells if c.startswith(("=", "+", "@"))]


def test_no_shown_line_is_endless(hostile: dict[str, Any]) -> None:
    assert max(len(line) for line in reports.render(hostile, "md").splitlines()) < 3000
    assert max(len(line) for line in reports.render(hostile, "ticket").splitlines()) < 1000
