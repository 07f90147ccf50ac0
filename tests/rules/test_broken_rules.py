"""One folder per way of writing a bad rule: `rules/` is at fault, `expected.txt` says where and why, `mended/` loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage import rulebook

FOLDERS = sorted(path for path in (Path(__file__).parent / "broken").iterdir() if path.is_dir())


def faults_of(folder: Path) -> list[str]:
    try:
        faults = rulebook.check(rulebook.load(folder))
    except rulebook.RuleError as error:
        faults = list(error.faults)
    return [str(fault).replace(f"{folder.parent}/", "") for fault in faults]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_fault_names_its_place_and_its_mend(folder: Path) -> None:
    expected = (folder / "expected.txt").read_text(encoding="utf-8").splitlines()
    found = faults_of(folder / "rules")
    assert len(found) == len(expected), found
    for got, want in zip(found, expected, strict=True):
        # `...` where the words are the TOML reader's
        assert got.startswith(want.removesuffix("...")) if want.endswith("...") else got == want


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_mended_rules_are_clean(folder: Path) -> None:
    assert faults_of(folder / "mended") == []


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "decisions.toml").write_text('[[rule]]\nid = "x"\nstatus = "draft"\nwhen = {}\naction = 3\n')
    (tmp_path / "thresholds.toml").write_text('[[threshold]]\nname = "strikes"\nvalue = true\nunit = "weeks"\n')
    with pytest.raises(rulebook.RuleError) as raised:
        rulebook.load(tmp_path)
    fields = {(Path(fault.path).name, fault.line, fault.field) for fault in raised.value.faults}
    assert {("decisions.toml", 3, "status"), ("decisions.toml", 5, "action"), ("decisions.toml", 1, "reason")} <= fields
    assert {("thresholds.toml", 3, "value"), ("thresholds.toml", 4, "unit"), ("thresholds.toml", 1, "source")} <= fields


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"[[rule]]\n" * 3, b"rule = 3\n", b"rule = [1, 2]\n", b"\x00", b'[[rule]]\nwhen = "x"\n']
)
def test_bytes_that_are_no_rules(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "decisions.toml").write_bytes(data)
    with pytest.raises(rulebook.RuleError):
        rulebook.load(tmp_path)


def test_a_folder_without_rules(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none here")
    with pytest.raises(rulebook.RuleError, match="holds no rule file; write one of"):
        rulebook.load(tmp_path)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(rulebook.RuleError, match="is no folder"):
        rulebook.load(tmp_path / "absent")
