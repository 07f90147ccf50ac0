"""What the README tells to type works as printed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# ```sh
# triage now logs/ --job 8842
BLOCKS = re.findall(r"^```(?:sh|console|shell)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
TYPED = [line.removeprefix("$ ").split("  #")[0].strip() for block in BLOCKS for line in block.splitlines()]
COMMANDS = [line for line in TYPED if re.match(r"(?:\.venv/bin/)?triage ", line)]
# `triage rules check\|list\|explain`
NAMED = sorted(set(re.findall(r"`triage ([a-z]+(?: [a-z|\\]+)?)", README)))
FOLDER = re.compile(r"/var/log/\S*")


def named() -> list[list[str]]:
    """Every command with its subcommands: [["now"], ["rules", "check"], ...]."""
    found = [[name] for name in sorted({line.split()[1] for line in COMMANDS if not line.split()[1].startswith("-")})]
    for words in NAMED:
        first, _, rest = words.partition(" ")
        found += [[first, sub] for sub in re.split(r"\\?\|", rest)] if first in ("rules", "parsers") and rest else [[first]]
    return found


def test_there_is_something_to_try() -> None:
    assert len(COMMANDS) >= 3
    assert len(named()) >= 10


def test_commands_run(triage: Run, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(logs, tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    for line in COMMANDS:
        words = FOLDER.sub("logs", line).split(" > ")[0].split()[1:]
        done = triage(*words)
        assert (done.code, done.err) == (0, ""), line


@pytest.mark.parametrize("words", named(), ids=" ".join)
def test_every_named_command_exists(triage: Run, words: list[str]) -> None:
    done = triage(*words, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: triage {' '.join(words)}")


def test_every_option_that_the_readme_names_exists(triage: Run) -> None:
    usage = "".join(triage(*words, "--help").out for words in named())
    options = set(re.findall(r"`[^`\n]*?(--[a-z][a-z-]+)", README)) | {w for line in COMMANDS for w in line.split() if w.startswith("--")}
    assert sorted(option for option in options - {"--help"} if option not in usage) == []


def test_every_command_has_help_that_says_what_it_gives(triage: Run) -> None:
    listed = re.findall(r"^  ([a-z]+)  ", triage("--help").out, re.MULTILINE)
    assert len(listed) >= 14
    for name in listed:
        assert len(triage(name, "--help").out.splitlines()) > 3, name


def test_the_demos_story_is_there() -> None:
    if not (ROOT / "samples" / "cases").is_dir():
        pytest.skip("no stories in this checkout")
    found = re.search(r"^STORY \?= (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found
    assert (ROOT / "samples" / "cases" / found[1] / "logs").is_dir()
