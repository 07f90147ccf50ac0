"""The user's own command, run when the verdict changes. Log text reaches it on standard input and in a file, never on a command line."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triage.faults import Fault
from triage.screens import cut, safe

VARIABLE, LIMIT_S, LONGEST, KEPT = "TRIAGE_ANSWER", 60.0, 500, 16
"""The variable with the path of the answer's JSON; seconds for which the command may run; characters of the line; files that are kept."""


def words_of(command: str) -> list[str]:
    """The argument list that a user's string stands for; no shell reads it. Raises Fault where there is no such program."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Fault(f"--notify {command!r}: {error}; quote it as for a shell") from error
    if not words or shutil.which(words[0]) is None:
        raise Fault(f"--notify {command!r}: no such program; give a command that is on the PATH, or a path")
    return words


def line_of(answer: Mapping[str, Any]) -> str:
    """The verdict in one line without control characters."""
    return cut(safe(answer["verdict"]["summary"]), LONGEST)


class Notice:
    """Runs one command at a time; of verdicts that come while it runs only the last is told. `failures` collects what went wrong."""

    def __init__(self, command: str, limit_s: float = LIMIT_S) -> None:
        self.words, self.limit_s = words_of(command), limit_s
        self.failures: list[str] = []
        self._folder = tempfile.TemporaryDirectory(prefix="triage-")
        self._count = 0
        self._waiting: Mapping[str, Any] | None = None
        self._lock = threading.Lock()
        self._worker: threading.Thread | None = None

    def tell(self, answer: Mapping[str, Any]) -> None:
        """Run the command with this answer, soon."""
        with self._lock:
            self._waiting = answer
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="triage-notice", daemon=True)
                self._worker.start()

    def close(self) -> None:
        """Wait for the command that runs, and for the last verdict to be told."""
        worker = self._worker
        if worker is not None:
            worker.join(2 * self.limit_s)
        self._folder.cleanup()

    def _work(self) -> None:
        while True:
            with self._lock:
                answer, self._waiting = self._waiting, None
                if answer is None:
                    self._worker = None
                    return
            self._run(answer)

    def _run(self, answer: Mapping[str, Any]) -> None:
        path = self._written(answer)
        try:
            done = subprocess.run(
                self.words,
                input=(line_of(answer) + "\n").encode(),
                env={**os.environ, VARIABLE: str(path)},
                capture_output=True,
                timeout=self.limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.failures.append(f"{self.words[0]}: ended after {self.limit_s:.0f} s")
        except OSError as error:
            self.failures.append(f"{self.words[0]}: {error.strerror}")
        else:
            if done.returncode:
                said = safe(done.stderr[-200:].decode("utf-8", "replace")).strip()
                self.failures.append(f"{self.words[0]}: exit {done.returncode}: {said}")

    def _written(self, answer: Mapping[str, Any]) -> Path:
        self._count += 1
        old = Path(self._folder.name, f"verdict-{self._count - KEPT}.json")
        old.unlink(missing_ok=True)
        path = Path(self._folder.name, f"verdict-{self._count}.json")
        path.write_text(json.dumps(answer, ensure_ascii=True, default=str), encoding="utf-8")
        return path
