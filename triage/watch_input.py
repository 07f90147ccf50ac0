"""Standard input as files that grow: what a pipe brings is on disk before it is read, so that it outlives this process."""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

CHUNK, LARGEST = 64 << 10, 256 << 20
"""Bytes a read takes at most; size at which the next file is begun."""


@dataclass(slots=True)
class Pipe:
    """Copies a stream into files of a folder, in a thread of its own; without a folder, of a temporary one that keeps the last two."""

    stream: IO[bytes]
    folder: Path | None = None
    largest: int = LARGEST
    ended: bool = False
    failure: str = ""
    _rest: bytes = b""
    _temporary: tempfile.TemporaryDirectory[str] | None = None
    _files: list[Path] = field(default_factory=list)

    def start(self) -> Path:
        """Begin to copy; gives the folder to follow. Raises OSError when it cannot be made."""
        if self.folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="triage-")
            self.folder = Path(self._temporary.name)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        threading.Thread(target=self._work, name="triage-input", daemon=True).start()
        return self.folder

    def _work(self) -> None:
        try:
            while self._fill():
                pass
        except (OSError, ValueError) as error:
            self.failure = str(error)
        self.ended = True

    def _fill(self) -> bool:
        """Fill one file, to a line's end past the limit; False at the end of the stream."""
        some = getattr(self.stream, "read1", self.stream.read)
        with self._next().open("ab") as file:
            data, self._rest = self._rest or some(CHUNK), b""
            while data:
                end = data.rfind(b"\n") + 1 if file.tell() + len(data) >= self.largest else 0
                file.write(data[: end or len(data)])
                file.flush()
                if end:
                    self._rest = data[end:]
                    return True
                data = some(CHUNK)
        return False

    def _next(self) -> Path:
        assert self.folder is not None
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        path = self.folder / f"stdin-{stamp}-{os.getpid()}.log"
        self._files.append(path)
        if self._temporary is not None:
            for old in self._files[:-2]:
                old.unlink(missing_ok=True)
        return path

    def close(self) -> None:
        """Remove what was only temporary."""
        if self._temporary is not None:
            self._temporary.cleanup()
