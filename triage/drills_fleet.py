"""Seeded synthetic fleets with known lemons: the frames that the recurrence stage reads, and the truth beside them.

Hosts fail at a rate per allocated host-day; jobs are gangs that end with their first failing host. Around the lemons lie the things
that fool a plain count: busy hosts, programs that raise XIDs wherever they run, a rack without power, a flood of equal lines,
operators, users who avoid a host, new hosts that burn in, warnings, and hangs that blame somebody at random.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from triage.schema import TABLES

START = datetime(2031, 3, 3, tzinfo=UTC).replace(tzinfo=None)
FRAMES = ("jobs", "job_hosts", "host_states", "hosts", "incidents", "findings", "bursts")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a fleet is made of; rates are per allocated host-day.

    healthy      mean rate of ordinary hosts (their own rates vary: Gamma of shape 3)
    lemons       share of hosts, with rates drawn from `lemon_rate`
    bad_program  share of users whose programs fault on every host of their jobs
    """

    hosts: int = 200
    days: int = 60
    window_days: int = 28
    per_rack: int = 16
    per_leaf: int = 8
    healthy: float = 5e-3
    lemons: float = 0.04
    lemon_rate: tuple[float, float] = (0.25, 0.8)
    users: int = 24
    bad_program: float = 0.1
    user_fault: float = 0.06
    hang: float = 0.02
    save_hours: float = 1.0
    rack_losses: int = 2
    drains: int = 12
    new_hosts: float = 0.04
    mean_hours: float = 10.0
    sizes: tuple[int, ...] = (1, 1, 1, 2, 4, 8, 16)


LEMON_KINDS = ("same_gpu", "node_fail", "pcie", "late")
# class, code, layer of what each kind prints
KIND_CODES = {
    "same_gpu": ("T01", "xid.48", "gpu"),
    "node_fail": ("T24", "slurm.node_fail", "unknown"),
    "pcie": ("T04", "xid.79", "gpu"),
    "late": ("T07", "xid.74", "interconnect"),
}
HEALTHY_CODES = (("T01", "xid.95", "gpu"), ("T04", "xid.79", "gpu"), ("T05", "xid.119", "gpu"), ("T12", "ib.link_down", "network"))


@dataclass(slots=True)
class Fleet:
    """The frames by table name, `now`, the truth and the hosts that users excluded.

    truth   host, kind, lemon (planted), rate (true mean rate over the allocated time of the window), days, fail_days
    broken  job_id, attempt, cause, end, hosts, gpus, saved (last checkpoint, null where none), gpu_hours_lost
    """

    frames: dict[str, pl.DataFrame]
    now: datetime
    truth: pl.DataFrame
    exclusions: pl.DataFrame
    broken: pl.DataFrame


@dataclass(slots=True)
class _World:
    """The state of one simulation; times are days since its start."""

    recipe: Recipe
    rng: np.random.Generator
    kind: list[str]
    rate: np.ndarray
    onset: np.ndarray
    settles: np.ndarray
    joined: np.ndarray
    idle_h: np.ndarray
    rack: np.ndarray
    device: np.ndarray
    free: np.ndarray
    bad_user: np.ndarray
    rows: dict[str, list[dict[str, object]]] = field(default_factory=lambda: {name: [] for name in FRAMES})
    runs: list[tuple[int, float, float]] = field(default_factory=list)
    broke: list[tuple[int, float]] = field(default_factory=list)
    away: list[tuple[int, float, float]] = field(default_factory=list)
    killed: list[dict[str, object]] = field(default_factory=list)

    def hazard(self, hosts: np.ndarray, at: float) -> np.ndarray:
        """True rate of hosts at a time: late lemons turn bad at their onset, new hosts settle."""
        early = np.where(at < self.settles[hosts], 0.5, 0.0)
        lemon = np.where(at >= self.onset[hosts], self.rate[hosts], 5e-3)
        return lemon + early


def generate(seed: int, recipe: Recipe | None = None) -> Fleet:
    """One fleet; equal seeds give equal fleets."""
    recipe = recipe or Recipe()
    world = _world(np.random.default_rng(seed), recipe)
    losses = [(float(t), int(r)) for t, r in _events(world, recipe.rack_losses, int(world.rack.max()) + 1)]
    drains = [(float(t), int(h)) for t, h in _events(world, recipe.drains, recipe.hosts) if not world.joined[h]]
    _take_away(world, losses, drains)
    number = 0
    while world.free.min() < recipe.days:
        number = _job(world, number, losses, drains)
    _noise(world)
    _inventory(world)
    return _fleet(world)


def _take_away(world: _World, losses: list[tuple[float, int]], drains: list[tuple[float, int]]) -> None:
    """Hosts that are out of service whatever their jobs do: maintenance, racks without power, boards that wait for a part."""
    for at, host in drains:
        _state(world, host, "down", at, at + 1.0, "planned maintenance", "ops1")
    for at, rack in losses:
        for dark in np.flatnonzero((world.rack == rack) & (world.joined <= at)):
            _state(world, int(dark), "down", at, at + 0.08, "Not responding", "slurm")
    # a drained host lets its job end and takes no other
    for at, drained in _events(world, world.recipe.drains, world.recipe.hosts):
        if not world.joined[drained]:
            _state(world, int(drained), "drain", float(at), float(at) + 2.0, "bad DIMM, waits for a part", "ops2")


def _world(rng: np.random.Generator, recipe: Recipe) -> _World:
    n = recipe.hosts
    kind = ["healthy"] * n
    rate = rng.gamma(3.0, recipe.healthy / 3.0, n)
    onset = np.zeros(n)
    settles, joined = np.zeros(n), np.zeros(n)
    order = rng.permutation(n)
    lemons = order[: max(1, round(recipe.lemons * n))]
    for i, host in enumerate(lemons):
        kind[host] = LEMON_KINDS[i % len(LEMON_KINDS)]
        rate[host] = rng.uniform(*recipe.lemon_rate)
        onset[host] = recipe.days - rng.uniform(12, 20) if kind[host] == "late" else 0.0
    new = order[len(lemons) : len(lemons) + round(recipe.new_hosts * n)]
    joined[new] = recipe.days - rng.uniform(10, 25, new.size)
    settles[new] = joined[new] + 6.0
    for host in new:
        kind[host] = "new"
    idle = rng.choice([0.5, 8.0, 40.0], n, p=[0.2, 0.6, 0.2])
    return _World(
        recipe, rng, kind, rate, onset, settles, joined, idle, np.arange(n) // recipe.per_rack, rng.integers(0, 8, n),
        joined + rng.uniform(0, 0.5, n), rng.random(recipe.users) < recipe.bad_program,
    )  # fmt: skip


def _events(world: _World, number: int, things: int) -> Iterable[tuple[float, int]]:
    return zip(world.rng.uniform(1, world.recipe.days - 1, number), world.rng.integers(0, things, number), strict=True)


def _job(world: _World, number: int, losses: list[tuple[float, int]], drains: list[tuple[float, int]]) -> int:
    """Place one gang on the hosts that are free first and run it, with its retries, to its end."""
    rng, recipe = world.rng, world.recipe
    size = min(int(rng.choice(recipe.sizes)), recipe.hosts)
    for host, begin, back in world.away:
        if begin <= world.free[host] < back:
            world.free[host] = back
    hosts = np.argpartition(world.free + rng.exponential(0.02, recipe.hosts), size - 1)[:size]
    start, user = _in_service(world, hosts, float(world.free[hosts].max())), int(rng.integers(recipe.users))
    attempt = 0
    while True:
        length = float(rng.exponential(recipe.mean_hours / 24.0)) + 0.01
        end, failed = _first_failure(world, hosts, start, length)
        end, cause = _outside(world, hosts, start, end, failed, losses, drains)
        _run(world, number, attempt, hosts, user, start, end, failed if cause == "host" else -1, cause)
        # half of the failed jobs are retried at once on the same hosts
        if cause != "host" or attempt >= 2 or rng.random() < 0.5 or _in_service(world, hosts, end + 0.007) > end + 0.007:
            break
        attempt, start = attempt + 1, end + 0.007
    world.free[hosts] = end + rng.exponential(world.idle_h[hosts] / 24.0) + 0.007
    return number + 1


def _in_service(world: _World, hosts: np.ndarray, start: float) -> float:
    """The first moment from `start` at which none of the hosts is out of service."""
    gang = set(hosts.tolist())
    while later := [back for host, begin, back in world.away if host in gang and begin <= start < back]:
        start = max(later)
    return start


def _first_failure(world: _World, hosts: np.ndarray, start: float, length: float) -> tuple[float, int]:
    waits = world.rng.exponential(1.0, hosts.size) / world.hazard(hosts, start)
    first = int(np.argmin(waits))
    return (start + float(waits[first]), int(hosts[first])) if waits[first] < length else (start + length, -1)


def _outside(
    world: _World,
    hosts: np.ndarray,
    start: float,
    end: float,
    failed: int,
    losses: list[tuple[float, int]],
    drains: list[tuple[float, int]],
) -> tuple[float, str]:
    """The end and its cause once racks, operators and programs had their say; the first of them wins."""
    ends = [(end, "host" if failed >= 0 else "done")]
    ends += [(at, "rack") for at, rack in losses if start < at < end and (world.rack[hosts] == rack).any()]
    ends += [(at, f"drain {host}") for at, host in drains if start < at < end and (hosts == host).any()]
    if failed < 0:
        draw = world.rng.random()
        if draw < world.recipe.user_fault:
            ends.append((start + (end - start) * world.rng.random(), "user"))
        elif draw < world.recipe.user_fault + world.recipe.hang:
            ends.append((end, "hang"))
            ends.pop(0)
    return min(ends)


def _run(world: _World, number: int, attempt: int, hosts: np.ndarray, user: int, start: float, end: float, failed: int, cause: str) -> None:
    """Write the attempt and, where it failed, its incident."""
    job = str(1000 + number)
    state = {"done": "COMPLETED", "host": "FAILED"}.get(cause, "FAILED" if cause in ("user", "hang") else "NODE_FAIL")
    if failed >= 0 and world.kind[failed] == "node_fail":
        state = "NODE_FAIL"
    names = [_name(h) for h in hosts]
    key = {"job_id": job, "attempt": attempt}
    stop = _time(end) if end < world.recipe.days else None
    row = {**key, "user": f"u{user}", "state": state if stop else "RUNNING", "nodes": hosts.size, "gpus": 8 * hosts.size}
    world.rows["jobs"].append({**row, "submit": _time(start), "start": _time(start), "end": stop, "name": f"run{user}"})
    world.rows["job_hosts"] += [{**key, "host": name, "start": _time(start), "end": stop} for name in names]
    world.runs += [(int(h), start, min(end, world.recipe.days)) for h in hosts]
    if stop is None or cause == "done":
        return
    accused, what = _accused(world, hosts, user, failed, cause)
    if failed >= 0:
        world.broke.append((failed, end))
    if state == "NODE_FAIL" and failed >= 0:
        _state(world, failed, "down", end, end + 0.006, "Not responding", "slurm")
    lost = _killed(world, key, hosts, start, end, cause)
    world.rows["jobs"][-1] |= {"gpu_hours_lost": lost, "basis": "checkpoint"}
    _incident(world, key, end, accused, what, names)
    world.rows["incidents"][-1]["gpu_hours_lost"] = lost


def _killed(world: _World, key: dict[str, object], hosts: np.ndarray, start: float, end: float, cause: str) -> float:
    """Write what the end of an attempt destroyed; the GPU-hours since its last checkpoint, else since its start."""
    save = world.recipe.save_hours / 24.0
    # training stops some seconds before the end, or ten minutes before the timeout that ends a hang
    saves = int((end - (0.007 if cause == "hang" else 1e-4) - start) / save)
    since = start + max(0, saves) * save
    lost = 8.0 * hosts.size * (end - since) * 24.0
    told = {"cause": cause.split()[0], "start": _time(start), "end": _time(end), "hosts": [_name(h) for h in hosts], "gpus": 8 * hosts.size}
    world.killed.append({**key, **told, "saved": _time(since) if saves > 0 else None, "gpu_hours_lost": lost})
    return lost


Cause = tuple[str, str | None, str, str]


def _accused(world: _World, hosts: np.ndarray, user: int, failed: int, cause: str) -> tuple[list[int], Cause]:
    """Hosts that the findings would name, with class, code, layer and role."""
    rng = world.rng
    if cause == "host":
        label, code, layer = KIND_CODES.get(world.kind[failed]) or HEALTHY_CODES[int(rng.integers(len(HEALTHY_CODES)))]
        return [failed], (label, code, layer, "suspect" if code.startswith("slurm") else "culprit")
    if cause == "user":
        spread = hosts if world.bad_user[user] else hosts[:1]
        return [int(h) for h in spread], ("T08", ("xid.31", "xid.13")[int(rng.integers(2))], "user", "suspect")
    if cause == "rack":
        dark = world.rack[hosts] == np.bincount(world.rack[hosts]).argmax()
        return [int(h) for h in hosts[dark]], ("T15", "slurm.node_fail", "host", "suspect")
    if cause == "hang":
        return [int(rng.choice(hosts))], ("T13", "nccl.timeout", "unknown", "suspect")
    return [int(cause.split()[1])], ("T24", "slurm.node_fail", "unknown", "suspect")


def _incident(world: _World, key: dict[str, object], at: float, accused: list[int], what: Cause, names: list[str]) -> None:
    label, code, layer, role = what
    number = f"i{len(world.rows['incidents']):06d}"
    sure = {"T13": "insufficient", "T24": "insufficient", "T08": "possible"}.get(label, "probable")
    gang = [_name(h) for h in accused] + [n for n in names if n not in {_name(h) for h in accused}]
    story = {"incident_id": number, "kind": "job", "start": _time(at), "end": _time(at), **key, "class": label, "layer": layer}
    world.rows["incidents"].append({**story, "hosts": gang, "jobs": [key["job_id"]], "confidence": sure})
    for place, host in enumerate(accused, start=1):
        gpu = int(world.device[host] if world.kind[host] in ("same_gpu", "late") else world.rng.integers(8))
        device = f"0000:{0x1A + 0x10 * gpu:02x}:00" if code and code.startswith("xid") else None
        named = {"host": _name(host), "device": device, "code": code, "class": label}
        world.rows["findings"].append({**named, "incident_id": number, "place": place, "role": role, "score": 1.0, "ts": _time(at)})
        _burst(world, host, str(code), at, 1, device, "root", key)


def _noise(world: _World) -> None:
    """Things that are no failure: a flood of equal lines, warnings, and avoided hosts."""
    rng, recipe = world.rng, world.recipe
    flood = int(rng.integers(recipe.hosts))
    _burst(world, flood, "xid.95", recipe.days - 5.0, 800_000, "0000:1a:00", "root", {})
    for host in rng.integers(0, recipe.hosts, recipe.hosts // 10):
        for at in rng.uniform(recipe.days - 28, recipe.days, 20):
            _burst(world, int(host), "xid.63", float(at), 1, "0000:2a:00", "precursor", {})


def _burst(world: _World, host: int, code: str, at: float, count: int, device: str | None, role: str, key: dict[str, object]) -> None:
    row: dict[str, object] = {
        "burst_id": f"b{len(world.rows['bursts']):06d}",
        "host": _name(host),
        "device": device,
        "code": code,
        "role": role,
    }
    row["user_possible"] = code in ("xid.13", "xid.31")
    family = "gpu" if code.startswith("xid") else "scheduler" if code.startswith("slurm") else "training"
    world.rows["bursts"].append({**row, **key, "family": family, "first": _time(at), "last": _time(at), "count": count, "events": 1})


def _state(world: _World, host: int, state: str, start: float, end: float, reason: str, user: str) -> None:
    times = {"start": _time(start), "end": _time(end)}
    world.rows["host_states"].append({"host": _name(host), "state": state, "reason": reason, "user": user, **times})
    world.away.append((host, start, end))


def _inventory(world: _World) -> None:
    world.rows["hosts"] = [
        {
            "host": _name(h),
            "gpus": 8,
            "rack": f"r{world.rack[h]:02d}",
            "leaf": f"leaf{h // world.recipe.per_leaf:02d}",
            "topology_from": "csv",
        }
        for h in range(world.recipe.hosts)
    ]


def _fleet(world: _World) -> Fleet:
    now = _time(world.recipe.days)
    frames = {name: pl.DataFrame(world.rows[name], schema=TABLES[name].dtypes()) for name in FRAMES}
    rng = world.rng
    avoided = rng.integers(0, world.recipe.hosts, 3)
    pairs = [{"job_id": str(1000 + i), "host": _name(h)} for h in avoided for i in range(40)]
    return Fleet(frames, now, _truth(world), pl.DataFrame(pairs), pl.DataFrame(world.killed, schema_overrides={"saved": pl.Datetime("us")}))


def _truth(world: _World) -> pl.DataFrame:
    """True mean rate of each host over the time that it was allocated in the window, burn-in apart."""
    recipe = world.recipe
    since = recipe.days - recipe.window_days
    days, expected = np.zeros(recipe.hosts), np.zeros(recipe.hosts)
    for host, start, end in world.runs:
        start, end = max(start, since, world.settles[host]), min(end, recipe.days)
        if end > start:
            days[host] += end - start
            expected[host] += (end - start) * float(world.hazard(np.array([host]), (start + end) / 2)[0])
    broke = {(host, int(at)) for host, at in world.broke if at > since}
    return pl.DataFrame(
        {
            "host": [_name(h) for h in range(recipe.hosts)],
            "kind": world.kind,
            "lemon": [k in LEMON_KINDS for k in world.kind],
            "rate": expected / np.maximum(days, 1e-9),
            "days": days,
            "fail_days": [sum(h == host for h, _ in broke) for host in range(recipe.hosts)],
        }
    )


def _name(host: int) -> str:
    return f"dn{host:04d}"


def _time(days: float) -> datetime:
    return START + timedelta(days=round(float(days), 6))


@dataclass(frozen=True, slots=True)
class Marks:
    """How a ranking did against the truth; recall and average precision over lemons that broke jobs on `least` days, and over all.

    above   hosts that are no lemons and stand above one of these
    """

    true: int
    false: int
    missed: int
    missed_all: int
    average_precision: float
    average_precision_all: float
    coverage: float
    above: int


def visible(truth: pl.DataFrame, least: int = 3) -> set[str]:
    """Planted lemons that broke jobs on so many days of the window: the others did nothing that a log could tell."""
    return set(truth.filter(pl.col("lemon") & (pl.col("fail_days") >= least))["host"])


def marks(table: pl.DataFrame, truth: pl.DataFrame) -> Marks:
    """Judge a `recurrence` table; coverage is the share of hosts allocated for a day or more whose true rate lies in the interval."""
    seen, planted = visible(truth), set(truth.filter("lemon")["host"])
    flagged = set(table.filter("lemon")["host"])
    order = table.sort("place")["host"].to_list()
    rates = table.join(truth.filter(pl.col("days") >= 1).select("host", true="rate"), on="host")
    inside = (rates["low"] <= rates["true"]) & (rates["true"] <= rates["high"])
    hidden = planted - seen
    return Marks(
        len(flagged & planted),
        len(flagged - planted),
        len(seen - flagged),
        len(planted - flagged),
        average_precision([h for h in order if h not in hidden], seen),
        average_precision(order, planted),
        float(inside.sum()) / max(1, inside.len()),
        len([h for h in order[: max((order.index(h) for h in seen), default=0)] if h not in planted]),
    )


def average_precision(order: list[str], wanted: set[str]) -> float:
    """Mean precision at each wanted host of a ranking; 1 where nothing is wanted."""
    hits, total = 0, 0.0
    for place, host in enumerate(order, start=1):
        if host in wanted:
            hits += 1
            total += hits / place
    return total / len(wanted) if wanted else 1.0


def by_xid_lines(bursts: pl.DataFrame) -> list[str]:
    """Hosts by plain count of Xid lines."""
    return by_count(bursts.filter(pl.col("code").str.starts_with("xid.")), "count")


def by_days(bursts: pl.DataFrame) -> list[str]:
    """Hosts by distinct days with a code on a device: the count that floods do not fool."""
    return by_count(bursts.with_columns(day=pl.col("first").dt.date()).unique(["host", "device", "code", "day"]))


def by_count(frame: pl.DataFrame, weight: str | None = None) -> list[str]:
    """Hosts by plain count of rows (or sum of a column): the ranking that most people start from."""
    number = pl.len() if weight is None else pl.col(weight).sum()
    return frame.drop_nulls("host").group_by("host").agg(n=number).sort(["n", "host"], descending=[True, False])["host"].to_list()
