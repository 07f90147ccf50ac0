"""What hosts share, and where that is known from."""

from __future__ import annotations

from typing import Any

import pytest

from triage import topology
from triage.topology import Topology


def told(host: str, basis: str, **values: Any) -> dict[str, Any]:
    return {"host": host, "basis": basis, "source_id": basis, "line": 1, **values}


def rows(*records: dict[str, Any], seen: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    return {row["host"]: row for row in topology.build(records, seen)}


def test_the_best_source_that_says_a_field_wins() -> None:
    made = rows(
        told("r1-n1", "sinfo", leaf="s9", gpus=4), told("r1-n1", "csv", rack="A7", gpus=8), told("r1-n1", "slurm", leaf="leaf1", rack="B")
    )
    assert made["r1-n1"] == {"host": "r1-n1", "rack": "A7", "leaf": "leaf1", "gpus": 8, "topology_from": "csv"}


def test_racks_are_guessed_from_names_only_where_nothing_is_known() -> None:
    made = rows(told("r1-n3", "csv", rack="A7"), seen=("r1-n1", "r1-n2", "login"))
    assert (made["r1-n1"]["rack"], made["r1-n1"]["topology_from"]) == ("r1", "guess")
    assert made["r1-n3"]["rack"] == "A7"
    assert "rack" not in made["login"]


def test_one_host_alone_makes_no_rack() -> None:
    assert "rack" not in rows(seen=("r1-n1",))["r1-n1"]


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("r12-n03", "r12"),
        ("rack3node07", "rack3"),
        ("dc1-4-gpu7", "dc1-4"),
        ("gpu-121", None),
        ("login", None),
        ("", None),
        ("a" * 300, None),
    ],
)
def test_groups_in_names(host: str, group: str | None) -> None:
    assert topology.group_in(host) == group


PLACES = [
    {"host": "a1", "rack": "A", "leaf": "l1", "ip": "192.0.2.1"},
    {"host": "a2", "rack": "A", "leaf": "l1"},
    {"host": "b1", "rack": "B", "leaf": "l1"},
    {"host": "c1", "rack": "C", "leaf": "l2", "rail": "r0"},
    {"host": "d1", "rail": "r0"},
]


@pytest.mark.parametrize(
    ("hosts", "part"),
    [
        ({"a1", "a2"}, ("rack", "A")),
        ({"a1", "b1"}, ("leaf", "l1")),
        ({"a1", "c1"}, None),
        ({"a1"}, None),
        (set(), None),
        ({"a1", "new"}, None),
    ],
)
def test_the_smallest_shared_part(hosts: set[str], part: tuple[str, str] | None) -> None:
    assert Topology.of(PLACES).shared(hosts) == part


def test_members_nearness_and_addresses() -> None:
    made = Topology.of(PLACES)
    assert made.members("leaf", "l1") == ["a1", "a2", "b1"]
    assert (made.near("a1", ["b1"]), made.near("c1", ["d1"]), made.near("a1", ["d1"])) == ("leaf", "rail", None)
    assert made.addresses == {"192.0.2.1": "a1"}
