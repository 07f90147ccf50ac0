"""The tables, once: DDL, polars dtypes, write checks and the documented reference all derive from `TABLES`.

Times are UTC. `TEXT[]` columns hold lists. Column owners are the plural-noun modules of the same name; the four `*_records`
tables hold what parsers read, before the stages merge it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

TEXT, INT, REAL, TIME, BOOL, TEXTS = "VARCHAR", "BIGINT", "DOUBLE", "TIMESTAMP", "BOOLEAN", "VARCHAR[]"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its DuckDB type and what it means."""

    name: str
    type: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `key` columns are unique and never null."""

    name: str
    note: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        """The CREATE TABLE statement."""
        inner = ", ".join(f'"{c.name}" {c.type}' + (" NOT NULL" if c.name in self.key else "") for c in self.columns)
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({inner})"

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    def dtypes(self) -> dict[str, pl.DataType]:
        """The polars dtype of each column."""
        import polars as pl

        known: dict[str, pl.DataType] = {
            TEXT: pl.String(),
            INT: pl.Int64(),
            REAL: pl.Float64(),
            TIME: pl.Datetime("us"),
            BOOL: pl.Boolean(),
            TEXTS: pl.List(pl.String()),
        }
        return {c.name: known[c.type] for c in self.columns}


def _columns(*rows: tuple[str, str] | tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


_ORIGIN = (("source_id", TEXT, "digest of the decompressed bytes"), ("line", INT, "line in that source, from 1"))

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        Table(
            "meta",
            "schema version, rulebook digest and what the analysis was built from",
            _columns(("name", TEXT), ("value", TEXT)),
            ("name",),
        ),
        Table(
            "sources",
            "one row per file that was read",
            _columns(
                ("source_id", TEXT, "the digest, or that of digest and name where only the name tells host or rank"),
                ("digest", TEXT, "of the decompressed bytes"),
                ("name_part", TEXT, "the part of the name that tells host or rank"),
                ("path", TEXT, "as named by the user, with !member for archives"),
                ("dialects", TEXTS, "dialects that claimed a line"),
                ("bytes", INT, "decompressed"),
                ("head", TEXT, "first 256 bytes in hex, finds a source that grew"),
                ("marks", TEXTS, "digests of the first 256, 512, 1024 ... bytes"),
                ("lines", INT),
                ("needle_lines", INT, "lines that carried a needle"),
                ("events", INT, "needle and hint lines that became events"),
                ("benign", INT),
                ("rejects", INT),
                ("first_ts", TIME),
                ("last_ts", TIME),
                ("zone", TEXT, "in_stamp | utc_assumed | the zone that --tz named"),
                ("clock", TEXT, "worst ts_quality in the file"),
                ("year_from", TEXT, "stamp | peers | mtime, for stamps without a year"),
                ("year_shift", INT, "years added to the stored stamps after all sources were seen"),
                ("mtime", TIME),
                ("host", TEXT, "host that the file belongs to, where the lines do not say"),
                ("host_from", TEXT, "line | file | name | folder"),
                ("job_id", TEXT, "job that the file belongs to"),
                ("job_from", TEXT, "text | name | hosts_and_times"),
            ),
            ("source_id",),
        ),
        Table(
            "events",
            "one row per thing that a line says",
            _columns(
                ("event_id", TEXT, "source_id:line:n"),
                ("source_id", TEXT),
                ("line_first", INT),
                ("line_last", INT),
                ("ts", TIME, "UTC; for a collective timeout the time of its line"),
                ("ts_last", TIME, "of the last line folded into this row"),
                ("ts_quality", TEXT, "exact | year_inferred | boot_relative | unknown"),
                ("ts_near", TIME, "ts, else the nearest earlier stamp of the same source, else the nearest later one"),
                ("boot_s", REAL, "seconds since boot"),
                ("anchor", TEXT, "what tied boot_s to wall time: clock | twin | boot_time"),
                ("host", TEXT, "folded to its short name"),
                ("host_from", TEXT, "line | file | name | folder | pod NAME, where the line gave a pod that ran on it"),
                ("device", TEXT, "dddd:bb:dd"),
                ("gpu_uuid", TEXT),
                ("mig", TEXT, "GPU instance / compute instance"),
                ("job_id", TEXT),
                ("job_from", TEXT, "text | name | hosts_and_times"),
                ("attempt", INT),
                ("rank", INT, "global rank"),
                ("pid", INT),
                ("family", TEXT, "gpu | host | network | storage | scheduler | training"),
                ("code", TEXT, "xid.79, nccl.timeout ..."),
                ("severity", TEXT),
                ("message", TEXT),
                ("peer", TEXT, "host or address that the line blames"),
                ("op", TEXT, "collective or step kind"),
                ("grp", TEXT, "process group"),
                ("seq", INT, "sequence number of a collective, number of a step"),
                ("duration_s", REAL),
                ("value", REAL),
                ("state", TEXT, "state, cause or reason in the tool's own words"),
                ("exit_code", INT),
                ("signal", INT),
                ("user", TEXT),
                ("repeats", INT, "lines folded into this row, itself included"),
                ("attrs", TEXT, "JSON, shown only"),
            ),
            ("event_id",),
        ),
        Table(
            "rejects",
            "lines that carry a needle and do not parse",
            _columns(*_ORIGIN, ("parser", TEXT), ("reason", TEXT), ("text", TEXT, "first 200 characters")),
            ("source_id", "line"),
        ),
        Table(
            "job_records",
            "what one scheduler record says of one attempt",
            _columns(
                *_ORIGIN,
                ("basis", TEXT),
                ("job_id", TEXT),
                ("name", TEXT),
                ("user", TEXT),
                ("partition", TEXT),
                ("state", TEXT),
                ("hosts", TEXTS),
                ("nodes", INT),
                ("gpus", INT),
                ("submit", TIME),
                ("start", TIME),
                ("end", TIME),
                ("exit_code", INT),
                ("signal", INT),
                ("reason", TEXT),
                ("preemptor", TEXT),
                ("restarts", INT),
                ("excluded", TEXTS),
            ),
        ),
        Table(
            "state_records",
            "what one record says of a host's state",
            _columns(
                *_ORIGIN,
                ("basis", TEXT),
                ("host", TEXT),
                ("state", TEXT),
                ("ts", TIME),
                ("end", TIME),
                ("reason", TEXT),
                ("user", TEXT),
            ),
        ),
        Table(
            "host_records",
            "what one record says of a host's inventory and topology",
            _columns(
                *_ORIGIN,
                ("basis", TEXT),
                ("host", TEXT),
                ("gpus", INT),
                ("gpu_model", TEXT),
                ("gpu_serials", TEXTS),
                ("rack", TEXT),
                ("leaf", TEXT),
                ("rail", TEXT),
                ("ip", TEXT),
            ),
        ),
        Table(
            "rank_records",
            "rank to host and device, as one communicator or launch printed it",
            _columns(
                *_ORIGIN,
                ("basis", TEXT),
                ("job_id", TEXT),
                ("rank", INT),
                ("host", TEXT),
                ("device", TEXT),
                ("nranks", INT),
                ("local_rank", INT),
                ("comm", TEXT),
                ("pid", INT),
            ),
        ),
        Table(
            "coverage",
            "what was there to read, so that silence can be judged",
            _columns(
                ("source_id", TEXT),
                ("host", TEXT),
                ("family", TEXT, "kernel | scheduler | training | bmc | fabric"),
                ("first", TIME),
                ("last", TIME),
                ("boot_first", REAL, "seconds since boot, where the samples have no other stamp"),
                ("boot_last", REAL),
                ("lines", INT),
                ("sampled", BOOL),
            ),
        ),
        Table(
            "jobs",
            "one row per attempt of a job, requeued attempts kept",
            _columns(
                ("job_id", TEXT),
                ("attempt", INT, "from 0, in order of start"),
                ("name", TEXT),
                ("user", TEXT),
                ("partition", TEXT),
                ("state", TEXT, "COMPLETED, FAILED, NODE_FAIL ... or RUNNING"),
                ("nodes", INT),
                ("gpus", INT),
                ("submit", TIME),
                ("start", TIME),
                ("end", TIME, "null while it runs"),
                ("exit_code", INT),
                ("signal", INT),
                ("reason", TEXT),
                ("preemptor", TEXT, "job id that took its place"),
                ("failed_host", TEXT, "host that the scheduler names"),
                ("requeued", BOOL),
                ("last_checkpoint", TIME, "last saved checkpoint that a log shows"),
                ("gpu_hours_lost", REAL),
                ("basis", TEXT, "checkpoint | start | completed | unknown: what the cost is counted from"),
                ("known_from", TEXT, "records that this row was merged from"),
                ("source_id", TEXT),
                ("line", INT),
            ),
            ("job_id", "attempt"),
        ),
        Table(
            "job_hosts",
            "hosts of each attempt",
            _columns(("job_id", TEXT), ("attempt", INT), ("host", TEXT), ("start", TIME), ("end", TIME)),
            ("job_id", "attempt", "host"),
        ),
        Table(
            "host_states",
            "intervals in which a host was down, drained, booting, idle or allocated",
            _columns(
                ("host", TEXT),
                ("state", TEXT),
                ("start", TIME),
                ("end", TIME),
                ("reason", TEXT),
                ("user", TEXT),
                ("basis", TEXT),
                *_ORIGIN,
            ),
        ),
        Table(
            "hosts",
            "inventory and topology",
            _columns(
                ("host", TEXT),
                ("gpus", INT),
                ("gpu_model", TEXT),
                ("gpu_serials", TEXTS),
                ("rack", TEXT),
                ("leaf", TEXT),
                ("rail", TEXT),
                ("ip", TEXT),
                ("topology_from", TEXT, "csv | slurm | kubernetes | guess"),
            ),
            ("host",),
        ),
        Table(
            "ranks",
            "rank to host and device of each attempt",
            _columns(
                ("job_id", TEXT),
                ("attempt", INT),
                ("source_id", TEXT),
                ("rank", INT),
                ("host", TEXT),
                ("device", TEXT),
                ("nranks", INT),
                ("basis", TEXT),
                ("line", INT),
            ),
        ),
        Table(
            "bursts",
            "events of one host, device and code with gaps of at most the burst gap",
            _columns(
                ("burst_id", TEXT, "event_id of its first event"),
                ("host", TEXT),
                ("device", TEXT),
                ("code", TEXT),
                ("family", TEXT),
                ("class", TEXT, "taxonomy id by the signatures"),
                ("role", TEXT, "root | cascade | symptom | outcome | precursor | recovery | operator | fact | noise"),
                ("layer", TEXT),
                ("first", TIME),
                ("last", TIME),
                ("timed", BOOL, "false where the line has no stamp and a neighbour's was taken"),
                ("count", INT, "lines"),
                ("events", INT),
                ("job_id", TEXT),
                ("attempt", INT),
                ("rank", INT),
                ("peer", TEXT),
                ("duration_s", REAL),
                ("severity", TEXT),
                ("state", TEXT),
                ("op", TEXT, "of the first event"),
                ("seq", INT, "of the first event"),
                ("signal", INT),
                ("exit_code", INT),
                ("user_possible", BOOL, "the user's program can raise it"),
                ("message", TEXT, "of the first event"),
                ("source_id", TEXT),
                ("line", INT),
                ("copies", INT, "sources that hold the same events"),
            ),
            ("burst_id",),
        ),
        Table(
            "incidents",
            "one story: an attempt that ended badly, a host or a shared part that failed",
            _columns(
                ("incident_id", TEXT),
                ("kind", TEXT, "job | host | shared"),
                ("start", TIME, "true start"),
                ("end", TIME),
                ("job_id", TEXT),
                ("attempt", INT),
                ("class", TEXT),
                ("symptom", INT),
                ("manifestation", TEXT),
                ("layer", TEXT),
                ("action", TEXT),
                ("confidence", TEXT),
                ("rule_id", TEXT),
                ("summary", TEXT),
                ("hosts", TEXTS, "culprits and suspects first, then the rest"),
                ("jobs", TEXTS),
                ("gpu_hours_lost", REAL),
            ),
            ("incident_id",),
        ),
        Table(
            "incident_bursts",
            "bursts of an incident and their part in it",
            _columns(("incident_id", TEXT), ("burst_id", TEXT), ("role", TEXT)),
            ("incident_id", "burst_id"),
        ),
        Table(
            "findings",
            "who is suspected in an incident, and why",
            _columns(
                ("incident_id", TEXT),
                ("place", INT, "from 1"),
                ("host", TEXT),
                ("device", TEXT),
                ("rank", INT),
                ("role", TEXT, "culprit | suspect | victim"),
                ("score", REAL),
                ("class", TEXT),
                ("code", TEXT),
                ("ts", TIME),
                ("why", TEXT),
                *_ORIGIN,
            ),
            ("incident_id", "place"),
        ),
        Table(
            "decisions",
            "the rule that decided an incident, and the action",
            _columns(
                ("incident_id", TEXT),
                ("rule_id", TEXT),
                ("action", TEXT),
                ("confidence", TEXT),
                ("host", TEXT),
                ("reason", TEXT),
                ("rulebook", TEXT, "digest of the rules"),
                ("features", TEXT, "JSON of the values that the rows saw"),
            ),
            ("incident_id",),
        ),
        Table(
            "recurrence",
            "hosts ranked by how often they break jobs, for their exposure",
            _columns(
                ("place", INT),
                ("host", TEXT),
                ("score", REAL, "lower bound of the rate over the reference rate"),
                ("rate", REAL, "discounted failures per allocated host-day"),
                ("low", REAL),
                ("high", REAL),
                ("lemon", BOOL),
                ("strikes", INT),
                ("next", TEXT),
                ("signals", TEXT, "JSON"),
                ("why", TEXTS),
            ),
            ("host",),
        ),
        Table(
            "templates",
            "text that no parser knows and that stands out in an incident",
            _columns(
                ("incident_id", TEXT),
                ("template_id", TEXT, "digest of the template"),
                ("template", TEXT, "the line with what varies masked: <NUM>, <PATH>, <HOST> ..., <*> where words vary"),
                ("count", INT, "lines"),
                ("hosts", TEXTS, "that say it, at most 16"),
                ("host_count", INT),
                ("hosts_read", INT, "hosts whose text was there"),
                ("sources", INT, "sources that hold it"),
                *_ORIGIN,
                ("last_source_id", TEXT),
                ("last_line", INT),
                ("first", TIME, "of the first line, where it has a stamp"),
                ("last", TIME),
                ("example", TEXT, "the first line, without its frame"),
                ("why", TEXTS, "only_here | new_since_healthy | outlier_host | odd_iteration"),
                ("score", REAL, "0..1"),
            ),
            ("incident_id", "template_id"),
        ),
        Table(
            "spares",
            "hosts that could stand in, per incident",
            _columns(("incident_id", TEXT), ("place", INT), ("host", TEXT), ("why", TEXT)),
            ("incident_id", "host"),
        ),
    )
}

VERSION = 1

RAW = ("sources", "events", "rejects", "job_records", "state_records", "host_records", "rank_records", "coverage")
"""Tables that ingest fills; the others are rebuilt from them."""
