"""File systems whose locks may not hold are told of, once, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from triage import filesystem
from triage.filesystem import doubt, kind_of


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mounts"
    shared = str(tmp_path / "our logs").replace(" ", "\\040")
    path.write_text(f"/dev/vda / ext4 rw 0 0\nfleet:/export {shared} nfs4 rw,relatime 0 0\ntmpfs {shared}/scratch tmpfs rw 0 0\nshort\n")
    return path


def test_the_deepest_mount_counts(mounts: Path, tmp_path: Path) -> None:
    assert kind_of("/etc", mounts) == "ext4"
    assert kind_of(tmp_path / "our logs" / "fleet.duckdb", mounts) == "nfs4"
    assert kind_of(tmp_path / "our logs" / "scratch" / "x", mounts) == "tmpfs"
    assert kind_of("/etc", tmp_path / "none") == ""


def test_only_network_file_systems_raise_a_doubt(mounts: Path, tmp_path: Path) -> None:
    assert "nfs4" in (doubt(tmp_path / "our logs" / "fleet.duckdb", mounts) or "")
    assert doubt("/etc/fleet.duckdb", mounts) is None


def test_ingest_says_so(triage: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "doubt", lambda path: f"{path} lies on nfs4")
    (tmp_path / "logs").mkdir()
    done = triage("ingest", tmp_path / "logs", "--db", tmp_path / "t.duckdb")
    assert (done.code, done.err.count("\n")) == (0, 1)
    assert done.err.startswith("triage: note: ") and "lies on nfs4" in done.err
