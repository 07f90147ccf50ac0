"""Stacks grouped by equality, and matrices of sources and destinations."""

from __future__ import annotations

from typing import Any

import pytest

from triage.callstack import examine_stacks, is_training, smallest_group
from triage.pairwise import Hot, complained, hot

SYNC = "wait (distributed_c10d.py:88) < all_reduce (distributed_c10d.py:2501) < finish_grad_sync (ddp.py:300) < train_step (training.py:40)"
RECV = "wait (distributed_c10d.py:88) < recv_forward (p2p.py:120) < forward_backward (schedules.py:77) < train_step (training.py:40)"
SEND = "wait (distributed_c10d.py:88) < send_backward (p2p.py:190) < forward_backward (schedules.py:80) < train_step (training.py:40)"
GATHER = "wait (distributed_c10d.py:88) < all_gather (distributed_c10d.py:2900) < gather_params (optimizer.py:9) < step (training.py:44)"
IDLE = "wait (threading.py:320) < get (queue.py:171) < run (threading.py:982)"


def stack(rank: int | None, state: str, host: str | None = None, op: str = "MainThread", line: int = 1, **more: Any) -> dict[str, Any]:
    row = {"rank": rank, "host": host, "pid": None, "op": op, "severity": None, "state": state, "source_id": f"s{rank}", "line_first": line}
    return row | more


def byterobust() -> tuple[list[dict[str, Any]], dict[str, frozenset[int]], dict[int, str]]:
    """TP2 PP4 DP4 on 16 machines of two ranks: a tensor group in a machine, a pipeline over four, machines 12-15 not in gradient sync."""
    hosts = {rank: f"m{rank // 2:02d}" for rank in range(32)}
    groups = {f"tp{m}": frozenset((2 * m, 2 * m + 1)) for m in range(16)} | {"world": frozenset(range(32))}
    for side in range(2):
        groups |= {f"pp{p}.{side}": frozenset(2 * m + side for m in range(4 * p, 4 * p + 4)) for p in range(4)}
        groups |= {f"dp{s}.{side}": frozenset(2 * m + side for m in range(s, 16, 4)) for s in range(4)}
    where = {12: RECV, 13: RECV, 14: SEND, 15: GATHER}
    rows = [stack(rank, where.get(rank // 2, SYNC), line=7) for rank in hosts]
    rows += [stack(rank, IDLE, op="Thread-3", line=9) for rank in hosts]
    return rows, groups, hosts


def test_the_pipeline_group_of_the_odd_machines() -> None:
    rows, groups, hosts = byterobust()
    blames = examine_stacks(rows, groups, hosts)
    assert {b.host for b in blames} == {"m12", "m13", "m14", "m15"}
    assert sorted(b.rank for b in blames if b.rank is not None) == list(range(24, 32))
    assert all(b.state == "outlier" for b in blames)
    assert "recv_forward" not in blames[0].why and "24 processes stand elsewhere together" in blames[0].why


def test_the_rest_of_the_group_is_named_with_less_weight() -> None:
    rows, groups, hosts = byterobust()
    rows = [r | {"state": SYNC} if r["rank"] in (26, 27) and r["op"] == "MainThread" else r for r in rows]
    blames = examine_stacks(rows, groups, hosts)
    assert [(b.host, b.state) for b in blames if b.rank is None] == [("m13", "beside")]
    assert blames[-1].score < min(b.score for b in blames[:-1])
    assert "pp3" in blames[-1].why


def test_one_rank_elsewhere() -> None:
    rows = [stack(rank, SYNC) for rank in range(7)] + [stack(7, "read (loader.py:5) < next (dataloader.py:10)", host="n7", line=4)]
    (blame,) = examine_stacks(rows)
    assert (blame.rank, blame.host, blame.state, blame.source_id, blame.line, blame.score) == (7, "n7", "outlier", "s7", 4, 1.0)
    assert blame.why == "its stack is in read (loader.py:5), where 7 processes stand elsewhere together"


def test_processes_without_a_rank() -> None:
    rows = [stack(None, SYNC, "n1", pid=p, source_id="a") for p in range(4)] + [stack(None, RECV, "n2", pid=1, source_id="b")]
    assert [(b.host, b.rank) for b in examine_stacks(rows)] == [("n2", None)]


def test_workers_of_the_loader_are_no_peers_of_ranks() -> None:
    idle = "poll (connection.py:257) < get (queues.py:113) < _worker_loop (worker.py:318) < run (process.py:108)"
    workers = [stack(None, idle, "n1", pid=p, source_id="w") for p in range(100, 132)]
    ranks = [stack(rank, SYNC, "n1", pid=rank) for rank in range(7)]
    assert examine_stacks([*workers, *ranks]) == []
    odd = stack(7, RECV, "n1", pid=7)
    assert [b.rank for b in examine_stacks([*workers, *ranks, odd])] == [7]


def test_two_large_groups_are_both_healthy() -> None:
    assert examine_stacks([stack(r, SYNC if r % 2 else RECV) for r in range(8)]) == []


def test_without_a_majority_nothing_is_said() -> None:
    assert examine_stacks([stack(r, f"f{r} (train.py:{r}) < main (x.py:1)") for r in range(6)]) == []
    assert examine_stacks([stack(0, SYNC), stack(1, RECV)]) == []
    assert examine_stacks([]) == []


def test_lines_of_one_loop_are_one_stack_where_no_group_is_large() -> None:
    rows = [stack(r, f"step (train.py:{40 + r}) < main (train.py:9)") for r in range(6)] + [stack(6, GATHER)]
    assert [b.rank for b in examine_stacks(rows)] == [6]


def test_in_rounds_the_one_that_is_odd_in_most() -> None:
    rows = []
    for number in range(5):
        for rank in range(6):
            odd = rank == 4 or rank == number
            rows.append(stack(rank, RECV if odd else SYNC, line=number))
    assert [b.rank for b in examine_stacks(rows)] == [4]


@pytest.mark.parametrize(
    ("thread", "doing", "state", "counts"),
    [
        ("MainThread", "idle", IDLE, True),
        ("0x7f01", "current", IDLE, True),
        ("Thread-2", "idle", IDLE, False),
        ("0x7f02", None, SYNC, True),
        ("pin_memory", None, "do_one (pin_memory.py:30) < loop (pin_memory.py:50) < run (threading.py:1)", False),
    ],
)
def test_which_threads_count(thread: str, doing: str | None, state: str, counts: bool) -> None:
    assert is_training(thread, doing, state) is counts


def test_the_smallest_group_is_never_everybody() -> None:
    groups = {"all": range(8), "left": range(4), "pair": (0, 1), "other": (4, 5, 6, 7)}
    assert smallest_group([0, 1], groups) == ("pair", frozenset((0, 1)))
    assert smallest_group([0, 3], groups) == ("left", frozenset(range(4)))
    assert smallest_group([0, 7], groups) is None
    assert smallest_group([], groups) is None
    assert smallest_group([1], {}) is None


NAMES = [f"h{i}" for i in range(6)]


def matrix(**slow: float) -> dict[tuple[str, str], float]:
    cells = {(a, b): 1.0 for a in NAMES for b in NAMES if a != b}
    for name, value in slow.items():
        source, _, peer = name.partition("_")
        cells |= {pair: value for pair in cells if source in ("any", pair[0]) and peer in ("any", pair[1])}
    return cells


@pytest.mark.parametrize(
    ("cells", "answer"),
    [
        (matrix(h2_any=3.0), Hot("source", ("h2",))),
        (matrix(any_h4=3.0), Hot("destination", ("h4",))),
        (matrix(h1_h3=9.0), Hot("link", ("h1", "h3"))),
        (matrix(h2_any=3.0, h2_h0=1.0), Hot("source", ("h2",))),
        (matrix(), None),
        (matrix(h2_any=1.9), None),
        (matrix(h2_any=3.0, any_h4=3.0), None),
        ({("a", "b"): 5.0}, None),
        ({}, None),
    ],
)
def test_a_hot_row_column_or_cell(cells: dict[tuple[str, str], float], answer: Hot | None) -> None:
    assert hot(cells) == answer


@pytest.mark.parametrize(
    ("pairs", "answer"),
    [
        ([("a", "x"), ("b", "x"), ("c", "x")], Hot("destination", ("x",))),
        ([("x", p) for p in NAMES], Hot("source", ("x",))),
        ([("x", "h1"), ("x", "h2")], None),
        ([("h1", "h2"), ("h2", "h1"), ("h1", "h2")], Hot("link", ("h1", "h2"))),
        ([("a", "x"), ("b", "x"), ("x", "a"), ("x", "b")], Hot("destination", ("x",))),
        ([("x", p) for p in NAMES] + [("h1", "h2")], Hot("source", ("x",))),
        ([("a", "x"), ("a", "x"), ("b", "y")], None),
        ([("a", "a")], None),
        ([], None),
    ],
)
def test_whom_complaints_point_at(pairs: list[tuple[str, str]], answer: Hot | None) -> None:
    assert complained(pairs, NAMES) == answer
