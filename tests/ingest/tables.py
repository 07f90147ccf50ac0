"""Raw tables of an ingest, for comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb

from triage.ingest import Options, Report, ingest
from triage.schema import RAW
from triage.sources import find
from triage.store import Store

Table = list[tuple[tuple[str, str], ...]]
FAMILIES = {"xid": "gpu", "pcie": "gpu", "host": "host", "slurm": "scheduler", "nccl": "training", "torch": "training", "ipmi": "host"}


def read(db: Path, calls: Iterable[Sequence[Path | str]], block: int = 1 << 20, zone: str | None = None) -> list[Report]:
    """One ingest for each list of paths, into one database."""
    reports = []
    with Store(str(db)) as store:
        for paths in calls:
            reports.append(ingest(store, find([str(p) for p in paths]), Options(FAMILIES, zone, block=block, threads=2)))
    return reports


def rows(db: Path, table: str, without: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Rows of one table in a fixed order."""
    with duckdb.connect(str(db), read_only=True) as connection:
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [d[0] for d in cursor.description or ()]
        found = [{n: v for n, v in zip(names, row, strict=True) if n not in set(without)} for row in cursor.fetchall()]
    return sorted(found, key=repr)


def raw(db: Path, without: Iterable[str] = ()) -> dict[str, list[dict[str, Any]]]:
    """Every table that an ingest fills."""
    return {table: rows(db, table, without) for table in RAW}
