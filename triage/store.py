"""The DuckDB file: the only place with SQL. Opened read-write by one process at a time; a second writer gets one clear line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import duckdb

from triage.faults import Fault
from triage.schema import RAW, TABLES, TIME, VERSION, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

MEMORY = ":memory:"


class StoreFault(Fault):
    """The database cannot be used; says what to do."""


class Store:
    """One open database. Use as a context manager."""

    def __init__(self, path: str = MEMORY, *, write: bool = True) -> None:
        self.path = path
        self._connection = _connect(path, write)
        self._connection.execute("SET TimeZone='UTC'")
        if write:
            self._create()
        self._check_version()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _create(self) -> None:
        for table in TABLES.values():
            self._connection.execute(table.ddl)
        self._connection.execute("INSERT INTO meta SELECT 'schema', ? WHERE NOT EXISTS (SELECT 1 FROM meta WHERE name = 'schema')", [str(VERSION)])

    def _check_version(self) -> None:
        found = self.meta("schema")
        if found != str(VERSION):
            raise StoreFault(f"{self.path}: schema version {found}, this program reads {VERSION}; ingest the logs into a new database")

    def meta(self, name: str) -> str | None:
        """A value of `meta`, None when absent; raises StoreFault when the file is no triage database."""
        try:
            row = self._connection.execute("SELECT value FROM meta WHERE name = ?", [name]).fetchone()
        except duckdb.Error as error:
            raise StoreFault(f"{self.path}: not a triage database; name another with --db or run triage ingest") from error
        return None if row is None else str(row[0])

    def set_meta(self, name: str, value: str) -> None:
        self._connection.execute("DELETE FROM meta WHERE name = ?", [name])
        self._connection.execute("INSERT INTO meta VALUES (?, ?)", [name, value])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self._connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows; a missing column is null, an unknown one is an error."""
        if rows:
            self.append(frame_of(TABLES[table], rows))

    def append(self, frame: _Named) -> None:
        self._insert(frame.table, frame.frame)

    def replace(self, table: str, frame: pl.DataFrame) -> None:
        """Write a stage's table anew; the frame must have exactly the table's columns and types."""
        want = TABLES[table].dtypes()
        if dict(frame.schema) != want:
            wrong = {k: (frame.schema.get(k), v) for k, v in want.items() if frame.schema.get(k) != v}
            raise TypeError(f"{table}: the stage gave other columns or types: {wrong or sorted(set(frame.columns) ^ set(want))}")
        self._connection.execute(f"DELETE FROM {table}")
        self._insert(TABLES[table], frame)

    def _insert(self, table: Table, frame: pl.DataFrame) -> None:
        if frame.height:
            self._connection.register("incoming", frame.to_arrow())
            columns = ", ".join(f'"{c}"' for c in table.names)
            self._connection.execute(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM incoming")
            self._connection.unregister("incoming")

    def drop_source(self, source_id: str) -> None:
        """Forget everything that was read from a source."""
        for table in RAW:
            self._connection.execute(f"DELETE FROM {table} WHERE source_id = ?", [source_id])

    def frame(self, table: str, where: str = "", values: Sequence[object] = ()) -> pl.DataFrame:
        """A table, or the rows that `where` keeps, as polars."""
        return self.query(f"SELECT * FROM {table} {where}", values).cast(TABLES[table].dtypes())  # type: ignore[arg-type]

    def query(self, text: str, values: Sequence[object] = ()) -> pl.DataFrame:
        """Any of our own statements, as polars."""
        import polars as pl

        return pl.DataFrame(self._connection.sql(text, params=list(values) or None))

    def execute(self, text: str, values: Sequence[object] = ()) -> None:
        self._connection.execute(text, list(values))

    def rows(self, text: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Rows as dicts of Python values."""
        cursor = self._connection.execute(text, list(values))
        names = [d[0] for d in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def user_query(self, text: str) -> list[dict[str, Any]]:
        """A stranger's query: no files, no extensions, no settings, no writes (the database is open read-only)."""
        self._connection.execute("SET enable_external_access=false")
        self._connection.execute("SET lock_configuration=true")
        try:
            statements = duckdb.extract_statements(text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise StoreFault("sql: one SELECT statement, please; the database is read-only here")
            return self.rows(text)
        except duckdb.Error as error:
            raise StoreFault("sql: " + " ".join(str(error).split())) from error


def _connect(path: str, write: bool) -> duckdb.DuckDBPyConnection:
    if path != MEMORY and not write and not Path(path).exists():
        raise StoreFault(f"{path}: no such database; run triage ingest PATH... --db {path}")
    if path != MEMORY and write and not Path(path).resolve().parent.is_dir():
        raise StoreFault(f"{path}: its folder does not exist; make it first")
    try:
        return duckdb.connect(path, read_only=not write and path != MEMORY)
    except duckdb.Error as error:
        raise StoreFault(_why(path, error)) from error


def _why(path: str, error: duckdb.Error) -> str:
    text = str(error)
    if "lock" in text.lower():
        return f"{path}: in use by another process; wait for it or name another database with --db"
    if not os.access(path, os.R_OK):
        return f"{path}: not readable; check its permissions"
    if "Permission denied" in text or "read-only" in text.lower():
        return f"{path}: cannot be written; check the permissions of the file and its folder"
    return f"{path}: not a triage database ({' '.join(text.split())[:120]}); name another with --db"


class _Named:
    """A frame and the table that it belongs to."""

    __slots__ = ("frame", "table")

    def __init__(self, table: Table, frame: pl.DataFrame) -> None:
        self.table, self.frame = table, frame


def frame_of(table: Table, rows: Iterable[Mapping[str, Any]]) -> _Named:
    """Rows as a frame of the table's types; times may be microseconds or datetimes."""
    import polars as pl

    rows = list(rows)
    unknown = {k for row in rows for k in row} - set(table.names)
    if unknown:
        raise KeyError(f"{table.name} has no column {sorted(unknown)}")
    dtypes = table.dtypes()
    series = []
    for column in table.columns:
        values = [row.get(column.name) for row in rows]
        if column.type == TIME:
            integers = any(isinstance(v, int) for v in values)
            series.append(pl.Series(column.name, values, dtype=pl.Int64).cast(pl.Datetime("us")) if integers else pl.Series(column.name, values, dtype=pl.Datetime("us")))
        else:
            series.append(pl.Series(column.name, values, dtype=dtypes[column.name], strict=False))
    return _Named(table, pl.DataFrame(series))
