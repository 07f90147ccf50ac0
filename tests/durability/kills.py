"""Commands that are killed at a random moment, and what must then be true of the database."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import blake3

from triage.schema import TABLES
from triage.store import Store

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-c", "from triage.cli import app_main; app_main()")
LEAST_S = 0.3  # before that the program has not begun


def start(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PROGRAM, *map(str, words)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(*words: object) -> float:
    """Run to the end; seconds."""
    began = time.monotonic()
    with start(*words) as process:
        _, error = process.communicate()
    assert process.returncode == 0, error.decode()
    return time.monotonic() - began


def kill(after_s: float, *words: object) -> bool:
    """Start, wait, send SIGKILL; whether it was still running then."""
    with start(*words) as process:
        try:
            process.wait(after_s)
            return False
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            return True


def moment(draw: random.Random, whole_s: float) -> float:
    """Some moment of a run that takes so long."""
    return draw.uniform(LEAST_S, max(whole_s, LEAST_S))


def opens(db: Path) -> None:
    """It opens, for reading and for writing, and each table can be read. One that was never made is as good."""
    if db.exists():
        for write in (True, False):
            with Store(str(db), write=write) as store:
                for table in TABLES:
                    store.frame(table)


def digests(db: Path) -> dict[str, tuple[int, str]]:
    """Table -> number of rows and digest of all rows in a fixed order."""
    found = {}
    with Store(str(db), write=False) as store:
        for table in TABLES:
            rows = sorted(repr(row) for row in store.frame(table).rows())
            found[table] = len(rows), blake3.blake3("\n".join(rows).encode()).hexdigest()
    return found


def clear(db: Path) -> None:
    """The database and what belongs to it go."""
    for path in db.parent.glob(f"{db.name}*"):
        path.unlink()
