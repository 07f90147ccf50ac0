"""What a database holds of logs, to compare two of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from triage.desk import Setup, _families, rulebook
from triage.ingest import Options, ingest
from triage.schema import RAW
from triage.sources import find
from triage.store import Store

Rows = dict[str, list[str]]


def options() -> Options:
    return Options(_families(rulebook(None)))


def read(store: Store, paths: Iterable[Path | str]) -> None:
    """Ingest whole files."""
    ingest(store, find(str(p) for p in paths), options())


LATER = {"mtime", "host", "host_from", "job_id", "job_from", "attempt", "anchor", "year_shift"}


def rows_of(store: Store) -> Rows:
    """Rows of every table that holds what was read, as sorted text; without what later stages fill in."""
    found: Rows = {}
    for table in RAW:
        kept = LATER if table in ("sources", "events") else {"mtime"}
        dicts: list[dict[str, Any]] = store.frame(table).to_dicts()
        found[table] = sorted(repr({k: v for k, v in row.items() if k not in kept}) for row in dicts)
    return found


def whole(paths: Iterable[Path | str]) -> Rows:
    """The rows of one whole ingest into memory."""
    with Store() as store:
        read(store, paths)
        return rows_of(store)


def stored(db: Path | str) -> Rows:
    """The rows of a database."""
    with Store(Setup(str(db)).path, write=False) as store:
        return rows_of(store)


def agree(one: Rows, other: Rows) -> None:
    """Fail with the first rows that only one of the two has."""
    for table in RAW:
        only = [r for r in one[table] if r not in set(other[table])][:2], [r for r in other[table] if r not in set(one[table])][:2]
        assert one[table] == other[table], f"{table}: {len(one[table])} and {len(other[table])} rows, {only}"
