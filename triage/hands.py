"""Processes that will read, started before anything else is loaded: half a second of imports on another core.

Python's -P keeps the current folder, often a stranger's folder of logs, off their module path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from triage.sources import Source

LARGE, LEAST = 128 << 20, 2
"""Bytes, unpacked as far as one can guess, whose reading outlasts the start of a process; files, for one alone is as quick here."""
PACKED, RATIO = (".gz", ".zst", ".xz", ".bz2", ".tgz"), 8
COMMAND = (sys.executable, "-P", "-m", "triage.reading")
Hand = subprocess.Popen[bytes]


def is_file(source: Source) -> bool:
    """Pipes, and members of archives, are read where they were found."""
    return source.path != "-" and Path(source.path).is_file()


@contextmanager
def started(sources: Sequence[Source]) -> Iterator[list[Hand]]:
    """Processes for as many files as can be read at once; none where they do not pay, as for a single file, or cannot be had.

    They end with the block.
    """
    files = [source for source in sources if is_file(source)]
    size = sum(source.size * (RATIO if source.path.endswith(PACKED) else 1) for source in files)
    hands: list[Hand] = []
    try:
        for _ in range(min(os.cpu_count() or 1, len(files)) if size >= LARGE and len(files) >= LEAST else 0):
            hands.append(subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    except OSError:  # as many as there are
        pass
    try:
        yield hands
    finally:
        for hand in hands:
            hand.kill()
            hand.communicate()
