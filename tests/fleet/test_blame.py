"""What counts against a host and what does not."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from triage import blame
from triage.blame import Blame
from triage.exposure import Burn
from triage.schema import TABLES


def at(day: float) -> datetime:
    return datetime.fromisoformat("2031-05-01") + timedelta(days=day)


def frame(table: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=TABLES[table].dtypes())


Story = dict[str, object]


def charged(
    stories: list[Story], states: list[Story] | None = None, racks: dict[str, str] | None = None, spans: list[Story] | None = None
) -> pl.DataFrame:
    """Charges of stories: day, hosts, code, and any column of job, incident or finding that differs from a plain culprit."""
    jobs, incidents, findings = [], [], []
    for number, story in enumerate(stories):
        told: Story = {"class": "T04", "code": "xid.79", "role": "culprit", "kind": "job", "state": "FAILED", "user": "u1", "layer": "gpu"}
        told |= {"confidence": "probable", "failed_host": None} | story
        when = at(float(str(told["day"])))
        key: Story = {"job_id": str(told.get("job", number)), "attempt": 0}
        hosts = told["hosts"]
        assert isinstance(hosts, list)
        jobs.append(
            key | {n: told[n] for n in ("state", "user", "failed_host")} | {"nodes": 4, "start": when - timedelta(hours=3), "end": when}
        )
        names = ("kind", "class", "layer", "confidence")
        incidents.append(key | {n: told[n] for n in names} | {"incident_id": f"i{number}", "start": when, "hosts": hosts, "jobs": ["x"]})
        for place, host in enumerate(hosts, start=1):
            findings.append({n: told[n] for n in ("role", "code", "class")} | {"incident_id": f"i{number}", "place": place, "host": host})
    hosts_frame = frame("hosts", [{"host": h, "rack": r} for h, r in (racks or {}).items()])
    records = blame.Records(
        frame("jobs", jobs),
        frame("job_hosts", spans or []),
        frame("host_states", states or []),
        hosts_frame,
        frame("incidents", incidents),
        frame("findings", findings),
        frame("bursts", []),
    )
    return blame.charges(records, Blame(), Burn())


def only(rows: pl.DataFrame) -> tuple[float, str | None]:
    assert rows.height == 1
    return rows["weight"].item(), rows["discount"].item()


@pytest.mark.parametrize(
    ("story", "weight"),
    [
        ({}, 1.0),
        ({"role": "suspect", "code": "ib.link_down"}, 0.5),
        ({"role": "suspect", "code": "nccl.timeout", "confidence": "insufficient", "layer": "unknown"}, 0.1),
        ({"role": "suspect", "code": None, "state": "NODE_FAIL", "confidence": "insufficient", "layer": "unknown"}, 1.0),
        ({"role": "suspect", "code": None, "failed_host": "a", "layer": "unknown"}, 1.0),
        ({"role": "suspect", "code": "slurm.node_not_responding", "layer": "unknown"}, 1.0),
    ],
)
def test_weights(story: Story, weight: float) -> None:
    assert only(charged([{"day": 1, "hosts": ["a"]} | story])) == (weight, None)


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        ({"kind": "shared"}, blame.SHARED),
        ({"state": "COMPLETED"}, blame.WENT_ON),
        ({"code": "xid.63"}, blame.NOISE),
        ({"code": "pcie.aer_corrected"}, blame.NOISE),
        ({"code": "xid.31", "layer": "user", "role": "suspect"}, blame.PROGRAM),
        ({"class": "T20", "layer": "user", "role": "suspect", "code": "torch.exception"}, blame.NOT_HOST),
        ({"class": "T23", "layer": "scheduler", "role": "suspect", "code": None}, blame.NOT_HOST),
    ],
)
def test_discounts(story: Story, reason: str) -> None:
    assert only(charged([{"day": 1, "hosts": ["a"]} | story])) == (0.0, reason)


def test_two_culprits_share_the_blame_and_three_carry_none() -> None:
    assert charged([{"day": 1, "hosts": ["a", "b"]}])["weight"].to_list() == [0.5, 0.5]
    three = charged([{"day": 1, "hosts": ["a", "b", "c"]}])
    assert three["weight"].sum() == 0
    assert set(three["discount"]) == {blame.MANY}


def test_a_program_fault_counts_only_where_it_follows_the_host_over_three_users() -> None:
    def stories(users: list[str], also: list[Story]) -> list[Story]:
        return [{"day": n, "hosts": ["a"], "code": "xid.31", "layer": "user", "user": u} for n, u in enumerate(users)] + also

    assert charged(stories(["u1", "u2", "u3"], []))["weight"].to_list() == [1.0, 1.0, 1.0]
    assert charged(stories(["u1", "u2", "u2"], []))["weight"].sum() == 0
    elsewhere: list[Story] = [{"day": 10 + n, "hosts": [f"z{n}"], "code": "xid.31", "layer": "user", "user": "u3"} for n in range(3)]
    assert charged(stories(["u1", "u2", "u3"], elsewhere))["weight"].sum() == 0


def _state(reason: str, user: str, day: float) -> list[Story]:
    return [{"host": "a", "state": "down", "reason": reason, "user": user, "start": at(day), "end": at(day + 1)}]


@pytest.mark.parametrize(
    ("reason", "user", "code", "weight"),
    [
        ("fibre work", "alice", "slurm.node_fail", 0.0),
        ("scheduled maintenance", "root", "slurm.node_fail", 0.0),
        ("Not responding", "slurm", "slurm.node_fail", 1.0),
        ("Kill task failed", "root", "slurm.node_fail", 1.0),
        ("fibre work", "alice", "xid.79", 1.0),
    ],
)
def test_an_operator_who_takes_a_host_away_is_not_its_failure(reason: str, user: str, code: str, weight: float) -> None:
    rows = charged([{"day": 1, "hosts": ["a"], "code": code, "state": "NODE_FAIL"}], _state(reason, user, 1 - 0.0005))
    assert rows["weight"].item() == weight


def test_a_drain_after_the_failure_excuses_nothing() -> None:
    rows = charged([{"day": 1, "hosts": ["a"], "code": "slurm.node_fail", "state": "NODE_FAIL"}], _state("broken", "alice", 1.01))
    assert rows["weight"].item() == 1.0


def test_a_rack_that_fails_at_once_accuses_no_host() -> None:
    stories: list[Story] = [
        {"day": 1 + n / 86400 * 60, "hosts": [h], "class": c} for n, (h, c) in enumerate(zip("abc", ("T15", "T24", "T04"), strict=True))
    ]
    assert charged(stories, racks=dict.fromkeys("abc", "r1"))["weight"].sum() == 0
    assert charged(stories, racks={"a": "r1", "b": "r2", "c": "r3"})["weight"].sum() == 3


def test_equal_failures_of_three_hosts_within_a_minute_accuse_no_host() -> None:
    stories: list[Story] = [{"day": 1 + n / 86400 * 20, "hosts": [h]} for n, h in enumerate("abc")]
    assert charged(stories)["weight"].sum() == 0
    assert charged(stories[:2])["weight"].sum() == 2


def test_burn_in_of_a_late_host_is_set_apart() -> None:
    spans: list[Story] = [
        {"job_id": "s", "attempt": 0, "host": h, "start": at(d), "end": at(40)} for h, d in (*((f"old{n}", 0) for n in range(9)), ("a", 20))
    ]
    rows = charged([{"day": 22, "hosts": ["a"]}, {"day": 30, "hosts": ["a"]}], spans=spans)
    assert rows["discount"].to_list() == [blame.BURN_IN, None]


def bare(roles: str) -> pl.DataFrame:
    """Charges of one incident without any job record; C a culprit, s a suspect, v a victim, on hosts a, b, c ..."""
    words = {"C": "culprit", "s": "suspect", "v": "victim"}
    named = [(n, chr(ord("a") + n), words[r]) for n, r in enumerate(roles)]
    records = blame.Records(
        frame("jobs", []),
        frame("job_hosts", []),
        frame("host_states", []),
        frame("hosts", []),
        frame("incidents", [{"incident_id": "i", "kind": "host", "start": at(1), "class": "T04", "layer": "gpu"}]),
        frame("findings", [{"incident_id": "i", "place": n, "host": h, "role": r, "code": "xid.79"} for n, h, r in named]),
        frame("bursts", []),
    )
    return blame.charges(records, Blame(), Burn())


def test_suspects_beside_a_culprit_are_not_charged_and_do_not_dilute_it() -> None:
    assert bare("Cssv").select("host", "weight").rows() == [("a", 1.0)]


def test_retries_within_the_hour_are_one_episode() -> None:
    rows = charged([{"day": 1 + n * 0.01, "hosts": ["a"], "job": n} for n in range(5)] + [{"day": 3, "hosts": ["a"], "job": 9}])
    told = blame.episodes(rows, Blame())
    assert told["incidents"].to_list() == [5, 1]


def test_without_job_records_every_failure_of_a_host_counts() -> None:
    assert only(bare("C")) == (1.0, None)
