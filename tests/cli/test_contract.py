"""The machine contract: which keys each command's JSON has, of which kinds, and which exit statuses there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Done, Run
from triage.rulebook import Rulebook

NOW = {
    "schema": [],
    "verdict": ["class", "symptom", "manifestation", "layer", "action", "confidence", "rule_id", "summary"],
    "suspects": ["host", "device", "rank", "role", "score", "why"],
    "victims": ["host", "why"],
    "jobs": ["job_id", "attempt", "hosts", "gpus", "end", "state", "gpu_hours_lost", "basis"],
    "at_risk": ["job_id", "hosts", "why"],
    "evidence": ["source", "line", "ts", "host", "text", "role"],
    "alternatives": ["class", "why"],
    "missing": ["what", "why", "command"],
    "commands": ["what", "command"],
    "spares": ["host", "why"],
    "others": ["id", "class", "hosts", "start"],
    "coverage": [],
    "rejects": [],
}
# command line -> key -> keys of its object, or of each object of its list; {db}, {logs} and {id} are filled in
COMMANDS: dict[str, dict[str, list[str]]] = {
    "now {logs}": NOW,
    "now {logs} --db {new}": NOW,
    "now {logs} --job 8842": NOW,
    "now {logs} --at 2026-06-01T10:30:00Z --window 30m": NOW,
    "now {empty}": NOW,
    "ingest {logs} --db {new}": {"sources": [], "events": [], "rejects": [], "unchanged": []},
    "incidents --db {db}": {"incidents": ["id", "start", "end", "class", "hosts", "jobs", "gpu_hours_lost"]},
    "bursts --db {db}": {"bursts": ["host", "device", "code", "first", "last", "count"]},
    "lemons --db {db} --window 28d --top 3": {
        "window": [],
        "hosts": ["rank", "host", "score", "interval", "lemon", "strikes", "signals", "why", "next"],
        "concentration": ["top10_share", "null_share", "p_value"],
        "backtest": ["capture_at_5pct", "lift", "auc"],
    },
    "stats --db {db}": {
        "exposure": ["host_days", "gpu_hours", "burn_in_host_days"],
        "by_code": ["code", "bursts", "lines", "hosts", "mtbe_system_h"],
        "by_class": [],
        "rates": [],
        "job_failure_by_code": [],
        "propagation": [],
        "ettr": [],
        "phases": [],
    },
    "db info --db {db}": {"tables": ["table", "rows"], "version": [], "sources": ["sources", "first", "last"], "analysis": [], "bytes": []},
    "db check --db {db}": {"faults": [], "rows": []},
    "db compact --db {db} --out {new}": {"before": [], "after": []},
    "db expire --db {db} --keep 3650d --dry-run": {"before": [], "sources": [], "rows": [], "left": [], "dry_run": []},
    "spares --db {db} --job-nodes 3": {"needed": ["method", "spares", "inputs"], "candidates": ["host", "why"], "avoid": ["host", "why"]},
    "spares --hosts 512 --rate 6.5": {"needed": ["method", "spares", "inputs"]},
    "project --hosts 128 --rate 6.5 --checkpoint 1h": {"mttf_h": [], "ettr_v1": [], "ettr_v2": [], "best_interval_s": []},
    "checkpoint --mtbf 8h --save 60s --durable 2m --restart 10m": {"inputs": [], "rows": ["method", "interval_s", "waste"]},
    "checkpoint --save 60s --restart 10m --db {db}": {"inputs": [], "rows": ["method", "interval_s", "waste"]},
    "failover --interval 1h --slowdown 1.3": {"threshold_s": [], "continue": []},
    "explain 79": {"code": [], "rows": []},
    "explain nccl.timeout": {"code": [], "rows": []},
    "rules check": {"faults": []},
    "rules list": {"rules": ["id", "action"]},
    "rules explain gpu-lost": {"id": [], "action": []},
    "parsers list": {"parsers": ["name"]},
    "parsers try {logs}/sacct.txt": {},
}
MANIFESTATIONS = {"fail_stop", "fail_hang", "fail_slow", "fail_on_start", "silent", "none"}
CONFIDENCES = {"confirmed", "probable", "possible", "insufficient"}
LAYERS = {"user", "system_software", "gpu", "interconnect", "network", "host", "storage", "facility", "scheduler", "unknown"}
ROLES = {"root", "cascade", "symptom", "teardown", "outcome", "precursor", "recovery", "operator", "fact"}
ACTIONS = set(
    "isolate_now drain_at_job_end reset_gpu reboot_host replace_hardware restart_job restart_on_spares rollback_change fix_and_resubmit "
    "hold_and_collect escalate_facility escalate_network escalate_storage monitor none".split()
)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")


def objects(value: Any) -> list[dict[str, Any]]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("line", COMMANDS)
def test_keys(line: str, triage: Run, db: str, logs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    filled = line.format(db=db, logs=logs, new=tmp_path / "new.duckdb", empty=tmp_path / "empty")
    done = triage(*filled.split(), "--format", "json")
    assert (done.code, done.err) == (0, "")
    data = done.json
    assert data["schema"] == 1
    for key, inner in COMMANDS[line].items():
        assert key in data
        for row in objects(data[key]) if inner else ():
            assert [name for name in inner if name not in row] == [], key


def test_sql_prints_a_bare_array(triage: Run, db: str) -> None:
    done = triage("sql", "SELECT host, code FROM bursts WHERE code = 'xid.79'", "--db", db, "--format", "json")
    assert done.json == [{"host": "n2", "code": "xid.79"}]


@pytest.fixture
def answer(triage: Run, logs: Path) -> dict[str, Any]:
    data: dict[str, Any] = triage("now", logs, "--format", "json").json
    return data


def test_the_story_is_read_right(answer: dict[str, Any]) -> None:
    verdict = answer["verdict"]
    assert (verdict["class"], verdict["layer"], verdict["manifestation"], verdict["confidence"]) == ("T04", "gpu", "fail_hang", "confirmed")
    assert [(s["host"], s["device"], s["role"]) for s in answer["suspects"]] == [("n2", "0000:3b:00", "culprit")]
    assert {v["host"] for v in answer["victims"]} == {"n1", "n3"}
    assert (answer["jobs"][0]["job_id"], answer["jobs"][0]["gpu_hours_lost"], answer["jobs"][0]["basis"]) == ("8842", 23.98, "start")


def test_words_and_kinds(answer: dict[str, Any], book: Rulebook) -> None:
    verdict = answer["verdict"]
    assert verdict["class"] in {*book.classes, "none"}
    assert verdict["symptom"] in {None, *range(1, 12)}
    assert verdict["manifestation"] in MANIFESTATIONS
    assert verdict["confidence"] in CONFIDENCES
    assert verdict["layer"] in LAYERS
    assert verdict["action"] in ACTIONS
    assert all(s["rank"] is None or isinstance(s["rank"], int) for s in answer["suspects"])
    assert all(s["role"] in ("culprit", "suspect") for s in answer["suspects"])
    assert all(isinstance(j["job_id"], str) for j in answer["jobs"])
    assert {e["role"] for e in answer["evidence"]} <= ROLES
    assert len(answer["evidence"]) <= 40
    assert len(answer["missing"]) <= 8
    times = [e["ts"] for e in answer["evidence"]] + [o["start"] for o in answer["others"]] + [j["end"] for j in answer["jobs"]]
    assert [t for t in times if t is not None and not TIME.fullmatch(t)] == []


def test_the_rules_speak_the_contracts_words(book: Rulebook) -> None:
    assert set(book.actions) <= ACTIONS
    assert {rule.action for rule in book.rules} <= ACTIONS
    assert sorted(book.classes) == [f"T{n:02d}" for n in range(1, 25)]
    assert {s.layer for s in book.signatures} <= LAYERS
    assert {s.manifestation for s in book.signatures} <= MANIFESTATIONS


def test_nothing_found_is_said_in_the_contracts_words(triage: Run, tmp_path: Path) -> None:
    done = triage("now", tmp_path, "--format", "json")
    verdict = done.json["verdict"]
    words = {k: verdict[k] for k in ("class", "action", "layer", "confidence", "manifestation", "symptom")}
    assert words == {
        "class": "none",
        "action": "none",
        "layer": "unknown",
        "confidence": "probable",
        "manifestation": "none",
        "symptom": None,
    }
    assert "nothing was read" in verdict["summary"]


@pytest.mark.parametrize("level", ["any", "act", "isolate"])
def test_fail_on(triage: Run, logs: Path, tmp_path: Path, level: str) -> None:
    failed = triage("now", logs, "--fail-on", level)
    assert (failed.code, failed.err) == (3, "")
    assert "n2" in failed.out
    assert triage("now", tmp_path, "--fail-on", level).code == 0


def test_a_policys_end_is_nothing_to_fail_on(triage: Run, tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(
        "JobID|State|ExitCode|NodeList|Start|End\n7|CANCELLED by 1002|0:0|n1|2026-06-01T10:00:00|2026-06-01T11:00:00\n"
    )
    assert triage("now", tmp_path, "--fail-on", "any").code == 0


def same(one: Done, other: Done) -> bool:
    return one.out == other.out and one.code == other.code


def test_the_same_question_gets_the_same_answer(triage: Run, logs: Path) -> None:
    assert same(triage("now", logs, "--format", "json"), triage("now", logs, "--format", "json"))


def test_the_same_files_twice_change_nothing(triage: Run, logs: Path, tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    first, second = (triage("ingest", logs, "--db", db, "--format", "json").json for _ in range(2))
    assert (len(first["sources"]), first["unchanged"]) == (5, 0)
    assert (second["sources"], second["unchanged"], second["totals"]) == ([], 5, first["totals"])


def test_the_table_shows_the_year_that_other_files_tell(triage: Run, tmp_path: Path) -> None:
    xid = "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
    (tmp_path / "n1.log").write_text(f"Mar  2 04:00:00 n1 {xid}\n")
    (tmp_path / "n2.log").write_text(f"2023-03-02T04:00:05+00:00 n2 {xid}\n")
    told = triage("ingest", tmp_path / "n1.log", tmp_path / "n2.log", "--db", tmp_path / "t.duckdb", "--format", "json").json
    assert [s["first_ts"] for s in told["sources"]] == ["2023-03-02T04:00:00Z", "2023-03-02T04:00:05Z"]


@pytest.mark.parametrize("form", ["text", "json", "md", "html", "slack", "ticket"])
def test_every_format_of_now_and_report(triage: Run, logs: Path, db: str, form: str) -> None:
    for done in (triage("now", logs, "--format", form), triage("report", "--last", "--db", db, "--format", form)):
        assert (done.code, done.err) == (0, "")
        assert "n2" in done.out


def test_explain_shows_the_rows_that_were_tried(triage: Run, logs: Path) -> None:
    assert ": decided" in triage("now", logs, "--explain").out
    assert triage("now", logs, "--explain", "--format", "json").json["explain"]["tried"][-1]["feature"] is None
