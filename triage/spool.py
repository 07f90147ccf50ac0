"""Rows that are too many to hold: frames in order, the first ones on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

HELD = 4
"""Frames that stay in memory."""


class Spool:
    """Frames in order; a few in memory, the rest in files that nobody else sees."""

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: list[Path] = []
        self.height = 0

    def add(self, frame: pl.DataFrame) -> None:
        self.height += frame.height
        self._frames.append(frame)
        if len(self._frames) > HELD:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="triage-")
            path = Path(self._folder.name, str(len(self._files)))
            self._frames.pop(0).write_ipc(path, compression="lz4")
            self._files.append(path)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        import polars as pl

        for path in self._files:
            yield pl.read_ipc(path)
        yield from self._frames
