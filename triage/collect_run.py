"""Errands run: argument lists without a shell, each under a time and a size limit, their output in files, what was done in a manifest."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import blake3

from triage.collect_allowance import is_host, refused
from triage.collect_plan import Errand
from triage.faults import Fault
from triage.redaction import Mask
from triage.screens import safe

LIMIT_S, LARGEST, AT_ONCE, LOOK_S, GRACE_S = 60.0, 256 << 20, 8, 0.05, 2.0
"""Seconds and bytes for one command; commands at once; seconds between two looks at it; seconds between asking it to end and ending it."""
SAID = 500
MANIFEST, LOGS = "manifest.json", "logs"
# stamps without a zone are read as UTC
CLEAN = {"TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
Done = Callable[[Mapping[str, Any]], None]


def runner_of(text: str) -> tuple[str, ...]:
    """The words of `ssh {host}`; raises Fault where the host has no place in it."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise Fault(f"--runner {text!r}: {error}; write 'ssh {{host}}'") from error
    if not words or not any("{host}" in w for w in words[1:]):
        raise Fault(f"--runner {text!r}: no {{host}} in its arguments; write 'ssh {{host}}'")
    return words


def words_of(errand: Errand, runner: Sequence[str] | None) -> list[str]:
    """The whole argument list of an errand; raises Fault for what may not be run, however it got here."""
    reason = refused(errand.argv, errand.host is not None)
    if reason:
        raise Fault(f"{shlex.join(errand.argv)[:200]}: {reason}")
    if errand.host is None:
        return list(errand.argv)
    if not is_host(errand.host):
        raise Fault(f"{errand.host!r} is no host's name")
    return [*(w.replace("{host}", errand.host) for w in runner or ("ssh", "{host}")), *errand.argv]


def shown(errand: Errand, runner: Sequence[str] | None) -> str:
    """The command as one copies it into a shell."""
    zone = "TZ=UTC " if errand.argv[0] in ("sacct", "sinfo", "squeue", "scontrol", "sacctmgr") else ""
    return f"{zone}{shlex.join(words_of(errand, runner))} > {shlex.quote(errand.file)}"


@dataclass(slots=True)
class Bundle:
    """A folder with `logs/` and a manifest. `run` may be called more than once; `rows` are those of the manifest, in order."""

    folder: Path
    runner: Sequence[str] | None = None
    limit_s: float = LIMIT_S
    largest: int = LARGEST
    rows: list[dict[str, Any]] = field(default_factory=list)
    _halt: threading.Event = field(default_factory=threading.Event)

    @property
    def logs(self) -> Path:
        return self.folder / LOGS

    def create(self) -> None:
        """Make the folder, for its owner only; raises Fault when there is something in it or it cannot be made."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise Fault(f"{self.folder}: not empty; name another folder with --out")
            self.logs.mkdir(mode=0o700)
        except OSError as error:
            raise Fault(f"{self.folder}: {error.strerror}; name another folder with --out") from error

    def run(self, errands: Sequence[Errand], done: Done = lambda _row: None) -> None:
        """Run errands, a few at once."""
        wanted = [(errand, words_of(errand, self.runner)) for errand in errands]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures = [pool.submit(self._fetch, errand, words) for errand, words in wanted]
            try:
                for future in futures:
                    self.rows.append(future.result())
                    done(self.rows[-1])
            except BaseException:
                self._halt.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _fetch(self, errand: Errand, words: list[str]) -> dict[str, Any]:
        path, began = self.logs / errand.file, time.time()
        row: dict[str, Any] = {"file": f"{LOGS}/{errand.file}", "argv": words, "host": errand.host, "why": errand.why}
        row["start"] = _stamp(began)
        with path.open("wb") as out, tempfile.TemporaryFile() as said:
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=out, stderr=said, env={**os.environ, **CLEAN}, start_new_session=True
                )
            except OSError as error:
                row |= {"exit": None, "ended": "not started", "stderr": error.strerror}
            else:
                row |= {"ended": self._wait(process, path), "exit": process.returncode, "stderr": _tail(said)}
        return row | self._weigh(path) | {"end": _stamp(time.time())}

    def _wait(self, process: subprocess.Popen[bytes], path: Path) -> str:
        """How the command ended: by itself, or at one of the limits."""
        until = time.monotonic() + self.limit_s
        while True:
            try:
                process.wait(LOOK_S)
                return "itself"
            except subprocess.TimeoutExpired:
                pass
            if reason := self._limit(path, until):
                _end(process)
                return reason

    def _limit(self, path: Path, until: float) -> str:
        if self._halt.is_set():
            return "interrupted"
        if path.stat().st_size > self.largest:
            return "size limit"
        return "time limit" if time.monotonic() >= until else ""

    def _weigh(self, path: Path) -> dict[str, Any]:
        """Size and digest of what came; a file without a byte is not kept."""
        size = path.stat().st_size
        if not size:
            path.unlink()
            return {"bytes": 0, "blake3": None}
        return {"bytes": size, "blake3": blake3.blake3(max_threads=1).update_mmap(path).hexdigest()}

    def redact(self, mask: Mask) -> None:
        """Write every log of the bundle anew through a mask, and the manifest's rows with it; what is no text goes."""
        for row in self.rows:
            path = self.folder / row["file"]
            if path.is_file():
                _masked(path, mask)
                row |= self._weigh(path)
        self.rows = mask.value(self.rows)

    def write(self, facts: Mapping[str, Any]) -> None:
        """Write the manifest."""
        text = json.dumps({"schema": 1, **facts, "commands": self.rows}, indent=1, ensure_ascii=True)
        (self.folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _masked(path: Path, mask: Mask) -> None:
    """A log, or each text inside a JSON file's lines, through a mask; binary output is emptied, for nobody can say what is in it."""
    new = path.with_name(f"{path.name}.new")
    with path.open("rb") as raw, new.open("w", encoding="utf-8") as out:
        if b"\0" not in raw.read(1 << 16):
            raw.seek(0)
            out.writelines(mask.text(line.decode("utf-8", "replace")) for line in raw)
    new.replace(path)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and what it started: they share a session of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE_S)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break
    process.wait()


def _tail(said: IO[bytes]) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - SAID))
    return safe(said.read().decode("utf-8", "replace")).strip()


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
