"""What earlier runs of the benchmarks measured, kept beside them so that a regression shows."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from os import cpu_count
from pathlib import Path

FILE = Path(__file__).with_name("history.csv")
SLOWER = 1.15  # times the figure before: worth a mark


@dataclass(frozen=True)
class Figure:
    """One measurement: what ran, on how much (MB, events or lines as `what` says), whole-process seconds and peak MiB."""

    what: str
    size: int
    seconds: float
    peak: float


@dataclass(frozen=True)
class _Kept:
    day: str
    commit: str
    cores: int
    what: str
    size: int
    seconds: str
    peak: str


def compared(figures: Iterable[Figure], file: Path = FILE) -> list[str]:
    """A line a figure beside the last one of the same name, size and cores."""
    before = {(row["what"], int(row["size"]), int(row["cores"])): row for row in _rows(file)}
    return [_line(figure, before.get((figure.what, figure.size, cpu_count() or 1))) for figure in figures]


def keep(figures: Iterable[Figure], file: Path = FILE) -> None:
    """Append the figures."""
    day, commit = f"{datetime.now(UTC):%Y-%m-%d}", _commit()
    new = not file.exists()
    with file.open("a", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        if new:
            writer.writerow([f.name for f in fields(_Kept)])
        for f in figures:
            writer.writerow(astuple(_Kept(day, commit, cpu_count() or 1, f.what, f.size, f"{f.seconds:.2f}", f"{f.peak:.0f}")))


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(newline="") as source:
        return list(csv.DictReader(source))


def _line(figure: Figure, old: dict[str, str] | None) -> str:
    text = f"{figure.what:30} {figure.size:>11,} {figure.seconds:8.2f} s {figure.peak:6.0f} MiB"
    if old is None:
        return f"{text}   first run"
    ratio = figure.seconds / max(float(old["seconds"]), 0.01)
    return f"{text}   {ratio:.2f} of {old['seconds']} s on {old['day']} ({old['commit']}){'  SLOWER' if ratio > SLOWER else ''}"


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=FILE.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
