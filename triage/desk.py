"""What each command does, as a function that returns plain data: the command line prints it, a notebook uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.faults import Fault
from triage.moments import iso, micros
from triage.redaction import OPEN, Mask
from triage.store import MEMORY, Store

if TYPE_CHECKING:
    from triage.decisions import Decision
    from triage.dispatch import Dispatch
    from triage.hands import Hand
    from triage.history import History
    from triage.ingest import ReadAll, Report
    from triage.pipeline import Analysis
    from triage.redaction import Wish
    from triage.reports import Read
    from triage.rulebook import Rulebook
    from triage.sources import Found

Progress = Callable[[str, int], None]
DEFAULT_DB = "triage.duckdb"


@dataclass(frozen=True, slots=True)
class Setup:
    """Options that all commands share. db None: in memory where a command allows it; hide: what is not shown as it is."""

    db: str | None = None
    rules: str | None = None
    zone: str | None = None
    hide: Wish | None = None

    @property
    def path(self) -> str:
        return self.db or DEFAULT_DB


@dataclass(slots=True)
class Answer:
    """The answer of `now` and what stands behind it. `data` is as found; what is shown goes through `shown`, `report` or `mask`."""

    data: dict[str, Any]
    decision: Decision | None
    analysis: Analysis
    book: Rulebook
    ingested: Report | None = None
    read: Read | None = None
    mask: Mask = OPEN

    @property
    def shown(self) -> dict[str, Any]:
        """The answer for a reader."""
        data: dict[str, Any] = self.mask.value(self.data)
        return data

    def report(self) -> dict[str, Any]:
        """The report of the answer for a reader: every format is written from this."""
        from triage.reports import report_of

        report: dict[str, Any] = self.mask.value(report_of(self.analysis, self.decision, self.book, self.data, self.read))
        return report


@dataclass(slots=True)
class Opened:
    """A database whose analysis is fresh."""

    store: Store
    book: Rulebook
    mask: Mask = OPEN
    _analysis: list[Analysis] = field(default_factory=list)
    _history: list[History] = field(default_factory=list)

    @property
    def history(self) -> History:
        """Everything read, indexed, loaded once."""
        from triage.pipeline import load

        if not self._history:
            self._history.append(load(self.store, self.book))
        return self._history[0]

    @property
    def analysis(self) -> Analysis:
        """Decisions of every incident, judged once."""
        from triage.pipeline import judge

        if not self._analysis:
            self._analysis.append(judge(self.history, self.book))
        return self._analysis[0]


def rulebook(rules: str | None) -> Rulebook:
    """The shipped rules, with a site's folder laid over them; raises Fault with every fault, a line each."""
    if rules is not None and not Path(rules).is_dir():
        raise Fault(f"{rules}: no such folder of rules; --rules takes a folder")
    return _loaded(Path(rules)) if rules else _shipped()


@cache
def _shipped() -> Rulebook:
    """Read once a process: they do not change under it."""
    return _loaded(None)


def _loaded(folder: Path | None) -> Rulebook:
    from triage.rulebook import RuleError, load

    try:
        return load(folder)
    except RuleError as error:
        raise Fault("\n".join(str(f) for f in error.faults)) from error


def _families(book: Rulebook) -> dict[str, str]:
    found: dict[str, str] = {code: row.family for code, row in book.codes.items()}
    return found | {code.removesuffix(".*"): family for code, family in found.items() if code.endswith(".*")}


def read(store: Store, paths: Sequence[str], book: Rulebook, zone: str | None) -> Report:
    """Ingest paths in this process and bring the analysis up to date."""
    from triage.sources import find

    return _judged(store, find(paths), book, zone, None, None)[0]


def _judged(
    store: Store, found: Found, book: Rulebook, zone: str | None, progress: Progress | None, read_all: ReadAll | None, keep: bool = False
) -> tuple[Report, Analysis | None]:
    from triage.ingest import Options, ingest
    from triage.preload import preloading

    with preloading():
        report = ingest(store, found, Options(_families(book), zone), progress or (lambda _path, _size: None), read_all)
    from triage.pipeline import refresh

    return report, refresh(store, book, keep)


def _by(hands: Sequence[Hand]) -> ReadAll | None:
    """What reads: processes, where some were started."""
    if not hands:
        return None
    from triage.reading import ByHands

    return ByHands(hands)


@contextmanager
def opened(setup: Setup) -> Iterator[Opened]:
    """A database for reading, its analysis rebuilt first when sources or rules changed."""
    from triage.pipeline import refresh, stamp_of

    book = rulebook(setup.rules)
    with Store(setup.path, write=False) as store:
        fresh = store.meta("built") == stamp_of(store, book)
    if not fresh:
        with Store(setup.path) as store:
            refresh(store, book)
    with Store(setup.path, write=False) as store:
        yield Opened(store, book, Mask.of(setup.hide, store))


def now(
    setup: Setup,
    paths: Sequence[str],
    job: str | None,
    at: str | None,
    window: float | None,
    progress: Progress | None = None,
    for_page: bool = False,
    deep: bool = False,
) -> Answer:
    """The first-ten-minutes answer over `paths`, joined with the history of the database where one is named.

    for_page  keep what a page needs beyond the answer: sources, GPU identities
    deep      read more of the lines that no dialect claims, whatever the confidence
    """
    from triage import hands
    from triage.sources import find

    found = find(paths, setup.db)
    with hands.started(found.sources) as processes, Store(setup.db or MEMORY) as store:
        book = rulebook(setup.rules)
        report, built = _judged(store, found, book, setup.zone, progress, _by(processes), keep=window is None and not setup.db)
        from triage import templates, unknown
        from triage.answers import MAX_EVIDENCE, Question, answer, choose
        from triage.moments import parse_time
        from triage.pipeline import judge, load

        history = built.history if built else load(store, book)
        if setup.db:
            history.lemons = {r["host"] for r in store.rows("lemons")}
        analysis = built or judge(history, book, window)
        rejects = int(store.rows("reject_count")[0]["n"])
        kept = _kept(store) if for_page else None
        mask = Mask.of(setup.hide, store)
        asked = Question(job, parse_time(at, history.now) if at else None)
        decision = choose(analysis, asked)
        rows = unknown.look(store, decision, history, deep) if decision is not None else []
    nothing = not report.sources and not report.unchanged
    data = answer(analysis, book, asked, rejects, nothing, decision)
    data["evidence"] = [*data["evidence"], *templates.evidence(rows, history.where)][:MAX_EVIDENCE]
    return Answer(data, decision, analysis, book, report, kept, mask)


def _kept(store: Store) -> Read:
    from triage.reports import Read

    return Read.of(store)


def report_answer(setup: Setup, wanted: str | None, job: str | None, at: str | None) -> Answer:
    """What `triage report` writes of: an incident of the database by id, job, time, or the one that `now` would choose."""
    from triage.answers import Question, answer
    from triage.moments import parse_time

    with opened(setup) as db:
        analysis = db.analysis
        when = parse_time(at, analysis.history.now) if at else None
        decision = find_incident(analysis, wanted, job, when)
        rejects = int(db.store.rows("reject_count")[0]["n"])
        kept = _kept(db.store)
    data = answer(analysis, db.book, Question(job, when), rejects, chosen=decision)
    return Answer(data, decision, analysis, db.book, read=kept, mask=db.mask)


def ingest(
    setup: Setup, paths: Sequence[str], progress: Progress | None = None, dask: str | None = None, spool: str | None = None
) -> dict[str, Any]:
    """JSON of `triage ingest`; `dask` says where workers are (crew.place_of), `spool` the folder in which they land what they read."""
    from triage import hands
    from triage.sources import find

    found = find(paths, setup.path)
    dispatch = _dispatch(setup, paths, dask, spool)
    with hands.started(() if dispatch else found.sources) as processes:
        book = rulebook(setup.rules)
        with Store(setup.path) as store:
            report = _judged(store, found, book, setup.zone, progress, dispatch or _by(processes))[0]
            owners = {r["source_id"]: r for r in store.rows("source_owners")}
            totals = store.rows("totals")[0]
            mask = Mask.of(setup.hide, store)
    data: dict[str, Any] = {
        "schema": 1,
        "db": setup.path,
        "sources": [_source(row, owners.get(row["source_id"], {})) for row in report.sources],
        "events": sum(row["events"] for row in report.sources),
        "rejects": sum(row["rejects"] for row in report.sources),
        "unchanged": report.unchanged,
        "replaced": report.replaced,
        "skipped": [{"path": path, "reason": reason} for path, reason in report.skipped],
        "totals": totals,
        "seconds": round(report.seconds, 3),
        **({"spool": dispatch.spool, "reused": dispatch.reused} if dispatch else {}),
    }
    shown: dict[str, Any] = mask.value(data)
    return shown


def _dispatch(setup: Setup, paths: Sequence[str], dask: str | None, spool: str | None) -> Dispatch | None:
    if dask is None:
        if spool is not None:
            raise Fault("--spool goes with --dask")
        return None
    from triage.crew import place_of
    from triage.dispatch import Dispatch, spool_of

    place = place_of(dask)
    return Dispatch(place, spool_of(place, spool, setup.path, paths))


def _source(row: dict[str, Any], owner: dict[str, Any]) -> dict[str, Any]:
    keys = ("path", "dialects", "bytes", "lines", "needle_lines", "events", "benign", "rejects", "clock")
    times = {k: iso(micros(owner.get(k, row[k]))) for k in ("first_ts", "last_ts")}  # those of the analysis, which may know the year
    return {k: row[k] for k in keys} | times | {k: owner.get(k) for k in ("host", "host_from", "job_id", "job_from", "year_from")}


def incidents(setup: Setup) -> dict[str, Any]:
    """JSON of `triage incidents`, newest first."""
    with opened(setup) as db:
        rows = db.store.rows("incidents")
    keys = (
        "class",
        "symptom",
        "manifestation",
        "layer",
        "action",
        "confidence",
        "rule_id",
        "summary",
        "hosts",
        "jobs",
        "attempt",
        "gpu_hours_lost",
        "kind",
    )
    found = [
        {"id": r["incident_id"], "start": iso(micros(r["start"])), "end": iso(micros(r["end"])), **{k: r[k] for k in keys}} for r in rows
    ]
    return {"schema": 1, "incidents": db.mask.value(found)}


def find_incident(analysis: Analysis, wanted: str | None, job: str | None, at: int | None) -> Decision:
    """The incident by id, job or time; the one that `now` would choose when nothing is asked. Raises Fault."""
    if wanted is not None:
        found = [d for d in analysis.decisions if d.finding.incident.incident_id == wanted]
        found = found or [d for d in analysis.decisions if d.finding.incident.incident_id.startswith(wanted)]
        if len(found) != 1:
            raise Fault(f"incident {wanted!r}: {'no such id' if not found else f'fits {len(found)} ids'}; see triage incidents")
        return found[0]
    from triage.answers import Question, choose

    decision = choose(analysis, Question(job, at))
    if decision is None:
        raise Fault(f"no incident{f' of job {job}' if job else ''} in this database; see triage incidents")
    return decision


def bursts(setup: Setup, host: str | None, code: str | None, limit: int) -> dict[str, Any]:
    """JSON of `triage bursts`."""
    with opened(setup) as db:
        rows = db.store.rows("bursts", host=host, code=code, most=limit)
    keys = ("host", "device", "code", "role", "class", "count", "events", "copies", "job_id", "attempt", "rank", "peer", "message", "line")
    found = [
        {**{k: r[k] for k in keys}, "first": iso(micros(r["first"])), "last": iso(micros(r["last"])), "source": r["path"]} for r in rows
    ]
    return {"schema": 1, "bursts": db.mask.value(found)}


FLEET: dict[str, tuple[str, ...]] = {
    "jobs": (),
    "job_hosts": (),
    "host_states": (),
    "hosts": (),
    "incidents": (),
    "findings": (),
    "bursts": ("host", "device", "code", "family", "class", "role", "layer", "first", "last", "count", "user_possible"),
}
"""The tables that the fleet's figures read, and the columns of those that grow; none for all."""


def _fleet_frames(store: Store) -> dict[str, Any]:
    return {name: store.frame(name, columns=columns) for name, columns in FLEET.items()}


def _last(store: Store) -> Any:
    when = store.rows("last_stamp")[0]["now"]
    if when is None:
        raise Fault("the database holds no log with times; run triage ingest PATH... --db FILE")
    return when


def lemons(setup: Setup, window_s: float | None, top: int | None) -> dict[str, Any]:
    """JSON of `triage lemons`."""
    from triage import board, lemon, recurrence

    with opened(setup) as db:
        frames, when = _fleet_frames(db.store), _last(db.store)
        paths = {row["source_id"]: row["path"] for row in db.store.rows("source_paths")}
        known = board.identities(db.store.frame("events", "codes", codes=["gpu.identity"]))
        spared = db.store.exclusions()
    params = recurrence.Params.of(db.book.threshold)
    window = timedelta(seconds=window_s) if window_s else params.window
    table = recurrence.build(**frames, now=when, window=window, params=params, exclusions=spared)
    found = lemon.lemons(table, **frames, now=when, window=window, top=top, params=params, paths=paths, known=known)
    return {"schema": 1, **db.mask.value(found)}


def stats(setup: Setup, window_s: float | None) -> dict[str, Any]:
    """JSON of `triage stats`."""
    from triage import stats as figures
    from triage.productive import STEP_COLUMNS

    with opened(setup) as db:
        frames, when = _fleet_frames(db.store), _last(db.store)
        params = figures.Params(since=when - timedelta(seconds=window_s) if window_s else None)
        covered, steps = db.store.frame("coverage"), db.store.training(STEP_COLUMNS)
        found = figures.stats(**frames, coverage=covered, events=steps, now=when, params=params)
    return {"schema": 1, **db.mask.value(found)}


def spare_hosts(setup: Setup, job_nodes: int | None, job: str | None) -> dict[str, Any]:
    """JSON of `triage spares` from a database: how many the fleet needs, which hosts can stand in, which to avoid."""
    from triage import overprovision, spares
    from triage import stats as figures
    from triage.pipeline import whereabouts

    with opened(setup) as db:
        frames, when = _fleet_frames(db.store), _last(db.store)
        history = whereabouts(db.store, db.book)
        covered = db.store.frame("coverage")
        lemon_hosts = db.store.rows("lemons")
    history.lemons = {r["host"] for r in lemon_hosts}
    ran = (frames[name] for name in ("jobs", "job_hosts", "host_states", "bursts", "incidents"))
    rate = figures.steady(figures.rates(*ran, coverage=covered, now=when))
    hosts = job_nodes or max(1, len(history.hosts()))
    gang = max((len(a.hosts) for a in history.attempts), default=None)
    needed = overprovision.needed(overprovision.Need(hosts, rate), gang) if rate else []
    near = next((a.hosts for a in reversed(history.attempts) if job is None or a.job_id == job), [])
    found = spares.candidates(history, history.now, (), near, len(history.states) + len(history.in_use()))
    out = _held(history)
    known = max(1, len(history.hosts()))
    limit = db.book.threshold("breaker_share")
    standing = {"hosts": known, "usable": len(found), "out": len(out), "share_out": len(out) / known, "breaker": len(out) / known >= limit}
    avoid = [{"host": r["host"], "why": "; ".join(r["why"] or ["lemon"])} for r in lemon_hosts] + out
    return {
        "schema": 1,
        "needed": needed,
        "candidates": db.mask.value([{"host": s.host, "why": s.why} for s in found[: spares.MOST]]),
        "avoid": db.mask.value(avoid),
        "standing": standing,
        "note": None if rate else "no host failure under a job in the data: no rate to plan from; state one with --hosts N --rate F",
    }


def _held(history: Any) -> list[dict[str, str]]:
    """Hosts that are down or drained by the last word on them."""
    rows = []
    for host, states in sorted(history.states.items()):
        last = states[-1]
        if last.state in ("down", "drain") and (last.end is None or last.end >= (history.now or 0)):
            rows.append({"host": host, "why": f"{last.state}{': ' + last.reason if last.reason else ''}"})
    return rows


def explain(setup: Setup, code: str) -> dict[str, Any]:
    """JSON of `triage explain`."""
    rows = rulebook(setup.rules).explain(code)
    if not rows:
        raise Fault(f"{code!r}: no such code; try 79, sxid 20034, nccl.timeout, exit 137 or T04")
    return {"schema": 1, "code": code, "rows": rows}


def query(setup: Setup, text: str) -> list[dict[str, Any]]:
    """JSON of `triage sql`: rows of a read-only query."""
    with opened(setup) as db:
        return [db.mask.value(row) for row in db.store.user_query(text)]
