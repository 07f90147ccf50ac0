"""Workers are jobs of a real Slurm, one is cancelled midway, and the rows are those of one process. (Starts a cluster, as root.)"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.dask import folders
from tests.dask.folders import digests
from tests.slurm.cluster import Cluster, cluster, install
from triage.desk import Setup, ingest

pytest.importorskip("dask_jobqueue")
pytestmark = pytest.mark.slurm

ROOT = Path(__file__).resolve().parents[2]
CLI = (sys.executable, "-c", "from triage.cli import app_main; app_main()")


def jobs(slurm: Cluster) -> list[str]:
    """Ids of the workers' jobs that run."""
    return slurm.call("squeue", "-h", "-t", "RUNNING", "-n", "dask-worker", "-o", "%A").split()


def test_the_workers_are_jobs_of_a_real_slurm(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("starting slurmd needs root")
    install()
    logs, spool, db = folders.write(tmp_path / "logs", lines=60_000, hosts=48), tmp_path / "spool", tmp_path / "t.duckdb"
    ingest(Setup(str(tmp_path / "one.duckdb")), [str(logs)])
    with tempfile.TemporaryDirectory(dir="/tmp") as top, cluster(Path(top)) as slurm:
        environment = {**slurm.env, "PYTHONPATH": str(ROOT), "DASK_JOBQUEUE__SLURM__QUEUE": "batch"}
        command = [*CLI, "ingest", str(logs), "--db", str(db), "--dask", "slurm[2]", "--spool", str(spool)]
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            end = time.monotonic() + 120
            while not list((spool / "batches").glob("*.json")):
                assert time.monotonic() < end and run.poll() is None, run.communicate()
                time.sleep(0.1)
            slurm.call("scancel", jobs(slurm)[0])
            before = len(list((spool / "batches").glob("*.json")))
            out, err = run.communicate(timeout=200)
        ended = slurm.call("sacct", "-n", "-X", "--name", "dask-worker", "-o", "JobID,State%20,NodeList", "-P")
    print(out[-300:], err, ended, sep="\n")
    assert (run.returncode, err) == (0, "")
    assert digests(db) == digests(tmp_path / "one.duckdb")
    assert before < len(list((spool / "batches").glob("*.json"))), "the job was cancelled too late to matter"
    assert len(ended.split()) >= 2
