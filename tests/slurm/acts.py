"""Do to a real cluster what clusters suffer, write down what was done and when, and collect the records that an engineer would.

    python tests/slurm/acts.py FOLDER

leaves FOLDER/records/ (what Slurm says) and FOLDER/truth.json (what was done). Takes about four minutes, as root.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.slurm.cluster import HOSTS, Cluster, cluster, install, until

JOB_COLUMNS = "JobID,JobIDRaw,JobName,User,Partition,NNodes,NodeList,AllocTRES,Submit,Start,End,Elapsed,State,ExitCode,Reason"
SHAPES: dict[str, tuple[str, ...]] = {
    "sacct-table.txt": ("sacct", "-a", "-D"),
    "sacct-wide-table.txt": ("sacct", "-a", "-D", "-X", "-o", "JobID%20,JobName%24,NodeList%40,Start,End,State%30,ExitCode"),
    "sacct-trailing-pipes.txt": ("sacct", "-a", "-D", "-p", "-o", JOB_COLUMNS),
    "sacct-jobs.txt": ("sacct", "-a", "-D", "-X", "-P", "-o", JOB_COLUMNS),
    "sacct-steps.txt": ("sacct", "-a", "-D", "-P", "-o", JOB_COLUMNS),
    "sacct-semicolons.txt": ("sacct", "-a", "-D", "-X", "-P", "--delimiter=;", "-o", JOB_COLUMNS),
    "sacct.json": ("sacct", "-a", "-D", "--json"),
    "events.txt": ("sacctmgr", "-P", "show", "event", "all_clusters"),
    "events-table.txt": ("sacctmgr", "show", "event", "all_clusters"),
    "sinfo-reasons.txt": ("sinfo", "-R"),
    "sinfo-reasons-long.txt": ("sinfo", "-R", "-o", "%100E|%12u|%19H|%N"),
    "sinfo-nodes.txt": ("sinfo", "-N", "-l"),
    "scontrol-node.txt": ("scontrol", "show", "node"),
    "scontrol-job.txt": ("scontrol", "show", "job"),
    "squeue.txt": ("squeue",),
}
DRAIN_REASON = "Kernel: Xid 94 on GPU 3 [row remap pending], see OPS-311"
DOWN_REASON = "third node failure this week, board to be swapped"


@dataclass
class Act:
    """One thing that was done. `at` is UTC to the second; `jobs` and `hosts` are those that it hit."""

    what: str
    at: str
    jobs: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    reason: str | None = None


class Story:
    """The acts done so far."""

    def __init__(self, slurm: Cluster) -> None:
        self.slurm = slurm
        self.acts: list[Act] = []

    def note(self, what: str, jobs: list[str], hosts: list[str], reason: str | None = None) -> None:
        self.acts.append(Act(what, datetime.now(UTC).isoformat(timespec="seconds"), jobs, hosts, reason))

    def submit(self, name: str, hosts: str, *options: str, script: str = "sleep 200") -> str:
        """Submit a job that holds all GPUs of its hosts; its number."""
        count = str(len(self.slurm.call("scontrol", "show", "hostnames", hosts).split()))
        where = ("-w", hosts, "-N", count, "--ntasks-per-node=1", "--gres=gpu:8", "--exclusive", "--mem=1000")
        out = f"--output={self.slurm.top}/out/%x-%j.out"
        return self.slurm.call("sbatch", "--parsable", "-J", name, *where, out, *options, "--wrap", script).strip()

    def state(self, job: str) -> str:
        return self.slurm.call("squeue", "-h", "-j", job, "-t", "all", "-o", "%T", check=False).strip()

    def wait(self, job: str, *states: str, seconds: float = 100) -> None:
        until(lambda: self.state(job) in states, seconds, f"job {job} {' or '.join(states)}")


def outcomes(story: Story) -> None:
    """A clean end, a crash, a time limit and a user's cancel; the limit ends by itself a minute later."""
    clean = story.submit("eval-ok", "tr-014", script="sleep 3")
    story.note("complete", [clean], ["tr-014"])
    crash = story.submit("crash", "tr-[008-009]", script="sleep 2; exit 7")
    story.note("crash", [crash], ["tr-008", "tr-009"])
    limit = story.submit("too-long", "tr-015", "--time=1")
    story.note("time_limit", [limit], ["tr-015"])
    cancel = story.submit("regretted", "tr-006")
    story.wait(cancel, "RUNNING")
    time.sleep(3)
    story.note("cancel", [cancel], ["tr-006"])
    story.slurm.call("scancel", cancel)


def operator(story: Story) -> None:
    """A drain under a running job, a requeue, and a host set DOWN under its job."""
    drained = story.submit("goes-on", "tr-012", "--requeue", script="sleep 45")
    requeued = story.submit("again", "tr-011", "--requeue")
    downed = story.submit("under-down", "tr-013", "--no-requeue")
    for job in (drained, requeued, downed):
        story.wait(job, "RUNNING")
    time.sleep(2)
    story.note("drain", [drained], ["tr-012"], DRAIN_REASON)
    story.slurm.call("scontrol", "update", "NodeName=tr-012", "State=DRAIN", f"Reason={DRAIN_REASON}")
    story.note("requeue", [requeued], ["tr-011"])
    story.slurm.call("scontrol", "requeue", requeued)
    time.sleep(2)
    story.note("down", [downed], ["tr-013"], DOWN_REASON)
    story.slurm.call("scontrol", "update", "NodeName=tr-013", "State=DOWN", f"Reason={DOWN_REASON}")


def preemption(story: Story) -> None:
    """A job of the higher tier takes the place of one of the lower; the victim comes first in `jobs`."""
    victim = story.submit("humble", "tr-010", "--requeue")
    story.wait(victim, "RUNNING")
    time.sleep(2)
    winner = story.submit("urgent", "tr-010", "-p", "urgent", script="sleep 20")
    story.note("preempt", [victim, winner], ["tr-010"])
    story.wait(winner, "RUNNING", "COMPLETED")


def lost_hosts(story: Story, pretrain: str) -> None:
    """slurmd dies under a job of four hosts and on an idle host; the first comes back."""
    story.note("lose_host", [pretrain], ["tr-003"])
    story.slurm.kill("tr-003")
    story.note("lose_idle_host", [], ["tr-016"])
    story.slurm.kill("tr-016")
    story.wait(pretrain, "PENDING", "REQUEUED", seconds=90)
    until(lambda: "down" in story.slurm.call("sinfo", "-hN", "-n", "tr-016", "-o", "%T"), 60, "tr-016 down")
    story.note("return_host", [], ["tr-003"])
    story.slurm.boot("tr-003")
    until(lambda: "idle" in story.slurm.call("sinfo", "-hN", "-n", "tr-003", "-o", "%T"), 60, "tr-003 back")


def collect(slurm: Cluster, folder: Path) -> None:
    """Everything that an engineer would be handed, one file a command."""
    folder.mkdir(parents=True)  # records of two clusters in one folder would tell of no cluster
    for name, command in SHAPES.items():
        (folder / name).write_text(slurm.call(*command))
    (folder / "slurmctld.log").write_bytes((slurm.top / "log" / "slurmctld.log").read_bytes())
    for host in HOSTS:
        (folder / f"slurmd-{host}.log").write_bytes((slurm.top / "log" / f"slurmd-{host}.log").read_bytes())
    for path in sorted((slurm.top / "out").iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())


def attempts(slurm: Cluster) -> list[dict[str, str]]:
    """What the accounting holds, read without the tool under test: one row per attempt."""
    names = ("job_id", "start", "end", "state", "hosts", "exit")
    text = slurm.call("sacct", "-a", "-D", "-X", "-n", "-P", "-o", "JobIDRaw,Start,End,State,NodeList,ExitCode")
    rows = [dict(zip(names, line.split("|"), strict=True)) for line in text.splitlines()]
    rows = [row for row in rows if row["start"] != "Unknown"]
    for row in rows:
        row["hosts"] = ",".join(slurm.call("scontrol", "show", "hostnames", row["hosts"]).split())
    return rows


def run(folder: Path) -> None:
    """Play the whole story; raises RuntimeError or TimeoutError where the cluster does not follow."""
    install()
    with tempfile.TemporaryDirectory(prefix="slurm-") as scratch, cluster(Path(scratch)) as slurm:
        story = Story(slurm)
        pretrain = story.submit("pretrain", "tr-[001-004]", "--requeue", script="srun sleep 200")
        story.wait(pretrain, "RUNNING")
        outcomes(story)
        operator(story)
        preemption(story)
        lost_hosts(story, pretrain)
        limit, again = (next(act.jobs[0] for act in story.acts if act.what == what) for what in ("time_limit", "requeue"))
        story.wait(limit, "TIMEOUT", "", seconds=120)
        story.wait(again, "RUNNING", seconds=180)  # Slurm holds a requeued job back for two minutes
        time.sleep(3)
        collect(slurm, folder / "records")
        truth = {"acts": [asdict(act) for act in story.acts], "attempts": attempts(slurm)}
        (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    run(Path(sys.argv[1]).resolve())
