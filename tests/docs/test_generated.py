"""The pages of docs/ that come from the code are those of this code, and the site is whole."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[[^\]\n]{1,200}\]\(([^)\s]{1,200})\)")
IN_NAV = re.compile(r": ([\w/.-]{1,80}\.md)$", re.MULTILINE)
# fences apart, where text is shown as it is
FENCED = re.compile(r"^ *(`{3,4})[^\n]*\n.*?^ *\1$", re.MULTILINE | re.DOTALL)


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


generate = _generator()
PAGES = [
    path for path in sorted(DOCS.rglob("*.md")) if path.name in IN_NAV.findall((ROOT / "mkdocs.yml").read_text()) or path.parent != DOCS
]


def none(offenders: Iterable[str]) -> None:
    assert sorted(offenders) == []


@pytest.mark.parametrize(("path", "make"), list(generate.pages()), ids=lambda value: value.name if isinstance(value, Path) else "")
def test_page_is_up_to_date(path: Path, make: object) -> None:
    assert callable(make)
    assert path.read_text(encoding="utf-8") == make(), "run make docs, and read the diff"


def test_every_commands_help_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    commands = dict(generate.commands())
    assert {"triage now", "triage rules check", "triage parsers try"} <= commands.keys()
    none(name for name, shown in commands.items() if f"## {name}\n" not in text or shown.rstrip() not in text)


def test_every_dialect_has_an_example() -> None:
    parts = (DOCS / "reference" / "dialects.md").read_text(encoding="utf-8").split("\n## ")[1:]
    none(part.split("\n", 1)[0] for part in parts if "\n`samples/" not in part)


def test_navigation_and_pages_agree() -> None:
    named = set(IN_NAV.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    none(f"{name} is not there" for name in named if not (DOCS / name).exists())
    none(f"{path.name} is in no menu" for path in DOCS.glob("reference/*.md") if f"reference/{path.name}" not in named)


def test_links_lead_somewhere() -> None:
    broken = []
    for path in PAGES:
        for target in LINK.findall(FENCED.sub("", path.read_text(encoding="utf-8"))):
            local = target.split("#")[0]
            if not target.startswith("http") and local and not (path.parent / local).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    none(broken)


def test_nothing_is_fetched_when_a_page_is_viewed() -> None:
    shown = [(path, FENCED.sub("", path.read_text(encoding="utf-8"))) for path in PAGES]
    none(str(path.relative_to(ROOT)) for path, text in shown if re.search(r"!\[[^\]]*\]\(http|<(?:script|link|img|iframe)\b", text))
    assert "font: false" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
