"""What was done to a real cluster is read back from its records as what was done.

`SLURM_TRIAL=FOLDER` reuses what `acts.py FOLDER` left, instead of playing the story again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.slurm import acts

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).resolve().parents[2]
TRIAGE = (sys.executable, "-c", "from triage.cli import app_main; app_main()")
ACCOUNTING = [name for name in acts.SHAPES if name.startswith("sacct")]

Row = dict[str, Any]
Query = Callable[[str], list[Row]]


def triage(*arguments: str) -> Any:
    done = subprocess.run([*TRIAGE, *arguments, "--format", "json"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def moment(text: object) -> datetime:
    stamp = datetime.fromisoformat(str(text))
    return stamp.astimezone(UTC) if stamp.tzinfo else stamp.replace(tzinfo=UTC)


def apart(one: object, other: object) -> float:
    """Seconds between two stamps."""
    return abs((moment(one) - moment(other)).total_seconds())


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `records/` and `truth.json`."""
    if kept := os.environ.get("SLURM_TRIAL"):
        return Path(kept)
    if os.geteuid() != 0:
        pytest.skip("starting slurmd needs root")
    folder = tmp_path_factory.mktemp("slurm")
    acts.run(folder)
    return folder


@pytest.fixture(scope="session")
def truth(played: Path) -> Row:
    read: Row = json.loads((played / "truth.json").read_text())
    return read


@pytest.fixture(scope="session")
def query(played: Path, tmp_path_factory: pytest.TempPathFactory) -> Query:
    """Ask the database that holds all records of the cluster."""
    db = str(tmp_path_factory.mktemp("db") / "trial.duckdb")
    triage("ingest", str(played / "records"), "--db", db)

    def ask(text: str) -> list[Row]:
        rows: list[Row] = triage("sql", "--db", db, text)
        return rows

    return ask


def act(truth: Row, what: str) -> Row:
    found: Row = next(one for one in truth["acts"] if one["what"] == what)
    return found


def check_attempts(rows: list[Row], hosts: list[Row], wanted: list[Row]) -> list[str]:
    """Faults of the attempts that were read, against the accounting's own."""
    faults = []
    for want in wanted:
        name = f"job {want['job_id']} from {want['start']}"
        found = [r for r in rows if r["job_id"] == want["job_id"] and r["start"] and apart(r["start"], want["start"]) <= 1]
        if len(found) != 1:
            faults.append(f"{name}: {len(found)} rows")
            continue
        row = found[0]
        if row["state"] != want["state"].split()[0]:
            faults.append(f"{name}: state {row['state']}, want {want['state']}")
        if want["end"] != "Unknown" and (row["end"] is None or apart(row["end"], want["end"]) > 1):
            faults.append(f"{name}: end {row['end']}, want {want['end']}")
        if hosts:
            on = sorted(h["host"] for h in hosts if (h["job_id"], h["attempt"]) == (row["job_id"], row["attempt"]))
            faults += [f"{name}: on {on}, want {want['hosts']}"] * (on != sorted(want["hosts"].split(",")))
    return faults


def test_attempts_are_those_of_the_accounting(query: Query, truth: Row) -> None:
    assert check_attempts(query("select * from jobs"), query("select * from job_hosts"), truth["attempts"]) == []


def check_states(rows: list[Row], wanted: list[Row]) -> None:
    """The default table has neither times nor hosts: attempts of one job cannot be told apart, and any of their states will do."""
    ends: dict[str, set[str]] = {}
    for want in wanted:
        ends.setdefault(want["job_id"], set()).add(want["state"].split()[0])
    told = {job: {row["state"] for row in rows if row["job_id"] == job} for job in ends}
    assert [job for job in ends if not told[job] or told[job] - ends[job]] == []


@pytest.mark.parametrize("shape", ACCOUNTING)
def test_each_shape_alone_tells_the_attempts(shape: str, played: Path, truth: Row, tmp_path: Path) -> None:
    shutil.copy(played / "records" / shape, tmp_path / shape)
    db = str(tmp_path / "one.duckdb")
    triage("ingest", str(tmp_path / shape), "--db", db)
    rows = triage("sql", "--db", db, "select * from jobs")
    if "Start" not in (played / "records" / shape).read_text().splitlines()[0] and shape != "sacct.json":
        check_states(rows, truth["attempts"])
        return
    assert check_attempts(rows, triage("sql", "--db", db, "select * from job_hosts"), truth["attempts"]) == []


@pytest.mark.parametrize(
    ("what", "state"),
    [
        ("complete", "COMPLETED"),
        ("crash", "FAILED"),
        ("time_limit", "TIMEOUT"),
        ("cancel", "CANCELLED"),
        ("requeue", "REQUEUED"),
        ("preempt", "PREEMPTED"),
        ("lose_host", "NODE_FAIL"),
        ("down", "NODE_FAIL"),
        ("drain", "COMPLETED"),
    ],
)
def test_each_act_ends_the_job_as_it_did(query: Query, truth: Row, what: str, state: str) -> None:
    job = act(truth, what)["jobs"][0]
    first = query(f"select state from jobs where job_id = '{job}' and start is not null order by start limit 1")
    assert [row["state"] for row in first] == [state]


@pytest.mark.parametrize("what", ["cancel", "requeue", "down"])
def test_acts_that_end_a_job_at_once_are_timed_to_the_second(query: Query, truth: Row, what: str) -> None:
    done = act(truth, what)
    rows = query(f'select "end" as stopped from jobs where job_id = \'{done["jobs"][0]}\' and "end" is not null order by start limit 1')
    assert apart(rows[0]["stopped"], done["at"]) <= 1


def test_the_crash_keeps_its_exit_code(query: Query, truth: Row) -> None:
    job = act(truth, "crash")["jobs"][0]
    assert query(f"select exit_code from jobs where job_id = '{job}'") == [{"exit_code": 7}]


def test_the_preemptor_is_named(query: Query, truth: Row) -> None:
    victim, winner = act(truth, "preempt")["jobs"]
    assert {"preemptor": winner} in query(f"select preemptor from jobs where job_id = '{victim}'")


def test_the_lost_host_is_named_for_its_job(query: Query, truth: Row) -> None:
    lost = act(truth, "lose_host")
    rows = query(f"select failed_host from jobs where job_id = '{lost['jobs'][0]}' order by start limit 1")
    assert [row["failed_host"] for row in rows] == lost["hosts"]


@pytest.mark.parametrize(
    ("what", "state", "slack"),
    [("drain", "drain", 1), ("down", "down", 1), ("lose_host", "down", 90), ("lose_idle_host", "down", 90)],
)
def test_host_states_hold_what_happened_to_hosts(query: Query, truth: Row, what: str, state: str, slack: int) -> None:
    """A host's loss is noticed after SlurmdTimeout; an operator's act counts at once, with its whole reason."""
    done = act(truth, what)
    rows = query(f"select start, reason from host_states where host = '{done['hosts'][0]}' and state = '{state}'")
    assert any(row["start"] and -1 <= (moment(row["start"]) - moment(done["at"])).total_seconds() <= slack for row in rows), rows
    if done["reason"]:
        assert done["reason"] in [row["reason"] for row in rows]


@pytest.mark.parametrize(
    ("what", "code", "column"),
    [
        ("drain", "slurm.node_drain", "host"),
        ("down", "slurm.node_down", "host"),
        ("return_host", "slurm.node_resume", "host"),
        ("requeue", "slurm.requeue", "job_id"),
        ("preempt", "slurm.preempt", "job_id"),
        ("cancel", "slurm.job_killed", "job_id"),
        ("time_limit", "slurm.job_killed", "job_id"),
    ],
)
def test_the_controller_log_tells_each_act(query: Query, truth: Row, what: str, code: str, column: str) -> None:
    done = act(truth, what)
    about = done["hosts"][0] if column == "host" else done["jobs"][0]
    rows = query(f"select ts from events where code = '{code}' and {column} = '{about}'")
    slack = {"time_limit": 120, "preempt": 15}.get(what, 3)  # a limit is a minute from submission; the scheduler looks now and then
    assert any(row["ts"] and -1 <= (moment(row["ts"]) - moment(done["at"])).total_seconds() <= slack for row in rows), rows


def test_nobody_is_called_lost_who_was_not(query: Query, truth: Row) -> None:
    hit = {host for one in truth["acts"] if one["what"] in ("lose_host", "lose_idle_host", "down") for host in one["hosts"]}
    assert {row["host"] for row in query("select distinct host from host_states where state = 'down'")} <= hit
