"""Commands that are printed, and commands that are run: here scripts on the PATH that print what a cluster would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blake3
import pytest

from triage import collect_plan
from triage.collect_plan import Errand, Plan, Scope, from_answer, of_attempt, pods_of
from triage.collect_run import Bundle, runner_of, words_of
from triage.faults import Fault

ROOT = Path(__file__).parents[2]
CASE = ROOT / "samples" / "cases" / "gpu-off-the-bus" / "logs"
PROGRAM = (sys.executable, "-c", "from triage.cli import app_main; app_main()")
Script = Callable[[str, str], Path]


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Writes a program of a name in front of all others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def write(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return write


def triage(*words: str, code: int = 0) -> Any:
    done = subprocess.run([*PROGRAM, *words, "--format", "json"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


def manifest(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return read


def cluster(fakes: Script) -> None:
    """Slurm and hosts that answer with the logs of a sample."""
    fakes("sacct", f"echo \"$TZ $*\" >> '{{log}}'; cat '{CASE}/sacct.txt'".replace("{log}", "/dev/null"))
    fakes("sinfo", f"case \"$*\" in *-N*) cat '{CASE}/sinfo.txt';; *) exit 0;; esac")
    for name in ("squeue", "sacctmgr"):
        fakes(name, "exit 0")
    fakes("scontrol", "echo 'slurm_load error' >&2; exit 1")
    fakes("reach", f"h=$1; shift; test \"$1\" = journalctl || exit 9; cat '{CASE}'/$h.kern.log")


def judged(answer: dict[str, Any]) -> dict[str, Any]:
    verdict = answer["verdict"]
    suspects = [(s["host"], s["device"], s["role"]) for s in answer["suspects"]]
    return {k: verdict[k] for k in ("class", "action", "confidence", "layer", "manifestation", "symptom")} | {"suspects": suspects}


def part_of_the_logs(folder: Path, *more: str) -> Path:
    """What somebody has before anything was collected: the scheduler's record, the job's output, the inventory."""
    folder.mkdir()
    for name in ("sacct.txt", "slurm-48213.out", "inventory.csv", *more):
        (folder / name).write_bytes((CASE / name).read_bytes())
    return folder


@pytest.mark.parametrize("way", ["job", "answer", "folder"])
def test_a_bundle_answers_as_the_full_logs_do(way: str, tmp_path: Path, fakes: Script) -> None:
    cluster(fakes)
    full = triage("now", str(CASE))
    here = [str(CASE / "slurm-48213.out"), str(CASE / "inventory.csv")]
    words = ["--job", "48213"]
    if way == "answer":
        first = tmp_path / "first.json"
        first.write_text(json.dumps(triage("now", str(CASE / "sacct.txt"), here[0])))
        words = [str(first)]
    if way == "folder":
        words, here = [str(part_of_the_logs(tmp_path / "part"))], []
    out = tmp_path / "bundle"
    adds = [w for path in here for w in ("--add", path)]
    got = triage("collect", *words, "--run", "--runner", "reach {host}", "--out", str(out), *adds)
    assert judged(got["answer"]) == judged(full)
    assert got["ran"] and got["bundle"] == str(out)
    rows = {row["file"]: row for row in manifest(out)["commands"]}
    row = rows["logs/gpu-044.kern.log"]
    assert (row["argv"][:3], row["exit"], row["ended"]) == (["reach", "gpu-044", "journalctl"], 0, "itself")
    data = (out / "logs" / "gpu-044.kern.log").read_bytes()
    assert (row["bytes"], row["blake3"]) == (len(data), blake3.blake3(data).hexdigest())
    assert rows["logs/scontrol-node.txt"]["exit"] == 1 and "slurm_load" in rows["logs/scontrol-node.txt"]["stderr"]
    assert not (out / "logs" / "scontrol-node.txt").exists()
    assert out.stat().st_mode & 0o077 == 0


def test_printing_runs_nothing(tmp_path: Path, fakes: Script) -> None:
    for name in ("sacct", "scontrol", "sinfo", "squeue", "sacctmgr", "ssh", "journalctl", "kubectl"):
        fakes(name, f"touch '{tmp_path}/ran'")
    span = ("--from", "2026-09-17T04:00:00Z", "--to", "2026-09-17T05:00:00Z")
    got = triage("collect", "--job", "48213", "--hosts", "gpu-[041-042]", *span)
    commands = [row["command"] for row in got["commands"]]
    assert not (tmp_path / "ran").exists()
    kernel = "journalctl -k --utc --no-pager -o short-iso-precise --since @1789617600 --until @1789621200"
    assert f"ssh gpu-041 {kernel} > gpu-041.kern.log" in commands
    assert any(c.startswith("TZ=UTC sacct -D -P -j 48213 ") for c in commands)


def test_of_a_folder_only_what_is_not_there_is_asked_for(tmp_path: Path) -> None:
    got = triage("collect", str(part_of_the_logs(tmp_path / "part", "gpu-044.kern.log", "gpu-045.kern.log")))
    kernel = {row["host"] for row in got["commands"] if "journalctl" in row["argv"]}
    assert kernel == {f"gpu-{n:03d}" for n in (41, 42, 43, 46, 47, 48)}
    assert {"what": "kernel logs of gpu-[044-045]", "why": "they are here"} in got["skipped"]
    assert got["job"] == "48213" and got["about"].startswith("GPU lost from the PCIe bus")


def test_a_folder_in_which_nothing_is_found_needs_a_name(tmp_path: Path) -> None:
    said = triage("collect", str(CASE.parents[1] / "healthy" / "logs"), code=2)
    assert said.count("\n") == 1 and "nothing is missed; name a job with --job" in said
    got = triage("collect", str(tmp_path), "--job", "7")
    assert (got["job"], got["about"]) == ("7", None)


def test_without_a_runner_no_host_is_touched(tmp_path: Path, fakes: Script) -> None:
    cluster(fakes)
    fakes("ssh", f"touch '{tmp_path}/ran'")
    got = triage("collect", "--job", "48213", "--run", "--out", str(tmp_path / "b"))
    assert not (tmp_path / "ran").exists()
    assert any("--runner" in s["why"] for s in got["skipped"])
    assert {row["argv"][0] for row in got["commands"]} == {"sacct", "scontrol", "sinfo", "squeue", "sacctmgr"}


def test_commands_print_in_utc(tmp_path: Path, fakes: Script) -> None:
    fakes("sacct", 'echo "$TZ|$LC_ALL|$SLURM_TIME_FORMAT"')
    bundle = Bundle(tmp_path / "b")
    bundle.create()
    bundle.run([Errand("sacct.txt", ("sacct", "-a"), "")])
    assert (tmp_path / "b" / "logs" / "sacct.txt").read_text() == "UTC|C|standard\n"


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path, fakes: Script) -> None:
    fakes("sacct", f"echo begun; (sleep 5; touch '{tmp_path}/late') & sleep 60")
    fakes("squeue", "trap '' TERM; yes")
    bundle = Bundle(tmp_path / "b", limit_s=1.0, largest=1 << 20)
    bundle.create()
    began = time.monotonic()
    bundle.run([Errand("sacct.txt", ("sacct", "-a"), ""), Errand("squeue.txt", ("squeue",), "")])
    assert time.monotonic() - began < 10
    assert [row["ended"] for row in bundle.rows] == ["time limit", "size limit"]
    assert (tmp_path / "b" / "logs" / "sacct.txt").read_text() == "begun\n"
    time.sleep(5)
    assert not (tmp_path / "late").exists()


def test_nothing_brought_is_said(tmp_path: Path, fakes: Script) -> None:
    for name in ("sacct", "scontrol", "sinfo", "squeue", "sacctmgr"):
        fakes(name, "echo 'no cluster here' >&2; exit 1")
    assert "nothing was brought: sacct: no cluster here" in triage("collect", "--job", "1", "--run", "--out", str(tmp_path / "b"), code=2)
    assert len(manifest(tmp_path / "b")["commands"]) > 3
    assert "not empty" in triage("collect", "--job", "1", "--run", "--out", str(tmp_path / "b"), code=2)


HOSTILE = {
    "verdict": {"start": "2026-09-17T04:36:26Z", "end": None},
    "jobs": [{"job_id": "7; touch owned", "hosts": ["gpu-1", "-oProxyCommand=touch owned", "../up"]}],
    "suspects": [{"host": "$(touch owned)"}],
    "victims": [],
    "commands": [],
    "missing": [
        {"what": "log of gpu-1", "command": "touch owned"},
        {"what": "log of gpu-1", "command": "sacctmgr -i delete user ada; scontrol update nodename=gpu-1 state=down"},
        {"what": "log of gpu-1", "command": "ipmitool sel elist | sh"},
        {"what": "log of gpu-1", "command": "journalctl -u `touch owned`"},
        {"what": "log of gpu-1", "command": "ssh -oProxyCommand=x ipmitool sel elist"},
        {"what": "log of gpu-1", "command": "ipmitool sel elist > /etc/passwd"},
    ],
}


def test_a_forged_answer_runs_nothing_of_its_own(tmp_path: Path, fakes: Script) -> None:
    ran = tmp_path / "ran.txt"
    for name in ("sacct", "scontrol", "sinfo", "squeue", "sacctmgr", "reach", "touch", "sh"):
        fakes(name, f"echo \"{name} $*\" >> '{ran}'; echo one line")
    (tmp_path / "forged.json").write_text(json.dumps(HOSTILE))
    got = triage("collect", str(tmp_path / "forged.json"), "--run", "--runner", "reach {host}", "--out", str(tmp_path / "b"))
    said = ran.read_text()
    assert "owned" not in said and "delete" not in said and "update" not in said and "Proxy" not in said
    assert said.count("reach gpu-1 ipmitool sel elist\n") == 1
    assert "reach gpu-1 journalctl -k" in said
    names = "scontrol-node events sinfo-reasons sinfo-nodes squeue topology gpu-1.ipmitool-sel-elist".split()
    assert {str(p.relative_to(tmp_path / "b")) for p in (tmp_path / "b").rglob("*.txt")} == {f"logs/{name}.txt" for name in names}
    assert len(got["skipped"]) >= 7


def test_an_errand_that_was_not_planned_is_refused_when_run(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path / "b")
    bundle.create()
    with pytest.raises(Fault, match="only read"):
        bundle.run([Errand("x", ("scontrol", "reconfigure"), "")])
    with pytest.raises(Fault, match="host"):
        words_of(Errand("x", ("ipmitool", "sel", "elist"), "", "-x"), None)


@pytest.mark.parametrize("text", ["", "ssh", "{host}", "ssh 'x {host}", "ssh host"])
def test_a_runner_has_a_place_for_the_host(text: str) -> None:
    with pytest.raises(Fault, match="--runner"):
        runner_of(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"verdict": 3}', '{"verdict": {}, "jobs": null}', "[" * 99999])
def test_no_answer_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(Fault, match="no answer of triage"):
        from_answer(str(path))


PODS = {
    "items": [
        {"metadata": {"name": "llm-worker-0", "namespace": "ml", "labels": {"training.kubeflow.org/job-name": "llm"}}, "status": {}},
        {
            "metadata": {"name": "llm-worker-1", "namespace": "ml", "labels": {"training.kubeflow.org/job-name": "llm"}},
            "status": {"containerStatuses": [{"restartCount": 2}]},
        },
        {"metadata": {"name": "web-0", "namespace": "web"}, "spec": {"nodeName": "kn-1"}, "status": None},
    ]
}


def test_kubernetes(tmp_path: Path, fakes: Script) -> None:
    text = json.dumps(PODS)
    assert [name for _, name, _ in pods_of(text, "llm", ())] == ["llm-worker-0", "llm-worker-1"]
    assert [name for _, name, _ in pods_of(text, None, ("kn-1",))] == ["web-0"]
    assert pods_of('{"items": [{"metadata": 3}]}', "llm", ()) == []
    (tmp_path / "pods.json").write_text(text)
    fakes("kubectl", f"case \"$*\" in 'get pods'*) cat '{tmp_path}/pods.json';; logs*) echo \"$*\";; *) echo '{{}}';; esac")
    triage("collect", "--job", "llm", "--namespace", "ml", "--run", "--out", str(tmp_path / "b"))
    files = {p.name for p in (tmp_path / "b" / "logs").iterdir()}
    assert {"pods.json", "nodes.json", "events.json", "llm-worker-0.log", "llm-worker-1.log", "llm-worker-1.previous.log"} <= files
    assert (tmp_path / "b" / "logs" / "llm-worker-1.previous.log").read_text().endswith("--previous\n")


HOUR = 3_600_000_000


def test_a_job_gives_hosts_and_window() -> None:
    rows = [
        {"job_id": "7", "start": 10 * HOUR, "end": 11 * HOUR, "hosts": ["a", "b"]},
        {"job_id": "7", "start": 20 * HOUR, "end": None, "hosts": ["a", "c"]},
        {"job_id": "8", "start": 30 * HOUR, "end": None, "hosts": ["z"]},
    ]
    scope = of_attempt(Scope(job="7"), rows, 22 * HOUR)
    assert (scope.hosts, scope.low, scope.high) == (("a", "c"), 19 * HOUR, 22 * HOUR + HOUR // 4)
    long = of_attempt(Scope(job="7"), [{"job_id": "7", "start": 0, "end": 99 * HOUR, "hosts": []}], 100 * HOUR)
    assert long.low == 75 * HOUR
    assert of_attempt(Scope(job="9"), rows, 0) == Scope(job="9")


def test_many_hosts_are_bounded_and_said() -> None:
    hosts = tuple(f"gpu-{n}" for n in range(2000))
    plan: Plan = collect_plan.rest(Scope(job="7", hosts=hosts))
    assert sum(e.host is not None for e in plan.errands) == collect_plan.MOST_HOSTS
    assert any("976 more hosts" in what for what, _ in plan.skipped)
