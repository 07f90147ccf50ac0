"""Text from logs made harmless for a reader: a terminal, Markdown, a chat, a page. Nothing here knows what a log means."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

SHOWN = 300
GLUE = "\u2060"
"""WORD JOINER: invisible, and what stands around it is no mention, reference or link any more."""

_FORMULA = ("=", "+", "-", "@", "'")
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$])")
_REFERENCE = re.compile(r"(@+|#(?=\d)|:(?=//)|\b(?=[gwmxjd])(?:GH-(?=\d)|www(?=\.)|(?:mailto|xmpp|javascript|data):))", re.IGNORECASE)
_TICKS = re.compile(r"`+")
_PLAIN_LABEL = re.compile(r"[^A-Za-z0-9 ._:/-]")


def clean(text: object, limit: int = SHOWN) -> str:
    """One line without control, format (direction, zero width) and private characters, at most `limit` characters and a note."""
    whole = str(text)
    shown = whole[:limit]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else _picture(c) for c in shown)
    more = len(whole) - limit
    return f"{shown} … ({more:,} more characters)" if more > 0 else shown


def _picture(char: str) -> str:
    """A visible stand-in: NUL as its control picture, U+202E as its number."""
    code = ord(char)
    if char == "\t" or unicodedata.category(char) == "Zs":
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"[U+{code:04X}]"


def cell(text: object, limit: int = SHOWN) -> str:
    """`clean`, and no formula when it is pasted into a spreadsheet."""
    shown = clean(text, limit)
    return "'" + shown if shown.lstrip().startswith(_FORMULA) else shown


def inert(text: str) -> str:
    """No mention, issue reference or address of any chat or forge in it."""
    return _REFERENCE.sub(lambda found: found[0] + GLUE, text)


def md_prose(text: object, limit: int = SHOWN) -> str:
    """Text inside a Markdown sentence or cell; like `cell` no formula."""
    escaped = _MARKDOWN.sub(r"\\\1", cell(text, limit))
    return inert(escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def md_code(text: object, limit: int = SHOWN, table: bool = False) -> str:
    """Text as a code span, in which Markdown, HTML, mentions and links are dead; in a table its pipes are escaped and it is no formula."""
    shown = (cell(text, limit) if table else clean(text, limit)) or " "
    fence = "`" * (max((len(run) for run in _TICKS.findall(shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    span = f"{fence}{pad}{shown}{pad}{fence}"
    return span.replace("|", "\\|") if table else span


def md_block(lines: list[str], limit: int = SHOWN) -> str:
    """Lines as a fenced block that none of them can close."""
    shown = [clean(line, limit) for line in lines]
    longest = max((len(run) for line in shown for run in _TICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *shown, fence])


def plain_label(text: object, limit: int = 60) -> str:
    """Only letters, digits and a few marks, for diagram languages without an escape that can be relied on."""
    return _PLAIN_LABEL.sub("_", str(text)[:limit])


def mrkdwn(text: object, limit: int = SHOWN) -> str:
    """Text for Slack: its three control characters as entities, no mention."""
    shown = clean(text, limit).replace("`", "\u02cb")
    return inert(shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def json_in_page(value: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
