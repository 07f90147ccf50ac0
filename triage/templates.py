"""Rows of `templates`: text that no parser knows and that stands out in an incident (after L4).

Masked lines become templates (Drain); what healthy runs of the job say too is dropped; what is left is set against the peers: said
by one host alone, by a host unlike the others, only since things went wrong, or in an iteration unlike the others.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import log1p
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from parsers.frames import peel
from triage import outlier
from triage.masking import folded, masked
from triage.moments import iso
from triage.reread import Reading, dated

if TYPE_CHECKING:
    import polars as pl
    from drain3.drain import Drain

SIMILARITY, DEPTH = 0.8, 5
MOST_KINDS, MERGE_AT = 200_000, 400_000
MOST_DRAINED = 1500  # Drain compares a line with every template of its length and first words
MOST_ROWS, MOST_HOSTS, MOST_EVIDENCE = 50, 16, 5
EVIDENCE_FROM = 0.5
WEIGHTS = {"only_here": 0.35, "new_since_healthy": 0.3, "outlier_host": 0.1, "odd_iteration": 0.15}
TROUBLE_WEIGHT = 0.4
TROUBLE = (
    r"(?i)error|fail|fatal|panic|abort|crash|timed? ?out|corrupt|exception|cannot|can't|could not|unable|denied|refused|lost\b|critical|"
    r"fault\b|hung\b|stuck|unreachable|broken|invalid|no such|not found|not respond|killed|dead\b|reset\b|exceed|degraded|mismatch|"
    r"overflow|warn|dropp|missing"
)

# [rank3]: message | 12: message, from srun -l
_RANK = r"^(?:\[(?:rank|default|trainer)([0-9]{1,6})\]| *([0-9]{1,6}):(?: |$))"
# 2026-03-04T10:02:03 gpu-7 kernel: message | Mar  6 04:07:23 gpu-7 train[3]: message
_STAMP = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][^ ]+|[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
_STAMPED_HOST = rf"^(?:{_STAMP}) ([A-Za-z][A-Za-z0-9_.-]+) [A-Za-z0-9_./-]+(?:\[[0-9]+\])?:"
# gpu-7:4711:4720 [3] message | gpu-7: message
_LED_HOST = r"^([A-Za-z][A-Za-z0-9_.-]+):(?:[0-9]+:[0-9]+ \[| )"
_FRAME = r"^(?:(?:<TIME>|<HOST>)[ :]*)+"
_PROBE, _PROBE_SHARE = 200, 0.05
KEY = ("fold", "host", "kind", "healthy")


class Span(NamedTuple):
    """What the templates stage knows of an attempt: its hosts, the host of each rank, and the step lines of each source."""

    hosts: Sequence[str] = ()
    ranks: Mapping[int, str] = {}
    steps: Mapping[str, Sequence[tuple[int, int]]] = {}


NO_SPAN = Span()


@dataclass(slots=True)
class Said:
    """One template as one incident's sources say it; counts of lines by host, places as (source_id, line)."""

    template: str
    by_host: dict[str | None, int] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    first: tuple[str, int] = ("", 0)
    last: tuple[str, int] = ("", 0)
    example: str = ""
    last_text: str = ""
    ends: dict[str | None, tuple[float, float]] = field(default_factory=dict)
    trouble: bool = False
    why: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        return sum(self.by_host.values())

    @property
    def hosts(self) -> list[str]:
        return sorted(h for h in self.by_host if h is not None)


def build(incident_id: str, frames: Iterable[tuple[Reading, pl.DataFrame]], span: Span = NO_SPAN) -> list[dict[str, Any]]:
    """Rows of `templates` for one incident, the most telling first, at most 50.

    frames  readings with frames (line, text) as `reread.unclaimed` gives them, those of healthy runs among them
    """
    tally = Tally(span)
    for reading, frame in frames:
        tally.add(reading, frame)
    said, kinds = templates_of(tally.folds(), span.hosts)
    for kind, read in sorted(tally.read.items()):
        _mark([s for s in said.values() if kind in s.kinds], read)
    for one in said.values():
        if one.kinds <= tally.healthy and not tally.full:  # what was left out may have been healthy
            one.why.add("new_since_healthy")
    _mark_iterations(said, tally.sequences(kinds))
    told = sorted((s for s in said.values() if s.why), key=lambda s: (-_score(s), len(s.by_host), s.count, s.template))
    return [_row(incident_id, s, tally) for s in told[:MOST_ROWS]]


class Tally:
    """Folds of lines counted by host; memory is bounded by their number, not by the lines'."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.read: defaultdict[str, set[str]] = defaultdict(set)
        self.healthy: set[str] = set()
        self.full = False
        self.readings: dict[str, Reading] = {}
        self._parts: list[pl.DataFrame] = []
        self._height = 0
        self._order: defaultdict[str, list[pl.DataFrame]] = defaultdict(list)

    def add(self, reading: Reading, frame: pl.DataFrame) -> None:
        """Count one frame (line, text)."""
        import polars as pl

        text = pl.col("text")
        frame = frame.with_columns(
            fold=folded(text), host=self._host(reading, frame), kind=pl.lit(reading.kind), healthy=pl.lit(reading.healthy)
        )
        part = frame.group_by(KEY, maintain_order=True).agg(
            text.first(), count=pl.len().cast(pl.Int64), first=pl.col("line").first(), last=pl.col("line").last(), last_text=text.last()
        )
        source, size = pl.lit(reading.source_id), max(reading.lines, frame["line"][-1])
        part = part.with_columns(first_source=source, last_source=source, sources=pl.concat_list(source), low=pl.col("first") / size)
        part = part.with_columns(high=pl.col("last") / size).select([*sorted(part.columns), "high"])
        self.readings[reading.source_id] = reading
        if reading.healthy:
            self.healthy.add(reading.kind)
        else:
            self.read[reading.kind] |= {h for h in (reading.host, *part["host"]) if h}
        if reading.source_id in self.span.steps and not reading.healthy:
            self._order[reading.source_id].append(frame.select("line", kind_id=pl.col("fold").hash(0)))
        self._keep(part)

    def _host(self, reading: Reading, frame: pl.DataFrame) -> pl.Expr:
        """The host of each line: the source's, else the one of its rank or of its own frame, where lines have these."""
        import polars as pl

        text, probe = pl.col("text"), frame.head(_PROBE)
        named = pl.lit(reading.host, dtype=pl.String)
        if reading.host is None and self.span.hosts:
            for pattern in (_LED_HOST, _STAMPED_HOST):
                if _shows(probe, pattern):
                    found = text.str.extract(pattern).str.split(".").list.first()
                    named = pl.coalesce(pl.when(found.is_in(list(self.span.hosts))).then(found), named)
        if self.span.ranks and _shows(probe, _RANK):
            rank = pl.coalesce(text.str.extract(_RANK, 1), text.str.extract(_RANK, 2)).cast(pl.Int64)
            ranks = {k: v for k, v in self.span.ranks.items() if v}
            named = pl.coalesce(rank.replace_strict(ranks, default=None, return_dtype=pl.String), named)
        return named

    def _keep(self, part: pl.DataFrame) -> None:
        self._parts.append(part)
        self._height += part.height
        if self._height > MERGE_AT:
            merged = self.folds()
            if merged.height > MOST_KINDS:
                self.full, merged = True, merged.head(MOST_KINDS)
            self._parts, self._height = [merged], merged.height

    def folds(self) -> pl.DataFrame:
        """One row for each fold, host, kind and health."""
        import polars as pl

        if not self._parts:
            return pl.DataFrame()
        return pl.concat(self._parts).group_by(KEY, maintain_order=True).agg(_merged()).select(self._parts[0].columns)

    def sequences(self, kinds: Mapping[int, int]) -> list[Iteration]:
        """Templates of the lines of each iteration, by the step lines of its source."""
        import polars as pl

        found: list[Iteration] = []
        for source, parts in sorted(self._order.items()):
            steps = sorted(self.span.steps[source])
            frame = pl.concat(parts).sort("line")
            place = pl.Series([line for line, _ in steps], dtype=pl.Int64).search_sorted(frame["line"])
            for at, group in frame.with_columns(place=place).group_by("place", maintain_order=True):
                number = int(str(at[0]))
                if 0 < number < len(steps):  # before the first step stands the start, after the last one the end
                    ids = tuple(kinds[k] for k in group["kind_id"] if k in kinds)
                    found.append(Iteration(source, steps[number][1], int(group["line"][0]), ids))
        return found


class Iteration(NamedTuple):
    """The lines between two step lines."""

    source_id: str
    step: int
    line: int
    templates: tuple[int, ...]


def _shows(probe: pl.DataFrame, pattern: str) -> bool:
    return bool(probe.height) and probe["text"].str.contains(pattern).sum() >= _PROBE_SHARE * probe.height


def _merged() -> list[pl.Expr]:
    import polars as pl

    return [
        pl.col("count").sum(), pl.col("text", "first", "first_source").first(), pl.col("last", "last_text", "last_source").last(),
        pl.col("sources").explode().unique(maintain_order=True), pl.col("low").min(), pl.col("high").max(),
    ]  # fmt: skip


def templates_of(folds: pl.DataFrame, hosts: Iterable[str] = ()) -> tuple[dict[int, Said], dict[int, int]]:
    """Templates by number, each with who says it, and the number of each fold's hash. `hosts` are names to mask.

    What a healthy run says too has a number below 0 and no entry.
    """
    import polars as pl

    if not folds.height:
        return {}, {}
    text = pl.col("text")
    plain = masked(text, hosts).str.replace(_FRAME, "").str.strip_chars()
    known = folds.with_columns(masked=plain, trouble=text.str.contains(TROUBLE), kind_id=pl.col("fold").hash(0))
    numbers, templates = _drained(known)
    said: dict[int, Said] = {}
    for row in known.filter(~pl.col("healthy")).iter_rows(named=True):
        number = numbers.get(row["masked"], -1)
        if number >= 0:
            _add(said.setdefault(number, Said(templates[number])), row)
    return said, {k: numbers[m] for k, m in known.select("kind_id", "masked").iter_rows() if m in numbers}


def _drained(known: pl.DataFrame) -> tuple[dict[str, int], dict[int, str]]:
    """Template numbers of masked lines, and the templates of those from 0 up.

    Healthy lines are learnt first; a line that fits one of their templates as it stands is theirs, any other is new.
    """
    healthy, new = _drain(), _drain()
    numbers: dict[str, int] = {}
    calm = _leading(known, True)
    for text in calm:
        healthy.add_log_message(text)
    for text in _leading(known, False):
        same = healthy.match(text) if calm else None
        numbers[text[2:]] = -int(same.cluster_id) if same else int(new.add_log_message(text)[0].cluster_id)
    return numbers, {int(c.cluster_id): str(c.get_template())[2:] for c in new.clusters}


def _drain() -> Drain:
    from drain3.drain import Drain

    return Drain(depth=DEPTH, sim_th=SIMILARITY, parametrize_numeric_tokens=False)


def _leading(known: pl.DataFrame, healthy: bool) -> list[str]:
    """At most 1,500 masked lines, those of trouble and the most frequent first; of the new ones those that no healthy run has as they are.

    Each is led by a mark, so that lines of trouble never share a template with calm ones.
    """
    import polars as pl

    wanted = known.filter(pl.col("healthy") == healthy)
    if not healthy:
        wanted = wanted.join(known.filter(pl.col("healthy")).select("masked").unique(), on="masked", how="anti")
    lines = wanted.group_by("masked").agg(pl.col("count").sum(), pl.col("trouble").any())
    ordered = lines.sort(["trouble", "count", "masked"], descending=[True, True, False]).head(MOST_DRAINED)
    return [f"{'!' if trouble else '.'} {text}" for text, trouble in ordered.select("masked", "trouble").iter_rows()]


def _add(said: Said, row: Mapping[str, Any]) -> None:
    first, last = (row["first_source"], row["first"]), (row["last_source"], row["last"])
    if not said.by_host:
        said.first, said.example = first, row["text"]
    said.last, said.last_text = last, row["last_text"]
    low, high = said.ends.get(row["host"], (1.0, 0.0))
    said.ends[row["host"]] = (min(low, row["low"]), max(high, row["high"]))
    said.by_host[row["host"]] = said.by_host.get(row["host"], 0) + row["count"]
    said.kinds.add(row["kind"])
    said.sources.update(row["sources"])
    said.trouble = said.trouble or row["trouble"]


def _mark(said: Sequence[Said], read: AbstractSet[str]) -> None:
    """What one host alone says, or one that differs from the others, of `read`, the hosts whose text of that kind was there."""
    alone = 2 if len(read) >= outlier.FOREST_FROM else 1
    for one in said:
        if len(read) >= 3 and None not in one.by_host and len(one.hosts) <= alone:
            one.why.add("only_here")
    for host in outlier.hosts(_vectors(said, read)):
        for one in said:
            others = [log1p(one.by_host.get(h, 0)) for h in read if h != host]
            if log1p(one.by_host.get(host, 0)) - median(others) >= log1p(1):
                one.why.add("outlier_host")


def _vectors(said: Sequence[Said], read: AbstractSet[str]) -> dict[str, list[float]]:
    """Of each host log1p(count) of each template, and where in its source the first and the last of them stand, as 0..1."""
    ends = {h: [s.ends[h] for s in said if h in s.ends] for h in read}
    spans = {h: (min(e[0] for e in found), max(e[1] for e in found)) for h, found in ends.items() if found}
    usual = (median(e[0] for e in spans.values()), median(e[1] for e in spans.values())) if spans else (0.0, 0.0)
    return {h: [*(log1p(s.by_host.get(h, 0)) for s in said), *spans.get(h, usual)] for h in read} if said else {}


def _mark_iterations(said: Mapping[int, Said], iterations: Sequence[Iteration]) -> None:
    """Templates that make an iteration unlike the median one: those that at most a tenth of the iterations have."""
    having: defaultdict[int, int] = defaultdict(int)
    for iteration in iterations:
        for number in set(iteration.templates):
            having[number] += 1
    for at, _, _ in outlier.iterations([i.templates for i in iterations]):
        for number in set(iterations[at].templates):
            if number in said and having[number] * 10 <= len(iterations):
                said[number].why.add("odd_iteration")


def _score(said: Said) -> float:
    return round(min(1.0, sum(WEIGHTS[w] for w in said.why) + TROUBLE_WEIGHT * said.trouble), 3)


def _row(incident_id: str, said: Said, tally: Tally) -> dict[str, Any]:
    read = set().union(*(tally.read[k] for k in said.kinds))
    return {
        "incident_id": incident_id,
        "template_id": hashlib.sha256(said.template.encode()).hexdigest()[:12],
        "template": said.template,
        "count": said.count,
        "hosts": said.hosts[:MOST_HOSTS],
        "host_count": len(said.hosts),
        "hosts_read": len(read),
        "sources": len(said.sources),
        "source_id": said.first[0],
        "line": said.first[1],
        "last_source_id": said.last[0],
        "last_line": said.last[1],
        "first": _time(said.example, tally.readings[said.first[0]]),
        "last": _time(said.last_text, tally.readings[said.last[0]]),
        "example": peel(said.first[1], said.example).text.strip(),
        "why": [w for w in WEIGHTS if w in said.why],
        "score": _score(said),
    }


def _time(text: str, reading: Reading) -> int | None:
    ts = peel(0, text).ts
    return None if ts is None else dated(ts, reading)


def evidence(rows: Iterable[Mapping[str, Any]], where: Callable[[str], str]) -> list[dict[str, Any]]:
    """Entries as `triage.evidence` has them, role fact, for at most five rows; `where` gives the path of a source_id."""
    told = sorted((r for r in rows if r["score"] >= EVIDENCE_FROM), key=lambda r: (-r["score"], r["template_id"]))
    return [_entry(row, where) for row in told[:MOST_EVIDENCE]]


def _entry(row: Mapping[str, Any], where: Callable[[str], str]) -> dict[str, Any]:
    host = row["hosts"][0] if row["host_count"] == 1 else None
    stamp = iso(row.get("first"))
    return {
        "source": where(row["source_id"]), "line": row["line"], "ts": stamp, "about": stamp, "host": host, "text": _text(row),
        "role": "fact", "code": "text.template", "count": row["count"], "hosts": row["host_count"], "ranks": 0,
    }  # fmt: skip


def _text(row: Mapping[str, Any]) -> str:
    """2 of 16 hosts, 14 lines; no other host says it, no healthy run says it: <the first line>"""
    told = f"{row['host_count']} of {row['hosts_read']} hosts, " if row["host_count"] and row["hosts_read"] > 1 else ""
    reasons = {
        "only_here": "no other host says it",
        "new_since_healthy": "no healthy run of the job says it",
        "outlier_host": "its host differs from the others",
        "odd_iteration": "in an iteration unlike the others",
    }
    why = ", ".join(reasons[w] for w in row["why"])
    lines = f"{row['count']} line{'s' if row['count'] != 1 else ''}"
    return f"{told}{lines}; {why}: {row['example'][:200]}"
