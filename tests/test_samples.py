"""Every folder of samples against what is written beside its files, and the healthy logs against silence.

`samples/<dialect>/<topic>.log` has its records in `<topic>.expected.jsonl`, of another kind of file in `<file>.expected.jsonl`; only the
keys that are given are compared, and an event of that dialect that is not listed is one too many.
"""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from parsers import DIALECTS
from parsers.contract import Benign, Dialect, DocumentDialect, Event, HostRecord, HostStateRecord, JobRecord, RankRecord, Record, Reject
from tests.conftest import Scan
from triage.desk import Setup, now
from triage.rulebook import Rulebook
from triage.scanner import Claim, Scanner, UnknownKind

SAMPLES = Path(__file__).parents[1] / "samples"
HEALTHY = SAMPLES / "healthy"
SUFFIX = ".expected.jsonl"
KINDS: dict[type[Record], str] = {
    Event: "event",
    JobRecord: "job",
    HostStateRecord: "host_state",
    HostRecord: "host",
    RankRecord: "rank",
    Reject: "reject",
    Benign: "benign",
}
FAULT_ROLES = {"root", "cascade", "symptom", "outcome", "precursor"}
# a folder of files that another program writes whole: a cut or foreign one is another dialect's neighbour already
WHOLE = {"torchelastic"}
# lines that two dialects would take: why, and who is asked first
TWICE = {
    (
        "xid/device-plugin.log",
        1,
        "exceptions",
        "xid",
    ): "the device plugin's XidCriticalError reads like a Python exception; xid is asked first",
}
BY_NAME: dict[str, Dialect] = {d.name: d for d in DIALECTS}


def expected_of(path: Path) -> Path | None:
    """The file beside `path` that lists its records."""
    beside = (path.with_name(name + SUFFIX) for name in (path.name, path.stem))
    return next((candidate for candidate in beside if candidate.exists()), None)


def files_of(name: str) -> list[Path]:
    folder = SAMPLES / name
    return sorted(p for p in folder.iterdir() if p.is_file() and not p.name.endswith(SUFFIX)) if folder.is_dir() else []


FILES = [(name, path) for name in BY_NAME for path in files_of(name)]
IDS = [f"{name}/{path.name}" for name, path in FILES]


def row_of(record: Record) -> dict[str, Any]:
    return {"record": KINDS[type(record)], **asdict(record)}


def own_rows(claims: list[Claim], dialect: str) -> list[dict[str, Any]]:
    return [row_of(c.record) for c in claims if c.dialect == dialect]


def fits(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(key in row and json.loads(json.dumps(row[key])) == value for key, value in wanted.items())


def unmatched(rows: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(wanted rows that no record meets, records that nobody wanted); the most telling wanted rows choose first."""
    left, missing = list(rows), []
    for want in sorted(wanted, key=len, reverse=True):
        found = next((n for n, row in enumerate(left) if fits(row, want)), None)
        if found is None:
            missing.append(want)
        else:
            del left[found]
    return missing, left


UNTOLD = {"message", "text", "attrs", "ts_quality", "boot_s"}


def told(row: dict[str, Any]) -> dict[str, Any]:
    """The keys of a record that say something; a stamp without a year has no ts worth keeping."""
    yearless = row.get("ts_quality") != "exact" and row["record"] == "event"
    left_out = UNTOLD | ({"ts"} if yearless else set()) | ({"line_last"} if row.get("line_last") == row.get("line_first") else set())
    return {k: v for k, v in row.items() if k not in left_out and v not in (None, "", [], (), {}, 0)}


def rewrite(path: Path, rows: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Rows that agree stay as they are; new ones get every key that says something."""
    kept = [next((want for want in wanted if fits(row, want)), {}) or told(row) for row in rows]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept), encoding="utf-8")


@pytest.mark.parametrize(("name", "path"), FILES, ids=IDS)
def test_sample(name: str, path: Path, scan: Scan, request: pytest.FixtureRequest) -> None:
    beside = expected_of(path)
    assert beside is not None, f"{path.name}: no {path.stem}{SUFFIX}"
    wanted = [json.loads(line) for line in beside.read_text(encoding="utf-8").splitlines()]
    rows = own_rows(scan(path.read_bytes(), path.name), name)
    missing, extra = unmatched(rows, wanted)
    extra = [row for row in extra if row["record"] == "event"]
    if (missing or extra) and request.config.getoption("--update-expected"):
        rewrite(beside, rows, wanted)
        return
    assert missing == []
    assert extra == []


def test_every_expectation_has_its_file() -> None:
    listed = {expected_of(path) for _, path in FILES}
    assert [str(p.relative_to(SAMPLES)) for name in BY_NAME for p in (SAMPLES / name).glob("*" + SUFFIX) if p not in listed] == []


@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in WHOLE])
def test_every_dialect_has_samples_a_hostile_and_a_neighbours_file(name: str) -> None:
    words = Counter(path.name.split(".")[0].split("_")[0] for path in files_of(name))
    assert {"hostile", "neighbour"} < set(words)
    assert [p for p in files_of(name) if p.stem == "neighbour" and (expected_of(p) or p).read_text()] == []


def alone(name: str, data: bytes, file: str) -> Iterator[int]:
    """Lines that a dialect takes when nobody else is asked."""
    try:
        claims = SCANNERS[name].scan(io.BytesIO(data), file).claims
    except UnknownKind:
        return
    for claim in claims:
        if not isinstance(claim.record, Reject):
            yield getattr(claim.record, "line_first", 0) or getattr(claim.record, "line", 0)


SCANNERS = {d.name: Scanner((d,)) for d in DIALECTS if not isinstance(d, DocumentDialect)}


def test_no_line_is_taken_by_two_dialects() -> None:
    offenders = []
    for folder, path in FILES:
        data = path.read_bytes()
        takers: defaultdict[int, set[str]] = defaultdict(set)
        for name in SCANNERS:
            for line in alone(name, data, path.name):
                takers[line].add(name)
        offenders += [(f"{folder}/{path.name}", line, *sorted(names)) for line, names in takers.items() if len(names) > 1]
    assert [row for row in offenders if row not in TWICE] == []
    assert [row for row in TWICE if row not in offenders] == []


def healthy() -> list[Path]:
    return sorted(HEALTHY.iterdir())


@pytest.mark.parametrize("path", healthy(), ids=lambda path: path.name)
def test_a_healthy_log_holds_no_fault(path: Path, scan: Scan, book: Rulebook) -> None:
    found = []
    for claim in scan(path.read_bytes(), path.name):
        assert not isinstance(claim.record, Reject), claim
        if isinstance(claim.record, Event):
            event = claim.record
            role = book.signature_for(event.code, event.severity, event.state, event.message).role
            if role in FAULT_ROLES and event.state != "COMPLETED":
                found.append((event.line_first, event.code, role))
    assert found == []


@pytest.mark.parametrize("path", [*healthy(), HEALTHY], ids=lambda path: path.name)
def test_a_healthy_log_is_answered_with_none(path: Path) -> None:
    data = now(Setup(), [str(path)], None, None, None).data
    assert data["verdict"]["class"] == "none", data["verdict"]["summary"]
    assert data["verdict"]["action"] == "none"
    assert (data["suspects"], data["others"], data["rejects"]) == ([], [], 0)
