"""Text that no parser claimed, read again from an incident's sources: frames of lines, memory bounded by the block.

Only this module of the template stage opens files. What cannot be opened any more (a pipe, a file that is gone) is passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from parsers import clocks
from parsers.frames import peel
from triage import sources
from triage.dating import is_yearless
from triage.faults import Fault
from triage.moments import micros, moment

if TYPE_CHECKING:
    import polars as pl

    from triage.incidents import Incident
    from triage.jobs import Attempt

BLOCK, LONG_LINE, CUT = 4 << 20, 64 << 10, 1000
LIMIT = 500_000
MOST_HEALTHY = 3
_PROBES = 64


@dataclass(frozen=True, slots=True)
class Reading:
    """A source to read again. low..high bound it, first..last are the source's own span; microseconds UTC, None where open.

    kind     output (of a job) or kernel (of a host)
    host     whose lines they are, where the source tells
    lines    of the source, to read the end of one that is too long
    healthy  of a run that ended well
    zone     stated for stamps that name none
    """

    source_id: str
    path: str
    kind: str
    host: str | None = None
    low: int | None = None
    high: int | None = None
    first: int | None = None
    last: int | None = None
    lines: int = 0
    healthy: bool = False
    zone: clocks.Zone | None = None


def readings(
    incident: Incident, attempts: Sequence[Attempt], source_rows: Iterable[Mapping[str, Any]], coverage: Iterable[Mapping[str, Any]]
) -> list[Reading]:
    """The job's output and the kernel logs of the incident's hosts in its window, and the same of at most three healthy runs of the job.

    source_rows  rows of `sources`, coverage  rows of `coverage`; their times in microseconds or as datetimes
    """
    documents = _documents()
    texts = (r for r in source_rows if documents.isdisjoint(r["dialects"] or ()))
    rows = {r["source_id"]: {**r, "first": micros(r["first_ts"]), "last": micros(r["last_ts"])} for r in texts}
    kernels = {(c["source_id"], c["host"]) for c in coverage if c["family"] == "kernel" and c["source_id"] in rows}
    found = _of_run(incident.attempt, incident.hosts, (incident.low, incident.high), rows, kernels)
    outputs = {r.source_id for r in found if r.kind == "output"}  # requeued attempts may share one
    for run in _healthy_runs(incident.attempt, attempts):
        alike = _of_run(run, run.hosts, (run.start, run.end), rows, kernels)
        found += [replace(r, healthy=True) for r in alike if r.source_id not in outputs]
    return found


def _documents() -> set[str]:
    """Names of dialects whose files are no lines of text."""
    from parsers import DIALECTS
    from parsers.contract import DocumentDialect

    return {d.name for d in DIALECTS if isinstance(d, DocumentDialect)}


def claimed_of(rows: Iterable[Mapping[str, Any]]) -> set[tuple[str, int]]:
    """(source_id, line) of every line of the given rows of `events`."""
    return {(r["source_id"], n) for r in rows for n in range(r["line_first"], max(r["line_first"], r["line_last"] or 0) + 1)}


def _healthy_runs(attempt: Attempt | None, attempts: Sequence[Attempt]) -> list[Attempt]:
    """The latest runs of the same name and user that completed; of the same job id where it has no name."""
    if attempt is None:
        return []
    key = (attempt.name, attempt.user) if attempt.name else attempt.job_id
    alike = [a for a in attempts if ((a.name, a.user) if a.name else a.job_id) == key and (a.state or "").startswith("COMPLETED")]
    return sorted(alike, key=lambda a: (a.start or 0, a.job_id), reverse=True)[:MOST_HEALTHY]


def _of_run(
    run: Attempt | None,
    hosts: Iterable[str],
    window: tuple[int | None, int | None],
    rows: Mapping[str, Mapping[str, Any]],
    kernels: AbstractSet[tuple[str, str | None]],
) -> list[Reading]:
    kernel_sources = {s for s, _ in kernels}
    found = []
    if run is not None:
        own = [r for s, r in rows.items() if r["job_id"] == run.job_id and s not in kernel_sources]
        found += [_reading(r, "output", (None, None)) for r in own]
    wanted = set(hosts)
    for source in sorted({s for s, host in kernels if host in wanted}):
        row = rows[source]
        if _meets(row["first"], row["last"], window):
            found.append(_reading(row, "kernel", window))
    return found


def _reading(row: Mapping[str, Any], kind: str, window: tuple[int | None, int | None]) -> Reading:
    low, high = window
    return Reading(row["source_id"], row["path"], kind, row["host"], low, high, row["first"], row["last"], row["lines"] or 0)


def _meets(first: int | None, last: int | None, window: tuple[int | None, int | None]) -> bool:
    low, high = window
    return not (low is not None and last is not None and last < low) and not (high is not None and first is not None and first > high)


def unclaimed(
    wanted: Iterable[Reading], claimed: AbstractSet[tuple[str, int]], limit: int = LIMIT
) -> Iterator[tuple[Reading, pl.DataFrame]]:
    """Frames (line Int64 from 1, text of at most 1,000 characters) of lines that carry no claimed record, at most `limit` lines in all.

    Small sources are read first and whole, what is left of the limit is shared among the large ones.
    """
    ordered = sorted(wanted, key=lambda r: (r.lines, r.path, r.source_id))
    opened = _opened(r.path for r in ordered)
    by_source: defaultdict[str, list[int]] = defaultdict(list)
    for source_id, line in claimed:
        by_source[source_id].append(line)
    for place, reading in enumerate(ordered):
        share = limit // (len(ordered) - place)
        source = opened.get(reading.path)
        for frame in _frames(reading, source, share) if source is not None else ():
            limit -= frame.height
            left = _without(frame, by_source.get(reading.source_id, ()))
            if left.height:
                yield reading, left


def _opened(paths: Iterable[str]) -> dict[str, sources.Source]:
    """Sources by the path that they were read from; an archive is opened once for all its members."""
    found: dict[str, sources.Source] = {}
    for path in sorted({p if "!" not in p else p[: p.index("!")] for p in paths if not p.startswith(("-", "/dev/fd/", "/proc/"))}):
        try:
            found |= {s.path: s for s in sources.find([path]).sources}
        except (Fault, OSError):
            continue
    return found


def _frames(reading: Reading, source: sources.Source, share: int) -> Iterator[pl.DataFrame]:
    """At most `share` lines: the last of a job's output, those in the window of a kernel log."""
    skip = max(0, reading.lines - share) if reading.kind == "output" else 0
    try:
        with source.open() as stream:
            for number, block in chunks(stream):
                text = block.decode("utf-8", "replace")
                lines = text.split("\n")[:-1]
                low, high = _bounds(lines, reading)
                low = max(low, skip + 1 - number)
                high = min(high, low + share)
                if low < high:
                    share -= high - low
                    yield _frame(lines[low:high], number + low, text)
                if share <= 0 or high < len(lines):
                    return
    except (OSError, EOFError):
        return


def chunks(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a stream, about 4 MiB at a time, each with the number of its first; of a line of over 64 KiB its head."""
    number, rest = 1, b""
    while block := stream.read(BLOCK):
        rest += block
        cut = rest.rfind(b"\n") + 1
        if cut:
            yield number, rest[:cut]
            number += rest.count(b"\n", 0, cut)
        rest = rest[cut : cut + LONG_LINE]
    if rest:
        yield number, rest + b"\n"


def _frame(lines: list[str], number: int, block: str) -> pl.DataFrame:
    """Lines as a frame, without escapes; of one that a bar redrew the last part. `block` is the text that they stand in."""
    import polars as pl

    numbers = pl.int_range(number, number + len(lines), dtype=pl.Int64, eager=True)
    text = pl.col("text")
    if "\r" in block:
        text = text.str.strip_chars_end("\r").str.replace(r"^.*\r", "")
    if "\x1b" in block:
        text = text.str.replace_all(r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]", "")
    if block.startswith("{") or "\n{" in block:
        text = pl.when(text.str.starts_with("{")).then(_inner(text)).otherwise(text)
    return pl.DataFrame({"line": numbers, "text": pl.Series(lines, dtype=pl.String)}).with_columns(text.str.slice(0, CUT))


# "log":"loader: shard 7 done\n" in the object that a container's log driver puts around a line
_MESSAGE = r'"(?:MESSAGE|log|message|msg|body)" *: *"((?:[^"\\]|\\.)+)"'


def _inner(text: pl.Expr) -> pl.Expr:
    return text.str.extract(_MESSAGE).str.replace_all(r'\\n$|\\(["\\/])', "$1").fill_null(text)


def _without(frame: pl.DataFrame, claimed: Sequence[int]) -> pl.DataFrame:
    import polars as pl

    blank = pl.col("text").str.strip_chars() == ""
    known = pl.col("line").is_in(pl.Series(claimed, dtype=pl.Int64).implode()) if claimed else pl.lit(False)
    return frame.filter(~blank & ~known)


def _bounds(lines: Sequence[str], reading: Reading) -> tuple[int, int]:
    """The part of the lines that lies in the window, by bisection of their stamps; all of them where they have none."""
    if (reading.low is None and reading.high is None) or _stamp_from(lines, 0, len(lines), reading) is None:
        return 0, len(lines)
    low = 0 if reading.low is None else _first_from(lines, reading.low, reading)
    high = len(lines) if reading.high is None else _first_from(lines, reading.high + 1, reading)
    return low, max(low, high)


def _first_from(lines: Sequence[str], ts: int, reading: Reading) -> int:
    """Index of the first line at or after `ts`; lines without a stamp go with the next one that has one."""
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        found = _stamp_from(lines, middle, high, reading)
        if found is None:
            high = middle
        elif found[1] < ts:
            low = found[0] + 1
        else:
            high = middle
    return low


def _stamp_from(lines: Sequence[str], start: int, stop: int, reading: Reading) -> tuple[int, int] | None:
    """The first stamped line of the next 64, and its time."""
    for at in range(start, min(stop, start + _PROBES)):
        ts = peel(at, lines[at][:CUT]).ts
        if ts is not None:
            return at, dated(ts, reading)
    return None


def dated(ts: int, reading: Reading) -> int:
    """A year-less stamp in the year that puts it into the source's span."""
    if not is_yearless(ts) or reading.first is None or reading.last is None:
        return ts
    first, last = reading.first, reading.last
    placed = [clocks.with_year(ts, year) for year in range(moment(first).year, moment(last).year + 1)]
    at = min(placed, key=lambda p: max(first - p, p - last, 0), default=ts)
    return at if reading.zone is None else at - clocks.offset(at, reading.zone)
