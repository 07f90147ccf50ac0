"""How time and memory grow: bytes of ordinary log, lines of a flood, distinct events. Prints, asserts nothing.

    BENCH_GROWTH=10 python tests/bench/growth_bench.py

BENCH_GROWTH is the largest syslog in GB (1): 0.1 GB, then ten times as much until there. Floods have 10^5 to 10^7 lines, distinct events
10^4 to 10^6; with 10 GB floods have ten times as many lines, with 100 GB there are ten times as many events too (some 20 minutes). The last
column is the growth of time over the growth of size: 1 is linear.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench import history, inputs
from tests.bench.bench import commands, measure, warm
from tests.bench.history import Figure

Writer = Callable[[Path, int], None]
MB, FLOOD, EVENTS = "growth: MB of syslog", "growth: lines of a flood", "growth: distinct events"


def steps(first: int, last: int) -> Iterator[int]:
    """first, ten times as many, ... to last."""
    while first <= last:
        yield first
        first *= 10


def ingested(folder: Path, what: str, size: int, write: Writer) -> Figure:
    """Write the input, ingest it in a process of its own, remove both."""
    file, db = folder / "kern.log", folder / "t.duckdb"
    write(file, size)
    warm(file)
    run = measure(file, file.stat().st_size / 1e6, "triage ingest", commands(file, db)["triage ingest"])
    if run.found.startswith("exit"):
        raise SystemExit(f"{what} of {size}: triage ingest: {run.found}")
    for path in folder.iterdir():
        path.unlink()
    print(f"{what} {size:,}: {run.seconds:.2f} s, {run.found}", file=sys.stderr)
    return Figure(what, size, run.seconds, run.peak)


def grown(figures: list[Figure]) -> list[str]:
    """A line a figure with the growth of its time beside that of its size."""
    lines = [f"{'what':26} {'size':>12} {'s':>8} {'peak MiB':>9} {'growth':>7}"]
    for before, figure in zip([None, *figures], figures, strict=False):
        same = before is not None and before.what == figure.what
        growth = f"{figure.seconds / before.seconds / (figure.size / before.size):.2f}" if before is not None and same else "-"
        lines.append(f"{figure.what:26} {figure.size:12,} {figure.seconds:8.2f} {figure.peak:9.0f} {growth:>7}")
    return lines


def main() -> None:
    largest = float(os.environ.get("BENCH_GROWTH", "1"))
    plan: list[tuple[str, int, int, Writer]] = [
        (MB, 100, round(largest * 1000), lambda file, size: inputs.write_syslog(file, size * 1_000_000)),
        (FLOOD, 100_000, 100_000_000 if largest >= 10 else 10_000_000, inputs.write_flood),
        (EVENTS, 10_000, 10_000_000 if largest >= 100 else 1_000_000, inputs.write_events),
    ]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        figures = [ingested(Path(scratch), what, size, write) for what, first, last, write in plan for size in steps(first, last)]
    print("\n".join([*grown(figures), "", *history.compared(figures)]))
    history.keep(figures)


if __name__ == "__main__":
    main()
