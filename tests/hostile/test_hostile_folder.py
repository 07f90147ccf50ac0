"""Each kind of the hostile folder, through every command that shows log text: bounded, harmless, nothing written elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.kinds import KINDS, Kind
from tests.reports.test_hostile import TAGS, read, tokens

ROOT = Path(__file__).parents[2]
PATIENCE = 600  # seconds for one process
JOINER = "\u2060"
COMMANDS = ("pages {logs}", "ingest {logs} --db {db}", "incidents --db {db}", "bursts --db {db}")
"""`pages` is the answer of `now` in every format, read once."""
QUICK = [kind for kind in KINDS if not kind.slow]
BATCHES = [QUICK[at : at + 12] for at in range(0, len(QUICK), 12)]


@dataclass(frozen=True)
class Place:
    """Where a kind is made, and where commands may write."""

    logs: Path
    out: Path

    @classmethod
    def of(cls, kind: Kind, folder: Path) -> Place:
        place = cls(folder / kind.name / "logs", folder / kind.name / "out")
        place.logs.mkdir(parents=True)
        place.out.mkdir()
        kind.make(place.logs)
        return place

    def lines(self) -> list[list[str]]:
        return [[word.format(logs=self.logs, db=self.out / "h.duckdb") for word in line.split()] for line in COMMANDS]

    def unlock(self) -> None:
        for shut in self.logs.glob("locked"):
            shut.chmod(0o700)


def probe(places: list[Place], cwd: Path) -> dict[str, Any]:
    """All commands over all places in one process: what each gave, the processor time of all, the peak of memory."""
    lines = [line for place in places for line in place.lines()]
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.probe"], input=json.dumps(lines), cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    after = os.times()
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return told | {"seconds": spent}


def outside(place: Place) -> set[tuple[str, int, int]]:
    """Every file that is not in the folder of outputs, with its size and time."""
    found = set()
    for here, folders, files in os.walk(place.logs.parent):
        folders[:] = [f for f in folders if Path(here, f) != place.out and not Path(here, f).is_symlink()]
        for name in files:
            stat = Path(here, name).lstat()
            found.add((os.path.join(here, name), stat.st_size, stat.st_mtime_ns))
    return found


def harmless(line: str, text: str) -> None:
    """No character that steers a reader; no markup, mention or formula that is live."""
    form = line.rpartition("--format ")[2] if "--format" in line else "text"
    ours = text.split("<script>")[0] if form == "html" else text
    bad = {c for c in ours if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") and c not in ("\n", JOINER)}
    assert not bad, (line, bad)
    if form == "html":
        page = read(text)
        assert {tag for tag, _ in page.tags} <= TAGS, line
        assert not [n for _, attributes in page.tags for n, v in attributes.items() if n.startswith("on") or "zq" in (v or "")]
        assert not [t for t, a in page.tags if "src" in a or (t == "a" and a.get("href") != "#evidence")]
    elif form == "md":
        kinds = list(tokens(text))
        assert not [content for kind, content in kinds if kind in ("link_open", "image")], line
        html = [c for kind, c in kinds if kind in ("html_inline", "html_block")]
        assert all(re.fullmatch(r"(<!-- /?triage:keep [a-z]+ -->\s*)+", c) or c.startswith("<!-- triage:keep ") for c in html), html
        assert not re.search(r"@\w|://|www\.|#\d", " ".join(c for kind, c in kinds if kind == "text")), line
        cells = [c.strip() for row in text.splitlines() if row.startswith("|") for c in re.split(r"(?<!\\)\|", row)]
        assert not [c for c in cells if c.lstrip("`* ").startswith(("=", "+", "@"))], line
    elif form == "slack":
        for words in _strings(json.loads(text)):
            assert not re.search(r"<[!@#]|<https?:|@channel|@here|@everyone", words), (line, words)
    elif form == "json":
        json.loads(text)


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _strings(part)]


def holds(kind: Kind, place: Place, given: list[dict[str, Any]], before: set[tuple[str, int, int]]) -> None:
    """What must hold for each kind."""
    for line, done in zip(COMMANDS, given, strict=True):
        assert done["traceback"] == "", f"{kind.name}: {line}: {done['traceback']}"
        assert done["code"] in (0, 3), (kind.name, line, done["err"])
        harmless("stderr", done["err"])
        for form, text in json.loads(done["out"]).items() if line.startswith("pages") else [(line, done["out"])]:
            harmless(form, text)
    pages = json.loads(given[0]["out"])
    assert kind.verdict is None or json.loads(pages["now --format json"])["verdict"]["class"] == kind.verdict, kind.name
    assert re.search(kind.says, pages["now"]), kind.name
    assert outside(place) == before, kind.name
    assert {p.name.split(".")[0] for p in place.out.iterdir()} <= {"h"}, kind.name
    assert sum(done["seconds"] for done in given) <= kind.most_s, kind.name


@pytest.mark.parametrize("kinds", BATCHES, ids=lambda kinds: f"{kinds[0].name}..{kinds[-1].name}")
def test_kinds(kinds: list[Kind], tmp_path: Path) -> None:
    """A dozen kinds in one process, whose peak of memory bounds that of each."""
    places = [Place.of(kind, tmp_path) for kind in kinds]
    before = [outside(place) for place in places]
    try:
        told = probe(places, tmp_path)
    finally:
        for place in places:
            place.unlock()
    size = len(COMMANDS)
    for n, (kind, place) in enumerate(zip(kinds, places, strict=True)):
        holds(kind, place, told["done"][n * size : (n + 1) * size], before[n])
    print(f"{told['seconds']:.1f} s, {told['peak_mb']:.0f} MB")
    assert told["peak_mb"] <= min(kind.most_mb for kind in kinds)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_kind_alone(kind: Kind, tmp_path: Path) -> None:
    place = Place.of(kind, tmp_path)
    before = outside(place)
    try:
        told = probe([place], place.out)
    finally:
        place.unlock()
    holds(kind, place, told["done"], before)
    print(f"{kind.name}: {told['seconds']:.1f} s, {told['peak_mb']:.0f} MB")
    assert told["seconds"] <= kind.most_s
    assert told["peak_mb"] <= kind.most_mb


def test_the_folder_is_large_and_listed() -> None:
    names = [kind.name for kind in KINDS]
    assert len(names) == len(set(names)) >= 60
    listed = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert [f"{k.name}: {k.tries}" for k in KINDS if f"`{k.name}`" not in listed] == []
