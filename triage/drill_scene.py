"""The stage of a drill: hosts, one job, its clocks, and the files that an engineer on call would be handed."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

NAMING = (
    "gpu-{:03d}",
    "r{rack:02d}-n{:02d}",
    "ip-10-2-{rack}-{:d}",
    "cn-{rack}-{:d}",
    "dgx{:02d}",
    "node{:04d}",
    "h100-c{:02d}",
    "a3u-{:04d}",
)
BUSES = ("1a", "3b", "4c", "5d", "9b", "ba", "ca", "da")
KERNEL_STYLES = ("rsyslog", "rsyslog", "offset", "zulu", "bsd", "bsd_seconds", "dmesg_T", "dmesg", "journal", "journal_iso", "journal_json")
NAMES = ("{}.kern.log", "{}.kern.log", "{}/kern.log", "kern-{}.log", "{}/var/log/messages", "{}_kern.log")
FOLDERS = {
    "dmesg_T": ("{}.dmesg.txt", "dmesg-{}.txt", "{}/dmesg.txt"),
    "dmesg": ("{}.dmesg", "{}/dmesg", "dmesg_{}.log"),
    "journal": ("{}.journal.txt", "journal-{}.txt"),
    "journal_iso": ("{}/journal.txt", "{}.journal"),
    "journal_json": ("{}.journal.json", "{}/journal.jsonl"),
}
ROUTINE = (
    "IPv6: ADDRCONF(NETDEV_CHANGE): ens3f0np0: link becomes ready",
    "TCP: request_sock_TCP: Possible SYN flooding on port 29400. Sending cookies.  Check SNMP counters.",
    "perf: interrupt took too long (3142 > 3130), lowering kernel.perf_event_max_sample_rate to 63500",
    "hrtimer: interrupt took 52117 ns",
    "workqueue: drm_fb_helper_damage_work hogged CPU for >10000us 8 times, consider switching to WQ_UNBOUND",
    "process 'opt/py/bin/python3' started with executable stack",
    'audit: type=1400 audit(1.5:41): apparmor="STATUS" operation="profile_replace" name="docker-default" pid=9011 comm="apparmor_parser"',
    "nvidia-uvm: Loaded the UVM driver, major device number 506.",
    "sched: RT throttling activated",
    'overlayfs: "xino" feature enabled using 3 upper inode bits.',
)
# a chance that a scene's scheduler writes each of these
SHAPES = ("pipe", "pipe", "pipe_steps", "semicolon", "show_job")


def stamp(at: float, zone: int = 0) -> datetime:
    """Epoch seconds as an aware time, `zone` minutes east of Greenwich."""
    return datetime.fromtimestamp(round(at, 6), UTC).astimezone(timezone(timedelta(minutes=zone)))


def plain(at: float) -> str:
    """`2026-03-04T05:06:07`, as the scheduler prints it."""
    return stamp(at).strftime("%Y-%m-%dT%H:%M:%S")


def clock(seconds: float) -> str:
    """Elapsed time in the scheduler's form: `[D-]HH:MM:SS`."""
    days, rest = divmod(int(seconds), 86400)
    text = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def hostlist(hosts: Sequence[str]) -> str:
    """A Slurm hostlist; names that do not share a stem and a width are joined by commas."""
    stems: dict[tuple[str, int], list[int]] = {}
    for host in hosts:
        digits = len(host) - len(host.rstrip("0123456789"))
        width = digits if host[-digits:].startswith("0") or digits > 2 else 0
        stems.setdefault((host[:-digits], width), []).append(int(host[-digits:]))
    return ",".join(_folded(stem, width, sorted(numbers)) for (stem, width), numbers in stems.items())


def _folded(stem: str, width: int, numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in runs]
    return stem + parts[0] if len(numbers) == 1 else f"{stem}[{','.join(parts)}]"


@dataclass(slots=True)
class Attempt:
    """One row of accounting."""

    job: str
    name: str
    hosts: list[str]
    start: float
    end: float
    state: str
    code: str = "0:0"
    gpus: int = 8
    user: str = "u3021"
    reason: str = "None"


@dataclass(slots=True)
class Scene:
    """Everything that a plot writes on. Times are epoch seconds (UTC); lines of kernel logs are given without their frame."""

    rng: random.Random
    hosts: list[str]
    spares: list[str]
    start: float
    end: float
    job: str
    gpus: int = 8
    style: str = "rsyslog"
    zone: int = 0
    domain: str = ""
    folder: str = "{}.kern.log"
    out: list[str] = field(default_factory=list)
    kernel: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
    controller: list[tuple[float, str]] = field(default_factory=list)
    extra: dict[str, str | bytes] = field(default_factory=dict)
    iteration: int = 0
    saved: float | None = None
    out_name: str = "slurm-{job}.out"
    train_style: str = "megatron"
    step_ms: float = 3320.0
    packed: bool = False

    def log(self, host: str, at: float, *messages: str) -> None:
        """Kernel messages of one host, 90 microseconds apart."""
        rows = self.kernel.setdefault(host, [])
        rows += [(at + 9e-5 * n, message) for n, message in enumerate(messages)]

    def rank(self, host: str, local: int = 0) -> int:
        return self.hosts.index(host) * self.gpus + local

    def device(self, local: int) -> str:
        return f"0000:{BUSES[local]}:00"

    def others(self, *hosts: str) -> list[str]:
        """The job's other hosts."""
        return [host for host in self.hosts if host not in hosts]

    def quiet(self, hosts: Iterable[str] | None = None, lines: int = 5) -> None:
        """Routine kernel lines, from before the job to after its end."""
        running = any(row.state == "RUNNING" and row.job == self.job for row in self.attempts)
        first, last = self.start - 1800, self.end + (2 if running else 1500)
        for host in self.hosts if hosts is None else hosts:
            for _ in range(lines):
                self.log(host, self.rng.uniform(first, last), self.rng.choice(ROUTINE))
            self.log(host, first, self.rng.choice(ROUTINE))
            self.log(host, last, self.rng.choice(ROUTINE))

    def book(self, state: str, code: str = "0:0", **more: object) -> Attempt:
        """Adds this job's attempt to accounting."""
        row = Attempt(self.job, str(more.get("name", "pretrain-b")), list(self.hosts), self.start, self.end, state, code, self.gpus)
        self.attempts.append(row)
        return row

    def lost(self, since: float | None = None) -> list[float]:
        """GPU-hours between `since` (default: the last checkpoint, else the start) and the end, give or take 3 %."""
        begin = self.saved or self.start if since is None else since
        hours = len(self.hosts) * self.gpus * (int(self.end) - int(max(begin, self.start))) / 3600
        return [round(hours * 0.97, 3), round(hours * 1.03, 3)] if self.saved is None else [round(hours * 0.9, 3), round(hours * 1.08, 3)]


def scene(rng: random.Random, hosts: int = 0, minutes: float = 0) -> Scene:
    """A stage with random names, clocks and shapes."""
    count = hosts or rng.choice((2, 3, 4, 4, 6, 8))
    pattern, rack = rng.choice(NAMING), rng.randint(2, 19)
    first = rng.randint(1, 40)
    names = [pattern.format(first + n, rack=rack) for n in range(count + 3)]
    day = datetime(rng.choice((2026, 2027)), rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23), rng.randint(0, 59), tzinfo=UTC)
    start = day.timestamp() + rng.randint(0, 59)
    end = start + 60 * (minutes or rng.randint(45, 420)) + rng.randint(0, 59)
    made = Scene(rng, names[:count], names[count:], start, end, str(rng.randint(2100, 999999)))
    made.style = rng.choice(KERNEL_STYLES)
    made.zone = rng.choice((120, -420, 480, 330)) if made.style == "offset" else 0
    made.folder = rng.choice(FOLDERS.get(made.style, NAMES))
    made.packed = rng.random() < 0.12
    made.domain = ".cluster.example.org" if pattern.startswith("dgx") else ""
    made.out_name = rng.choice(("slurm-{job}.out", "slurm-{job}.out", "pretrain-b-{job}.log", "pretrain-b_{job}.out"))
    made.iteration = rng.randint(40, 90000)
    made.step_ms = rng.choice((1840.0, 3320.0, 4875.0, 7710.0))
    made.train_style = rng.choice(("megatron", "megatron", "megatron", "deepspeed"))
    return made


# --- writing ---------------------------------------------------------------------------------------------------------------------


def framed(s: Scene, host: str) -> str:
    """The kernel log of one host in the scene's style."""
    rows = sorted(s.kernel.get(host, []), key=lambda row: row[0])
    full = host + s.domain
    boot = s.start - 86400 * 3 - 1111.5
    if s.style == "journal_json":
        return "".join(_journal_json(at, full, text) for at, text in rows)
    lines = [_framed(s, full, at, text, boot) for at, text in rows]
    if s.style == "dmesg":
        lines[:0] = [
            "[    0.000000] Linux version 6.5.0-41-generic (build@lab) (gcc 12.3.0) #41-Ubuntu SMP",
            f"[    1.250000] rtc_cmos 00:01: setting system clock to {plain(boot + 1.25)} UTC ({int(boot + 1.25)})",
        ]
    return "\n".join(lines) + "\n"


def _framed(s: Scene, host: str, at: float, text: str, boot: float) -> str:
    when = stamp(at, s.zone)
    if s.style in ("rsyslog", "offset"):
        return f"{when.isoformat(timespec='microseconds')} {host} kernel: {text}"
    if s.style == "zulu":
        return f"{when.strftime('%Y-%m-%dT%H:%M:%S.%fZ')} {host} kernel: {text}"
    if s.style == "journal_iso":
        return f"{when.strftime('%Y-%m-%dT%H:%M:%S+0000')} {host} kernel: {text}"
    if s.style == "dmesg_T":
        return f"[{when.strftime('%a %b')} {when.day:2d} {when.strftime('%H:%M:%S %Y')}] {text}"
    if s.style == "dmesg":
        return f"[{at - boot:12.6f}] {text}"
    seconds = f"[{at - boot:12.6f}] " if s.style == "bsd_seconds" else ""
    day = f"{when.day:02d}" if s.style == "journal" else f"{when.day:2d}"
    return f"{when.strftime('%b')} {day} {when.strftime('%H:%M:%S')} {host} kernel: {seconds}{text}"


def _journal_json(at: float, host: str, text: str) -> str:
    row = {
        "__REALTIME_TIMESTAMP": str(round(at * 1e6)),
        "_HOSTNAME": host,
        "_TRANSPORT": "kernel",
        "SYSLOG_IDENTIFIER": "kernel",
        "PRIORITY": "4",
        "MESSAGE": text,
    }
    return json.dumps(row) + "\n"


def accounting(rows: Sequence[Attempt], shape: str) -> str:
    """`sacct` rows in one of its printed shapes, or `scontrol show job`."""
    if shape == "show_job":
        return "".join(_show_job(row) for row in rows)
    mark = ";" if shape == "semicolon" else "|"
    head = (
        "JobID",
        "JobName",
        "User",
        "Partition",
        "NNodes",
        "NodeList",
        "AllocTRES",
        "Submit",
        "Start",
        "End",
        "Elapsed",
        "State",
        "ExitCode",
        "Reason",
    )
    lines = [mark.join(head)]
    for row in rows:
        lines.append(mark.join(_account(row)))
        if shape == "pipe_steps":
            lines += [mark.join(_account(row, step)) for step in (".batch", ".extern", ".0")]
    return "\n".join(lines) + "\n"


def _account(row: Attempt, step: str = "") -> list[str]:
    hosts = row.hosts[:1] if step == ".batch" else row.hosts
    nodes = len(hosts)
    state = row.state if not step else {"CANCELLED": "CANCELLED"}.get(row.state.split(" ")[0], row.state)
    running = row.state == "RUNNING"
    end = "Unknown" if running else plain(row.end)
    tres = f"billing={96 * nodes},cpu={96 * nodes},gres/gpu={row.gpus * nodes},node={nodes}"
    name = row.name if not step else {".batch": "batch", ".extern": "extern"}.get(step, "python")
    user, part = ("", "") if step else (row.user, "train")
    return [
        row.job + step,
        name,
        user,
        part,
        str(nodes),
        hostlist(hosts),
        tres,
        plain(row.start - 41),
        plain(row.start),
        end,
        clock(row.end - row.start),
        state,
        row.code,
        "" if step else row.reason,
    ]


def _show_job(row: Attempt) -> str:
    nodes, state = len(row.hosts), row.state.split(" ", maxsplit=1)[0]
    end = "Unknown" if state == "RUNNING" else plain(row.end)
    return (
        f"JobId={row.job} JobName={row.name}\n"
        f"   UserId={row.user}(3021) GroupId=ml(100) MCS_label=N/A\n"
        f"   JobState={state} Reason={row.reason} Dependency=(null)\n"
        f"   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={row.code}\n"
        f"   RunTime={clock(row.end - row.start)} TimeLimit=7-00:00:00 TimeMin=N/A\n"
        f"   SubmitTime={plain(row.start - 41)} EligibleTime={plain(row.start - 41)}\n"
        f"   StartTime={plain(row.start)} EndTime={end} Deadline=N/A\n"
        f"   Partition=train AllocNode:Sid=login1:8811\n"
        f"   NodeList={hostlist(row.hosts)}\n"
        f"   BatchHost={row.hosts[0]}\n"
        f"   NumNodes={nodes} NumCPUs={96 * nodes} NumTasks={nodes} CPUs/Task=96 ReqB:S:C:T=0:0:*:*\n"
        f"   TRES=cpu={96 * nodes},node={nodes},billing={96 * nodes},gres/gpu={row.gpus * nodes}\n\n"
    )


def flush(s: Scene, folder: Path) -> None:
    """Writes the scene's files; their mtimes are the last moment of the scene, so that a log without a year can be dated."""
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, str | bytes] = dict(s.extra)
    for host in s.kernel:
        if host not in s.hidden:
            text = framed(s, host)
            # a fixed mtime inside, so that the same seed gives the same bytes
            written[s.folder.format(host) + (".gz" if s.packed else "")] = gzip.compress(text.encode(), mtime=0) if s.packed else text
    if s.out:
        written[s.out_name.format(job=s.job)] = "\n".join(s.out) + "\n"
    if s.attempts:
        shape = s.rng.choice(SHAPES)
        shape = "pipe" if shape == "show_job" and len(s.attempts) > 1 else shape
        written["job.txt" if shape == "show_job" else "sacct.txt"] = accounting(s.attempts, shape)
    if s.controller:
        rows = sorted(s.controller, key=lambda row: row[0])
        written["slurmctld.log"] = "".join(f"[{plain(at)}.{int(at % 1 * 1000):03d}] {text}\n" for at, text in rows)
    latest = max([s.end, *(at for rows in s.kernel.values() for at, _ in rows), *(at for at, _ in s.controller)])
    for name, content in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (latest + 60, latest + 60))
