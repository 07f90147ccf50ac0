"""Times of the parse part with one worker and with two, and the memory of a worker over a large set.

python tests/bench/dask_bench.py speed [MB of each file] [files] [rounds]
python tests/bench/dask_bench.py large FOLDER [GB] [workers]
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import zstandard

from tests.bench import inputs
from triage import desk
from triage.crew import Place, assembled
from triage.dispatch import _ordered, _tasks
from triage.ingest import Options
from triage.sources import find
from triage.worker import order_of

MB, GB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Parsed:
    """One run of the parse part. `cpu`: what the workers used; `others`: cores that somebody else used meanwhile."""

    wall: float
    cpu: float
    size: int
    others: float

    def __str__(self) -> str:
        return f"{self.wall:5.1f} s {self.size / MB / self.wall:4.0f} MB/s (CPU {self.cpu:.1f} s, others {self.others:.1f} cores)"


def used(pids: list[int]) -> float:
    """CPU seconds of processes."""
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def busy() -> float:
    """CPU seconds of the machine."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def parse(logs: Path, workers: int) -> Parsed:
    """Every file read and landed, without the start of the workers."""
    options = Options(desk._families(desk.rulebook(None)))
    with tempfile.TemporaryDirectory() as spool:
        order = order_of(options, spool)
        tasks = _tasks([_ordered(source, order) for source in find([str(logs)]).sources], lambda _head: ())
        with assembled(Place("local", workers), spool) as crew:
            crew._client.wait_for_workers(workers)
            crew._client.run(__import__, "triage.worker")
            pids = [*crew._client.run(os.getpid).values()]
            began, all_, cpu, own = time.perf_counter(), busy(), used(pids), used([os.getpid()])
            for _ in crew.read(order, tasks):
                pass
            wall, cpu = time.perf_counter() - began, used(pids) - cpu
            others = (busy() - all_ - cpu - (used([os.getpid()]) - own)) / wall
            return Parsed(wall, cpu, sum(task.size for task in tasks), others)


def speed(size: int, files: int, rounds: int) -> None:
    """One and two workers in turn, over plain files of a host's syslog."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "logs")
        logs.mkdir()
        for n in range(files):
            inputs.write(logs / f"bx-{n:03d}.log", inputs.syslog_seconds(random.Random(n)), size * MB)
        parse(logs, 1)
        for _ in range(rounds):
            one, two = parse(logs, 1), parse(logs, 2)
            print(f"{one.size / MB:.0f} MB  one {one}  two {two}  speed-up {one.wall / two.wall:.2f}", flush=True)


def kinds(n: int) -> Iterator[bytes]:
    """A tenth of the files are a job's output, the rest a host's syslog."""
    draw = random.Random(n)
    return inputs.chatter_blocks(draw) if n % 10 == 9 else inputs.syslog_seconds(draw)


def write_large(folder: Path, size: int, each: int = 512 * MB) -> int:
    """Packed logs of `size` bytes unpacked, each of one drawn part that is repeated (drawing is slow); unpacked bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for n in range(size // each):
        path, blocks, part = folder / f"bx-{n:03d}.log.zst", kinds(n), b""
        while len(part) < 16 * MB:
            part += next(blocks)
        total += each // len(part) * len(part)
        if not path.exists():
            with path.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as out:
                for _ in range(each // len(part)):
                    out.write(part)
    return total


def watch(peaks: dict[int, int], stop: threading.Event) -> None:
    """Largest resident sizes of this process and of its workers."""
    me = psutil.Process()
    while not stop.wait(0.2):
        for process in (me, *me.children(recursive=True)):
            try:
                peaks[process.pid] = max(peaks.get(process.pid, 0), process.memory_info().rss)
            except psutil.NoSuchProcess:
                continue


def large(folder: Path, size: int, workers: int) -> None:
    """Ingest of a large set, with the peak of each process."""
    total = write_large(folder / "logs", size)
    peaks: dict[int, int] = {}
    stop = threading.Event()
    watcher = threading.Thread(target=watch, args=(peaks, stop))
    watcher.start()
    with tempfile.TemporaryDirectory(dir=folder) as made:
        began = time.perf_counter()
        data = desk.ingest(desk.Setup(f"{made}/t.duckdb"), [str(folder / "logs")], dask=f"local[{workers}]", spool=f"{made}/spool")
        took = time.perf_counter() - began
        stop.set()
        watcher.join()
        spool = sum(p.stat().st_size for p in Path(made, "spool").rglob("*") if p.is_file())
        db = Path(made, "t.duckdb").stat().st_size
    inner = sorted((rss for pid, rss in peaks.items() if pid != os.getpid()), reverse=True)[:workers]
    print(f"{total / GB:.1f} GB in {len(data['sources'])} files, {data['totals']['events']} events, {data['totals']['rejects']} rejects")
    print(f"{took:.0f} s, {total / MB / took:.0f} MB/s with {workers} workers; read and stored after {data['seconds']:.0f} s")
    print(f"peak: workers {', '.join(f'{rss / MB:.0f} MB' for rss in inner)}; this process {peaks[os.getpid()] / MB:.0f} MB")
    print(f"Parquet {spool / MB:.0f} MB, database {db / MB:.0f} MB; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    words = sys.argv[2:]
    if sys.argv[1:2] == ["speed"]:
        speed(*([int(w) for w in words] + [64, 24, 3][len(words) :]))
    elif sys.argv[1:2] == ["large"] and words:
        large(Path(words[0]), int(words[1] if words[1:] else 20) * GB, int(words[2] if words[2:] else 2))
    else:
        sys.exit(__doc__)
