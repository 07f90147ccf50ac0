"""The DuckDB file: the only place with SQL. Opened read-write by one process at a time; a second writer gets one clear line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from ctypes import CDLL
from math import sqrt
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Self

import duckdb

from triage.faults import Fault
from triage.schema import RAW, TABLES, TIME, VERSION, Table
from triage.statements import IN_ORDER, LOOSE_ENDS, OLD_ROWS, ORPHANS, PARTS, QUERIES, SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import polars as pl

MEMORY = ":memory:"
LEAST_MB, BARE_MB, SORT_MB, MB_PER_ROOT_MILLION = 64, 24, 48, 32
"""Memory of the database while it writes. A sort that does not fit merges runs from disk: what it needs grows as the root of the rows."""
PART_ROWS = 500_000

VIEWS = (
    """CREATE OR REPLACE VIEW all_hosts AS
    SELECT DISTINCT host FROM (
        SELECT host FROM host_records UNION ALL SELECT host FROM state_records UNION ALL SELECT unnest(hosts) FROM job_records
        UNION ALL SELECT host FROM coverage WHERE family IN ('kernel', 'bmc') UNION ALL SELECT host FROM rank_records
        UNION ALL SELECT host FROM sources UNION ALL SELECT DISTINCT host FROM events WHERE code LIKE 'k8s.%'
    ) WHERE host IS NOT NULL AND host <> '' AND host <> 'localhost'""",
    """CREATE OR REPLACE VIEW pods AS
    SELECT peer AS pod, min(host) AS node FROM events WHERE code = 'k8s.pod_placed' AND host <> '' AND peer <> host
    GROUP BY peer HAVING count(DISTINCT host) = 1""",
    """CREATE OR REPLACE VIEW source_views AS
    SELECT s.source_id, s.path, s.dialects, s.first_ts, s.last_ts, c.families, c.line_hosts, e.text_jobs, e.step_jobs FROM sources s
    LEFT JOIN (SELECT source_id, list(DISTINCT family) AS families, list(DISTINCT host) AS line_hosts FROM (
            SELECT source_id, family, host FROM coverage
            UNION ALL SELECT source_id, 'training', host FROM rank_records
            UNION ALL SELECT DISTINCT source_id, 'training', NULL FROM events WHERE family = 'training'
            UNION ALL SELECT DISTINCT source_id, 'training', NULL FROM events JOIN sources USING (source_id)
                WHERE code IN ('storage.full', 'storage.refused') AND list_contains(dialects, 'exceptions')
            UNION ALL SELECT source_id, 'scheduler_log', NULL FROM job_records
            UNION ALL SELECT source_id, 'scheduler_log', NULL FROM state_records
        ) GROUP BY source_id) c USING (source_id)
    LEFT JOIN (SELECT source_id,
            list(DISTINCT job_id) FILTER (WHERE job_from = 'text') AS text_jobs,
            list(DISTINCT job_id) FILTER (WHERE job_from = 'text' AND code IN ('slurm.job_killed', 'slurm.node_fail')) AS step_jobs
        FROM events GROUP BY source_id) e USING (source_id)""",
    """CREATE OR REPLACE VIEW job_outputs AS
    SELECT s.source_id, s.job_id, coalesce(s.first_ts, e.first) AS first, coalesce(s.last_ts, e.last) AS last, r.gpus,
        list_concat(coalesce(r.hosts, []), coalesce(e.hosts, [])) AS hosts, e.ended
    FROM sources s
    LEFT JOIN (SELECT source_id, max(nranks) AS gpus, list(DISTINCT coalesce(p.node, host)) AS hosts
        FROM rank_records LEFT JOIN pods p ON p.pod = host GROUP BY source_id) r USING (source_id)
    LEFT JOIN (SELECT source_id, min(ts_near) AS first, max(ts_near) AS last,
            list(DISTINCT host) FILTER (WHERE host IS NOT NULL) AS hosts,
            CASE WHEN bool_or(code = 'slurm.node_fail') THEN 'NODE_FAIL'
                WHEN bool_or(code = 'slurm.job_killed' AND lower(coalesce(state, '')) LIKE '%time%') THEN 'TIMEOUT'
                WHEN bool_or(code = 'slurm.job_killed' AND lower(coalesce(state, '')) LIKE '%preempt%') THEN 'PREEMPTED'
                WHEN bool_or(code IN ('torch.rank_exit', 'torch.exception', 'torch.cuda_ecc', 'torch.cuda_oom', 'torch.cuda_fault',
                    'storage.full', 'storage.refused', 'program.not_found', 'nccl.timeout',
                    'nccl.remote_error', 'nccl.system_error', 'nccl.cuda_error', 'nccl.ib_error',
                    'torch.worker_killed', 'slurm.task_exit')) THEN 'FAILED'
                WHEN bool_or(code = 'slurm.job_killed') THEN 'CANCELLED' END AS ended
        FROM events GROUP BY source_id) e USING (source_id)
    WHERE s.job_id IS NOT NULL""",
    """CREATE OR REPLACE VIEW rank_views AS
    SELECT r.* EXCLUDE (job_id, host), coalesce(p.node, r.host) AS host, coalesce(r.job_id, s.job_id) AS job_id,
        coalesce(e.attempt, j.attempt, 0) AS attempt
    FROM rank_records r JOIN sources s USING (source_id) LEFT JOIN pods p ON p.pod = r.host
    LEFT JOIN (SELECT source_id, max(attempt) AS attempt FROM events WHERE attempt IS NOT NULL GROUP BY source_id) e USING (source_id)
    LEFT JOIN (SELECT job_id, max(attempt) AS attempt FROM jobs GROUP BY job_id) j ON j.job_id = coalesce(r.job_id, s.job_id)
    WHERE coalesce(r.job_id, s.job_id) IS NOT NULL""",
    """CREATE OR REPLACE VIEW covered AS
    SELECT coalesce(c.host, s.host) AS host, c.family, c.first, c.last FROM coverage c JOIN sources s USING (source_id)""",
)

OWNERSHIP = (
    """UPDATE sources SET host = o.host, host_from = o.host_from, job_id = o.job_id, job_from = o.job_from FROM owners o
        WHERE sources.source_id = o.source_id""",
    """UPDATE events SET host = o.host, host_from = o.host_from FROM owners o WHERE events.source_id = o.source_id
        AND (events.host IS NULL OR events.host_from <> 'line')
        AND (events.family <> 'scheduler' OR events.code = 'slurm.launch_failed')""",
    """UPDATE events SET job_id = o.job_id, job_from = o.job_from FROM owners o WHERE events.source_id = o.source_id
        AND (events.job_id IS NULL OR events.job_from <> 'text')""",
    "UPDATE rank_records SET host = o.host FROM owners o WHERE rank_records.source_id = o.source_id AND rank_records.host IS NULL",
)

# Undone first: which node a pod ran on may look otherwise once more was read. `pod NAME` keeps what the line said.
PODS = (
    """UPDATE events SET host = nullif(substr(host_from, 5), ''), host_from = CASE WHEN host_from <> 'pod ' THEN 'line' END
        WHERE starts_with(host_from, 'pod ')""",
    """UPDATE events SET host_from = 'pod ' || events.host, host = p.node FROM pods p
        WHERE events.host = p.pod AND events.host_from = 'line' AND events.code <> 'k8s.pod_placed'""",
    """UPDATE events SET host_from = 'pod ', host = p.node FROM pods p
        WHERE events.peer = p.pod AND coalesce(events.host, '') = '' AND starts_with(events.code, 'k8s.')""",
)

ANCHORING = (
    """UPDATE events SET ts = a.ts, ts_last = a.ts, ts_near = a.ts, anchor = a.anchor, ts_quality = 'exact'
        FROM anchored a WHERE events.event_id = a.event_id""",
    """UPDATE coverage SET first = least(coverage.first, x.first), "last" = greatest(coverage."last", x.last_ts) FROM (
            SELECT source_id, min(ts) AS first, max(ts) AS last_ts FROM events WHERE anchor IS NOT NULL GROUP BY source_id
        ) x WHERE coverage.source_id = x.source_id AND coverage.family = 'kernel'""",
    """UPDATE sources SET first_ts = least(sources.first_ts, x.first), last_ts = greatest(sources.last_ts, x.last_ts) FROM (
            SELECT source_id, min(ts) AS first, max(ts) AS last_ts FROM events WHERE anchor IS NOT NULL GROUP BY source_id
        ) x WHERE sources.source_id = x.source_id""",
)

BOOT_SPANS = (
    """UPDATE coverage SET first = x.first, "last" = x.last_ts FROM boot_spans x
        WHERE coverage.source_id = x.source_id AND coverage.boot_first IS NOT NULL""",
    """UPDATE sources SET first_ts = least(sources.first_ts, x.first), last_ts = greatest(sources.last_ts, x.last_ts) FROM boot_spans x
        WHERE sources.source_id = x.source_id""",
)

ATTEMPTS = (
    "UPDATE events SET attempt = NULL WHERE attempt IS NOT NULL",
    """UPDATE events SET attempt = j.attempt FROM (
        SELECT job_id, attempt, CASE WHEN attempt = 0 THEN TIMESTAMP '0001-01-01' ELSE start - INTERVAL 4 SECOND END AS since,
            coalesce(lead(start) OVER (PARTITION BY job_id ORDER BY attempt) - INTERVAL 4 SECOND, TIMESTAMP '9999-01-01') AS until
        FROM jobs
    ) j WHERE events.job_id = j.job_id AND events.ts_near >= j.since AND events.ts_near < j.until""",
    """UPDATE events SET attempt = j.attempt FROM (SELECT job_id, max(attempt) AS attempt FROM jobs GROUP BY job_id) j
        WHERE events.job_id = j.job_id AND events.ts_near IS NULL""",
)


class StoreFault(Fault):
    """The database cannot be used; says what to do."""


class Store:
    """One open database. Use as a context manager."""

    def __init__(self, path: str = MEMORY, *, write: bool = True, any_version: bool = False) -> None:
        self.path = path
        self._spill: str | None = None
        self._connection = _connect(path, write)
        try:
            self._connection.execute("SET TimeZone='UTC'")
            self._connection.execute("SET enable_progress_bar=false")  # it goes to standard output, into our JSON
            if write:
                self._bound()
            new = write and not self._is_there()
            if new:
                self._create()
            if not any_version:
                self._check_version()
            if write and not new:  # its views may be those of an earlier release
                self._create()
        except BaseException as error:
            self.__exit__(type(error), error)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object = None, error: BaseException | None = None, _trace: object = None) -> None:
        """Close; what the machine refused (room, a permission, a read) is one line, any other error stays what it is."""
        try:
            self._connection.close()
        except duckdb.Error as closing:
            error = error or closing
        if self._spill is not None:
            rmtree(self._spill, ignore_errors=True)
        if isinstance(error, duckdb.Error) and (line := _machine_fault(self.path, str(error))):
            raise StoreFault(line) from error

    def _bound(self) -> None:
        """Writing sorts and joins whole tables: past the limit on disk. Each thread would need as much."""
        try:
            self._spill = mkdtemp(prefix="triage-")
        except OSError:  # no folder for temporary files, as in a sealed container: then the memory that there is
            return
        self._allow(LEAST_MB)
        self._connection.execute("SET threads=1")
        self._connection.execute("SET temp_directory='{}'".format(self._spill.replace("'", "''")))

    @contextmanager
    def sorting(self, rows: int) -> Iterator[None]:
        """More memory for sorts of so many rows."""
        self._allow(SORT_MB + MB_PER_ROOT_MILLION * sqrt(max(1.0, rows / 1e6)))
        yield
        self.let_go()

    def let_go(self) -> None:
        """Give back the memory of what was read and written; it lies on disk."""
        self._allow(BARE_MB)
        self._allow(LEAST_MB)
        trim = getattr(CDLL(None), "malloc_trim", None)  # glibc keeps what was freed, some 30 MB after a million events
        if trim is not None:
            trim(0)

    def _allow(self, megabytes: float) -> None:
        if self._spill is None:
            return
        self._connection.execute(f"SET memory_limit='{megabytes:.0f}MB'")

    def _is_there(self) -> bool:
        """Whether it has our tables, of whatever version; a database of something else is left as it is."""
        tables = {row[0] for row in self._connection.execute("SELECT table_name FROM information_schema.tables").fetchall()}
        if tables and not {"meta", "sources"} <= tables:
            raise StoreFault(f"{self.path}: a database of something else; name another with --db")
        return bool(tables)

    def _create(self) -> None:
        """Tables, views and version at once: killed in between, there is nothing yet."""
        with self.transaction():
            for statement in (*(table.ddl for table in TABLES.values()), *VIEWS):
                self._connection.execute(statement)
            self._connection.execute(
                "INSERT INTO meta SELECT 'schema', ? WHERE NOT EXISTS (SELECT 1 FROM meta WHERE name = 'schema')", [str(VERSION)]
            )

    def _check_version(self) -> None:
        found = self.meta("schema")
        if found != str(VERSION):
            raise StoreFault(
                f"{self.path}: schema version {found}, this program reads {VERSION}; read the logs again: triage ingest PATH... --db NEW "
                f"(triage db info --db {self.path} names them)"
            )

    def meta(self, name: str) -> str | None:
        """A value of `meta`, None when absent; raises StoreFault when the file is no triage database."""
        try:
            rows = self._connection.execute("SELECT value FROM meta WHERE name = ?", [name]).fetchall()
        except duckdb.Error as error:
            raise StoreFault(f"{self.path}: not a triage database; name another with --db or run triage ingest") from error
        return str(rows[0][0]) if rows else None

    def set_meta(self, name: str, value: str) -> None:
        self._connection.execute("DELETE FROM meta WHERE name = ?", [name])
        self._connection.execute("INSERT INTO meta VALUES (?, ?)", [name, value])

    @contextmanager
    def transaction(self, keep: bool = True) -> Iterator[None]:
        """All or nothing; nothing where it is only a trial."""
        self._connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            with suppress(duckdb.Error):  # the database may be beyond that; the first error tells why
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT" if keep else "ROLLBACK")

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows; a missing column is null, an unknown one is an error."""
        if rows:
            self.append(frame_of(TABLES[table], rows))

    def extend(self, table: str, frame: pl.DataFrame) -> None:
        """Append a frame that has the table's columns."""
        self._insert(TABLES[table], frame)

    def append(self, frame: _Named) -> None:
        self._insert(frame.table, frame.frame)

    def replace(self, table: str, frame: pl.DataFrame) -> None:
        """Write a stage's table anew; the frame must have exactly the table's columns and types."""
        want = TABLES[table].dtypes()
        if dict(frame.schema) != want:
            wrong = {k: (frame.schema.get(k), v) for k, v in want.items() if frame.schema.get(k) != v}
            raise TypeError(f"{table}: the stage gave other columns or types: {wrong or sorted(set(frame.columns) ^ set(want))}")
        self.clear(table)
        self._insert(TABLES[table], frame)

    def replace_sorted(self, table: str, frames: Iterable[pl.DataFrame]) -> None:
        """Write a stage's table anew in its order, which the database finds: it may be too long to be sorted in memory."""
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE unsorted AS FROM {table} LIMIT 0")
        self.clear(table)
        for frame in frames:
            self._insert(TABLES[table], frame, "unsorted")
        self._connection.execute(f"INSERT INTO {table} FROM unsorted ORDER BY {IN_ORDER[table]}")
        self._connection.execute("DROP TABLE unsorted")

    def clear(self, table: str) -> None:
        """Forget a stage's table."""
        self._connection.execute(f"DELETE FROM {table}")

    def _insert(self, table: Table, frame: pl.DataFrame, name: str = "") -> None:
        """The frame is found by its variable's name: a registered one would be held until the transaction ends."""
        if frame.height:
            incoming = frame.to_arrow()  # noqa: F841
            columns = ", ".join(f'"{c}"' for c in table.names)
            self._connection.execute(f"INSERT INTO {name or table.name} ({columns}) SELECT {columns} FROM incoming")

    def expire(self, before: datetime) -> dict[str, int]:
        """Forget sources that end before a time and rows that do; how many rows of each table went. Coverage begins then at that time."""
        gone: dict[str, int] = {}
        old = [row["source_id"] for row in self.rows("old_sources", before=before)]
        for table in RAW:
            gone[table] = self._count(f"DELETE FROM {table} WHERE list_contains($old, source_id)", old=old)
        for table, over in OLD_ROWS.items():
            gone[table] += self._count(f"DELETE FROM {table} WHERE {over}", before=before)
        self._connection.execute("UPDATE coverage SET first = $before WHERE first < $before", {"before": before})
        self.set_meta("built", "")
        return gone

    def _count(self, statement: str, **values: object) -> int:
        row = self._connection.execute(statement, values).fetchone()
        return int(row[0]) if row else 0

    def faults(self, fresh: bool) -> list[str]:
        """What is wrong inside, each in a line: missing columns, rows that cannot be read, keys that are not unique, loose ends."""
        try:
            return self._wrong_columns() or [*self._unreadable(), *self._wrong_keys(), *self._loose(fresh)]
        except duckdb.Error as error:
            return [f"cannot be read: {_one_line(error)}"]

    def _wrong_columns(self) -> list[str]:
        found = {(row["table"], row["column"]): row["type"] for row in self.rows("columns")}
        wanted = {(table.name, c.name): c.type for table in TABLES.values() for c in table.columns}
        wrong = sorted(key for key, kind in wanted.items() if found.get(key) != kind)
        return [
            f"{table}: column {column} is {found.get((table, column), 'not there')}, not {wanted[table, column]}" for table, column in wrong
        ]

    def _unreadable(self) -> list[str]:
        """Every row of every table is read; blocks carry checksums."""
        wrong = []
        for table in TABLES:
            try:
                self._connection.execute(f"SELECT bit_xor(hash(t)) FROM {table} t").fetchall()
            except duckdb.Error as error:
                wrong.append(f"{table}: cannot be read: {_one_line(error)}")
        return wrong

    def _wrong_keys(self) -> list[str]:
        wrong = []
        for table in TABLES.values():
            if table.key:
                key = ", ".join(f'"{name}"' for name in table.key)
                twice = self._count(f"SELECT count(*) FROM (SELECT 1 FROM {table.name} GROUP BY {key} HAVING count(*) > 1)")
                wrong += [f"{table.name}: {twice} value(s) of its key ({', '.join(table.key)}) are there more than once"] if twice else []
        return wrong

    def _loose(self, fresh: bool) -> list[str]:
        counts = {words: self._count(text) for words, text in (ORPHANS | (LOOSE_ENDS if fresh else {})).items()}
        return [f"{words}: {count}" for words, count in counts.items() if count]

    def sizes(self) -> dict[str, int]:
        """Rows of each table that is there."""
        there = {row["table"] for row in self.rows("columns")}
        return {table: self._count(f"SELECT count(*) FROM {table}") for table in TABLES if table in there}

    @contextmanager
    def filled_from(self, path: str, hold: bool) -> Iterator[None]:
        """Take every row of another database into this empty one; with `hold` nobody else can write to that one until the block ends."""
        quoted = path.replace("'", "''")
        try:
            self._connection.execute(f"ATTACH '{quoted}' AS other ({'READ_WRITE' if hold else 'READ_ONLY'})")
        except duckdb.Error as error:
            raise StoreFault(_why(path, error)) from error
        if hold:
            self._connection.execute("CHECKPOINT other")
        self._connection.execute("DELETE FROM meta")
        for table in TABLES.values():
            columns = ", ".join(f'"{name}"' for name in table.names)
            self._connection.execute(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM other.{table.name}")
        yield
        self._connection.execute("DETACH other")

    def settle(self) -> None:
        """Write what waits in the log beside the file into the file."""
        self._connection.execute("CHECKPOINT")

    def drop_source(self, source_id: str) -> None:
        """Forget everything that was read from a source."""
        for table in RAW:
            self._connection.execute(f"DELETE FROM {table} WHERE source_id = ?", [source_id])

    def rename_source(self, source_id: str, path: str) -> None:
        """The same bytes were found under another path."""
        self._connection.execute("UPDATE sources SET path = ? WHERE source_id = ?", [path, source_id])

    def apply_owners(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write host and job of whole sources into `sources` and into events and records that do not say themselves."""
        self._connection.execute(
            "CREATE OR REPLACE TEMP TABLE owners (source_id VARCHAR, host VARCHAR, host_from VARCHAR, job_id VARCHAR, job_from VARCHAR)"
        )
        if rows:
            self._connection.executemany(
                "INSERT INTO owners VALUES (?, ?, ?, ?, ?)",
                [tuple(r[k] for k in ("source_id", "host", "host_from", "job_id", "job_from")) for r in rows],
            )
        for statement in OWNERSHIP:
            self._connection.execute(statement)
        if self.rows("placed"):
            for statement in PODS:
                self._connection.execute(statement)

    def shift_years(self, source_id: str, by: int, total: int) -> None:
        """Move year-less stamps of a source by whole years."""
        if by:
            self._connection.execute(
                "UPDATE events SET ts = ts + to_years($by), ts_last = ts_last + to_years($by), ts_near = ts_near + to_years($by) "
                "WHERE source_id = $source AND ts_quality = 'year_inferred'",
                {"by": by, "source": source_id},
            )
            self._connection.execute(
                'UPDATE coverage SET first = first + to_years($by), "last" = "last" + to_years($by) WHERE source_id = $source',
                {"by": by, "source": source_id},
            )
            for table, columns in (("job_records", ("submit", "start", '"end"')), ("state_records", ("ts", '"end"'))):
                moved = ", ".join(f"{c} = {c} + to_years($by)" for c in columns)
                self._connection.execute(f"UPDATE {table} SET {moved} WHERE source_id = $source", {"by": by, "source": source_id})
        self._connection.execute(
            "UPDATE sources SET first_ts = first_ts + to_years($by), last_ts = last_ts + to_years($by), year_shift = $total, "
            "year_from = CASE WHEN $total = 0 THEN 'mtime' ELSE 'peers' END WHERE source_id = $source",
            {"by": by, "total": total, "source": source_id},
        )

    def anchor(self, rows: Sequence[tuple[str, Any, str]], spans: Sequence[tuple[str, Any, Any]]) -> None:
        """Give events that carry only seconds since boot their time: (event id, naive UTC time, anchor); others lose theirs.

        spans  (source id, first, last) of what such sources cover
        """
        self._connection.execute("UPDATE events SET ts = NULL, ts_last = NULL, ts_near = NULL, anchor = NULL WHERE anchor IS NOT NULL")
        if rows:
            self._connection.execute("CREATE OR REPLACE TEMP TABLE anchored (event_id VARCHAR, ts TIMESTAMP, anchor VARCHAR)")
            self._connection.executemany("INSERT INTO anchored VALUES (?, ?, ?)", [list(row) for row in rows])
            for statement in ANCHORING:
                self._connection.execute(statement)
        if spans:
            self._connection.execute("CREATE OR REPLACE TEMP TABLE boot_spans (source_id VARCHAR, first TIMESTAMP, last_ts TIMESTAMP)")
            self._connection.executemany("INSERT INTO boot_spans VALUES (?, ?, ?)", [list(row) for row in spans])
            for statement in BOOT_SPANS:
                self._connection.execute(statement)

    def assign_attempts(self) -> None:
        """Give every event with a job its attempt: the last one that had started by then."""
        for statement in ATTEMPTS:
            self._connection.execute(statement)

    def frame(self, table: str, part: str = "", columns: Sequence[str] = (), **values: object) -> pl.DataFrame:
        """A table, or the rows of one of `statements.PARTS`, as polars; `columns` are those that are read, none for all."""
        import polars as pl

        dtypes = {name: dtype for name, dtype in TABLES[table].dtypes().items() if not columns or name in columns}
        listed = ", ".join(f'"{name}"' for name in dtypes)
        text = f"SELECT {listed} FROM {table} {PARTS[part]}"
        return pl.DataFrame(self._connection.sql(text, params=values or None)).cast(dtypes)  # type: ignore[arg-type]

    def signs(self, since: datetime, now: datetime) -> pl.DataFrame:
        """host, code, role, first, number: few bursts that stand for all who ask which hosts had which codes, how often, since when."""
        import polars as pl

        dtypes = {name: TABLES["bursts"].dtypes()[name] for name in ("host", "code", "role", "first")} | {"number": pl.Int64()}
        return pl.DataFrame(self._connection.sql(SIGNS, params={"since": since, "now": now})).cast(dtypes)  # type: ignore[arg-type]

    def exclusions(self) -> pl.DataFrame | None:
        """job_id, host: hosts that a submission excluded; None where no record tells of any."""
        import polars as pl

        rows = self.rows("exclusions")
        return pl.DataFrame(rows) if rows else None

    def training(self, columns: Sequence[str], rows: int = PART_ROWS) -> Iterator[pl.DataFrame]:
        """Steps and saves of all jobs in parts of about so many rows; a job lies whole in one part. Ends with the next query."""
        import polars as pl

        held: list[pl.DataFrame] = []
        for batch in self._connection.sql(f"SELECT {', '.join(columns)} FROM events {PARTS['training']}").to_arrow_reader(rows):
            part = pl.concat([*held, pl.DataFrame(batch)])
            last = pl.col("job_id") == part["job_id"][-1]
            held = [part.filter(last)]
            yield part.filter(~last)
        yield from held

    def rows(self, name: str, **values: object) -> list[dict[str, Any]]:
        """Rows of one of `statements.QUERIES` as dicts of Python values."""
        return self._rows(QUERIES[name], values)

    def parts(self, name: str, rows: int, **values: object) -> Iterator[pl.DataFrame]:
        """As `rows`, in frames of about so many; nothing else may be asked before they are all taken."""
        import polars as pl

        for batch in self._connection.sql(QUERIES[name], params=values or None).to_arrow_reader(rows):
            yield pl.DataFrame(batch)

    def _rows(self, text: str, values: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        cursor = self._connection.execute(text, dict(values)) if values else self._connection.execute(text)
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
            return self._rows(text)
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


def _one_line(error: duckdb.Error) -> str:
    return " ".join(str(error).split())[:200]


# Failed to commit: Could not write file "fleet.duckdb.wal": No space left on device
_MACHINE = {
    "no room left on its disk; make room and run this again: what is stored stays": "no space left|disk quota exceeded|file too large",
    "out of memory; leave it more, or read less at once": "max_temp_directory_size|out of memory|cannot allocate|failed to allocate",
    "cannot be written; check the permissions of the file and its folder": "read-only file system|permission denied",
    "its disk fails; look at it, copy the database away": "input/output error|stale file handle|could not (?:read|write|f?sync)",
}
"""Words for what an error of the database says of the machine."""


def _machine_fault(path: str, text: str) -> str | None:
    """The line for what is the machine's fault and not ours; None for anything else."""
    return next((f"{path}: {words}" for words, signs in _MACHINE.items() if re.search(signs, text, re.IGNORECASE)), None)


def _why(path: str, error: duckdb.Error) -> str:
    text = str(error)
    if "no space left" in text.lower():
        return str(_machine_fault(path, text))
    if "lock" in text.lower():
        return f"{path}: in use by another process; wait for it or name another database with --db"
    if Path(path).exists() and not os.access(path, os.R_OK):
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
            series.append(
                pl.Series(column.name, values, dtype=pl.Int64).cast(pl.Datetime("us"))
                if integers
                else pl.Series(column.name, values, dtype=pl.Datetime("us"))
            )
        else:
            series.append(pl.Series(column.name, values, dtype=dtypes[column.name], strict=False))
    return _Named(table, pl.DataFrame(series))
