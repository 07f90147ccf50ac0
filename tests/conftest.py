"""What all tests share: the shipped rules, the scanner over all dialects, and `--update-expected`."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from parsers import DIALECTS
from triage import rulebook
from triage.rulebook import Rulebook
from triage.scanner import Claim, Scanner

Scan = Callable[[bytes, str], list[Claim]]

# An example of a millisecond waits 0.2 s where other processes hold the cores: wall time tells nothing of the code under test.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --update-expected tests/test_samples.py` writes what the dialects read now; look at the difference before you keep it."""
    parser.addoption("--update-expected", action="store_true", help="rewrite samples/*/*.expected.jsonl that do not agree")


@pytest.fixture(scope="session")
def book() -> Rulebook:
    return rulebook.load()


@pytest.fixture(scope="session")
def scan() -> Scan:
    """Claims of all dialects over bytes and a file name."""
    scanner = Scanner(DIALECTS)
    return lambda data, name: scanner.scan(io.BytesIO(data), name).claims


@pytest.fixture(scope="session")
def stories() -> list[Path]:
    """Folders of samples/cases that hold logs."""
    return sorted(path for path in (Path(__file__).parents[1] / "samples" / "cases").glob("*") if (path / "logs").is_dir())
