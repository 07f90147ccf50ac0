"""On a real Slurm the bundle of a job answers as all the logs do. (Starts a cluster of its own, as root.)"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.slurm import acts
from tests.slurm.cluster import cluster, install

pytestmark = pytest.mark.slurm

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-c", "from triage.cli import app_main; app_main()")
KERNEL = "{} {} kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=811, name=python3, GPU has fallen off the bus.\n"
START = "{} {} kernel: nvidia 0000:3b:00.0: enabling device (0000 -> 0003)\n"


def triage(env: dict[str, str], *words: str) -> Any:
    done = subprocess.run([*PROGRAM, *words, "--format", "json"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f+0000")


def judged(answer: Any) -> Any:
    verdict = {k: answer["verdict"][k] for k in ("class", "action", "confidence", "layer", "manifestation")}
    return verdict, [(s["host"], s["device"], s["role"]) for s in answer["suspects"]], [j["job_id"] for j in answer["jobs"]]


def broken_job(story: acts.Story, kernel: Path) -> str:
    """A job of two hosts, of which one loses a GPU, so that the job fails; its number."""
    kernel.mkdir()
    for host in ("tr-001", "tr-002"):
        (kernel / f"{host}.kern.log").write_text(START.format(stamp(), host))
    job = story.submit("pretrain", "tr-[001-002]", "--no-requeue", script="srun sleep 6; exit 1")
    story.wait(job, "RUNNING")
    time.sleep(2)
    with (kernel / "tr-002.kern.log").open("a") as log:
        log.write(KERNEL.format(stamp(), "tr-002"))
    story.wait(job, "FAILED", "")
    time.sleep(2)
    return job


def test_a_bundle_of_a_real_cluster(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("starting slurmd needs root")
    install()
    kernel = tmp_path / "kernel"
    reach = tmp_path / "reach"
    reach.write_text(f"#!/bin/sh\ncat '{kernel}'/$1.kern.log\n")
    reach.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="slurm-") as scratch, cluster(Path(scratch)) as slurm:
        story = acts.Story(slurm)
        job = broken_job(story, kernel)
        acts.collect(slurm, tmp_path / "records")
        out = tmp_path / "records" / f"pretrain-{job}.out"
        words = ("--run", "--runner", f"{reach} {{host}}", "--out", str(tmp_path / "bundle"), "--add", str(out))
        got = triage(slurm.env, "collect", "--job", job, *words)
    full = triage(slurm.env, "now", str(tmp_path / "records"), str(kernel), "--job", job)
    assert judged(got["answer"]) == judged(full)
    assert judged(full)[1][0] == ("tr-002", "0000:3b:00", "culprit")
    assert got["hosts"] == ["tr-001", "tr-002"]
    assert all(row["exit"] == 0 for row in got["commands"] if row["file"] != "logs/topology.txt"), got["commands"]
