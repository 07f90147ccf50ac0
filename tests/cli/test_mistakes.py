"""Whatever the user gets wrong is one line on standard error and exit 2; never a traceback, never exit 1."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.cli.conftest import Done, Run

ROOT = Path(__file__).parents[2]


def is_one_line(done: Done) -> bool:
    return done.code == 2 and done.out == "" and re.fullmatch(r"triage: [^\n]{5,400}\n", done.err) is not None


LINES = [
    "now",
    "now {tmp}/missing.log",
    "now {tmp}/nothing*.log",
    "now {tmp}/binary",
    "now {tmp}/pipe",
    "now {logs} {tmp}/missing.log",
    "now {logs} --window soon",
    "now {logs} --window -5m",
    "now {logs} --at noon",
    "now {logs} --at 99:99",
    "now {logs} --format xml",
    "now {logs} --fail-on sometimes",
    "now {logs} --tz Mars/Base",
    "now {logs} --rules {tmp}/norules",
    "now {logs} --rules {tmp}/binary",
    "now {logs} --db {tmp}/binary",
    "now {logs} --db {tmp}/no/such/t.duckdb",
    "now {logs} --db {tmp}/other.duckdb",
    "now {logs} --colour",
    "ingest {tmp}/missing.log --db {tmp}/new.duckdb",
    "ingest {logs} --db {tmp}",
    "incidents --db {tmp}/missing.duckdb",
    "incidents --db {tmp}/binary",
    "incidents --db {tmp}/other.duckdb",
    "bursts --limit 0 --db {db}",
    "bursts --limit few --db {db}",
    "report --db {db}",
    "report no-such-incident --db {db}",
    "report host- --db {db} --job",
    "report --job 77 --db {db}",
    "report --at noon --db {db}",
    "report --last --db {db} --out {tmp}/no/such/report.md",
    "lemons --window x --db {db}",
    "lemons --top 0 --db {db}",
    "stats --window x --db {db}",
    "spares --hosts 5",
    "spares --hosts 5 --rate x",
    "spares --hosts -5 --rate 3",
    "spares --hosts 5 --rate 3 --recovery x",
    "project --hosts 0 --rate 5",
    "project --hosts 10",
    "project --hosts nan --rate 5",
    "project --hosts 10 --rate 5 --checkpoint x",
    "checkpoint --mtbf 0s --save 60s --restart 1m",
    "checkpoint --mtbf x",
    "failover --interval 1h --slowdown 0.5",
    "failover --interval x --slowdown 1.5",
    "drill --fleet",
    "drill {logs} --fleet",
    "drill {tmp}/fleet --fleet --hosts 3",
    "explain no-such-code",
    "explain 99999",
    "sql SELEC --db {db}",
    "sql SELECT(1 --db {db}",
    "sql DELETE --db {db}",
    "rules explain no-such-rule",
    "rules check --rules {tmp}/norules",
    "rules wrong",
    "parsers try {tmp}/missing.log",
    "parsers try {tmp}",
    "nonsense",
]


@pytest.fixture(scope="session")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of what cannot be read."""
    tmp = tmp_path_factory.mktemp("bad")
    (tmp / "binary").write_bytes(bytes(range(256)) * 64)
    (tmp / "cut.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x4c")
    os.mkfifo(tmp / "pipe")
    with duckdb.connect(str(tmp / "other.duckdb")) as other:
        other.execute("CREATE TABLE pets (name VARCHAR)")
    return tmp


@pytest.mark.parametrize("line", LINES)
def test_one_line(line: str, triage: Run, bad: Path, logs: Path, db: str) -> None:
    done = triage(*line.format(tmp=bad, logs=logs, db=db).split())
    assert is_one_line(done), done


def test_an_unreadable_file(triage: Run, tmp_path: Path) -> None:
    path = tmp_path / "secret.log"
    path.write_text("x")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user reads everything")
    assert is_one_line(triage("now", path))
    assert triage("now", tmp_path).code == 0


def test_what_a_walk_finds_and_cannot_read_is_skipped_and_said(triage: Run, bad: Path, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes((bad / "binary").read_bytes())
    (tmp_path / "cut.gz").write_bytes((bad / "cut.gz").read_bytes())
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    done = triage("now", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "Skipped 4 file(s)" in done.out


def test_broken_rules_are_told_one_a_line(triage: Run, logs: Path) -> None:
    folder = ROOT / "tests" / "rules" / "broken" / "unknown-threshold" / "rules"
    done = triage("now", logs, "--rules", folder)
    assert (done.code, done.out) == (2, "")
    assert all(re.fullmatch(r"triage: \S+\.toml:\d+: \w+: .+", line) for line in done.err.splitlines()), done.err


def test_a_database_in_use(triage: Run, logs: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    assert triage("ingest", logs, "--db", path).code == 0
    holder = "import sys, duckdb\nc = duckdb.connect(sys.argv[1])\nprint('held', flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holder, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        for line in (["ingest", logs], ["now", logs], ["incidents"], ["sql", "SELECT 1"]):
            done = triage(*line, "--db", path)
            assert is_one_line(done), done
            assert "in use" in done.err
        process.communicate()


@pytest.mark.parametrize(
    "query", ["DELETE FROM bursts", "SELECT 1; SELECT 2", "SELECT * FROM read_csv('/etc/passwd')", "SET threads=1", "", "SELECT\n\x00"]
)
def test_queries_that_are_refused(triage: Run, db: str, query: str) -> None:
    done = triage("sql", query, "--db", db)
    assert is_one_line(done), done


@pytest.mark.parametrize("group", [[], ["rules"], ["parsers"]])
def test_a_bare_group_prints_its_help(triage: Run, group: list[str]) -> None:
    done = triage(*group)
    assert done.code == 2
    assert "Commands:" in done.err


def test_a_names_control_characters_do_not_reach_the_terminal(triage: Run) -> None:
    done = triage("now", "/no\x1b[31mwhere\n/x")
    assert done.code == 2
    assert all(c.isprintable() for c in done.err.rstrip("\n").replace("\n", " "))


def test_a_reader_that_closes_the_pipe_is_no_crash() -> None:
    command = f"{sys.executable} -m triage.cli rules list --format json | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("0", "")
