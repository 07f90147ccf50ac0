"""What a user can get wrong with --dask and --spool is one line; a manifest of somebody else leads nowhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.dask import folders
from triage.crew import Place, place_of
from triage.desk import Setup, ingest
from triage.faults import Fault
from triage.landing import FORMAT, Landing

pytest.importorskip("distributed")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("local[4]", Place("local", 4)),
        ("slurm", Place("slurm", 4)),
        ("slurm[16]", Place("slurm", 16)),
        ("tls://head:8786", Place("address", address="tls://head:8786")),
    ],
)
def test_places(text: str, place: Place) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize("text", ["local[0]", "local[]", "local[-1]", "head:8786", "http://head", "", "slurm[2]x", "local[999999]"])
def test_no_places(text: str) -> None:
    with pytest.raises(Fault, match="give local") as raised:
        place_of(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("place", "module"),
    [("local[2]", "distributed"), ("local[2]", "cryptography"), ("slurm", "dask_jobqueue"), ("tcp://head:8786", "fsspec")],
)
def test_without_the_extra_it_is_one_line(place: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Fault, match=rf"needs {module}, which is not installed; .*pip install 'gpu-triage\[dask\]'"):
        place_of(place)


@pytest.mark.parametrize(
    ("dask", "spool", "words"),
    [
        (None, "spool", "--spool goes with --dask"),
        ("slurm", None, "name it with --spool"),
        ("tcp://127.0.0.1:9", None, "name it with --spool"),
        ("tcp://127.0.0.1:9", "spool", "no scheduler answers"),
        ("local[1]", "logs/spool", "lies in .*, which is read"),
        ("local[1]", "sacct.txt/spool", "cannot be made"),
        ("local[1]", "nonsense://x/y", "--spool nonsense://x/y: "),
    ],
)
def test_arguments_that_do_not_fit(
    dask: str | None, spool: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("triage.crew.CONNECT", 1)
    folders.write(tmp_path / "logs", lines=10, hosts=1)
    (tmp_path / "sacct.txt").write_text(folders.SACCT)
    with pytest.raises(Fault, match=words) as raised:
        ingest(Setup("t.duckdb"), ["logs"], dask=dask, spool=spool)
    assert "\n" not in str(raised.value)


def test_a_worker_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders.write(tmp_path / "logs", lines=10, hosts=1)
    monkeypatch.setattr("triage.worker.program", lambda: "0.0.9 tables 1")
    with pytest.raises(Fault, match=r"this is 0\.0\.9 tables 1; install the same version on all workers"):
        ingest(Setup(str(tmp_path / "t.duckdb")), [str(tmp_path / "logs")], dask="local[1]")


@pytest.mark.parametrize("path", ["/etc/passwd", "../../secret.parquet", "events/../../secret.parquet"])
def test_a_manifest_that_names_files_elsewhere_is_none_of_ours(tmp_path: Path, path: str) -> None:
    body = json.dumps({"format": FORMAT, "parts": [{"table": "events", "path": path, "rows": 1, "size": 1}], "readings": {}})
    with pytest.raises(ValueError, match="files elsewhere"):
        Landing(str(tmp_path)).landed(body)


@pytest.mark.parametrize("text", ["", "{", "[]\n{}", '{"readings": ["r"]}\n{"format": 99, "parts": [], "readings": {}}'])
def test_a_damaged_manifest_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "batches").mkdir()
    (tmp_path / "batches" / "x.json").write_text(text)
    assert Landing(str(tmp_path)).find(["r"]) == {}
