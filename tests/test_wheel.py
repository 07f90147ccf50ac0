"""The wheel alone, in an environment of its own and away from the checkout, answers as the checkout does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that must succeed; this checkout is on no path of its."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out, cwd=ROOT)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a fresh environment: what is locked, then the wheel, and nothing that it lacks."""
    top = tmp_path_factory.mktemp("fresh")
    venv.create(top, with_pip=True)
    pip = (top / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--require-hashes", "-r", ROOT / "requirements.lock", cwd=top)
    run(*pip, "install", "--no-deps", wheel, cwd=top)
    run(*pip, "check", cwd=top)
    return top / "bin"


def test_the_wheel_holds_both_packages_and_all_rules(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {str(path.relative_to(ROOT)) for folder in ("triage", "parsers") for path in (ROOT / folder).rglob("*.py")}
    wanted |= {f"triage/{path.relative_to(ROOT)}" for path in (ROOT / "rules").rglob("*") if path.is_file()}
    assert wanted - names == set()
    assert not [name for name in names if name.startswith(("tests/", "samples/", "rules/"))]


def test_the_rules_that_came_with_the_wheel_are_sound(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import triage, parsers; print(triage.__file__, parsers.__file__)", cwd=tmp_path)
    assert str(ROOT) not in where
    run(installed / "triage", "rules", "check", cwd=tmp_path)


def test_a_sample_is_answered_as_its_story_says(installed: Path, tmp_path: Path) -> None:
    story = min(path.parent for path in (ROOT / "samples" / "cases").glob("*/case.toml") if (path.parent / "logs").is_dir())
    case = tomllib.loads((story / "case.toml").read_text())
    shutil.copytree(story / "logs", tmp_path / "logs")
    arguments = case.get("run", {}).get("args", [])
    answer = json.loads(run(installed / "triage", "now", "logs", "--format", "json", *arguments, cwd=tmp_path))
    assert answer["verdict"]["class"] in case["expect"]["class"]
