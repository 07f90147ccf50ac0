"""Source and destination matrices (after C4D): a hot row is a source, a hot column a destination, a hot cell a link."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Literal, NamedTuple

Axis = Literal["source", "destination", "link"]
HOT_RATIO, HOT_SHARE = 2.0, 0.8
MOST_LINKS = 4


class Hot(NamedTuple):
    """What a matrix points at: the names of hosts, two for each link."""

    axis: Axis
    names: tuple[str, ...]


def hot(delays: Mapping[tuple[str, str], float]) -> Hot | None:
    """The hot part of a matrix of delays by (source, destination); None where nothing or no one part stands out.

    A row or column is hot when its median is at least twice the matrix's and 80 % of its entries are.
    """
    cells = {pair: value for pair, value in delays.items() if pair[0] != pair[1] and value >= 0}
    if len(cells) < 4:
        return None
    limit = HOT_RATIO * median(cells.values())
    if limit <= 0:
        return None
    rows, columns = _hot_lines(cells, 0, limit), _hot_lines(cells, 1, limit)
    if bool(rows) != bool(columns):
        return Hot("source", rows) if rows else Hot("destination", columns)
    links = sorted(pair for pair, value in cells.items() if value >= limit)
    if rows or not links or len(links) > MOST_LINKS:
        return None
    return Hot("link", tuple(name for pair in links for name in pair))


def _hot_lines(cells: Mapping[tuple[str, str], float], axis: int, limit: float) -> tuple[str, ...]:
    lines: defaultdict[str, list[float]] = defaultdict(list)
    for pair, value in cells.items():
        lines[pair[axis]].append(value)
    found = [
        name
        for name, values in lines.items()
        if len(values) >= 2 and median(values) >= limit and sum(v >= limit for v in values) >= HOT_SHARE * len(values)
    ]
    return tuple(sorted(found)) if len(found) * 2 < len(lines) else ()


def complained(pairs: Iterable[tuple[str, str]], hosts: Iterable[str] = ()) -> Hot | None:
    """What complaints (who says it, whom it names) point at: a destination that two others name, a source that names all, one link.

    hosts  of the job, which tell who `all` are; without them those that occur. Repeated complaints count once.
    """
    seen = {(source, peer) for source, peer in pairs if source != peer}
    if not seen:
        return None
    loudest = _complains_of_all(seen, {*hosts, *(name for pair in seen for name in pair)})
    named = Counter(peer for source, peer in seen if (source,) != loudest)  # who blames everyone blames nobody
    most = max(named.values(), default=0)
    blamed = tuple(sorted(name for name, count in named.items() if count == most))
    if most >= 2 and len(blamed) == 1:
        return Hot("destination", blamed)
    if loudest:
        return Hot("source", loudest)
    ends = {frozenset(pair) for pair in seen}
    return Hot("link", tuple(sorted(min(seen)))) if len(ends) == 1 else None


def _complains_of_all(seen: Iterable[tuple[str, str]], hosts: set[str]) -> tuple[str, ...]:
    """The one source that names at least two others and 80 % of them."""
    told = Counter(source for source, _ in seen)
    least = max(2.0, HOT_SHARE * (len(hosts) - 1))
    found = tuple(sorted(source for source, count in told.items() if count >= least))
    return found if len(found) == 1 else ()
