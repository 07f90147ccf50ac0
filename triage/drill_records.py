"""Drill plots of flight records in jobs of many process groups: a small simulation says which collective each rank waits in."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field

from triage import drill_lines as say
from triage.drill_plots import COLLECT, blameless, plot
from triage.drill_scene import Scene
from triage.drill_truth import Case

AHEAD = 6  # operations that a rank's program queues before its GPU has done them
Group = tuple[int, ...]


@dataclass(slots=True)
class Rank:
    """The operations that a rank has queued: (group, number in the group, name); the first `done` of them are complete."""

    number: int
    queue: list[tuple[Group, int, str]] = field(default_factory=list)
    done: int = 0
    alive: bool = True


def groups(world: int, tensor: int) -> dict[str, list[Group]]:
    """Tensor, expert and data groups; tensor groups are neighbours, expert groups halves of the world, data groups strides."""
    half = world // 2
    return {
        "TENSOR_MODEL_PARALLEL_GROUP": [tuple(range(n, n + tensor)) for n in range(0, world, tensor)],
        "EXPERT_MODEL_PARALLEL_GROUP": [tuple(range(k, half, tensor)) for k in range(tensor)]
        + [tuple(range(half + k, world, tensor)) for k in range(tensor)],
        "DATA_PARALLEL_GROUP": [(k, k + half) for k in range(half)],
    }


def program(rank: int, layout: dict[str, list[Group]], steps: int) -> list[tuple[Group, str, str]]:
    """What a rank calls, in order: (group, description, operation)."""
    mine = {desc: next(group for group in rows if rank in group) for desc, rows in layout.items()}
    layer = (("TENSOR", "_all_gather_base"), ("EXPERT", "all_to_all"), ("TENSOR", "_reduce_scatter_base"))
    step = [*layer, *layer, ("DATA", "all_reduce")]
    full = {desc.split("_", maxsplit=1)[0]: desc for desc in mine}
    return [(mine[full[short]], full[short], op) for short, op in step] * steps


def simulate(world: int, tensor: int, stuck: dict[int, int], steps: int = 12) -> tuple[list[Rank], list[list[tuple[Group, str, str]]]]:
    """Runs the programs until nothing moves; a rank of `stuck` queues no more than that many operations."""
    layout = groups(world, tensor)
    plans = [program(n, layout, steps) for n in range(world)]
    ranks = [Rank(n) for n in range(world)]
    moved = True
    while moved:
        moved = False
        for rank in ranks:
            limit = min(len(plans[0]), rank.done + AHEAD, stuck.get(rank.number, 1 << 30))
            while len(rank.queue) < limit:
                group, _, op = plans[rank.number][len(rank.queue)]
                rank.queue.append((group, sum(g == group for g, _, _ in rank.queue), op))
                moved = True
        for rank in ranks:
            if rank.done < len(rank.queue) and _all_there(ranks, rank.queue[rank.done]):
                for other in rank.queue[rank.done][0]:
                    if other != rank.number:
                        ranks[other].done += 1
                rank.done += 1
                moved = True
    return ranks, plans


def _all_there(ranks: list[Rank], head: tuple[Group, int, str]) -> bool:
    return all(ranks[n].done < len(ranks[n].queue) and ranks[n].queue[ranks[n].done] == head for n in head[0])


def _dump(rank: Rank, plan: list[tuple[Group, str, str]], at: float, keep: int) -> dict[str, object]:
    names = {group: (str(_number(group, desc)), desc) for group, desc, _ in plan}
    entries = [_entry(n, rank, names, at) for n in range(max(0, rank.done - keep), len(rank.queue))]
    config = {number: {"name": number, "desc": desc, "ranks": str(list(group))} for group, (number, desc) in names.items()}
    return {"version": "2.5", "nccl_version": "2.21.5", "pg_config": config, "pg_status": {}, "entries": entries}


def _number(group: Group, desc: str) -> int:
    """A group's number, the same in every dump and another for every group."""
    return {"T": 40, "E": 80, "D": 120, "d": 0}[desc[0]] + (group[0] if desc[0] != "d" else 0)


def _entry(n: int, rank: Rank, names: dict[Group, tuple[str, str]], at: float) -> dict[str, object]:
    group, seq, op = rank.queue[n]
    complete = n < rank.done
    created = int((at + n * 0.02) * 1e9)
    return {
        "record_id": n,
        "pg_id": int(names[group][0]),
        "process_group": list(names[group]),
        "collective_seq_id": 7001 + seq,
        "p2p_seq_id": 0,
        "op_id": n,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": created,
        "input_sizes": [[4096, 1]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[4096, 1]],
        "output_dtypes": ["BFloat16"],
        "state": "completed" if complete else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": created + 10_000_000 if complete else None,
        "retired": complete,
        "timeout_ms": 600000,
        "is_p2p": False,
        "frames": [],
    }


def _story(s: Scene, count: int, keep: int, drop: bool) -> Case:
    """`count` ranks stop at the same operation of their programs; their dumps are empty or, with `drop`, absent."""
    s.hosts = s.hosts[:2]
    world, tensor = 16, s.rng.choice((2, 4))
    stuck = s.rng.sample(range(world), count)
    at = s.start + (s.end - s.start) * 0.7
    ranks, plans = simulate(world, tensor, {n: s.rng.choice((29, 30, 31, 33)) for n in stuck})
    as_json = s.rng.random() < 0.4
    name = s.rng.choice(("_dump_{}", "nccl_trace_rank_{}", "rank_{}"))
    for rank in ranks:
        if drop and rank.number in stuck:
            continue
        dump = _dump(rank, plans[rank.number], at, keep)
        s.extra[name.format(rank.number) + (".json" if as_json else "")] = json.dumps(dump) if as_json else pickle.dumps(dump, protocol=2)
    if s.rng.random() < 0.5:
        say.init(s)
        say.steps(s, at, 6)
        s.end = at + 650
        s.book("FAILED", "1:0")
    truth = f"Ranks {sorted(stuck)} stopped calling; all others wait for them, directly or through other groups."
    want = blameless(
        s,
        ["T13"],
        manifestation=["fail_hang"],
        ranks=sorted(stuck),
        confidence=["possible", "insufficient"],
        action=COLLECT,
        healthy_hosts=None,
    )
    return Case("", "Ranks of an expert-parallel job stop calling", truth, want)


@plot
def flight_two_ranks_stop_among_experts(s: Scene) -> Case:
    return _story(s, 2, 0, False)


@plot
def flight_one_rank_stops_among_experts(s: Scene) -> Case:
    return _story(s, 1, s.rng.choice((0, 3)), False)


@plot
def flight_one_dump_is_missing_among_experts(s: Scene) -> Case:
    return _story(s, 1, s.rng.choice((0, 3)), True)


@plot
def flight_without_any_laggard(s: Scene) -> Case:
    """Every rank waits in the same collective: the records exclude a rank that did not enter, and name nobody."""
    s.hosts = s.hosts[:2]
    at = s.start + (s.end - s.start) * 0.7
    everyone = tuple(range(16))
    for n in range(16):
        rank = Rank(n, [(everyone, k, "all_reduce") for k in range(5)], 4)
        s.extra[f"nccl_trace_rank_{n}"] = pickle.dumps(_dump(rank, [(everyone, "default_pg", "all_reduce")], at, 2), protocol=2)
    say.init(s, 4)
    say.steps(s, at, 6)
    s.end = say.timeouts(s, at) + 20
    s.book("FAILED", "1:0")
    s.quiet()
    want = blameless(
        s, ["T13"], manifestation=["fail_hang"], layer=["unknown", "network"], confidence=["insufficient", "possible"], action=COLLECT
    )
    return Case(
        "", "All ranks entered the collective and none left it", "Nobody stayed out: transport or a GPU, not a rank that stayed away.", want
    )
