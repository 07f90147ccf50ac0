"""The stages in order: read tables, build, write tables. All I/O of the analysis happens here.

`STAGES` is the table of contents: each entry reads what the ones before it wrote.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from triage import collectives, identity, jobs, topology
from triage.archive import PART, Archive
from triage.decisions import Decision, decide
from triage.findings import Strikes, examine
from triage.history import Breakages, History, HostState, Rank, Step, spans_of
from triage.identity import SourceView
from triage.incidents import build as build_incidents
from triage.jobs import Attempt
from triage.moments import MINUTE, SECOND, micros, moment
from triage.schema import TABLES
from triage.spares import Need
from triage.spool import Spool
from triage.store import MEMORY, Store, frame_of

if TYPE_CHECKING:
    import polars as pl

    from triage.rule_rows import Signature
    from triage.rulebook import Rulebook


STORY = ("incident_id", "kind", "layer", "confidence", "start", "job_id", "attempt", "jobs", "class")
ACCUSED = ("incident_id", "place", "role", "host", "code", "device")
"""What the ranking of hosts reads of incidents and findings."""
TASKS = "srun"
"""Task ids of srun are global ranks only where each rank is a task: with one launcher a host they are host numbers."""
SPLITS = {"nccl.split"}
PORTION, CHUNK = 8_192, 4_096
"""Events whose bursts are built at a time; rows that are written at a time."""
NOT_HOST = {"user", "storage", "facility", "scheduler"}


@dataclass(slots=True)
class Analysis:
    """The history and a decision for each incident, in order of start."""

    history: History
    decisions: list[Decision] = field(default_factory=list)


def stamp_of(store: Store, book: Rulebook) -> str:
    """What the analysis tables depend on: the sources, the zones that they were read in, and the rules."""
    rows = store.rows("source_ids")
    text = "\n".join(f"{r['source_id']} {r['zone']}" for r in rows)
    return hashlib.sha256(f"{text}\n{book.digest}".encode()).hexdigest()[:16]


def refresh(store: Store, book: Rulebook, keep: bool = False) -> Analysis | None:
    """Rebuild the analysis tables when sources or rules have changed; with `keep` the analysis that they were made from.

    None when all was fresh or nothing is to be kept: decisions are many, and are let go one by one as they are written.
    """
    stamp = stamp_of(store, book)
    if store.meta("built") == stamp:
        return None
    with store.transaction():
        for _, stage in STAGES:
            stage(store, book)
        analysis = _analyse(store, book, keep)
        if store.path != MEMORY:
            build_recurrence(store, book)
        store.set_meta("built", stamp)
    return analysis


def _analyse(store: Store, book: Rulebook, keep: bool) -> Analysis | None:
    """Judge every incident and write it; what is not kept is gone when this returns."""
    analysis = Analysis(load(store, book))
    decisions = decided(analysis.history, book)
    publish(store, _kept(decisions, analysis.decisions) if keep else decisions, analysis.history, book)
    return analysis if keep else None


def _kept(decisions: Iterable[Decision], kept: list[Decision]) -> Iterator[Decision]:
    for decision in decisions:
        kept.append(decision)
        yield decision


def resolve(store: Store, _book: Rulebook) -> None:
    """Years, hosts and jobs of whole sources."""
    _shift_years(store)
    views = _source_views(store)
    known_jobs = {r["job_id"] for r in store.rows("recorded_jobs")}
    hosts = _known_hosts(store)
    owners = identity.owners(views, hosts, known_jobs, _fitting_job(store), _pods(store))
    rows = [
        {"source_id": s, "host": o.host, "host_from": o.host_from, "job_id": o.job_id, "job_from": o.job_from} for s, o in owners.items()
    ]
    store.apply_owners(rows)
    _anchor(store)


def _anchor(store: Store) -> None:
    """Tie seconds since boot to wall time where a clock line, a twin or a boot time allows it."""
    boots: defaultdict[str, list[int]] = defaultdict(list)
    for row in store.rows("boot_times"):
        boots[row["host"]].append(micros(row["ts"]) or 0)
    anchors = [_in_micros(r, "ts") for r in store.rows("anchors")]
    found = identity.anchored(store.rows("unanchored"), anchors, boots, _now(store))
    starts = identity.boot_starts(found, store.rows("unanchored"), anchors)
    spans = [
        (r["source_id"], *(moment(starts[r["source_id"]] + round(r[end] * 1e6)) for end in ("boot_first", "boot_last")))
        for r in store.rows("boot_spans")
        if r["source_id"] in starts
    ]
    store.anchor([(event, moment(ts), how) for event, ts, how in found], spans)


def _shift_years(store: Store) -> None:
    rows = store.rows("source_spans")
    dated = [(r["first_ts"], r["last_ts"]) for r in rows if r["year_from"] not in ("mtime", "peers")]
    for row in rows:
        if row["year_from"] in ("mtime", "peers"):
            want = identity.year_shift(row["first_ts"], row["last_ts"], dated, row["year_shift"])
            store.shift_years(row["source_id"], want - row["year_shift"], want)


def _known_hosts(store: Store) -> set[str]:
    return {r["host"] for r in store.rows("known_hosts")}


def _pods(store: Store) -> dict[str, str]:
    """The node of each pod that ran on one only."""
    return {r["pod"]: r["node"] for r in store.rows("pods")}


def _source_views(store: Store) -> list[SourceView]:
    rows = store.rows("source_views")
    return identity.views({**r, "first": micros(r["first_ts"]), "last": micros(r["last_ts"])} for r in rows)


def _fitting_job(store: Store) -> Callable[[SourceView], str | None]:
    """The one recorded job whose hosts and times fit a source."""
    rows = store.rows("recorded_runs")

    def fitting(source: SourceView) -> str | None:
        if source.first is None or source.last is None or not source.line_hosts:
            return None
        jobs_found = {
            r["job_id"]
            for r in rows
            if source.line_hosts <= set(r["hosts"])
            and (micros(r["start"]) or 0) - 60 * SECOND <= source.first
            and (r["end"] is None or source.last <= (micros(r["end"]) or 0) + 10 * MINUTE)
        }
        return jobs_found.pop() if len(jobs_found) == 1 else None

    return fitting


def build_jobs(store: Store, _book: Rulebook) -> None:
    """Tables jobs, job_hosts; attempts of events."""
    records = [_in_micros(r, "submit", "start", "end") for r in store.rows("job_records")]
    acts = [_in_micros(r, "ts") for r in store.rows("job_acts")]
    attempts = jobs.build(records, acts)
    attempts += jobs.from_outputs(_outputs(store), attempts)
    jobs.add_collected_hosts(attempts, _collected_hosts(store))
    now = _now(store)
    _fill_checkpoints(store, attempts)
    _fill_gpus(store, attempts)
    for attempt in attempts:
        jobs.cost(attempt, now)
    store.replace("jobs", _frame("jobs", _job_rows(attempts)))
    hosts = [
        {"job_id": a.job_id, "attempt": a.attempt, "host": h, "start": a.start, "end": a.end}
        for a in attempts
        for h in dict.fromkeys(a.hosts)
    ]
    store.replace("job_hosts", _frame("job_hosts", hosts))
    store.assign_attempts()


def _collected_hosts(store: Store) -> dict[str, tuple[int, int]]:
    """Hosts whose kernel log was collected, with its span."""
    rows = store.rows("collected_hosts")
    return {r["host"]: (micros(r["first"]) or 0, micros(r["last_ts"]) or 0) for r in rows}


def _job_rows(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    names = TABLES["jobs"].names
    return [{name: getattr(attempt, name) for name in names} for attempt in attempts]


def _now(store: Store) -> int | None:
    return micros(store.rows("last_stamp")[0]["now"])


def _outputs(store: Store) -> list[dict[str, Any]]:
    rows = store.rows("job_outputs")
    return [_in_micros(r, "first", "last") | {"hosts": sorted(h for h in r["hosts"] or () if h and h != "localhost")} for r in rows]


def _fill_checkpoints(store: Store, attempts: Sequence[Attempt]) -> None:
    """The last checkpoint that an attempt saved, from the stamps of its output."""
    saved: defaultdict[str, list[int]] = defaultdict(list)
    for row in store.rows("checkpoints"):
        saved[row["job_id"]].append(micros(row["ts_near"]) or 0)
    for attempt in attempts:
        low, high = attempt.start or 0, attempt.end if attempt.end is not None else 1 << 62
        attempt.last_checkpoint = max((t for t in saved.get(attempt.job_id, ()) if low <= t <= high), default=None)


def _fill_gpus(store: Store, attempts: Sequence[Attempt]) -> None:
    """GPUs of attempts whose records do not say: the largest communicator, the inventory, or the ranks that spoke, in whole hosts."""
    sizes: dict[str, int] = {}
    spoken: dict[str, int] = {}
    for row in store.rows("world_sizes"):
        for found, value in ((sizes, row["size"]), (spoken, row["ranks"])):
            if value:
                found[row["job_id"]] = max(found.get(row["job_id"], 0), value)
    per_host = {r["host"]: r["gpus"] for r in store.rows("host_gpus")}
    for attempt in attempts:
        if attempt.gpus is None:
            inventory = [per_host[h] for h in attempt.hosts if h in per_host]
            whole = sum(inventory) if inventory and len(inventory) == len(attempt.hosts) else None
            attempt.gpus = sizes.get(attempt.job_id) or whole or jobs.whole_hosts(spoken.get(attempt.job_id), len(attempt.hosts))


def build_hosts(store: Store, _book: Rulebook) -> None:
    """Tables hosts, host_states."""
    rows = topology.build(store.rows("host_records"), sorted(_known_hosts(store)))
    store.replace("hosts", _frame("hosts", rows))
    states = store.rows("state_records")
    store.replace("host_states", _frame("host_states", states))


def build_ranks(store: Store, _book: Rulebook) -> None:
    """Table ranks: of each attempt the ranks of its largest communicator, completed from launcher records."""
    store.replace("ranks", _frame("ranks", _merged_ranks(store.rows("rank_views"))))


def _merged_ranks(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    told = {(r["job_id"], r["attempt"]) for r in rows if r["basis"] != TASKS}
    rows = [r for r in rows if r["basis"] not in SPLITS and (r["basis"] != TASKS or (r["job_id"], r["attempt"]) not in told)]
    largest: defaultdict[tuple[str, int], int] = defaultdict(int)
    for row in rows:
        key = (row["job_id"], row["attempt"])
        largest[key] = max(largest[key], row["nranks"] or 0)
    merged: dict[tuple[str, int, int], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda r: (r["device"] is None, r["source_id"], r["line"])):
        key = (row["job_id"], row["attempt"])
        if row["nranks"] is not None and row["nranks"] < largest[key]:
            continue
        place = merged.setdefault(
            (*key, row["rank"]), {k: row[k] for k in ("job_id", "attempt", "source_id", "rank", "nranks", "basis", "line")}
        )
        for name in ("host", "device"):
            if not place.get(name) and row[name] and row[name] != "localhost":
                place[name] = row[name]
    return [merged[k] for k in sorted(merged)] + _between(merged, largest)


def _between(merged: Mapping[tuple[str, int, int], Mapping[str, Any]], largest: Mapping[tuple[str, int], int]) -> list[dict[str, Any]]:
    """Ranks that no line names, where the named ones show that hosts hold equal blocks of consecutive ranks."""
    found: list[dict[str, Any]] = []
    for (job, attempt), size in largest.items():
        known = {rank: row for (j, a, rank), row in merged.items() if (j, a) == (job, attempt) and row.get("host")}
        hosts = {row["host"] for row in known.values()}
        size = max(size, max(known, default=-1) + 1)
        if len(known) == size or len(hosts) < 2 or size % len(hosts):
            continue
        block = size // len(hosts)
        owner = {rank // block: row["host"] for rank, row in known.items()}
        if len(owner) == len(hosts) == len(set(owner.values())) and all(owner[r // block] == row["host"] for r, row in known.items()):
            some = next(iter(known.values()))
            found += [
                {**some, "rank": r, "host": owner[r // block], "device": None, "basis": "inferred"} for r in range(size) if r not in known
            ]
    return found


def build_bursts(store: Store, book: Rulebook) -> None:
    """Table bursts."""
    from triage import bursts

    codes = [r["code"] for r in store.rows("codes")]
    wanted = [c for c in codes if any(s.role not in ("fact", "noise") for s in _possible(book, c))]
    made = Spool()
    with store.sorting(store.rows("totals")[0]["events"]):
        events = store.parts("telling_events", PORTION, codes=wanted)
        for frame in bursts.stream(events, book.threshold("burst_gap"), lambda *event: _Signed(book.signature_for(*event))):
            made.add(frame)
        store.replace_sorted("bursts", made)


def _possible(book: Rulebook, code: str) -> Sequence[Signature]:
    wildcard = code.split(".", 1)[0] + ".*"
    named = [s for s in book.signatures if code in s.codes or wildcard in s.codes]
    return named or [book.signature_for(code)]


class _Signed:
    """A signature as bursts reads it."""

    __slots__ = ("class_id", "layer", "role", "user_possible")

    def __init__(self, signature: Signature) -> None:
        self.class_id = None if signature.class_ == "none" else signature.class_
        self.role, self.layer, self.user_possible = signature.role, signature.layer, signature.user_possible


STAGES: tuple[tuple[str, Callable[[Store, Rulebook], None]], ...] = (
    ("sources", resolve),
    ("jobs", build_jobs),
    ("hosts", build_hosts),
    ("ranks", build_ranks),
    ("bursts", build_bursts),
)


def load(store: Store, book: Rulebook) -> History:
    """The indexed history of an analysed store."""
    history = History(now=_now(store), paths={r["source_id"]: r["path"] for r in store.rows("source_paths")})
    history.attempts = _attempts(store)
    history.topology = topology.Topology.of(store.rows("hosts"))
    history.topology.addresses |= _pods(store)
    history.spans = spans_of(_in_micros(r, "first", "last") for r in store.rows("covered"))
    history.states = _states(store)
    history.ranks = _ranks(store)
    history.steps = _steps(store)
    history.dumps = _dumps(store)
    history.stacks = _stacks(store)
    history.bursts = archive = Archive(book.signature_for)
    return history.index(marks=archive.fill(store.parts("telling_bursts", PART)))


def whereabouts(store: Store, book: Rulebook) -> History:
    """What is needed to say which hosts could stand in: who ran where, states, places, and when each host last failed; no lines."""
    history = History(now=_now(store))
    history.attempts = _attempts(store)
    history.topology = topology.Topology.of(store.rows("hosts"))
    history.spans = spans_of(_in_micros(r, "first", "last") for r in store.rows("covered"))
    history.states = _states(store)
    history.breakages = _breakages(book)
    for row in store.rows("accused"):
        if row["sure"]:
            history.breakages.add(row["host"], micros(row["start"]) or 0)
    return history.index((r["host"], r["first"]) for r in store.rows("faults"))


def _breakages(book: Rulebook) -> Breakages:
    return Breakages(int(book.threshold("lemon_days")), int(book.threshold("lemon_window") * SECOND))


def _attempts(store: Store) -> list[Attempt]:
    hosts: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for row in store.rows("job_hosts"):
        hosts[row["job_id"], row["attempt"]].append(row["host"])
    attempts = []
    for row in store.rows("jobs"):
        values = _in_micros(row, "submit", "start", "end", "last_checkpoint")
        attempt = Attempt(**values, hosts=hosts[row["job_id"], row["attempt"]])
        attempt.guessed = {"start", "end"} if attempt.known_from == "output" else set()
        attempts.append(attempt)
    return attempts


def _states(store: Store) -> dict[str, list[HostState]]:
    found: defaultdict[str, list[HostState]] = defaultdict(list)
    for row in store.rows("host_states"):
        values = _in_micros(row, "start", "end")
        values |= {"reason": row["reason"] or "", "user": row["user"] or ""}
        found[row["host"]].append(HostState(**values))
    return dict(found)


def _ranks(store: Store) -> dict[tuple[str, int], dict[int, Rank]]:
    found: defaultdict[tuple[str, int], dict[int, Rank]] = defaultdict(dict)
    for row in store.rows("ranks"):
        found[row["job_id"], row["attempt"]][row["rank"]] = Rank(row["rank"], row["host"], row["device"])
    return dict(found)


def _steps(store: Store) -> dict[tuple[str, int], list[Step]]:
    found: defaultdict[tuple[str, int], list[Step]] = defaultdict(list)
    for r in store.rows("steps"):
        step = Step(r["seq"] or 0, micros(r["ts"]), r["duration_s"], r["value"], r["rank"], r["source_id"], r["line_first"])
        found[r["job_id"], r["attempt"]].append(step)
    return dict(found)


def _stacks(store: Store) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
    found: defaultdict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in store.rows("stacks"):
        found[row["job_id"], row["attempt"]].append(_in_micros(row, "ts"))
    return dict(found)


def _dumps(store: Store) -> dict[tuple[str, int], list[collectives.Dump]]:
    found: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in store.rows("dumps"):
        found[row["job_id"], row["attempt"]].append(_in_micros(row, "ts"))
    return {key: collectives.dumps_of(rows) for key, rows in found.items()}


def judge(history: History, book: Rulebook, window_s: float | None = None) -> Analysis:
    """A decision for every incident of the history."""
    return Analysis(history, list(decided(history, book, window_s)))


def decided(history: History, book: Rulebook, window_s: float | None = None) -> Iterator[Decision]:
    """The decisions one by one, in order of start."""
    earlier = Strikes()
    history.breakages = _breakages(book)
    for incident in build_incidents(history, book.threshold, window_s):
        finding = examine(incident, history, book.threshold)
        decision = decide(finding, history, book, earlier)
        if finding.class_id != "none":
            earlier.add(finding)
            _remember(history.breakages, decision)
            yield decision


def _remember(breakages: Breakages, decision: Decision) -> None:
    """Who is accused of this incident: culprits, lost hosts, and suspects where it is no guess and may be a host's fault."""
    finding, start = decision.finding, decision.finding.incident.start
    if start is None or finding.shared != "none" or finding.operator:
        return
    loose = decision.confidence == "insufficient" or decision.layer in NOT_HOST
    for suspect in finding.suspects:
        if suspect.host and (suspect.role == "culprit" or suspect.host in finding.lost or not loose):
            breakages.add(suspect.host, start)


def _frame(table: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    return frame_of(TABLES[table], rows).frame


def _in_micros(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {**row, **{n: micros(row[n]) for n in names}}


def publish(store: Store, decisions: Iterable[Decision], history: History, book: Rulebook) -> None:
    """Tables incidents, incident_bursts, findings, decisions, written as the decisions come; spares when all breakages are known."""
    from triage import publications

    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in publications.TABLES}
    needs: list[Need] = []
    for table in rows:
        store.clear(table)
    for decision in decisions:
        for table, some in publications.build(decision, book).items():
            rows[table] += some
        if need := Need.of(decision):
            needs.append(need)
        _write(store, rows, CHUNK)
    for need in needs:
        rows["spares"] += publications.spare_rows(need.incident_id, need.offers(history))
        _write(store, rows, CHUNK)
    _write(store, rows, 1)


def _write(store: Store, rows: dict[str, list[dict[str, Any]]], least: int) -> None:
    """Write what waits of the tables that have so many rows."""
    for table, some in rows.items():
        if len(some) >= least:
            store.add(table, some)
            rows[table] = []


def build_recurrence(store: Store, book: Rulebook) -> None:
    """Table recurrence, without the second opinion, whose libraries take seconds to load."""
    from dataclasses import replace

    from triage import recurrence

    store.let_go()
    now = store.rows("last_stamp")[0]["now"]
    if now is None:
        return
    params = replace(recurrence.Params.of(book.threshold), second_opinion=False)
    frames = [store.frame(name) for name in ("jobs", "job_hosts", "host_states", "hosts")]
    frames += [store.frame("incidents", columns=STORY), store.frame("findings", "accused", ACCUSED), store.signs(now - params.window, now)]
    store.replace("recurrence", recurrence.build(*frames, now=now, params=params, exclusions=store.exclusions()))
