"""The shipped rules, their lookups, and a site's folder laid over them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from triage import rulebook
from triage.rule_tables import CONFIDENCE, FEATURES, LAYERS, LEVELS, MANIFESTATIONS, ROLES
from triage.rulebook import Rulebook, fill

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def book() -> Rulebook:
    return rulebook.load()


def test_shipped_rules_are_clean(book: Rulebook) -> None:
    assert [str(fault) for fault in rulebook.check(book)] == []


def test_every_stable_rule_has_both_kinds_of_samples(book: Rulebook) -> None:
    assert [rule.id for rule in book.rules if rule.status == "stable" and not (rule.fires and rule.spares)] == []


def test_no_sample_without_a_rule(book: Rulebook) -> None:
    files = {path.stem for path in (ROOT / "samples" / "decisions").glob("*.toml")}
    assert files == {rule.id for rule in book.rules}


def test_words_of_the_contract(book: Rulebook) -> None:
    assert {row.layer for row in book.signatures} <= set(LAYERS)
    assert {row.manifestation for row in book.signatures} <= set(MANIFESTATIONS)
    assert {row.role for row in book.signatures} <= set(ROLES)
    assert [row.id for row in book.levels] == list(LEVELS)
    assert sorted(book.symptoms) == list(range(1, 12))
    assert "none" in FEATURES["class"].values
    assert set(CONFIDENCE) >= {name for level in book.levels for name in level.when}


def test_every_code_has_a_signature_of_its_own(book: Rulebook) -> None:
    codes = [code for code in book.codes if not code.endswith("*")] + [f"xid.{n}" for n in range(1, 200)] + ["sxid.20034"]
    assert [code for code in codes if book.signatures_of(code)[0].id == "other"] == []


def test_every_catalogued_xid_has_a_row_of_its_own(book: Rulebook) -> None:
    numbers = {row["code"] for row in book.catalogue("xid_catalog.csv")}
    assert {n for n in numbers if book.signatures_of(f"xid.{n}")[0].id == "xid-unknown"} == set()


def _codes_in(path: Path) -> set[str]:
    """Event codes that a parser passes to a call."""
    makers = {"Event", "shape", "event", "_at", "_about", "_common", "_node_says", "_means"}
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    calls = [call for call in calls if getattr(call.func, "id", getattr(call.func, "attr", "")) in makers]
    texts = {a.value for call in calls for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    families = r"(?:gpu|pcie|mem|ib|eth|host|storage|ipmi|slurm|k8s|nccl|torch|flight|stack|train|fabricmanager)"
    return {text for text in texts if re.fullmatch(families + r"\.[a-z_]+", text)}


def test_every_code_that_a_parser_makes_is_known(book: Rulebook) -> None:
    made = {code for path in (ROOT / "parsers").glob("*.py") for code in _codes_in(path)}
    assert made - set(book.codes) == set()


# (code, severity, state, message) -> class, role
READINGS = [
    (("xid.48", None, None, None), ("T01", "root")),
    (("xid.95", None, None, None), ("T01", "root")),
    (("xid.140", None, None, None), ("T01", "root")),
    (("xid.92", None, None, None), ("T01", "precursor")),
    (("xid.94", None, None, None), ("T02", "root")),
    (("xid.63", None, None, None), ("T03", "precursor")),
    (("xid.64", None, None, None), ("T03", "root")),
    (("xid.79", None, None, None), ("T04", "root")),
    (("xid.143", None, None, None), ("T04", "root")),
    (("xid.119", None, None, None), ("T05", "root")),
    (("xid.122", None, None, None), ("T06", "root")),
    (("xid.62", None, None, None), ("T06", "root")),
    (("xid.61", None, None, None), ("T06", "precursor")),
    (("xid.74", None, None, None), ("T07", "root")),
    (("xid.145", "Nonfatal", None, None), ("T07", "precursor")),
    (("xid.145", "Fatal", None, None), ("T07", "root")),
    (("xid.149", None, None, "NETIR_LINK_EVT Non-fatal XC0 i0 Link 03"), ("T07", "precursor")),
    (("xid.31", None, None, None), ("T08", "root")),
    (("xid.109", None, None, None), ("T08", "root")),
    (("xid.13", None, None, None), ("T09", "root")),
    (("xid.43", None, None, None), ("T09", "root")),
    (("xid.68", None, None, None), ("T09", "root")),
    (("xid.45", None, "caused by previous Xid 31", None), ("T09", "cascade")),
    (("xid.45", None, None, "Ch 00000012"), ("T09", "cascade")),
    (("xid.121", None, None, None), ("T16", "precursor")),
    (("xid.154", None, None, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"), ("T04", "advice")),
    (("xid.154", None, None, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"), ("none", "recovery")),
    (("xid.154", "cleared", "None", None), ("none", "recovery")),
    (("xid.4711", None, None, None), ("T24", "root")),
    (("sxid.12028", "Non-fatal", None, None), ("T07", "precursor")),
    (("sxid.12028", None, None, None), ("T07", "root")),
    (("sxid.20034", "Fatal", None, None), ("T07", "root")),
    (("sxid.10005", None, None, None), ("none", "recovery")),
    (("gpu.off_bus", None, None, None), ("T04", "root")),
    (("pcie.aer_fatal", None, None, None), ("T16", "root")),
    (("mem.ce", None, None, None), ("T16", "precursor")),
    (("host.boot", "unexpected", None, None), ("T15", "root")),
    (("host.boot", None, None, None), ("none", "recovery")),
    (("host.power", "critical", "Power Supply AC lost", None), ("T10", "root")),
    (("host.power", "warning", "Redundancy Lost", None), ("T10", "precursor")),
    (("host.oom_kill", None, None, None), ("T18", "root")),
    (("ipmi.event", "critical", None, "Critical Interrupt #0x10 | Bus Fatal Error | Asserted"), ("T16", "root")),
    (("ipmi.event", None, None, "Memory #0x48 | Uncorrectable ECC | Asserted"), ("T16", "root")),
    (("ipmi.event", None, None, "Memory #0x48 | Correctable ECC | Asserted"), ("T16", "precursor")),
    (("ipmi.event", "info", "AC lost deasserted", None), ("none", "fact")),
    (("ib.link_down", None, None, None), ("T12", "root")),
    (("ib.link_down", "snapshot", "Disabled", None), ("T12", "precursor")),
    (("slurm.node_down", "operator", "maintenance", None), ("T23", "operator")),
    (("slurm.node_down", None, "Not responding", None), ("T24", "outcome")),
    (("slurm.node_drain", None, "Kill task failed", None), ("T21", "root")),
    (("slurm.job_killed", None, "time limit", None), ("T23", "outcome")),
    (("slurm.job_killed", None, None, "Exceeded memory limit"), ("T18", "root")),
    (("slurm.job_end", None, "COMPLETED", None), ("none", "fact")),
    (("slurm.job_end", None, "NODE_FAIL", None), ("T24", "outcome")),
    (("slurm.job_end", None, "OUT_OF_MEMORY", None), ("T18", "outcome")),
    (("slurm.job_end", None, "CANCELLED by 1007", None), ("T23", "outcome")),
    (("k8s.pod_failed", None, "OOMKilled", None), ("T18", "root")),
    (("nccl.timeout", None, None, None), ("T13", "symptom")),
    (("nccl.remote_error", None, None, None), ("T14", "cascade")),
    (("nccl.ib_error", None, None, None), ("T12", "cascade")),
    (("torch.exception", None, None, None), ("T20", "root")),
    (("torch.exception", "io", None, None), ("T17", "symptom")),
    (("torch.cuda_oom", None, None, None), ("T19", "root")),
    (("train.nan", None, None, None), ("T11", "symptom")),
    (("train.rerun", None, "Possible persistent error!", None), ("T11", "root")),
    (("acme.fabric", None, None, None), ("none", "fact")),
]


@pytest.mark.parametrize(("event", "reading"), READINGS, ids=lambda value: str(value[0]))
def test_reading(book: Rulebook, event: tuple[str, str | None, str | None, str | None], reading: tuple[str, str]) -> None:
    row = book.signature_for(*event)
    assert (row.class_id, row.role) == reading


def test_critical_hardware_beats_what_programs_print(book: Rulebook) -> None:
    weight = {row.id: row.weight for row in book.signatures}
    host_fatal = [row for row in book.signatures if row.fatal and row.role == "root"]
    assert min(row.weight for row in host_fatal) > weight["torch-exception"] > weight["xid-app"] > weight["slurm-launch"]
    weak = max(row.weight for row in book.signatures if row.role in ("symptom", "cascade", "outcome"))
    assert weak < min(row.weight for row in book.signatures if row.role == "root" and row.class_ not in ("T24",))
    assert weight["xid-off-bus"] > weight["host-boot-unexpected"] > weight["host-thermal"]


def test_no_isolation_without_a_root(book: Rulebook) -> None:
    """Symptoms, outcomes and silence take no host away, whatever else is known; the driver's own request (Xid 154) may."""
    for rule in book.rules:
        if rule.max_confidence == "insufficient":
            assert not book.action(rule.action).isolating, rule.id
    for name in FEATURES["class"].values:
        for role in ("symptom", "outcome"):
            decision = book.decide({"class": name, "root_role": role, "followed_by_job_failure": True, "root_hosts": 1})
            assert not book.action(decision.rule.action).isolating or name == "T03", (name, role, decision.rule.id)


def test_shared_parts_never_isolate_their_members(book: Rulebook) -> None:
    for shared in ("rack", "leaf", "storage", "fleet"):
        for name in ("T10", "T12", "T15", "T17", "T24"):
            decision = book.decide({**FLAPPING, "class": name, "root_fatal": True, "root_hosts": 6, "shared": shared, "has_job": True})
            assert not book.action(decision.rule.action).isolating, (shared, name, decision.rule.id)


def test_decision_tells_which_rows_were_asked(book: Rulebook) -> None:
    decision = book.decide({"class": "T04", "root_role": "root", "root_code": "xid.79", "root_hosts": 1, "root_fatal": True})
    assert decision.rule.id == "gpu-lost"
    assert decision.tried[-1].feature is None
    first = decision.tried[0]
    assert (first.rule_id, first.feature, first.value, first.wanted) == ("nothing-found", "class", "T04", "none")


def test_the_catch_all_holds_back(book: Rulebook) -> None:
    assert book.decide({"class": "T06", "root_role": "root", "root_hosts": 9}).rule.action == "hold_and_collect"


@pytest.mark.parametrize(
    "features",
    [{"clas": "T04"}, {"class": "T99"}, {"root_hosts": True}, {"root_hosts": "3"}, {"hang": 1}, {"root_share": "x"}],
)
def test_features_are_checked(book: Rulebook, features: dict[str, str | bool | int | float]) -> None:
    with pytest.raises(ValueError, match=r"feature|cannot be"):
        book.decide(features)


def test_confidence_levels(book: Rulebook) -> None:
    seen = {"root_seen": True, "in_window": True, "device_known": True, "host_known": True, "dependents_agree": True}
    assert book.confidence(seen).id == "confirmed"
    assert book.confidence({**seen, "inferred_links": 1}).id == "probable"
    assert book.confidence({**seen, "dependents_agree": False}).id == "probable"
    assert book.confidence({**seen, "rivals": 1}).id == "possible"
    assert book.confidence({**seen, "inferred_links": 2}).id == "possible"
    assert book.confidence({}).id == "insufficient"


def test_commands_are_quoted_for_a_shell() -> None:
    values = {"host": "gpu-1; rm -rf /", "reason": "Xid 79 (T04)", "job": None}
    filled = fill("scontrol update nodename={host} reason={reason}; x {job} ${i##*/} {host_}", values)
    assert filled == "scontrol update nodename='gpu-1; rm -rf /' reason='Xid 79 (T04)'; x JOB ${i##*/} {host_}"


def _write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


FLAPPING: dict[str, str | bool | int | float] = {
    "class": "T12",
    "root_role": "root",
    "root_hosts": 1,
    "link_flaps": 3,
    "followed_by_job_failure": True,
}
NEW_RULE = """[[rule]]
id = "lab-hosts"
status = "experimental"
when = { class = "T21", on_start = true }
action = "restart_job"
before = "service-repeat"
reason = "lab hosts are set up anew each night"
source = "site"
"""


def test_a_site_changes_a_number(tmp_path: Path, book: Rulebook) -> None:
    row = '[[threshold]]\nname = "link_flaps"\nvalue = 5\nunit = "count"\nreplaces = true\nreason = "old optics"\nsource = "site"\n'
    _write(tmp_path, "thresholds.toml", row)
    site = rulebook.load(tmp_path)
    assert site.threshold("link_flaps") == 5
    assert site.digest != book.digest
    assert book.decide(FLAPPING).rule.id == "link-flaps"
    assert site.decide(FLAPPING).rule.id == "link-down-job-lost"


def test_a_site_adds_a_rule_where_it_says(tmp_path: Path, book: Rulebook) -> None:
    _write(tmp_path, "decisions.toml", NEW_RULE)
    site = rulebook.load(tmp_path)
    names = [rule.id for rule in site.rules]
    assert names[names.index("lab-hosts") + 1] == "service-repeat"
    assert len(site.rules) == len(book.rules) + 1
    assert rulebook.check(site) == []


def test_a_site_retires_a_rule(tmp_path: Path) -> None:
    row = NEW_RULE.replace("lab-hosts", "link-flaps").replace("experimental", "retired")
    row = row.replace('before = "service-repeat"', "replaces = true")
    _write(tmp_path, "decisions.toml", row)
    site = rulebook.load(tmp_path)
    assert site.decide(FLAPPING).rule.id == "link-down-job-lost"


def test_a_site_adds_a_code_its_signature_and_dissent(tmp_path: Path) -> None:
    _write(tmp_path, "codes.csv", "code,family,layer,role,meaning\nacme.fabric,network,network,root,fabric fault\n")
    row = '[[signature]]\nid = "acme"\ncodes = ["acme.fabric"]\nclass = "T12"\nrole = "root"\nlayer = "network"\nweight = 70\n'
    _write(tmp_path, "signatures.toml", row + 'reason = "the fabric says so"\nsource = "site"\n')
    head = "code,mnemonic,meaning,bucket,investigate,severity,user_possible,source,edition"
    _write(tmp_path, "xid_catalog.csv", f"{head}\n94,,we drain,drain,,error,no,our site,2026\n")
    site = rulebook.load(tmp_path)
    assert site.signature_for("acme.fabric").class_id == "T12"
    assert "our site" in {row["source"] for row in site.explain("94")}
    assert len(site.catalogue("xid_catalog.csv")) == len(rulebook.load().catalogue("xid_catalog.csv")) + 1


def test_same_rules_same_digest(book: Rulebook) -> None:
    assert rulebook.load().digest == book.digest
