"""Rows that are too many to hold: frames in order, the first ones on disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

if TYPE_CHECKING:
    import polars as pl

HELD = 4
"""Frames that stay in memory."""


class Spool:
    """Frames in order; a few in memory, the rest in files that nobody else sees."""

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self._folder: str | None = None
        self._end: finalize[..., Spool] | None = None
        self._files: list[Path] = []
        self.height = 0

    def add(self, frame: pl.DataFrame) -> None:
        self.height += frame.height
        self._frames.append(frame)
        if len(self._frames) > HELD:
            self._own(self._folder or tempfile.mkdtemp(prefix="triage-"))
            path = Path(str(self._folder), str(len(self._files)))
            self._frames.pop(0).write_ipc(path, compression="lz4")
            self._files.append(path)

    def _own(self, folder: str) -> None:
        """The folder goes when this does."""
        if self._end is None:
            self._folder, self._end = folder, finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def __getstate__(self) -> tuple[int, list[pl.DataFrame], list[Path], str | None]:
        """Given away to another process, with the files, which are then that one's to remove."""
        if self._end is not None:
            self._end.detach()
        return self.height, self._frames, self._files, self._folder

    def __setstate__(self, state: tuple[int, list[pl.DataFrame], list[Path], str | None]) -> None:
        self.height, self._frames, self._files, self._folder = state
        self._end = None
        if self._folder is not None:
            self._own(self._folder)

    @property
    def parts(self) -> int:
        """How many frames there are."""
        return len(self._files) + len(self._frames)

    def part(self, number: int) -> pl.DataFrame:
        """One of the frames, from 0."""
        import polars as pl

        filed = len(self._files)
        return pl.read_ipc(self._files[number]) if number < filed else self._frames[number - filed]

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return (self.part(number) for number in range(self.parts))
