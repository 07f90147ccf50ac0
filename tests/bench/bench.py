"""Time `triage ingest` against the tools that an engineer has at hand, on the same files in the same run; prints one table.

    BENCH_MB=1000 python tests/bench/bench.py

Whole processes are timed, interpreter start included; each file is read once before, so that all find it in the page cache.
The other tools only count lines; triage parses, stores and analyses. A tool that is not installed is left out. Nothing is asserted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench import history, inputs
from tests.bench.history import Figure

ROOT = Path(__file__).resolve().parents[2]
# What an on-call engineer would grep for.
PATTERN = "NVRM: Xid|SXid|Link down|EDAC|Hardware Error|AER:|Out of memory|blocked for more|evicted|not responding|throttl"
LIMIT = 900  # seconds that one tool may take


@dataclass
class Run:
    """One tool on one file. `size` is the text's, unpacked, in MB; `peak` the largest resident set of one of its processes, in MiB.

    A child's peak starts at that of this script when it forks, so that small tools show about 30 MiB.
    """

    file: str
    size: float
    tool: str
    seconds: float
    peak: float
    found: str


def measure(file: Path, size: float, tool: str, command: list[str]) -> Run:
    """Run one command to its end; its time, memory and last line."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        began = time.perf_counter()
        process = subprocess.Popen(["timeout", str(LIMIT), *command], cwd=ROOT, stdout=out, stderr=complaints, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    found = summary(tool, text) if process.returncode == 0 else f"exit {process.returncode}"
    return Run(file.name, size, tool, seconds, usage.ru_maxrss / 1024, found)


def summary(tool: str, text: str) -> str:
    """What a tool found: triage's events, or a count of lines."""
    if tool == "triage now":
        return f"{json.loads(text)['verdict']['class']}"
    if tool == "triage ingest":
        return f"{json.loads(text)['events']} events"
    lines = text.split("\n")[:-1]
    return f"{lines[-1] if len(lines) == 1 and lines[0].isdigit() else len(lines)} lines"


def commands(file: Path, db: Path) -> dict[str, list[str]]:
    """The tools for one file; those that are not installed are left out."""
    triage = [sys.executable, "-c", "from triage.cli import app_main; app_main()", "ingest", str(file), "--db", str(db), "--format", "json"]
    packed = file.suffix == ".gz"
    rows = {
        "triage ingest": triage,
        "rg -c": ["rg", "--no-config", *(["-z"] if packed else []), "-c", PATTERN, str(file)],
        "grep -cE": ["bash", "-c", 'zcat "$0" | grep -cE "$1"' if packed else 'grep -cE "$1" "$0"', str(file), PATTERN],
        "lnav -n": ["lnav", "-n", "-N", "-c", f":filter-in {PATTERN}", str(file)],
    }
    needed = {"rg -c": "rg", "lnav -n": "lnav"}
    return {tool: row for tool, row in rows.items() if shutil.which(needed.get(tool, "bash"))}


def prepare(folder: Path, megabytes: int) -> list[Path]:
    """The four inputs."""
    size = megabytes * 1_000_000
    syslog, packed, job, flood = (folder / name for name in ("kern.log", "kern.log.gz", "train-4711.out", "flood.log"))
    inputs.write_syslog(syslog, size)
    with packed.open("wb") as out:
        subprocess.run(["gzip", "-1", "-c", str(syslog)], stdout=out, check=True)
    inputs.write_job_log(job, size)
    inputs.write_flood(flood, megabytes * 1000)
    return [syslog, packed, job, flood]


def warm(file: Path) -> None:
    with file.open("rb") as source:
        while source.read(1 << 22):
            pass


def table(runs: list[Run]) -> str:
    """The figures as text; `ratio` is triage's time over the tool's."""
    own = {run.file: run.seconds for run in runs if run.tool == "triage ingest" and not run.found.startswith("exit")}
    lines = [f"{'file':15} {'MB':>7} {'tool':14} {'s':>8} {'MB/s':>7} {'peak MiB':>9} {'ratio':>7}  found"]
    for run in runs:
        ratio = f"{own[run.file] / run.seconds:.2f}" if run.file in own else "-"
        cost = f"{run.seconds:8.2f} {run.size / run.seconds:7.0f} {run.peak:9.0f}"
        lines.append(f"{run.file:15} {run.size:7.0f} {run.tool:14} {cost} {ratio:>7}  {run.found}")
    return "\n".join(lines)


def readers(folder: Path) -> dict[str, list[str]]:
    """The commands that read: `now` over the syslog, the others over the database that was made of it."""
    start = [sys.executable, "-c", "from triage.cli import app_main; app_main()"]
    db = ["--db", str(folder / "kern.log.duckdb")]
    return {
        "triage now": [*start, "now", str(folder / "kern.log"), "--format", "json"],
        "triage bursts": [*start, "bursts", *db],
        "triage lemons": [*start, "lemons", *db],
        "triage report": [*start, "report", "--last", "--format", "html", *db],
    }


def main() -> None:
    megabytes = int(os.environ.get("BENCH_MB", "1000"))
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch)
        for file in prepare(folder, megabytes):
            warm(file)
            size = (folder / file.name.removesuffix(".gz")).stat().st_size / 1e6
            for tool, command in commands(file, folder / f"{file.name}.duckdb").items():
                runs.append(measure(file, size, tool, command))
                print(f"{file.name}: {tool} {runs[-1].seconds:.2f} s", file=sys.stderr)
        for tool, command in readers(folder).items():
            runs.append(measure(folder / "kern.log", megabytes, tool, command))
    figures = [Figure(f"{run.tool}: {run.file}", megabytes, run.seconds, run.peak) for run in runs if run.tool.startswith("triage")]
    print("\n".join([table(runs), "", *history.compared(figures)]))
    history.keep(figures)


if __name__ == "__main__":
    main()
