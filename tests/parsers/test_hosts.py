"""Host lists, short names, addresses, plausible names."""

from __future__ import annotations

import hostlist
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n-[001-003,017]", ["n-001", "n-002", "n-003", "n-017"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("a1,b[2-3],a1", ["a1", "b2", "b3"]),
        (" login1 ", ["login1"]),
        ("(null)", []),
        ("None assigned", []),
        ("n/a", []),
        ("", []),
        ("n[1-", ["n[1-"]),
        ("n[3-1]", ["n[3-1]"]),
        ("n[1-9999999999]", ["n[1-9999999999]"]),
        ("n[1-400]m[1-400]", ["n[1-400]m[1-400]"]),
        ("n[1]]", ["n[1]]"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert hosts.expand(text) == names


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=60, unique=True), st.sampled_from(["n", "gpu-", "rack2-n"]))
def test_expand_reads_what_the_library_collects(numbers: list[int], stem: str) -> None:
    names = [f"{stem}{n:04d}" for n in numbers]
    assert sorted(hosts.expand(hostlist.collect_hostlist(names))) == sorted(names)


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(["n", "[", "]", ",", "-", "1", "99999", "0" * 30, "[1-9]"]), max_size=20).map("".join))
)
def test_expand_survives_anything_within_the_limit(text: str) -> None:
    assert len(hosts.expand(text)) <= hosts.LIMIT


@pytest.mark.parametrize(
    "text", ["n[" + "1-99999," * 9000 + "1]", "a" + "[1]" * 5000, "[" * 100_000, "a[1," * 50_000, "x" * 300_000 + "[1-9999]"]
)
def test_expand_is_bounded(text: str) -> None:
    assert hosts.expand(text) == [text]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Gpu-7.cluster.example", "Gpu-7"),
        ("gpu-7.", "gpu-7"),
        ("gpu-7:", "gpu-7"),
        ("10.0.0.12", "10.0.0.12"),
        ("fe80::1", "fe80::1"),
        ("a", "a"),
        ("", ""),
    ],
)
def test_fold(name: str, short: str) -> None:
    assert hosts.fold(name) == short


@given(st.text())
def test_fold_is_idempotent_and_the_rest_survive(text: str) -> None:
    assert hosts.fold(hosts.fold(text)) == hosts.fold(text)
    hosts.plausible(text)
    hosts.is_address(text)


@pytest.mark.parametrize("text", ["gpu-7", "node1.example.org", "10.0.0.1", "localhost", "ip-10-2-4-77", "r12-n04"])
def test_plausible(text: str) -> None:
    assert hosts.plausible(text)


@pytest.mark.parametrize("text", ["dmesg", "kern.log", "syslog", "Messages", "slurm", "123", "", "a b", "-x", "a..b", "x" * 300])
def test_not_plausible(text: str) -> None:
    assert not hosts.plausible(text)
