"""What `explain` finds for a code, in the ways people write it."""

from __future__ import annotations

import pytest

from triage import rulebook
from triage.catalogue import KEYS
from triage.rulebook import Rulebook


@pytest.fixture(scope="module")
def book() -> Rulebook:
    return rulebook.load()


def kinds(rows: list[dict[str, str]]) -> set[str]:
    return {row["kind"] for row in rows}


@pytest.mark.parametrize("asked", ["xid 94", "XID94", "Xid: 94", "xid.94", "xid-94", " 94 "])
def test_dissent_and_the_deciding_row(book: Rulebook, asked: str) -> None:
    rows = book.explain(asked)
    assert {tuple(row) for row in rows} == {KEYS}
    sources = {row["source"] for row in rows}
    assert {"NVIDIA Xid-Catalog.xlsx", "NVIDIA/k8s-device-plugin", "leptonai/gpud", "Aegis (NSDI 2025)"} <= sources
    ours = [row for row in rows if row["kind"] == "signature"]
    assert [row["mnemonic"] for row in ours] == ["xid-contained"]
    assert ours[0]["action"].startswith("restart_job")


@pytest.mark.parametrize(
    ("asked", "kind", "mnemonic"),
    [
        ("exit 134", "exit", "SIGABRT"),
        ("exit code 137", "exit", "SIGKILL"),
        ("139", "exit", "SIGSEGV"),
        ("rc=143", "exit", "SIGTERM"),
        ("-9", "signal", "SIGKILL"),
        ("-9", "exit", "SIGKILL"),
        ("signal 15", "signal", "SIGTERM"),
        ("sigkill", "signal", "SIGKILL"),
        ("nccl 6", "nccl", "ncclRemoteError"),
        ("ncclSystemError", "nccl", "ncclSystemError"),
        ("status 12", "ib", "IBV_WC_RETRY_EXC_ERR"),
        ("12", "ib", "IBV_WC_RETRY_EXC_ERR"),
        ("ibv_wc_retry_exc_err", "ib", "IBV_WC_RETRY_EXC_ERR"),
        ("GSP_RPC_TIMEOUT", "xid", "GSP_RPC_TIMEOUT"),
        ("sxid 20034", "sxid", "NVSWITCH_ERR_HW_DLPL_LTSSM_FAULT_UP"),
        ("20034", "sxid", "NVSWITCH_ERR_HW_DLPL_LTSSM_FAULT_UP"),
    ],
)
def test_number_or_name(book: Rulebook, asked: str, kind: str, mnemonic: str) -> None:
    assert mnemonic in {row["mnemonic"] for row in book.explain(asked) if row["kind"] == kind}


def test_a_kind_that_is_asked_for_is_the_only_one(book: Rulebook) -> None:
    assert kinds(book.explain("exit 137")) == {"exit"}
    assert kinds(book.explain("137")) == {"xid", "signature", "exit"}
    assert kinds(book.explain("nccl.timeout")) == {"event", "signature"}
    assert kinds(book.explain("t13")) == {"class"}


def test_an_unknown_xid_is_told_as_unknown(book: Rulebook) -> None:
    rows = book.explain("xid 999")
    assert [row["mnemonic"] for row in rows] == ["xid-unknown"]


@pytest.mark.parametrize("asked", ["", "what", "xid", "xid.*", "9" * 40, "xid 94 95", "'; DROP TABLE events; --"])
def test_words_that_mean_nothing(book: Rulebook, asked: str) -> None:
    assert book.explain(asked) == []
