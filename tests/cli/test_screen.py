"""Text on a terminal: one screen, and no character of a log that steers it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SAMPLES = Path(__file__).parents[2] / "samples"
QUERIES = ("SELECT host, message, state FROM events", "SELECT text FROM rejects", "SELECT path FROM sources")
EVIL = "\x1b[2J\x1b]0;x\x07\u202e\u200b\x9b31m"


def stories() -> list[Path]:
    """Some of the sample stories, spread over all of them."""
    found = sorted((SAMPLES / "cases").glob("*/logs"))
    return found[:: max(1, len(found) // 6)]


def steering(text: str) -> list[str]:
    return sorted({c for c in text if not c.isprintable() and c != "\n"})


def is_a_screen(text: str) -> bool:
    lines = [line for line in text.rstrip("\n").split("\n") if "$ " not in line]
    return len(lines) <= 45 and all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize("folder", stories(), ids=lambda path: path.parent.name)
def test_an_answer_is_one_screen(triage: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    done = triage("now", folder)
    assert done.code == 0
    assert is_a_screen(done.out), done.out
    assert steering(done.out) == []


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every hostile sample, and a story whose every name steers."""
    folder = tmp_path_factory.mktemp("hostile")
    for path in sorted(SAMPLES.glob("*/hostile*")):
        if path.is_file() and not path.name.endswith(".expected.jsonl"):
            shutil.copy(path, folder / f"{path.parent.name}-{path.name}")
    if (SAMPLES / "hostile").is_dir():
        shutil.copytree(SAMPLES / "hostile", folder / "more")
    xid = f"Jun  1 10:00:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name={EVIL}, GPU {EVIL} lost\n"
    (folder / "ev\x1b[31mil\u202e.log").write_text(xid)
    (folder / "sacct.txt").write_text(
        f"JobID|JobName|User|State|ExitCode|NodeList|Start|End\n7|a{EVIL}b|{EVIL}|FAILED|1:0|n1|2026-06-01T09:00:00|2026-06-01T10:00:01\n"
    )
    trace = f'Traceback (most recent call last):\n  File "x.py", line 1, in {EVIL}\nValueError: {EVIL}{"y" * 9000}\n'
    (folder / "slurm-7.out").write_text(trace)
    return folder


@pytest.fixture(scope="session")
def hostile_db(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    from triage.desk import Setup, ingest

    path = str(tmp_path_factory.mktemp("db") / "hostile.duckdb")
    ingest(Setup(path), [str(hostile)])
    return path


@pytest.mark.parametrize("form", ["text", "md", "slack", "ticket", "json"])
def test_now_over_hostile_logs(triage: Run, hostile: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    done = triage("now", hostile, "--format", form)
    assert (done.code, done.err) == (0, "")
    assert steering(done.out) == []
    assert form != "text" or is_a_screen(done.out), done.out


@pytest.mark.parametrize(
    "line",
    ["incidents", "bursts", "lemons", "stats", "spares", "report --last --format text", *(f"sql {query}" for query in QUERIES)],
)
def test_commands_over_a_hostile_database(triage: Run, hostile_db: str, line: str) -> None:
    words = line.split(" ", 1) if line.startswith("sql") else line.split()
    done = triage(*words, "--db", hostile_db)
    assert (done.code, done.err) == (0, "")
    assert steering(done.out) == []


def test_ingest_and_try_over_hostile_logs(triage: Run, hostile: Path, tmp_path: Path) -> None:
    done = triage("ingest", hostile, "--db", tmp_path / "t.duckdb")
    assert done.code == 0
    assert steering(done.out) == []
    for path in sorted(p for p in hostile.rglob("*") if p.is_file())[::8]:
        done = triage("parsers", "try", path)
        assert done.code in (0, 2)
        assert steering(done.out + done.err) == []
