"""The folder in which workers land what they read: Parquet by day and family, and a manifest for each batch of files, written last.

    events/day=2026-03-02/family=gpu/<batch>-0.parquet    coverage/<batch>-0.parquet    batches/<batch>.json

A reading is one source in one state (path, size, times), read in one way; its name is a digest of those, and a batch is named by its
readings. A file is written under another name and then renamed, an object in one put. So a manifest is there whole or not at all, and
what it names is there too.
"""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import blake3

from triage.faults import Fault
from triage.intake import Parsed
from triage.schema import RAW, TABLES

if TYPE_CHECKING:
    import polars as pl

FORMAT = 1
ROWS, DAYS = 16_384, 512
"""Rows of a piece at most; a piece of more days than that is not parted: random stamps are no days."""
HELD, SMALL = 32, 8192
"""Parts that stay in memory after they were read, and how many rows such a one has at most: it is of many sources."""
UNDATED = "__HIVE_DEFAULT_PARTITION__"
STALE = 86_400.0
"""Seconds after which a half-written file is nobody's any more."""
MANY = ("events", "rejects")


@dataclass(frozen=True, slots=True)
class Part:
    """A Parquet file of one table, relative to the folder."""

    table: str
    path: str
    rows: int
    size: int

    @property
    def inside(self) -> bool:
        """Whether it is a file of ours: a manifest may be anybody's."""
        path = PurePosixPath(self.path)
        return self.table in RAW and not path.is_absolute() and ".." not in path.parts


@dataclass(slots=True)
class Landed(Parsed):
    """A source whose rows lie in a landing. `count`: its rows that may be many."""

    landing: Landing | None = None
    parts: list[Part] = field(default_factory=list)
    count: int = 0

    @property
    def height(self) -> int:
        return self.count

    def frames(self) -> Iterator[tuple[str, pl.DataFrame]]:
        for table in MANY:
            yield from ((table, frame) for frame in self._of(table))

    def rows(self, table: str) -> Iterable[dict[str, Any]]:
        return (row for frame in self._of(table) for row in frame.to_dicts())

    def marks(self, before: int) -> list[tuple[Any, ...]]:
        found = []
        for table, line, columns in (("events", "line_first", ("line_first", "code", "message")), ("rejects", "line", ("line", "reason"))):
            rows = (row for f in self._of(table) for row in f.filter(f[line] < before).select(columns).rows())
            found += sorted(rows)
        return found

    def _of(self, table: str) -> Iterator[pl.DataFrame]:
        """Its rows of one table."""
        for part in self.parts:
            if part.table == table and self.landing is not None:
                frame = self.landing.by_source(part).get(self.source["source_id"])
                if frame is not None:
                    yield frame


class Landing:
    """One such folder: a path, or an address that fsspec knows (s3://bucket/folder)."""

    def __init__(self, root: str) -> None:
        import fsspec

        self.root = root
        try:
            self._fs, self._top = fsspec.core.url_to_fs(root)
        except (ImportError, ValueError) as error:
            raise Fault(f"--spool {root}: {' '.join(str(error).split())}") from error
        protocols = self._fs.protocol if isinstance(self._fs.protocol, tuple) else (self._fs.protocol,)
        self._local = "file" in protocols
        self._held = lru_cache(maxsize=HELD)(self._parted)

    def find(self, wanted: Iterable[str]) -> dict[str, Landed]:
        """Those of the wanted readings that are there, by name."""
        left = set(wanted)
        found: dict[str, Landed] = {}
        for path in self._manifests() if left else ():
            try:
                head, _, body = self._fs.cat_file(path).partition(b"\n")
                names = left & set(json.loads(head)["readings"])
                if names and (batch := self.landed(body)) and self._whole(batch.values()):
                    found |= {name: batch[name] for name in names}
                    left -= names
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return found

    def _manifests(self) -> list[str]:
        try:
            return [path for path in self._fs.ls(f"{self._top}/batches", detail=False) if path.endswith(".json")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Fault(f"--spool {self.root}: not readable: {error.strerror or error}") from error

    def _whole(self, batch: Iterable[Landed]) -> bool:
        """Whether every part is there as it was written."""
        parts = {part for landed in batch for part in landed.parts}
        return all(self._fs.size(f"{self._top}/{part.path}") == part.size for part in parts)

    def landed(self, body: bytes | str) -> dict[str, Landed]:
        """What the body of a manifest says; raises ValueError, KeyError or TypeError when it is none of ours."""
        data = json.loads(body)
        parts = [Part(**part) for part in data["parts"]]
        if data["format"] != FORMAT or not all(part.inside for part in parts):
            raise ValueError("a manifest of another version, or of files elsewhere")
        return {name: self._landed(row, parts) for name, row in data["readings"].items()}

    def _landed(self, row: Mapping[str, Any], parts: Sequence[Part]) -> Landed:
        prefixes = {int(size): digest for size, digest in row["prefixes"].items()}
        own = [parts[n] for n in row["parts"]]
        return Landed(row["source"], prefixes=prefixes, skipped=row["skipped"], cut=row["cut"], landing=self, parts=own, count=row["count"])

    def by_source(self, part: Part) -> dict[str, pl.DataFrame]:
        """The rows of a part, as the table has them, by source."""
        return self._held(part) if part.rows <= SMALL else self._parted(part)

    def _parted(self, part: Part) -> dict[str, pl.DataFrame]:
        import polars as pl

        try:
            frame = pl.read_parquet(io.BytesIO(self._fs.cat_file(f"{self._top}/{part.path}")))
            frame = frame.select(pl.col(name).cast(kind) for name, kind in TABLES[part.table].dtypes().items())
        except (OSError, pl.exceptions.PolarsError) as error:
            raise Fault(f"--spool {self.root}: {part.path} is damaged; remove the folder and run this again") from error
        return {str(key[0]): rows for key, rows in frame.partition_by("source_id", as_dict=True).items()}

    def land(self, readings: Iterable[tuple[str, Parsed]]) -> str:
        """Write the rows of sources, then their manifest, and return its body. What could not be read is told, not kept."""
        return _Batch(self, list(readings)).land()

    def put(self, path: str, data: bytes) -> None:
        """One file, whole or not at all."""
        if not self._local:
            self._fs.pipe_file(f"{self._top}/{path}", data)
            return
        there, made = Path(self._top, path), Path(self._top, "unfinished", uuid.uuid4().hex)
        for folder in (there.parent, made.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with made.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        made.replace(there)

    def sweep(self) -> None:
        """Remove what a killed worker left half-written, once it is old."""
        if self._local:
            for path in Path(self._top, "unfinished").glob("*"):
                if time.time() - path.stat().st_mtime > STALE:
                    path.unlink(missing_ok=True)


class _Batch:
    """Sources that are landed together, so that a thousand small logs do not become thousands of small files."""

    def __init__(self, landing: Landing, readings: list[tuple[str, Parsed]]) -> None:
        self._landing, self._readings = landing, readings
        kept = sorted(name for name, parsed in readings if not parsed.skipped)
        self._names, self._name = kept, blake3.blake3(" ".join(kept).encode()).hexdigest(length=16)
        self._parts: list[Part] = []
        self._of: dict[str, set[int]] = {}

    def land(self) -> str:
        # equal bytes twice are one source: the first reading is the one that counts
        sources = {p.source["source_id"]: p for _, p in reversed(self._readings) if not p.skipped}
        ordered = [p for _, p in self._readings if not p.skipped and sources[p.source["source_id"]] is p]
        for table in MANY:
            for nth, frame in enumerate(_pieces(f for p in ordered for of, f in p.frames() if of == table)):
                for folder, piece in _by_day(frame) if table == "events" else [("", frame)]:
                    self._put(table, f"{table}/{folder}{self._name}-{nth}.parquet", piece)
        self._land_few(ordered)
        body = json.dumps({"format": FORMAT, "parts": [asdict(p) for p in self._parts], "readings": dict(map(self._row, self._readings))})
        if self._names:
            self._landing.put(f"batches/{self._name}.json", f"{json.dumps({'readings': self._names})}\n{body}".encode())
        return body

    def _land_few(self, ordered: Sequence[Parsed]) -> None:
        from triage.store import frame_of

        for table in RAW:
            rows = [row for p in ordered for row in p.rows(table)]
            if rows:
                self._put(table, f"{table}/{self._name}-0.parquet", frame_of(TABLES[table], rows).frame)

    def _row(self, reading: tuple[str, Parsed]) -> tuple[str, dict[str, Any]]:
        name, parsed = reading
        parts = sorted(self._of.get(parsed.source.get("source_id", ""), ()))
        facts = {"source": parsed.source, "prefixes": parsed.prefixes, "skipped": parsed.skipped, "cut": parsed.cut}
        return name, {**facts, "count": parsed.height, "parts": parts}

    def _put(self, table: str, path: str, frame: pl.DataFrame) -> None:
        out = io.BytesIO()
        frame.write_parquet(out, compression="zstd", compression_level=1)
        data = out.getvalue()
        self._landing.put(path, data)
        for source_id in frame["source_id"].unique():
            self._of.setdefault(source_id, set()).add(len(self._parts))
        self._parts.append(Part(table, path, frame.height, len(data)))


def _pieces(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Frames of about as many rows as a piece may have."""
    import polars as pl

    held: list[pl.DataFrame] = []
    for frame in frames:
        held.append(frame)
        if sum(f.height for f in held) >= ROWS:
            yield pl.concat(held)
            held = []
    if held:
        yield pl.concat(held)


def _by_day(frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of each day and family with their folder; the columns stay in the files."""
    import polars as pl

    day = frame["ts_near"].dt.date()
    days = day.cast(pl.String) if day.n_unique() <= DAYS else pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)
    dated = frame.with_columns(days.alias("day"))
    for (on, family), part in dated.partition_by("day", "family", as_dict=True).items():
        yield f"day={on or UNDATED}/family={quote(str(family), safe='')}/", part.drop("day")
