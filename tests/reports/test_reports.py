"""What a report holds and how it reads; `--update-expected` rewrites small/expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reports.conftest import Make
from tests.reports.folders import big_folder
from triage import causality, excerpt, reports
from triage.faults import Fault

SMALL = Path(__file__).parent / "small"
GOLDEN = {"md": "report.md", "ticket": "ticket.txt", "slack": "slack.json"}


@pytest.fixture
def small(made: Make, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(SMALL)
    return made("logs")


@pytest.mark.parametrize("fmt", GOLDEN)
def test_reads_as_expected(small: dict[str, Any], fmt: str, request: pytest.FixtureRequest) -> None:
    path = SMALL / "expected" / GOLDEN[fmt]
    text = reports.render(small, fmt).rstrip("\n") + "\n"
    if request.config.getoption("--update-expected"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_json_is_the_whole_report(small: dict[str, Any]) -> None:
    assert json.loads(reports.render(small, "json")) == small


def test_unknown_format_is_the_users_fault(small: dict[str, Any]) -> None:
    with pytest.raises(Fault, match="pdf"):
        reports.render(small, "pdf")


def test_an_empty_folder_is_written_too(made: Make, tmp_path: Path) -> None:
    report = made(tmp_path)
    for fmt in reports.FORMATS:
        assert reports.render(report, fmt)


def test_what_people_wrote_survives_a_second_run(small: dict[str, Any]) -> None:
    first = reports.render(small, "md")
    written = first.replace("_who runs this incident_", "Ada\n\n- [ ] call the vendor").replace("\n", "\r\n")
    again = reports.render(small, "md", written)
    assert "Ada\n\n- [ ] call the vendor\n<!-- /triage:keep owner -->" in again
    assert reports.render(small, "md", again) == again
    assert "_what users and deadlines felt_" in again
    assert "Ada" in reports.render(small, "html", again)


def test_graph_goes_from_the_root_to_the_outcome(small: dict[str, Any]) -> None:
    nodes = {node["id"]: node for node in small["graph"]["nodes"]}
    steps = [(nodes[e["source"]]["stage"], nodes[e["target"]]["stage"], e["reason"]) for e in causality.in_order(small["graph"])]
    assert [step[:2] for step in steps[:2]] == [("root", "symptom"), ("symptom", "outcome")]
    assert "ranks waited 10 min" in steps[0][2]


def test_a_chain_without_a_root_says_so(made: Make, tmp_path: Path) -> None:
    for name in ("sacct.txt", "slurm-331.out"):
        (tmp_path / name).write_bytes((SMALL / "logs" / name).read_bytes())
    graph = made(tmp_path)["graph"]
    assert {e["source"] for e in graph["edges"]} >= {causality.UNKNOWN}


def test_large_graphs_are_folded() -> None:
    nodes = [{"id": f"e{n}", "stage": "root", "code": "xid.94", "host": f"h{n}", "hosts": 1, "count": 2} for n in range(1, 30)]
    nodes.append({"id": "e30", "stage": "outcome", "code": "slurm.job_end", "host": None, "hosts": 0, "count": 1})
    edges = [{"source": "e1", "target": f"e{n}", "reason": "at once"} for n in range(2, 31)]
    small = causality.folded({"nodes": nodes, "edges": edges})
    assert [(n["code"], n["hosts"], n["count"]) for n in small["nodes"]] == [("xid.94", 29, 58), ("slurm.job_end", 0, 1)]
    assert [(e["source"], e["target"]) for e in small["edges"]] == [("e1", "e30")]


def test_phases_add_up_to_the_cost(small: dict[str, Any]) -> None:
    lost = sum(p["gpu_hours"] for p in small["phases"] if p["lost"])
    assert lost == pytest.approx(small["jobs"][0]["gpu_hours_lost"], abs=0.05)
    assert [p["phase"] for p in small["phases"]] == ["queue", "lost", "stuck"]


def test_timeline_places_ranks_on_their_hosts(small: dict[str, Any]) -> None:
    timeline = small["timeline"]
    assert timeline["lanes"][0] == "blade-3"
    waits = [e for e in timeline["events"] if e["code"] == "nccl.timeout"]
    assert {e["host"] for e in waits} == {"blade-3", "blade-4"}
    assert all(e["begin"] < e["ts"] for e in waits)


def test_ticket_names_serial_and_uuid(small: dict[str, Any]) -> None:
    text = reports.render(small, "ticket")
    assert "1654321000777" in text
    assert "GPU-77aa0c1e-0d55-4b0e-8f33-9a6b8c2f4d10" in text
    assert "blade-3.kern.log:4" in text


def test_raw_lines_only_while_the_bytes_are_the_same(made: Make, tmp_path: Path) -> None:
    for path in (SMALL / "logs").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    log = tmp_path / "blade-3.kern.log"
    row = next(s for s in made(tmp_path)["sources"] if s["path"] == str(log)) | {"marks": []}
    assert excerpt.read(row, [4]).lines[4].endswith("GPU has fallen off the bus.")
    grown = log.read_bytes() + b"2026-02-17T22:31:00.000000+00:00 blade-3 kernel: more\n"
    log.write_bytes(grown)
    assert excerpt.read(row, [4]).lines
    log.write_bytes(grown.replace(b"79", b"48"))
    assert excerpt.read(row, [4]).note == excerpt.CHANGED
    log.unlink()
    assert excerpt.read(row, [4]).note == excerpt.GONE


def test_versions_are_read_beside_the_raw_lines(made: Make, tmp_path: Path) -> None:
    for path in (SMALL / "logs").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    log = tmp_path / "blade-3.kern.log"
    loaded = b"2026-02-17T21:54:00.000000+00:00 blade-3 kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module  999.12.07  Release\n"
    log.write_bytes(loaded + log.read_bytes())
    assert made(tmp_path)["hardware"][0]["driver"] == "999.12.07"


def test_a_hole_of_nuls_does_not_hide_a_log(tmp_path: Path) -> None:
    picked = excerpt._Picker([2])
    picked.feed(b"one\ntw\0o\nth")
    picked.feed(b"ree\n")
    assert picked.lines == {2: b"tw\0o"}
    assert not excerpt._binary(b"2026-02-17T22:10:41 host kernel: \0\0 still text")


@pytest.mark.parametrize("size", [1, 3, 7, 64])
def test_lines_are_picked_however_the_blocks_are_cut(size: int) -> None:
    data = b"a\n\nccc\ndddd\n" * 3
    picked = excerpt._Picker([2, 3, 7])
    for at in range(0, len(data), size):
        picked.feed(data[at : at + size])
    assert picked.lines == {2: b"", 3: b"ccc", 7: b"ccc"}


def test_a_large_incident_fits_a_mail(made: Make, tmp_path: Path) -> None:
    big_folder(tmp_path)
    report = made(tmp_path)
    assert report["suspects"][0]["host"] == "k03-n17"
    assert len(report["fleet"]) == 200
    assert len(reports.render(report, "html").encode()) < 3_000_000
    assert len(reports.render(report, "md").encode()) < 60_000


def test_without_an_open_store_no_raw_line_is_claimed(small: dict[str, Any]) -> None:
    blank = {"lines": [], "note": excerpt.NOT_READ}
    bare = small | {"excerpts": [{"source": e["source"], "line": e["line"], **blank} for e in small["evidence"]]}
    assert excerpt.NOT_READ in reports.render(bare, "md")
