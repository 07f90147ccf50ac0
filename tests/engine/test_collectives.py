"""Who holds up a collective: dumps of four ranks, each picture in a few entries."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.rows import at
from triage import collectives
from triage.collectives import Dump, Entry, Group

ALL = frozenset(range(4))


def entry(seq: int, op: str = "nccl:all_reduce", grp: str = "0", ts: str | None = "10:00:00", state: str = "scheduled") -> Entry:
    return Entry(grp, seq, op, state, at(ts) if ts else None)


def dump(rank: int, *pending: Entry, done: tuple[Entry, ...] = (), **groups: Group) -> Dump:
    made = {name.removeprefix("g"): group for name, group in groups.items()} or {"0": Group(ALL, 7, 6)}
    return Dump(rank, f"n{rank // 2}", made, list(pending), list(done), f"dump{rank}")


def blamed(dumps: list[Dump], expected: int | None = None) -> list[tuple[int, str]]:
    return [(b.rank, b.state) for b in collectives.examine(dumps, expected).blames]


WAITING = [dump(rank, entry(7)) for rank in range(3)]


def test_a_rank_that_did_not_enter() -> None:
    behind = dump(3, g0=Group(ALL, 6, 6))
    hang = collectives.examine([*WAITING, behind])
    assert [(b.rank, b.host, b.state) for b in hang.blames] == [(3, "n1", "not_entered")]
    assert "did not enter nccl:all_reduce 7 of group 0" in hang.blames[0].why
    assert (hang.op, hang.seq, hang.grp, hang.waiting, hang.missing) == ("nccl:all_reduce", 7, "0", [0, 1, 2], [])


def test_a_rank_without_a_dump_is_a_suspect() -> None:
    hang = collectives.examine(WAITING)
    assert [(b.rank, b.state) for b in hang.blames] == [(3, "not_entered")]
    assert hang.missing == [3]
    assert "left no flight-recorder dump" in hang.blames[0].why


def test_a_missing_rank_that_only_the_job_size_tells() -> None:
    dumps = [dump(rank, entry(7), g0=Group(frozenset(range(3)), 7, 6)) for rank in range(3)]
    assert blamed(dumps) == []
    assert blamed(dumps, 4) == [(3, "not_entered")]


def test_another_operation_under_the_same_number() -> None:
    hang = collectives.examine([*WAITING, dump(3, entry(7, "nccl:all_gather"))])
    assert [(b.rank, b.state) for b in hang.blames] == [(3, "inconsistent")]
    assert "runs nccl:all_gather as number 7 of group 0, where 3 ranks run nccl:all_reduce" in hang.blames[0].why


def test_no_majority_blames_nobody() -> None:
    half = [dump(0, entry(7)), dump(1, entry(7)), dump(2, entry(7, "nccl:broadcast")), dump(3, entry(7, "nccl:broadcast"))]
    assert blamed(half) == []


def test_a_device_that_did_not_finish_what_its_peers_finished() -> None:
    stuck = dump(3, entry(7, state="started"), g0=Group(ALL, 7, 6))
    peers = [dump(rank, g0=Group(ALL, 7, 7)) for rank in range(3)]
    hang = collectives.examine([*peers, stuck])
    assert [(b.rank, b.state) for b in hang.blames] == [(3, "hardware_fault")]


def test_the_end_of_a_chain_over_two_groups_is_blamed() -> None:
    """0 and 1 wait for 2 in one group; 2 waits for 3 in another: 3 it is."""
    one, two = Group(frozenset({0, 1, 2}), 7, 6), Group(frozenset({2, 3}), 4, 3)
    dumps = [
        dump(0, entry(7, grp="a"), ga=one),
        dump(1, entry(7, grp="a"), ga=one),
        dump(2, entry(4, grp="b"), ga=Group(one.members, 6, 6), gb=two),
        dump(3, gb=Group(two.members, 3, 3)),
    ]
    assert blamed(dumps) == [(3, "not_entered")]


@pytest.mark.parametrize("op", ["nccl:recv 1<-0", "nccl:send 1->0"])
def test_the_peer_of_a_send_or_receive(op: str) -> None:
    pair = Group(frozenset({0, 1}), 7, 6)
    hang = collectives.examine([dump(0, g0=Group(pair.members, 6, 6)), dump(1, entry(7, op), g0=pair)])
    assert [b.rank for b in hang.blames] == [0]


def test_numbers_of_a_group_are_no_global_ranks() -> None:
    """`recv 1<-0` in the pipeline group of ranks 2 and 3 says nothing of ranks 0 and 1."""
    pair = Group(frozenset({2, 3}), 7, 6)
    hang = collectives.examine([dump(2, g0=pair), dump(3, entry(7, "nccl:recv 1<-0"), g0=pair)])
    assert [b.rank for b in hang.blames if b.rank < 2] == []


def test_everybody_waiting_blames_nobody() -> None:
    assert blamed([dump(rank, entry(7)) for rank in range(4)]) == []


def test_of_few_dumps_the_rest_was_not_collected() -> None:
    hang = collectives.examine([dump(0, entry(7))])
    assert (hang.blames, hang.missing) == ([], [1, 2, 3])


@pytest.mark.parametrize("dumps", [[], [dump(0)], [dump(0, g0=Group(frozenset()))], [Dump(0)], [dump(0, entry(7, grp=""))]])
def test_empty_groups_and_dumps(dumps: list[Dump]) -> None:
    assert blamed(dumps) == []


def late(rank: int, *seconds: int, grp: str = "0") -> Dump:
    made = tuple(entry(n, grp=grp, ts=f"10:{n:02d}:{s:02d}", state="completed") for n, s in enumerate(seconds))
    return dump(rank, done=made)


def test_a_straggler_enters_late_again_and_again() -> None:
    dumps = [late(0, 0, 0, 0), late(1, 0, 0, 0), late(2, 0, 0, 0), late(3, 4, 5, 4)]
    assert [(b.rank, b.score) for b in collectives.stragglers(dumps, 1.0)] == [(3, 4.0)]


def test_late_once_is_no_straggler() -> None:
    assert collectives.stragglers([late(0, 0, 0, 0), late(1, 0, 0, 0), late(2, 0, 0, 9)], 1.0) == []


def test_a_victim_is_late_in_one_group_only() -> None:
    """Rank 2 waits for 3 in group a, so it is late in b; only 3 is late wherever it is."""

    def both(rank: int, a: int | None, b: int | None) -> Dump:
        done = [entry(n, grp=g, ts=f"10:{n:02d}:{s:02d}") for g, s in (("a", a), ("b", b)) if s is not None for n in range(3)]
        return dump(rank, done=tuple(done))

    dumps = [both(0, None, 0), both(1, None, 0), both(2, 0, 5), both(3, 5, None), both(4, 0, None)]
    assert [b.rank for b in collectives.stragglers(dumps, 1.0)] == [3]


def event(code: str, rank: int | None, source: str, **values: Any) -> dict[str, Any]:
    plain = dict.fromkeys(("host", "grp", "seq", "op", "state", "value", "ts", "peer", "attrs"))
    return plain | {"code": code, "rank": rank, "source_id": source} | values


def test_a_pickle_and_its_json_twin_count_once() -> None:
    rows = [event("torch.flight", 0, source, grp="0", seq=7, op="nccl:all_reduce") for source in ("pickle", "json")]
    rows += [event("flight.status", 0, "json", grp="0", seq=6, value=7.0, state="[0, 1]"), event("flight.dump", None, "nobody")]
    (made,) = collectives.dumps_of(rows)
    (group,) = made.groups.values()
    assert (made.rank, made.source_id, group.members, group.enqueued, group.completed) == (0, "json", frozenset({0, 1}), 7, 6)


def test_groups_of_one_name_and_other_members_stay_apart() -> None:
    """Each tensor-parallel pair calls its group by the same name."""
    rows = [event("flight.status", r, f"d{r}", grp="tp", seq=3, value=4.0, state=f"[{r - r % 2}, {r - r % 2 + 1}]") for r in range(4)]
    rows += [event("torch.flight", r, f"d{r}", grp="tp", seq=4, op="nccl:all_reduce") for r in (0, 2, 3)]
    rows[1] |= {"seq": 3, "value": 3.0}
    assert [(b.rank, b.state) for b in collectives.examine(collectives.dumps_of(rows)).blames] == [(1, "not_entered")]
