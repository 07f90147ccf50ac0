"""Whose log a file is, which job wrote it, and which year its year-less stamps mean: decided over all sources, in any order of arrival."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from parsers.hosts import fold, is_address, plausible

GENERIC = {
    "dmesg",
    "kern",
    "kernel",
    "syslog",
    "messages",
    "journal",
    "journalctl",
    "sel",
    "ipmi",
    "slurmd",
    "system",
    "log",
    "logs",
    "console",
    "boot",
}
LOCAL_FAMILIES = {"kernel", "bmc", "fabric"}
LOCAL_DIALECTS = {"slurmd"}
DAEMON_DIALECTS = {"slurmd", "slurmctld"}
DUMP_FOLDERS = {"flight", "flights", "dumps", "dump", "fr", "fr_traces", "flight_recorder", "traces", "nccl_trace", "stacks"}
# slurm-8842.out, the name that sbatch gives by default; slurm-8842_3.out of an array
_SBATCH = re.compile(r"^slurm-(\d{1,12}(?:_\d{1,9})?)(?:\.|$)")
_NUMBER = re.compile(r"(?<!\d)(\d{1,12}(?:_\d{1,9})?)(?!\d)")
UNKNOWN_JOB = "unknown"
YEARS = range(-20, 21)
NEAR_DAYS = 45.0


@dataclass(slots=True)
class Owner:
    """What was decided for one source."""

    host: str | None = None
    host_from: str | None = None
    job_id: str | None = None
    job_from: str | None = None


@dataclass(slots=True)
class SourceView:
    """What identity needs to know of a source."""

    source_id: str
    path: str
    families: set[str] = field(default_factory=set)
    dialects: set[str] = field(default_factory=set)
    line_hosts: set[str] = field(default_factory=set)
    text_jobs: set[str] = field(default_factory=set)
    step_jobs: set[str] = field(default_factory=set)
    first: int | None = None
    last: int | None = None

    @property
    def names(self) -> PurePosixPath:
        return PurePosixPath(self.path.replace("!", "/"))

    @property
    def is_local(self) -> bool:
        """A log that one host writes of itself."""
        return bool(self.families & LOCAL_FAMILIES or self.dialects & LOCAL_DIALECTS) and "training" not in self.families

    @property
    def is_output(self) -> bool:
        """What a job printed or dumped."""
        if self.dialects & DAEMON_DIALECTS:
            return False
        return "training" in self.families or (bool(self.step_jobs) and "scheduler_log" not in self.families)


def owners(
    sources: Sequence[SourceView],
    hosts: Iterable[str],
    jobs: Iterable[str],
    ran: Callable[[SourceView], str | None],
    pods: Mapping[str, str] | None = None,
) -> dict[str, Owner]:
    """The owner of each source.

    hosts  names that records or lines tell
    jobs   ids that the scheduler's records know
    ran    the one job whose hosts and times fit a source, or None
    pods   the node of each pod; `kubectl logs` writes no name into the lines, so that a file called like a pod is that pod's
    """
    known_hosts, known_jobs = set(hosts), set(jobs)
    found = {s.source_id: Owner() for s in sources}
    for source in sources:
        if source.is_local:
            _own_host(found[source.source_id], source, known_hosts)
        if source.is_output:
            if (stem := source.names.name.partition(".")[0]) in (pods or {}):
                found[source.source_id].host, found[source.source_id].host_from = (pods or {})[stem], "name"
            _own_job(found[source.source_id], source, known_jobs, ran)
    _share_unknown(found, [s for s in sources if s.is_output])
    return found


def _own_host(owner: Owner, source: SourceView, known: set[str]) -> None:
    if len(source.line_hosts) == 1:
        owner.host, owner.host_from = next(iter(source.line_hosts)), "file"
        return
    if source.line_hosts:
        return
    stem = source.names.name.split(".")[0]
    folder = source.names.parent.name
    for name, how in ((stem, "name"), (folder, "folder")):
        if name in known or fold(name) in known:
            owner.host, owner.host_from = fold(name), how
            return
    if inside := _named_in(stem, known):
        owner.host, owner.host_from = inside, "name"
        return
    stem = _trimmed(stem)
    if stem.lower() not in GENERIC and plausible(stem) and any(c.isdigit() for c in stem):
        owner.host, owner.host_from = fold(stem), "name"
    elif stem.lower() in GENERIC and folder and plausible(folder) and any(c.isdigit() for c in folder):
        owner.host, owner.host_from = fold(folder), "folder"


def _named_in(stem: str, known: set[str]) -> str | None:
    """The longest known host that stands in a file name between separators: gpu-007 in slurmd-gpu-007 or gpu-007_kern."""
    words = re.split(r"([-_+@.])", stem)
    spans = ("".join(words[a:b]) for a in range(0, len(words), 2) for b in range(a + 1, len(words) + 1, 2))
    return max((s for s in spans if s in known), key=len, default=None) if len(words) < 40 else None


def _trimmed(stem: str) -> str:
    """`dmesg-node7`, `node7_kern`: without the words that only say what kind of log it is."""
    words = re.split(r"([-_+@])", stem)
    while len(words) > 2 and words[0].lower() in GENERIC:
        words = words[2:]
    while len(words) > 2 and words[-1].lower() in GENERIC:
        words = words[:-2]
    return "".join(words)


def _own_job(owner: Owner, source: SourceView, known: set[str], ran: Callable[[SourceView], str | None]) -> None:
    name = source.names.name
    if len(source.text_jobs) == 1:
        owner.job_id, owner.job_from = next(iter(source.text_jobs)), "text"
    elif match := _SBATCH.match(name):
        owner.job_id, owner.job_from = match[1], "name"
    elif numbers := [n for n in _NUMBER.findall(name) if n in known]:
        owner.job_id, owner.job_from = numbers[-1], "name"
    elif fitting := ran(source):
        owner.job_id, owner.job_from = fitting, "hosts_and_times"


def _share_unknown(found: dict[str, Owner], outputs: Sequence[SourceView]) -> None:
    """Outputs without a job: those of one folder are one job; where a single job is known beside them, they are its."""
    named = {found[s.source_id].job_id for s in outputs} - {None}
    loose = [s for s in outputs if found[s.source_id].job_id is None]
    folders = {_job_folder(s) for s in loose}
    for source in loose:
        owner, folder = found[source.source_id], _job_folder(source)
        beside = {found[s.source_id].job_id for s in outputs if _job_folder(s) == folder} - {None}
        if len(beside) == 1 or (len(named) == 1 and not beside):
            owner.job_id, owner.job_from = next(iter(beside or named)), "folder"
        else:
            owner.job_id = UNKNOWN_JOB if len(folders) == 1 and not named else f"{UNKNOWN_JOB}:{folder.rsplit('/', 1)[-1] or '.'}"
            owner.job_from = "folder"


def _job_folder(source: SourceView) -> str:
    folder = source.names.parent
    return str(folder.parent if folder.name.lower() in DUMP_FOLDERS else folder)


def year_shift(first: datetime, last: datetime, dated: Sequence[tuple[datetime, datetime]], current: int) -> int:
    """Years to add to a year-less source so that it lies with the dated ones; 0 when they do not settle it.

    first, last  the span as stored, `current` years already added
    dated        spans of sources whose stamps carry a year
    """

    def distance(years: int) -> float:
        low, high = _moved(first, years - current), _moved(last, years - current)
        if low is None or high is None:
            return float("inf")
        return min(max((a - high).total_seconds(), (low - b).total_seconds(), 0.0) for a, b in dated)

    if not dated:
        return 0
    best = min(YEARS, key=lambda years: (distance(years), abs(years)))
    return best if distance(best) < NEAR_DAYS * 86_400 <= distance(0) else 0


def _moved(when: datetime, years: int) -> datetime | None:
    try:
        return when.replace(year=when.year + years)
    except ValueError:
        return None


TWIN_S = 0.5
SAME_BOOT = 3 * 1_000_000
LATER = 3600 * 1_000_000
"""A log may have been collected somewhat after the last stamp of the others."""


def anchored(
    waiting: Sequence[Mapping[str, Any]],
    anchors: Iterable[Mapping[str, Any]],
    boots: Mapping[str, Sequence[int]],
    now: int | None = None,
) -> list[tuple[str, int, str]]:
    """(event id, time, how) for events that carry only seconds since boot.

    anchors  events with both clocks; the same file's clock line comes first, then the same line read elsewhere, then the only boot known
    boots    host -> boot times that the scheduler tells; times are microseconds UTC
    now      the last stamp of the data: a log that would reach beyond it is of another boot (a crash dump is of the one before)
    """
    by_source: dict[str, list[tuple[int, int]]] = {}
    by_host: dict[str, list[Mapping[str, Any]]] = {}
    for row in anchors:
        offset = row["ts"] - round(row["boot_s"] * 1e6)
        by_source.setdefault(row["source_id"], []).append((row["line_first"], offset))
        if row["host"]:
            by_host.setdefault(row["host"], []).append({**row, "offset": offset})
    found = []
    uptime: dict[str, float] = {}
    for row in waiting:
        uptime[row["source_id"]] = max(uptime.get(row["source_id"], 0.0), row["boot_s"])
    for row in waiting:
        offset_how = _offset(row, by_source, by_host, boots)
        beyond = offset_how is not None and now is not None and offset_how[0] + round(uptime[row["source_id"]] * 1e6) > now + LATER
        if offset_how is not None and not (beyond and offset_how[1] == "boot_time"):
            found.append((row["event_id"], offset_how[0] + round(row["boot_s"] * 1e6), offset_how[1]))
    return found


def boot_starts(
    found: Iterable[tuple[str, int, str]], waiting: Iterable[Mapping[str, Any]], anchors: Iterable[Mapping[str, Any]]
) -> dict[str, int]:
    """Source -> wall time of boot in microseconds, for sources whose seconds since boot could be tied to it."""
    rows = {r["event_id"]: r for r in waiting}
    starts = {r["source_id"]: r["ts"] - round(r["boot_s"] * 1e6) for r in anchors}
    return starts | {rows[event]["source_id"]: ts - round(rows[event]["boot_s"] * 1e6) for event, ts, _ in found}


def _offset(
    row: Mapping[str, Any],
    by_source: Mapping[str, Sequence[tuple[int, int]]],
    by_host: Mapping[str, Sequence[Mapping[str, Any]]],
    boots: Mapping[str, Sequence[int]],
) -> tuple[int, str] | None:
    """Wall time of boot in microseconds, and how it is known."""
    earlier = [offset for line, offset in by_source.get(row["source_id"], ()) if line <= row["line_first"]]
    if earlier:
        return earlier[-1], "clock"
    own = by_host.get(row["host"] or "", ())
    twins = [a["offset"] for a in own if a["code"] == row["code"] and abs(a["boot_s"] - row["boot_s"]) <= TWIN_S]
    if twins:
        return twins[-1], "twin"
    offsets = [a["offset"] for a in own]
    if offsets and max(offsets) - min(offsets) <= SAME_BOOT:
        return offsets[0], "twin"
    known = boots.get(row["host"] or "", ())
    return (known[0], "boot_time") if len(set(known)) == 1 else None


def blamed_hosts(names: Iterable[str]) -> set[str]:
    """Host names out of a mixed bag of names and addresses."""
    return {n for n in names if n and not is_address(n)}


def views(rows: Iterable[Mapping[str, Any]]) -> list[SourceView]:
    """SourceViews from rows that carry families, dialects, hosts and jobs as lists."""
    return [
        SourceView(
            r["source_id"],
            r["path"],
            set(r["families"] or ()),
            set(r["dialects"] or ()),
            {h for h in r["line_hosts"] or () if h},
            {j for j in r["text_jobs"] or () if j},
            {j for j in r["step_jobs"] or () if j},
            r["first"],
            r["last"],
        )
        for r in rows
    ]
