"""sacct's job table in each text shape: ruled columns, -p, -P, any delimiter, any columns in any order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from parsers.columns import Kinds, Table, read_header
from parsers.contract import Event, JobRecord, Line, Record, Reject, SectionDialect
from parsers.slurm_fields import (
    ENDED,
    JOB_ID,
    STEP_ID,
    WAITING,
    count,
    elapsed_s,
    excluded,
    exit_status,
    gres,
    job_state,
    moment,
    names,
    tres_gpus,
)

_KNOWN = frozenset(
    "jobid jobidraw jobname partition account alloccpus state exitcode nodelist start end submit elapsed user nnodes alloctres reqtres "
    "reason "
    "submitline derivedexitcode eligible allocnodes ncpus reqcpus ntasks restarts comment admincomment systemcomment cluster qos allocgres "
    "reqgres elapsedraw".split()
)
_ID = re.compile(rf"{JOB_ID.pattern}|{STEP_ID.pattern}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,12}|\d{9,11}|Unknown|None|N/A|")
_NUMBER = re.compile(r"\d{0,20}")
_STATE = re.compile(r"[A-Z_]{1,30}\+?(?: by \S{1,64})?|")
_EXIT = re.compile(r"\d{1,10}:\d{1,10}|")
_ELAPSED = re.compile(r"(?:\d{1,6}-)?[\d:.]{0,20}|INVALID")
_KINDS: Kinds = (
    dict.fromkeys(("jobid", "jobidraw"), _ID)
    | dict.fromkeys(("start", "end", "submit", "eligible"), _TIME)
    | dict.fromkeys(
        "alloccpus allocnodes ncpus nnodes reqcpus reqnodes ntasks elapsedraw cputimeraw priority uid gid restarts".split(), _NUMBER
    )
    | dict.fromkeys(("exitcode", "derivedexitcode"), _EXIT)
    | dict.fromkeys(("user", "partition", "account", "cluster", "qos"), re.compile(r"\S{0,64}"))
    | dict.fromkeys(("nodelist",), re.compile(r"[\w.,\[\]+-]{0,8000}|None assigned"))
    | {"state": _STATE, "elapsed": _ELAPSED, "cputime": _ELAPSED}
)
_FRAGMENTS = 64
# Without one of these a table says nothing of a job's course.
_TELLING = frozenset({"state", "exitcode", "start", "end", "nodelist"})


@dataclass(slots=True)
class _Attempt:
    """One job row, held until its steps have passed."""

    line_first: int
    line_last: int
    cells: dict[str, str]
    steps: dict[str, str] = field(default_factory=dict)


def _records(row: _Attempt) -> Iterable[Record]:
    cells = row.cells
    state, by = job_state(cells.get("state", ""))
    if state is None and cells.get("state"):
        return (Reject(row.line_first, f"no job state: {cells['state'][:40]}"),)
    job = _job(row, state)
    if state not in ENDED:
        return (job,)
    return (_ended(row, job, by), job)


def _job(row: _Attempt, state: str | None) -> JobRecord:
    cells = row.cells
    code, signal = exit_status(cells.get("exitcode"))
    return JobRecord(
        job_id=_id(cells),
        line=row.line_first,
        basis="sacct",
        name=cells.get("jobname") or None,
        user=cells.get("user") or None,
        partition=cells.get("partition") or None,
        state=state,
        hosts=names(cells.get("nodelist")),
        nodes=count(cells.get("nnodes") or cells.get("allocnodes")),
        gpus=_gpus(cells),
        submit=moment(cells.get("submit")),
        start=None if state in WAITING else moment(cells.get("start")),
        end=moment(cells.get("end")) if state in ENDED else None,
        exit_code=code if state in ENDED else None,
        signal=signal if state in ENDED else None,
        reason=_said(cells.get("reason")),
        restarts=count(cells.get("restarts")),
        excluded=excluded(cells.get("submitline")),
    )


def _ended(row: _Attempt, job: JobRecord, by: str | None) -> Event:
    cells = row.cells
    state = job.state or ""
    shown = {
        "nodelist": cells.get("nodelist"),
        "derived": cells.get("derivedexitcode"),
        "raw_id": cells.get("jobidraw"),
        "steps": row.steps,
    }
    return Event(
        code="slurm.job_end",
        message=f"job {job.job_id} {state} exit {cells.get('exitcode') or 'unknown'}",
        line_first=row.line_first,
        line_last=row.line_last,
        ts=job.end,
        host="",
        job_id=job.job_id,
        duration_s=elapsed_s(cells.get("elapsed", "")),
        state=state,
        exit_code=job.exit_code,
        signal=job.signal,
        user=by,
        attrs={key: value for key, value in shown.items() if value},
    )


def _id(cells: dict[str, str]) -> str:
    return cells.get("jobid") or cells.get("jobidraw") or ""


def _said(text: str | None) -> str | None:
    return None if text in (None, "", "None", "(null)") else text


def _gpus(cells: dict[str, str]) -> int | None:
    """AllocTRES counts the attempt; the older GRES columns count one host."""
    allocated = tres_gpus(cells.get("alloctres"))
    if allocated is not None or cells.get("alloctres"):
        return allocated or 0
    asked = tres_gpus(cells.get("reqtres"))
    if asked is not None:
        return asked
    per_host, _ = gres(cells.get("allocgres") or cells.get("reqgres"))
    nodes = count(cells.get("nnodes") or cells.get("allocnodes"))
    return per_host * nodes if per_host is not None and nodes is not None else per_host


class _Section:
    """Rows of one table. A comment or submit line may hold line breaks: pieces are joined until the columns are full."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.id_at = table.names.index("jobid" if "jobid" in table.names else "jobidraw")
        self.parts: list[str] = []
        self.first = self.last = 0
        self.held: _Attempt | None = None

    def feed(self, line: Line) -> Iterable[Record] | None:
        text = line.raw
        if self.table.rule(text):
            return ()
        if self.table.separator is None:
            return self._ruled(line)
        if self._full(text) or (self._complete() and self._begins(line)):
            return self._start(line)
        if self.parts and self._goes_on(line):
            self.parts.append(text)
            self.last = line.number
            return ()
        return None if text.strip() else ()

    def close(self) -> Iterable[Record]:
        yield from self._flush()
        yield from self._release()

    def _ruled(self, line: Line) -> Iterable[Record] | None:
        if not line.raw.strip():
            return ()
        cells = self.table.cells(line.raw)
        if cells is None or not _ID.fullmatch(_id(cells)):
            return None
        return self._taken(_Attempt(line.number, line.number, cells))

    def _full(self, text: str) -> bool:
        pieces = self.table.pieces(text)
        return len(pieces) >= len(self.table.names) and bool(_ID.fullmatch(pieces[self.id_at].strip()))

    def _complete(self) -> bool:
        return not self.parts or len(self.table.pieces("\n".join(self.parts))) >= len(self.table.names)

    def _begins(self, line: Line) -> bool:
        """Whether the line is a row's beginning, broken off in free text."""
        pieces = self.table.pieces(line.raw)
        if len(pieces) < 2 or (len(pieces) > self.id_at and not _ID.fullmatch(pieces[self.id_at].strip())):
            return False
        kinds = [(kind, piece) for kind, piece in zip(self.table.kinds, pieces[:-1], strict=False) if kind]
        return bool(kinds) and all(kind.fullmatch(piece.strip()) for kind, piece in kinds)

    def _goes_on(self, line: Line) -> bool:
        if len(self.parts) > _FRAGMENTS:
            return False
        if not self._complete():
            return True
        return bool(line.raw.strip()) and self.table.kinds[-1] is None and line.ts is None and not line.ident

    def _start(self, line: Line) -> Iterable[Record]:
        out = list(self._flush())
        self.parts, self.first, self.last = [line.raw], line.number, line.number
        return out

    def _flush(self) -> Iterable[Record]:
        if not self.parts:
            return ()
        text, self.parts = "\n".join(self.parts), []
        cells = self.table.cells(text)
        if cells is None or not _ID.fullmatch(_id(cells)):
            count = len(self.table.pieces(text))
            return (Reject(self.first, f"row of {count} cells for {len(self.table.names)} columns", text[:200]),)
        return self._taken(_Attempt(self.first, self.last, cells))

    def _taken(self, row: _Attempt) -> Iterable[Record]:
        job, dot, step = _id(row.cells).partition(".")
        if dot:
            if self.held and _id(self.held.cells) == job and len(self.held.steps) < 100:
                self.held.steps[step] = row.cells.get("exitcode", "")
            return ()
        out = list(self._release())
        self.held = row
        return out

    def _release(self) -> Iterable[Record]:
        row, self.held = self.held, None
        return () if row is None else _records(row)


def _open(line: Line) -> _Section | None:
    table = read_header(line.raw, _KNOWN, _KINDS)
    if table is None or not {"jobid", "jobidraw"} & set(table.names) or not _TELLING & set(table.names):
        return None
    return _Section(table)


DIALECT = SectionDialect("sacct", ("JobID",), _open)
