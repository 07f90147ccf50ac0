"""Who holds up a collective: read from flight-recorder dumps (which ranks entered, which completed, who waits for whom).

Three answers (after CCL-D): a rank did not enter (not_entered), a rank runs another operation (inconsistent), or all entered and
some device did not finish what its peers finished (hardware_fault). A missing dump is a suspect, not an error. Late ranks are found
from entry times (after Mycroft: at least a second later than their peers).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx

_P2P = re.compile(r"(?:send|recv) (\d+)(->|<-)(\d+)")
MAX_LATE_GROUP = 4096


@dataclass(slots=True)
class Entry:
    """One recorded operation. ts is microseconds UTC."""

    grp: str
    seq: int
    op: str
    state: str
    ts: int | None
    sizes: str = ""


@dataclass(slots=True)
class Group:
    """A process group as one rank saw it."""

    members: frozenset[int]
    enqueued: int | None = None
    completed: int | None = None


@dataclass(slots=True)
class Dump:
    """What one rank left."""

    rank: int
    host: str | None = None
    groups: dict[str, Group] = field(default_factory=dict)
    pending: list[Entry] = field(default_factory=list)
    done: list[Entry] = field(default_factory=list)
    source_id: str = ""
    path_line: int = 1


@dataclass(slots=True)
class Blame:
    """A rank that holds the others up, and why."""

    rank: int
    host: str | None
    score: float
    why: str
    state: str
    source_id: str | None = None


@dataclass(slots=True)
class Hang:
    """The reading of a set of dumps. `waiting` are ranks with an operation that never completed."""

    blames: list[Blame] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    op: str | None = None
    seq: int | None = None
    grp: str | None = None


def dumps_of(events: Iterable[Mapping[str, Any]]) -> list[Dump]:
    """Dumps from rows of `events` with the codes flight.* and torch.flight; a pickle and its JSON twin count once."""
    by_source: dict[str, Dump] = {}
    for event in events:
        rank = event["rank"]
        if rank is not None:
            dump = by_source.setdefault(event["source_id"], Dump(rank, source_id=event["source_id"]))
            _add(dump, event)
    unique: dict[int, Dump] = {}
    for dump in sorted(by_source.values(), key=lambda d: (-len(d.pending) - len(d.done) - len(d.groups), d.source_id)):
        unique.setdefault(dump.rank, dump)
    return [_settled(unique[r]) for r in sorted(unique)]


def _add(dump: Dump, event: Mapping[str, Any]) -> None:
    dump.host = dump.host or event["host"]
    code, name = event["code"], event["grp"] or ""
    members = (
        frozenset(int(m) for m in re.findall(r"\d+", event["state"] or "")) if code in ("flight.group", "flight.status") else frozenset()
    )
    if code == "flight.group":
        dump.groups.setdefault(name, Group(members))
    elif code == "flight.status" and name:
        value = event["value"]
        known = dump.groups.get(name) or dump.groups.get(name.split(":")[0])
        dump.groups[name] = Group(members or (known.members if known else frozenset()), None if value is None else int(value), event["seq"])
    elif code in ("torch.flight", "flight.entry") and event["seq"] is not None:
        entry = Entry(name, event["seq"], event["op"] or "", event["state"] or "", event["ts"], event.get("peer") or "")
        (dump.pending if code == "torch.flight" else dump.done).append(entry)


def _settled(dump: Dump) -> Dump:
    """Names of groups repeat between ranks, members do not: from here on a group is its name and its members."""
    keys = {name: f"{name} {sorted(group.members)}" if group.members else name for name, group in dump.groups.items()}
    for entry in (*dump.pending, *dump.done):
        entry.grp = keys.get(entry.grp, entry.grp)
    groups = {keys[name]: group for name, group in dump.groups.items()}
    for name, group in groups.items():
        mine = [e.seq for e in (*dump.pending, *dump.done) if e.grp == name and not _P2P.search(e.op)]
        done = [e.seq for e in dump.done if e.grp == name and not _P2P.search(e.op)]
        group.enqueued = group.enqueued if group.enqueued is not None else max(mine, default=None)
        group.completed = group.completed if group.completed is not None else max(done, default=None)
    dump.groups = groups
    return dump


def examine(dumps: Sequence[Dump], expected: int | None = None) -> Hang:
    """The ranks that others wait for, strongest first. `expected` is the number of ranks of the job where it is known."""
    hang = Hang(ranks=[d.rank for d in dumps])
    hang.waiting = [d.rank for d in dumps if d.pending]
    hang.missing = sorted(_expected_ranks(dumps, expected) - set(hang.ranks))
    first = min((e for d in dumps for e in d.pending if e.ts is not None), key=lambda e: (e.ts or 0, e.grp, e.seq), default=None)
    if first:
        hang.op, hang.seq, hang.grp = first.op, first.seq, first.grp
    scores: defaultdict[int, list[tuple[float, str, str]]] = defaultdict(list)
    for rank, note in _unfinished(dumps).items():
        scores[rank].append(note)
    for rank, note in _odd(dumps).items():
        scores[rank].append(note)
    absent = set(hang.missing) if len(hang.missing) <= len(dumps) else set()  # of few dumps the rest was not collected
    for rank, note in _not_entered(dumps, absent).items():
        scores[rank].append(note)
    hosts = {d.rank: d.host for d in dumps}
    sources = {d.rank: d.source_id for d in dumps}
    hang.blames = sorted(
        (
            Blame(r, hosts.get(r), sum(n[0] for n in notes), "; ".join(n[1] for n in notes), max(notes)[2], sources.get(r))
            for r, notes in scores.items()
        ),
        key=lambda b: (-b.score, b.rank),
    )
    return hang


def _expected_ranks(dumps: Sequence[Dump], expected: int | None) -> set[int]:
    ranks = {r for d in dumps for g in d.groups.values() for r in g.members}
    for dump in dumps:
        for entry in dump.pending:
            if match := _P2P.search(entry.op):
                ranks |= {int(match[1]), int(match[3])} & ranks
    return ranks | set(range(expected or 0))


def members_of(dumps: Sequence[Dump]) -> dict[str, frozenset[int]]:
    """Group name -> ranks: as configured, else the ranks whose dumps name the group."""
    configured: dict[str, frozenset[int]] = {}
    seen: defaultdict[str, set[int]] = defaultdict(set)
    for dump in dumps:
        for name, group in dump.groups.items():
            if group.members:
                configured[name] = group.members
        for entry in (*dump.pending, *dump.done):
            seen[entry.grp].add(dump.rank)
    return {name: configured.get(name) or frozenset(ranks) for name, ranks in seen.items()} | configured


def _unfinished(dumps: Sequence[Dump]) -> dict[int, tuple[float, str, str]]:
    """Ranks that entered a collective which peers of the group completed, and did not complete it: stuck on the device."""
    members = members_of(dumps)
    by_rank = {d.rank: d for d in dumps}
    found: dict[int, tuple[float, str, str]] = {}
    for name, ranks in members.items():
        done = {r: by_rank[r].groups[name].completed for r in ranks if r in by_rank and name in by_rank[r].groups}
        best = max((c for c in done.values() if c is not None), default=None)
        if best is None:
            continue
        for rank, completed in done.items():
            stuck = [e for e in by_rank[rank].pending if e.grp == name and e.seq <= best and not _P2P.search(e.op)]
            if stuck and completed is not None:
                what = f"{stuck[0].op} {stuck[0].seq} of group {_label(name)}"
                note = f"entered {what}, which peers completed (they are at {best}), and did not complete it"
                found[rank] = max(found.get(rank, (0.0, "", "")), (4.0, note, "hardware_fault"))
    return found


def _label(group: str) -> str:
    """A group without the list of its members."""
    return group.partition(" [")[0]


def _odd(dumps: Sequence[Dump]) -> dict[int, tuple[float, str, str]]:
    """Ranks whose operation or size under a group's sequence number differs from what most ranks run."""
    calls: defaultdict[tuple[str, int], dict[int, tuple[str, str]]] = defaultdict(dict)
    for dump in dumps:
        for entry in (*dump.pending, *dump.done):
            if not _P2P.search(entry.op):
                calls[entry.grp, entry.seq][dump.rank] = (entry.op, entry.sizes)
    found: dict[int, tuple[float, str, str]] = {}
    for (name, seq), by_rank in sorted(calls.items()):
        counts = Counter(by_rank.values())
        common, most = counts.most_common(1)[0]
        if len(counts) > 1 and most > len(by_rank) / 2:
            for rank, call in by_rank.items():
                if call[0] != common[0]:
                    note = f"runs {call[0]} as number {seq} of group {_label(name)}, where {most} ranks run {common[0]}"
                    found.setdefault(rank, (3.0, note, "inconsistent"))
    return found


def _not_entered(dumps: Sequence[Dump], missing: set[int]) -> dict[int, tuple[float, str, str]]:
    """Ends of the chains of waiting: ranks that others wait for and that wait for nobody, or that left no dump."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    reasons: dict[int, str] = {}
    members = members_of(dumps)
    entered = {d.rank: {(e.grp, e.seq) for e in (*d.pending, *d.done)} for d in dumps}
    status = {d.rank: d.groups for d in dumps}
    for dump in dumps:
        for entry in dump.pending:
            for peer in _awaited(dump.rank, entry, members, entered, status):
                graph.add_edge(dump.rank, peer)
                reasons.setdefault(peer, f"did not enter {entry.op} {entry.seq} of group {_label(entry.grp)}, where rank {dump.rank} waits")
    ends = [n for n in graph if graph.out_degree(n) == 0 and graph.in_degree(n) > 0]
    if not ends and graph:
        ends = [n for part in nx.strongly_connected_components(graph) if _is_last(graph, part) for n in part]
    found = {n: (2.0 + min(1.0, nx.ancestors(graph, n).__len__() / 1e3), reasons[n], "not_entered") for n in ends if n in reasons}
    for rank in missing:
        score, note, state = found.get(rank, (1.5, "", "not_entered"))
        found[rank] = (score, (note + "; " if note else "") + "left no flight-recorder dump, its peers did", state)
    return found if missing or len(found) < max(2, len(dumps) / 2) else {}


def _is_last(graph: nx.DiGraph[int], part: set[int]) -> bool:
    return all(target in part for node in part for target in graph.successors(node))


def _awaited(
    rank: int,
    entry: Entry,
    members: Mapping[str, frozenset[int]],
    entered: Mapping[int, set[tuple[str, int]]],
    status: Mapping[int, Mapping[str, Group]],
) -> list[int]:
    """Ranks without which `entry` of `rank` cannot end."""
    if match := _P2P.search(entry.op):
        peer = int(match[3]) if int(match[1]) == rank else int(match[1])
        known = members.get(entry.grp, frozenset())
        return [peer] if peer != rank and (peer in known or not known) and peer in _global(known, entered) else []
    return [p for p in members.get(entry.grp, ()) if p != rank and not _has_entered(p, entry, entered, status)]


def _global(known: frozenset[int], entered: Mapping[int, set[tuple[str, int]]]) -> set[int]:
    """Numbers in `send 0->1` are ranks of the group; they are global ranks only where the group's ranks are."""
    return set(known) if known and known == frozenset(range(len(known))) else set() if known else set(entered)


def _has_entered(peer: int, entry: Entry, entered: Mapping[int, set[tuple[str, int]]], status: Mapping[int, Mapping[str, Group]]) -> bool:
    if peer not in entered:
        return False
    if (entry.grp, entry.seq) in entered[peer]:
        return True
    group = status[peer].get(entry.grp)
    return group is not None and group.enqueued is not None and group.enqueued >= entry.seq


def stragglers(dumps: Sequence[Dump], late_s: float) -> list[Blame]:
    """Ranks that enter at least `late_s` seconds after the median of every group that they share, over most of the operations."""
    lateness: defaultdict[int, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    hosts = {d.rank: d.host for d in dumps}
    for (name, _seq), entered in _entries(dumps).items():
        if 2 <= len(entered) <= MAX_LATE_GROUP:
            for rank, ts in entered.items():
                others = [t for r, t in entered.items() if r != rank]
                lateness[rank][name].append((ts - median(others)) / 1e6)
    found = []
    for rank, groups in lateness.items():
        typical = {name: median(values) for name, values in groups.items() if len(values) >= 2}
        if typical and min(typical.values()) >= late_s:
            worst = min(typical, key=lambda n: typical[n])
            times = sum(map(len, groups.values()))
            why = f"enters its collectives {typical[worst]:.1f} s after its peers, in {len(typical)} group(s), {times} times"
            found.append(Blame(rank, hosts.get(rank), typical[worst], why, "straggler", next(d.source_id for d in dumps if d.rank == rank)))
    return sorted(found, key=lambda b: (-b.score, b.rank))


def _entries(dumps: Sequence[Dump]) -> dict[tuple[str, int], dict[int, int]]:
    times: defaultdict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for dump in dumps:
        for entry in (*dump.done, *dump.pending):
            if entry.ts is not None and not _P2P.search(entry.op):
                times[entry.grp, entry.seq].setdefault(dump.rank, entry.ts)
    return times
