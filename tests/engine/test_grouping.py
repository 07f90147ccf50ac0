"""One pass over time puts together what sorting everything would: hosts by quiet gap, then those that began together with one class."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.rows import burst, history
from triage.grouping import Gathering, Late
from triage.history import Burst
from triage.rulebook import Rulebook

GAP, WINDOW, SECOND = 20_000_000, 5_000_000, 1_000_000


def sorted_whole(bursts: list[Burst]) -> set[tuple[tuple[str, ...], ...]]:
    """The same by sorting: runs of groups, each as the ids of its bursts."""
    by_host: defaultdict[str | None, list[Burst]] = defaultdict(list)
    for one in bursts:
        by_host[one.host].append(one)
    groups: list[list[Burst]] = []
    for host in sorted(by_host, key=lambda h: h or ""):
        last: Burst | None = None
        for one in sorted(by_host[host], key=lambda b: (b.first is None, b.first or 0, b.burst_id)):
            near = last is not None and (one.first is None or (last.last is not None and one.first - last.last <= GAP))
            groups = [*groups[:-1], [*groups[-1], one]] if near else [*groups, [one]]
            last = one
    runs: list[list[list[Burst]]] = [[g] for g in groups if g[0].host is None]
    previous: Burst | None = None
    for group in sorted((g for g in groups if g[0].host), key=lambda g: (g[0].class_id or "", g[0].first or 0, g[0].host or "")):
        head = group[0]
        alike = previous is not None and previous.class_id == head.class_id and previous.first is not None and head.first is not None
        if alike and previous is not None and (head.first or 0) - (previous.first or 0) <= WINDOW:
            runs[-1].append(group)
        else:
            runs.append([group])
        previous = head
    return {tuple(tuple(b.burst_id for b in g) for g in run) for run in runs}


def in_one_pass(bursts: list[Burst]) -> set[tuple[tuple[str, ...], ...]]:
    past = history([], bursts)
    timed = sorted((b for b in bursts if b.first is not None), key=lambda b: b.first or 0)
    late: Late = {host: (rows, sum(b.host == host for b in timed)) for host, rows in past.untimed()}
    found, since = set(), 0
    for upto, runs in Gathering(GAP, WINDOW, late).runs(timed):
        for run in runs:
            first = run.groups[0].first
            assert first is None or first >= since, "a run came after its time"
            found.add(tuple(tuple(b.burst_id for b in past.at(g.places)) for g in run.groups))
        since = upto
    return found


DRAWN = st.tuples(
    st.none() | st.integers(0, 120),
    st.integers(0, 30),
    st.sampled_from([None, "n1", "n2", "n3", "n4"]),
    st.sampled_from(["xid.79", "xid.94", "xid.63"]),
)


@settings(max_examples=300, deadline=None)
@given(drawn=st.lists(DRAWN, max_size=14))
def test_as_sorting_the_whole(book: Rulebook, drawn: list[tuple[int | None, int, str | None, str]]) -> None:
    bursts = []
    for first, lasts, host, code in drawn:
        one = burst(book, code, None, host)
        one.first, one.last = (None, None) if first is None else (first * SECOND, (first + lasts) * SECOND)
        bursts.append(one)
    assert in_one_pass(bursts) == sorted_whole(bursts)


@pytest.mark.parametrize("number", [1, 1000])
def test_what_is_over_is_given_away(book: Rulebook, number: int) -> None:
    """No more is held than what may still grow, however long the history."""
    bursts = [
        burst(book, "xid.79", f"{n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d}", f"n{n % 7}") for n in range(0, 60 * number, 60)
    ]
    past = history([], bursts)
    most, gathering = 0, Gathering(GAP, WINDOW, {})
    for _, runs in gathering.runs(iter(past.bursts)):
        most = max(most, len(runs), len(gathering._growing), len(gathering._due))
    assert most < 10
