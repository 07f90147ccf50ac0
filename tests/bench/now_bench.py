"""Time `triage now` on an incident folder: whole process, and where its time goes; prints one table.

    BENCH_MB=2000 BENCH_HOSTS=200 python tests/bench/now_bench.py

The folder holds a kernel log of each host (ordinary lines, 0.05 % that carry a fault), slurmctld.log, sacct's table and one job's output:
NCCL chatter, steps, and at its end the timeouts of eight ranks a host, ten minutes after one host's GPU fell off the bus.
Then the same without the fault, so that the lines that no dialect knows are read, too, and a folder of a hundredth. `refresh` holds the
first judging. Files are read once before, so that all find them in the page cache. Nothing is asserted.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench import inputs

ROOT = Path(__file__).resolve().parents[2]
JOB, GPUS = 70411, 8
START = inputs.BEGIN
FAULT = START + timedelta(hours=2)
TIMEOUT = FAULT + timedelta(minutes=10)
HOURS = 3  # that a kernel log covers
OTHERS = 5  # jobs of other users in that time, for each host
SIGNS = inputs.LOUD[3:5]  # corrected errors of PCIe and memory, which end no job
STAGES = ("import", "ingest", "refresh", "judge", "unknown", "answer", "print")
# Runs one `triage now` and tells, on the last line of the error stream, the seconds of its stages.
TIMED = r"""
import atexit, json, sys, time
began = time.perf_counter()
from triage import cli, desk, ingest, pipeline, unknown
spent = {"import": time.perf_counter() - began}
def timed(module, name, stage):
    real = getattr(module, name)
    def call(*given, **named):
        start = time.perf_counter()
        try:
            return real(*given, **named)
        finally:
            spent[stage] = spent.get(stage, 0.0) + time.perf_counter() - start
    setattr(module, name, call)
timed(ingest, "ingest", "ingest")
timed(pipeline, "refresh", "refresh")
timed(pipeline, "judge", "judge")
timed(unknown, "look", "unknown")
timed(desk, "answer", "answer")
timed(cli, "_show", "print")
atexit.register(lambda: print(json.dumps(spent), file=sys.stderr))
cli.app_main()
"""


def host(number: int) -> str:
    return f"bx-{number:03d}"


def _stamp(when: datetime) -> bytes:
    return f"{when:%b} {when.day:2d} {when:%H:%M:%S} ".encode()


def kernel_log(path: Path, host_name: str, size: int, draw: random.Random, pool: tuple[list[bytes], list[bytes]], fault: bool) -> None:
    """Lines spread evenly over the hours; with `fault`, a GPU falls off the bus at FAULT."""
    quiet, loud = pool
    seconds, average = HOURS * 3600, sum(map(len, quiet)) / len(quiet) + 23
    every = max(10, round(seconds * average / size))
    each = max(1, round(size / average / (seconds / every)))
    name = host_name.encode() + b" "
    with path.open("wb") as file:
        for second in range(0, seconds, every):
            when = START + timedelta(seconds=second)
            frame = _stamp(when) + name
            bodies = draw.choices(quiet, k=each)
            if draw.random() < each * inputs.SHARE:
                bodies[0] = draw.choice(loud)
            if fault and when <= FAULT < when + timedelta(seconds=every):
                bodies[-1] = b"kernel: [91142.118233] NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, GPU has fallen off the bus.\n"
            file.write(frame + frame.join(bodies))


def job_output(path: Path, hosts: int, size: int, draw: random.Random) -> None:
    """Where the ranks are, chatter and steps until the fault, then each rank's timeout."""
    ranks = hosts * GPUS
    blocks = inputs.chatter_blocks(draw)
    part = b"".join(next(blocks) for _ in range(max(1, min(20, size // 400_000))))
    pieces = max(1, size // len(part))
    with path.open("wb") as file:
        for rank in range(ranks):
            file.write(
                f"{host(rank // GPUS)}:{4000 + rank}:{9000 + rank} [{rank % GPUS}] NCCL INFO ncclCommInitRank comm 0x55aa{rank:04x} "
                f"rank {rank} nranks {ranks} cudaDev {rank % GPUS} nvmlDev {rank % GPUS} busId {(rank % GPUS + 1) * 16:x}b000 "
                f"commId 0x9a1f4c - Init COMPLETE\n".encode()
            )
        for piece in range(pieces):
            when = START + (FAULT - START) * piece / pieces
            file.write(part)
            file.write(
                f"[{when:%Y-%m-%d %H:%M:%S}] iteration {piece + 1:8d}/ 100000 | elapsed time per iteration (ms): 5120.4 | "
                f"lm loss: 2.{piece % 1000:03d}E+00 | grad norm: 0.812 |\n".encode()
            )
        for rank in range(ranks):
            file.write(
                f"[rank{rank}]:[E{TIMEOUT:%m%d %H:%M:%S}.{rank:06d} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
                f"operation timeout: WorkNCCL(SeqNum=88121, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) "
                f"ran for 600012 milliseconds before timing out.\n".encode()
            )


def scheduler(folder: Path, hosts: int) -> None:
    """slurmctld.log with the job's life among others', and sacct's table."""
    nodes, end = f"bx-[000-{hosts - 1:03d}]", TIMEOUT + timedelta(seconds=30)
    lines = []
    for n in range(hosts * OTHERS):
        when = START + timedelta(seconds=n * HOURS * 3600 / (hosts * OTHERS))
        lines.append((when, f"sched/backfill: _start_job: Started JobId={JOB + 1 + n} in cpu on cx-{n % 64:03d}"))
        lines.append((when, f"_job_complete: JobId={JOB + 1 + n} WEXITSTATUS 0"))
    lines.append((START, f"sched: Allocate JobId={JOB} NodeList={nodes} #CPUs={hosts * 64} Partition=gpu"))
    lines.append((end, f"_job_complete: JobId={JOB} WEXITSTATUS 1"))
    lines.sort(key=lambda pair: pair[0])
    (folder / "slurmctld.log").write_text("".join(f"[{when:%Y-%m-%dT%H:%M:%S}.000] {text}\n" for when, text in lines))
    rows = ["JobID|JobName|User|Partition|State|ExitCode|Submit|Start|End|NNodes|NodeList|AllocTRES"]
    rows.append(
        f"{JOB}|pretrain|ann|gpu|FAILED|1:0|{START - timedelta(hours=1):%Y-%m-%dT%H:%M:%S}|{START:%Y-%m-%dT%H:%M:%S}|"
        f"{end:%Y-%m-%dT%H:%M:%S}|{hosts}|{nodes}|billing={hosts * 64},gres/gpu={hosts * GPUS},node={hosts}"
    )
    (folder / "sacct.txt").write_text("\n".join(rows) + "\n")


def build(folder: Path, hosts: int, size: int, fault: bool) -> None:
    """An incident folder of about `size` bytes; with `fault` the first host has one."""
    draw = random.Random(inputs.SEED)
    pool = inputs.fill(inputs.QUIET, 4000, draw), inputs.fill(SIGNS, 400, draw)
    for number in range(hosts):
        path = folder / f"{host(number)}.kern.log"
        kernel_log(path, host(number), size * 85 // 100 // hosts, draw, pool, fault and number == 0)
    job_output(folder / f"slurm-{JOB}.out", hosts, size * 15 // 100, draw)
    scheduler(folder, hosts)


def run(folder: Path) -> tuple[float, dict[str, float], str, float]:
    """Seconds of the whole process and of its stages, what it answers, its largest resident set in MiB."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-c", TIMED, "now", str(folder), "--format", "json"], cwd=ROOT, stdout=out, stderr=told)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        told.seek(0)
        answer, stages = json.load(out), json.loads(told.read().splitlines()[-1])
    first = next((f"{s['host']} {s['device']}" for s in answer["suspects"]), "nobody")
    return seconds, stages, f"{answer['verdict']['class']} {first} {answer['verdict']['confidence']}", usage.ru_maxrss / 1024


def rows(size: int, hosts: int) -> Iterator[str]:
    for share, fault in ((100, True), (100, False), (1, True)):
        with tempfile.TemporaryDirectory(prefix="now-bench-") as name:
            folder = Path(name)
            build(folder, max(2, hosts * share // 100), size * 1_000_000 * share // 100, fault)
            total = sum(len(path.read_bytes()) for path in folder.iterdir())
            seconds, stages, answer, peak = run(folder)
            parts = " | ".join(f"{stages.get(stage, 0.0):.2f}" for stage in STAGES)
            yield f"| {total / 1e6:,.0f} MB, {len(list(folder.iterdir()))} files | {seconds:.2f} | {parts} | {peak:,.0f} MiB | {answer} |"


def main() -> None:
    print(f"| folder | s | {' | '.join(STAGES)} | peak | answer |")
    print(f"|{'---|' * (len(STAGES) + 4)}")
    for row in rows(int(os.environ.get("BENCH_MB", "2000")), int(os.environ.get("BENCH_HOSTS", "200"))):
        print(row, flush=True)


if __name__ == "__main__":
    main()
