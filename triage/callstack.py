"""Who is elsewhere: stacks of live processes grouped by equality, and the smallest parallel group around the odd ones (after ByteRobust).

Threads that do training work count; the large groups of equal stacks are healthy, the rest are outliers. Where an outlier waits for
another rank of its group the culprit may be any of the group, so its other members are named too, with less weight.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

LEAST_GROUP, DOMINANT = 3, 0.5
MOST_BLAMED = 16
# all_reduce (distributed_c10d.py:2501) < backward (train.py:88)
_TRAINING = re.compile(
    r"torch|nccl|c10d|distributed|megatron|deepspeed|train|dataloader|checkpoint|pipeline|optimizer|autograd|fsdp|all_?reduce|all_?gather|"
    r"reduce_?scatter|isend|irecv|send_|recv_|barrier|broadcast|forward|backward",
)
# wait (threading.py:320): of an idle helper every frame is of the interpreter's own code
_OWN = re.compile(r"[\w<>.]{1,80} \((?:threading|queue|selectors|socket|thread|connection|_base|socketserver)\.py:\d{1,7}\)")
# get (queues.py:113) < _worker_loop (worker.py:318) | sleep (api.py:1) < _invoke_run (api.py:870)
_HELPERS = (("worker", "_worker_loop ("), ("launcher", "_invoke_run ("))
_LINE = re.compile(r":\d{1,7}\)")


@dataclass(slots=True)
class StackBlame:
    """A rank or host whose process stands elsewhere, as `collectives.Blame` with the place of its dump; state outlier | beside."""

    rank: int | None
    host: str | None
    score: float
    why: str
    state: str
    source_id: str | None = None
    line: int = 1


class Place(NamedTuple):
    """One process."""

    host: str | None
    rank: int | None
    pid: int | None
    source_id: str


Stack = tuple[str, ...]


def examine_stacks(
    rows: Iterable[Mapping[str, Any]], groups: Mapping[str, frozenset[int]] | None = None, hosts: Mapping[int, str | None] | None = None
) -> list[StackBlame]:
    """The processes whose stacks differ from the dominant ones, then the rest of the smallest parallel group that holds all of these.

    rows    events `stack.dump`; several dumps of a process are rounds, of which an outlier is odd in more than half
    groups  name -> ranks, as `collectives.members_of` gives them
    hosts   rank -> host of the job
    """
    hosts = hosts or {}
    rounds, lines = _rounds(rows, hosts)
    odd: Counter[Place] = Counter()
    last: dict[Place, tuple[Stack, int, int]] = {}
    for stacks in rounds:
        kinds = {place: _kind(stack) for place, stack in stacks.items()}
        alike = [{p: stacks[p] for p, k in kinds.items() if k == kind} for kind in sorted(set(kinds.values()))]
        for place, found in (item for part in alike for item in _outliers(part).items()):
            odd[place] += 1
            last[place] = found
    seen = Counter(place for stacks in rounds for place in stacks)
    outliers = sorted((p for p in odd if odd[p] * 2 > seen[p]), key=lambda p: (-odd[p], _order(p)))
    blames = [_blame(place, last[place], lines[place]) for place in outliers]
    return (blames + _beside(outliers, groups or {}, hosts))[:MOST_BLAMED]


def _order(place: Place) -> tuple[int, str, int]:
    return (place.rank if place.rank is not None else 1 << 30, place.host or place.source_id, place.pid or 0)


def _rounds(
    rows: Iterable[Mapping[str, Any]], hosts: Mapping[int, str | None]
) -> tuple[list[dict[Place, Stack]], dict[Place, tuple[str, int]]]:
    """Of each round the training stacks of each process; and source and line of its last dump."""
    rounds: defaultdict[int, defaultdict[Place, list[str]]] = defaultdict(lambda: defaultdict(list))
    times: Counter[tuple[Place, str]] = Counter()
    lines: dict[Place, tuple[str, int]] = {}
    for row in sorted(rows, key=lambda r: (str(r["source_id"]), r["line_first"])):
        place = Place(row["host"] or hosts.get(row["rank"]), row["rank"], row["pid"], row["source_id"] if row["rank"] is None else "")
        thread = (place, str(row["op"] or ""))
        number, times[thread] = times[thread], times[thread] + 1
        if row["state"] and is_training(row["op"], row["severity"], row["state"]):
            rounds[number][place].append(row["state"])
            lines[place] = (row["source_id"], row["line_first"])
    return [{place: tuple(sorted(s)) for place, s in rounds[n].items()} for n in sorted(rounds)], lines


def is_training(thread: str | None, doing: str | None, state: str) -> bool:
    """Whether a thread does the job's work: the main one, the current one, or one in frames of training; not an idle helper."""
    if thread == "MainThread" or doing == "current":
        return True
    return bool(_TRAINING.search(state[:4000].lower())) and not all(_OWN.fullmatch(frame) for frame in state[:4000].split(" < "))


def _kind(stack: Stack) -> str:
    """Ranks are set against ranks, data loader's workers and launchers among themselves."""
    return next((kind for kind, frame in _HELPERS if any(frame in thread for thread in stack)), "rank")


def _outliers(stacks: Mapping[Place, Stack]) -> dict[Place, tuple[Stack, int, int]]:
    """Places outside the dominant groups, each with its stack, the size of its group and the number of healthy ones.

    Where no group is large the frames' line numbers are left out of account.
    """
    for level in (stacks, {place: tuple(_LINE.sub(")", s) for s in stack) for place, stack in stacks.items()}):
        sizes = Counter(level.values())
        most = max(sizes.values(), default=0)
        healthy = {stack for stack, size in sizes.items() if size > DOMINANT * most}
        odd = {place: stack for place, stack in level.items() if stack not in healthy}
        if most >= LEAST_GROUP and len(odd) * 2 < len(level):
            return {place: (stacks[place], sizes[stack], len(level) - len(odd)) for place, stack in odd.items()}
    return {}


def _blame(place: Place, found: tuple[Stack, int, int], where: tuple[str, int]) -> StackBlame:
    stack, alike, healthy = found
    inner = stack[0].split(" < ")[0] if stack else "nowhere"
    others = f" with {alike - 1} other(s)" if alike > 1 else ""
    why = f"its stack is in {inner[:120]}{others}, where {healthy} processes stand elsewhere together"
    return StackBlame(place.rank, place.host, round(1.0 / alike, 3), why, "outlier", *where)


def _beside(outliers: Iterable[Place], groups: Mapping[str, frozenset[int]], hosts: Mapping[int, str | None]) -> list[StackBlame]:
    """The other members of the smallest group of hosts (of ranks, where hosts are not known) that holds all outliers."""
    odd = list(outliers)
    ranks = {p.rank for p in odd}
    found = smallest_group({p.host for p in odd}, _host_groups(groups, hosts)) if all(p.host for p in odd) and hosts else None
    if found is not None:
        name, members = found
        rest: list[tuple[int | None, str | None]] = [(None, h) for h in sorted(str(m) for m in members - {p.host for p in odd})]
    else:
        found = smallest_group(ranks, groups) if None not in ranks else None
        name, members = found if found is not None else ("", frozenset())
        rest = [(r, hosts.get(r)) for r in sorted(int(str(m)) for m in members - ranks)]
    why = f"shares parallel group {name} with the ranks whose stacks differ; its own stack is like the rest"
    return [StackBlame(rank, host, 0.1, why, "beside") for rank, host in rest]


def _host_groups(groups: Mapping[str, frozenset[int]], hosts: Mapping[int, str | None]) -> dict[str, frozenset[object]]:
    return {name: frozenset(hosts.get(r) for r in ranks) for name, ranks in groups.items()}


def smallest_group(odd: Iterable[object], groups: Mapping[str, Iterable[object]]) -> tuple[str, frozenset[object]] | None:
    """The smallest group that holds every odd member and not everybody; None without one. Of equals the first by name."""
    wanted = set(odd)
    sets = {name: frozenset(members) for name, members in groups.items()}
    everybody = frozenset().union(*sets.values())
    fitting = [(len(m), name) for name, m in sets.items() if wanted and wanted <= m < everybody]
    if not fitting:
        return None
    name = min(fitting)[1]
    return name, sets[name]
