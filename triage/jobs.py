"""Rows of `jobs`: one per attempt. Several records of an attempt (accounting, controller log, job output) become one row.

A requeued job keeps every attempt and a preempted one its preemptor. A job that only its own output shows is kept too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triage.moments import MINUTE, SECOND

SAME_START = 4 * SECOND  # accounting cuts fractions; backfill and the controller log differ by a second or two
SAME_END = 30 * SECOND  # a job completes some seconds after the act that ended it
ACCOUNTING = {"sacct", "sacct_json", "slurm_json"}
TRUST = ("sacct", "sacct_json", "slurm_json", "scontrol", "squeue", "slurmctld", "k8s")
LIVE = {"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING"}
WAITING = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"}

Row = Mapping[str, Any]


@dataclass(slots=True)
class Attempt:
    """One run of a job. Times are microseconds UTC."""

    job_id: str
    attempt: int = 0
    name: str | None = None
    user: str | None = None
    partition: str | None = None
    state: str | None = None
    nodes: int | None = None
    gpus: int | None = None
    submit: int | None = None
    start: int | None = None
    end: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    preemptor: str | None = None
    failed_host: str | None = None
    requeued: bool = False
    last_checkpoint: int | None = None
    gpu_hours_lost: float = 0.0
    basis: str = "unknown"
    known_from: str = ""
    source_id: str | None = None
    line: int | None = None
    hosts: list[str] = field(default_factory=list)
    place: int = 99
    guessed: set[str] = field(default_factory=set)

    @property
    def running(self) -> bool:
        return self.end is None and (self.state or "").split()[0:1] != ["PENDING"]


def build(records: Iterable[Row], acts: Iterable[Row]) -> list[Attempt]:
    """Attempts of every job, by (job, start).

    records  rows of job_records
    acts     events with a job id and one of the codes slurm.preempt, .requeue, .node_fail, .job_killed, .job_end
    """
    by_job: defaultdict[str, list[Row]] = defaultdict(list)
    for record in records:
        by_job[record["job_id"]].append(record)
    acts_of: defaultdict[str, list[Row]] = defaultdict(list)
    for act in acts:
        acts_of[act["job_id"]].append(act)
    attempts = []
    for job_id in sorted(by_job):
        mine = _attempts(job_id, by_job[job_id])
        _apply_acts(mine, acts_of[job_id])
        for number, attempt in enumerate(mine):
            attempt.attempt = number
        attempts += mine
    return attempts


def _order(record: Row) -> tuple[object, ...]:
    return (_place(record), record["start"] is None, record["start"] or 0, record["end"] or 0, record["source_id"], record["line"])


def _place(record: Row) -> int:
    return TRUST.index(record["basis"]) if record["basis"] in TRUST else len(TRUST)


def _attempts(job_id: str, records: Sequence[Row]) -> list[Attempt]:
    attempts: list[Attempt] = []
    for record in sorted(records, key=_order):
        if record["start"] is None and record["end"] is None:
            continue
        if (record["state"] or "").startswith("PENDING"):
            continue
        attempt = _same(attempts, record)
        if attempt is None:
            if record["start"] is None and attempts:
                continue
            attempt = Attempt(job_id)
            attempts.append(attempt)
        _merge(attempt, record)
    if not attempts:
        _add_facts(attempts, job_id, records)
    return sorted(attempts, key=lambda a: a.start if a.start is not None else a.end or 0)


def _add_facts(attempts: list[Attempt], job_id: str, records: Sequence[Row]) -> None:
    """A job whose table holds no times (sacct's default columns): one attempt a row, in file order."""
    for record in sorted(records, key=lambda r: (r["source_id"], r["line"])):
        if record["state"] and not str(record["state"]).startswith("PENDING"):
            attempt = Attempt(job_id)
            _merge(attempt, record)
            attempts.append(attempt)
    if attempts and len({r["source_id"] for r in records}) > 1:
        del attempts[1:]


def _same(attempts: Sequence[Attempt], record: Row) -> Attempt | None:
    start, end = record["start"], record["end"]
    if start is not None:
        near = [a for a in attempts if a.start is not None and abs(a.start - start) <= SAME_START]
        return near[0] if near else None
    fits = [a for a in attempts if a.start is not None and a.start <= end and (a.end is None or abs(a.end - end) <= SAME_END)]
    return fits[-1] if fits else None


def _merge(attempt: Attempt, record: Row) -> None:
    """The most trusted record that says a field wins; records come best first."""
    for name in (
        "name",
        "user",
        "partition",
        "state",
        "nodes",
        "gpus",
        "submit",
        "start",
        "end",
        "exit_code",
        "signal",
        "reason",
        "preemptor",
    ):
        if getattr(attempt, name) is None and record[name] is not None:
            setattr(attempt, name, record[name])
    if not attempt.hosts and record["hosts"]:
        attempt.hosts = list(record["hosts"])
    if attempt.source_id is None:
        attempt.source_id, attempt.line, attempt.place = record["source_id"], record["line"], _place(record)
    known = set(attempt.known_from.split()) | {record["basis"]}
    attempt.known_from = " ".join(sorted(known))
    if attempt.state in LIVE:
        attempt.end = None


def at_time(attempts: Sequence[Attempt], ts: int | None, grace: int = 2 * MINUTE) -> Attempt | None:
    """The attempt that ran at `ts`, or ended at most `grace` before it; the last one when `ts` is unknown."""
    if not attempts:
        return None
    if ts is None:
        return attempts[-1]
    running = [a for a in attempts if a.start is not None and a.start - SAME_START <= ts and (a.end is None or ts <= a.end + SAME_START)]
    if running:
        return running[-1]
    ended = [a for a in attempts if a.end is not None and a.end <= ts <= a.end + grace]
    return ended[-1] if ended else None


def _apply_acts(attempts: list[Attempt], acts: Sequence[Row]) -> None:
    for act in sorted(acts, key=lambda a: (a["ts"] is None, a["ts"] or 0, a["source_id"], a["line_first"])):
        attempt = _acted_on(attempts, act)
        if attempt is not None:
            _apply(attempt, act)


def _acted_on(attempts: Sequence[Attempt], act: Row) -> Attempt | None:
    """An act belongs to the attempt that it ended: the one with the nearest end, else the one that ran.

    Without a time it is of an attempt that is known to have ended so (sacct's default columns tell no times), else of the last.
    """
    ts = act["ts"]
    if ts is None:
        alike = [a for a in attempts if act["state"] and a.state == act["state"]]
        return next(reversed(alike or attempts), None)
    ended = [a for a in attempts if a.end is not None and abs(a.end - ts) <= SAME_END and (a.start is None or a.start <= ts + SECOND)]
    if ended:
        return min(ended, key=lambda a: abs((a.end or 0) - ts))
    return at_time(attempts, ts)


def _apply(attempt: Attempt, act: Row) -> None:
    code, ts = act["code"], act["ts"]
    if code == "slurm.node_fail":
        attempt.failed_host = attempt.failed_host or act["host"]
        _end(attempt, "NODE_FAIL", ts)
    elif code == "slurm.preempt":
        attempt.preemptor = attempt.preemptor or act["peer"]
        attempt.requeued = attempt.requeued or "requeue" in (act["message"] or "")
        _end(attempt, "PREEMPTED", ts)
    elif code == "slurm.requeue":
        attempt.requeued = True
        _end(attempt, "REQUEUED", ts)
    elif code == "slurm.job_killed":
        _end(attempt, _killed_state(act["state"] or ""), ts)
    elif code == "slurm.job_end":
        failed = bool(act["exit_code"] or act["signal"])
        _end(attempt, act["state"] or ("FAILED" if failed else "COMPLETED"), ts)


def _killed_state(reason: str) -> str:
    text = reason.lower()
    if "time" in text:
        return "TIMEOUT"
    if "preempt" in text:
        return "PREEMPTED"
    if "memory" in text or "oom" in text:
        return "OUT_OF_MEMORY"
    return "NODE_FAIL" if "node" in text else "CANCELLED"


def _end(attempt: Attempt, state: str, ts: int | None) -> None:
    """An act ends an attempt only where accounting did not say how it ended."""
    if attempt.state is None or attempt.state in LIVE:
        attempt.state = state
        attempt.guessed.add("state")
        if attempt.end is None:
            attempt.end = ts


def from_outputs(outputs: Iterable[Row], known: Sequence[Attempt]) -> list[Attempt]:
    """Attempts of jobs that only their output shows.

    outputs  dicts: job_id, first, last (microseconds), ended (state or None), gpus, hosts, source_id
    """
    have = {a.job_id for a in known}
    merged: dict[str, Attempt] = {}
    for output in sorted(outputs, key=lambda o: (o["job_id"], o["source_id"])):
        if output["job_id"] in have:
            continue
        attempt = merged.setdefault(output["job_id"], Attempt(output["job_id"], known_from="output", source_id=output["source_id"], line=1))
        attempt.start = _least(attempt.start, output["first"])
        attempt.end = _most(attempt.end, output["last"])
        attempt.state = attempt.state or output["ended"]
        attempt.gpus = max(attempt.gpus or 0, output["gpus"] or 0) or None
        attempt.hosts = sorted(set(attempt.hosts) | set(output["hosts"]))
        attempt.nodes = len(attempt.hosts) or None
        attempt.guessed |= {"start", "end"}
    return list(merged.values())


def whole_hosts(ranks: int | None, hosts: int) -> int | None:
    """GPUs of `hosts` equal hosts that hold at least `ranks` ranks, where that is 1, 2, 4, 8 or 16 a host; None when it is not told."""
    if not ranks or not hosts:
        return ranks or None
    return next((size * hosts for size in (1, 2, 4, 8, 16) if size * hosts >= ranks), None)


def add_collected_hosts(attempts: Sequence[Attempt], collected: Mapping[str, tuple[int, int]]) -> None:
    """The only job of a bundle, whose host list no record gives, ran on the hosts whose kernel logs were collected with it: inferred."""
    ids = {a.job_id for a in attempts}
    if len(ids) != 1 or any(place_known(a) for a in attempts):
        return
    for attempt in attempts:
        low, high = attempt.start or 0, attempt.end if attempt.end is not None else 1 << 62
        near = [h for h, (first, last) in collected.items() if first <= high + 60 * MINUTE and last >= low - 60 * MINUTE]
        if set(near) - set(attempt.hosts):
            attempt.hosts = sorted(set(attempt.hosts) | set(near))
            attempt.guessed.add("hosts")
            attempt.nodes = attempt.nodes or len(attempt.hosts)


def place_known(attempt: Attempt) -> bool:
    """Whether a scheduler's record lists the hosts of an attempt, or its output names the hosts of all its ranks."""
    return bool(attempt.hosts) and any(b in attempt.known_from.split() for b in TRUST)


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _most(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def cost(attempt: Attempt, now: int | None) -> None:
    """Fill gpu_hours_lost and basis: GPUs x (end - the later of start and last checkpoint); completed attempts lose nothing."""
    state = (attempt.state or "").split(" ")[0]
    if state == "COMPLETED":
        attempt.gpu_hours_lost, attempt.basis = 0.0, "completed"
        return
    end = attempt.end if attempt.end is not None else now
    if attempt.gpus is None or attempt.start is None or end is None:
        attempt.gpu_hours_lost, attempt.basis = 0.0, "unknown"
        return
    saved = attempt.last_checkpoint
    used = saved is not None and attempt.start <= saved <= end
    since = saved if used and saved is not None else attempt.start
    attempt.gpu_hours_lost = round(attempt.gpus * max(0, end - since) / (3600 * SECOND), 3)
    attempt.basis = "checkpoint" if used else "start"
