"""Workers that die, files that kill them, files that take too long, a coordinator that is killed: the rows are the same in the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.dask import folders
from tests.dask.folders import digests
from triage import crew, worker
from triage.desk import Setup, ingest
from triage.worker import Done, Order, Task

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

ROOT = Path(__file__).resolve().parents[2]
CLI = (sys.executable, "-c", "from triage.cli import app_main; app_main()")


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """`triage ingest` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*CLI, "ingest", *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The processes of its workers."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [c.pid for c in children if any("spawn_main" in word for word in c.cmdline())]


def until(ready: object, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not ready():  # type: ignore[operator]
        assert time.monotonic() < end, "not so in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.write(tmp_path_factory.mktemp("trouble") / "logs", lines=12_000, hosts=16)


@pytest.fixture(scope="module")
def truth(logs: Path) -> dict[str, tuple[int, str]]:
    db = logs.with_name("one.duckdb")
    ingest(Setup(str(db)), [str(logs)])
    return digests(db)


def landed(spool: Path) -> int:
    return len(list((spool / "batches").glob("*.json")))


def test_a_worker_is_killed_midway(logs: Path, truth: dict[str, tuple[int, str]], tmp_path: Path) -> None:
    spool, db = tmp_path / "spool", tmp_path / "t.duckdb"
    with running(str(logs), "--db", str(db), "--dask", "local[2]", "--spool", str(spool)) as process:
        until(lambda: landed(spool) > 0 or (spool / "unfinished").exists())
        os.kill(workers(process)[0], signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, ""), out[-2000:]
    assert digests(db) == truth


def test_the_coordinator_is_killed_and_the_next_run_goes_on_from_there(
    logs: Path, truth: dict[str, tuple[int, str]], tmp_path: Path
) -> None:
    spool, db = tmp_path / "spool", tmp_path / "t.duckdb"
    with running(str(logs), "--db", str(db), "--dask", "local[2]", "--spool", str(spool)) as process:
        until(lambda: landed(spool) > 0)
        orphans = workers(process)
        process.kill()
        process.wait()
    until(lambda: not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in orphans))
    data = ingest(Setup(str(db)), [str(logs)], dask="local[2]", spool=str(spool))
    assert data["reused"] > 0
    assert digests(db) == truth


def deadly(order: Order, task: Task) -> Done:
    """A reader that a certain file kills."""
    if any(file.path.endswith("qx-01.kern.log") for file in task.files):
        os._exit(9)
    return worker.read(order, task)


def slow(order: Order, task: Task) -> Done:
    """A reader that hangs in one file, on the first worker that takes it."""
    mark = Path(order.spool, "slow")
    if any(file.path.endswith("qx-05.kern.log") for file in task.files) and not mark.exists():
        mark.touch()
        time.sleep(300)
    return worker.read(order, task)


@pytest.fixture
def by_value() -> Iterator[None]:
    """Functions of this module travel whole: workers cannot import it."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.usefixtures("by_value")
def test_a_file_that_kills_every_worker_is_skipped_and_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, db = folders.write(tmp_path / "logs", lines=200, hosts=6), tmp_path / "t.duckdb"
    monkeypatch.setattr(crew, "read", deadly)
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        data = ingest(Setup(str(db)), [str(logs)], dask="local[2]")
    killers = {Path(s["path"]).name: s["reason"] for s in data["skipped"] if "workers died" in s["reason"]}
    assert set(killers) == {"qx-01.kern.log"}
    (logs / "qx-01.kern.log").unlink()
    ingest(Setup(str(tmp_path / "one.duckdb")), [str(logs)])
    assert digests(db) == digests(tmp_path / "one.duckdb")


@pytest.mark.usefixtures("by_value")
def test_a_straggler_is_given_to_another_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, db = folders.write(tmp_path / "logs", lines=200, hosts=8), tmp_path / "t.duckdb"
    monkeypatch.setattr(crew, "read", slow)
    monkeypatch.setattr(crew, "PATIENCE", 1.0)
    monkeypatch.setattr("triage.dispatch.BATCH_FILES", 1)
    began = time.monotonic()
    ingest(Setup(str(db)), [str(logs)], dask="local[2]")
    assert time.monotonic() - began < 200, "it waited for the one that hangs"
    ingest(Setup(str(tmp_path / "one.duckdb")), [str(logs)])
    assert digests(db) == digests(tmp_path / "one.duckdb")
