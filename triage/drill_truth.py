"""The truth of a drill: what happened, which answers an expert would defend, and the score of an answer against it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ISOLATING = frozenset(("isolate_now", "replace_hardware", "reboot_host", "reset_gpu", "drain_at_job_end"))
VERDICT = ("class", "manifestation", "layer", "action", "confidence")


@dataclass(frozen=True, slots=True)
class Case:
    """A story and what is expected of an answer; the keys of `expect` are those of `case.toml`."""

    kind: str
    title: str
    truth: str
    expect: dict[str, Any]
    args: tuple[str, ...] = ()

    @property
    def first_class(self) -> str:
        return str(self.expect.get("class", ["?"])[0])

    def toml(self) -> str:
        """The text of its `case.toml`."""
        lines = [
            "[case]",
            f"title = {json.dumps(self.title)}",
            f'source = "drill {self.kind}: lines composed after real shapes"',
            f"truth = {json.dumps(self.truth)}",
        ]
        if self.args:
            lines += ["", "[run]", f"args = {json.dumps(list(self.args))}"]
        lines += ["", "[expect]", *(f"{key} = {json.dumps(value)}" for key, value in self.expect.items()), "max_seconds = 10"]
        return "\n".join(lines) + "\n"

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "case.toml").write_text(self.toml(), encoding="utf-8")


def short(name: object) -> str:
    """A host's name without its domain."""
    return str(name or "").split(".")[0]


def _hosts(names: Sequence[object]) -> set[str]:
    return {short(name.get("host") if isinstance(name, Mapping) else name) for name in names}


def score(answer: Mapping[str, Any], expect: Mapping[str, Any]) -> list[str]:
    """Every way in which an answer (the JSON of `triage now`) differs from the truth, as `field: got, want`; empty when right.

    `expect` is the `[expect]` table of a case, or a whole case with that table inside.
    """
    table = expect.get("expect", expect)
    verdict = answer.get("verdict") or {}
    suspects = list(answer.get("suspects") or [])
    first = suspects[0] if suspects else {}
    faults = [
        f"{key}: {verdict.get(key)}, want {'|'.join(table[key])}" for key in VERDICT if key in table and verdict.get(key) not in table[key]
    ]
    faults += _blame(table, verdict, suspects, first)
    faults += _words(table, answer)
    faults += _consequences(table, answer)
    return faults


def _blame(
    table: Mapping[str, Any], verdict: Mapping[str, Any], suspects: Sequence[Mapping[str, Any]], first: Mapping[str, Any]
) -> list[str]:
    faults = []
    culprits = [s for s in suspects if s.get("role") == "culprit"]
    if "culprits" in table and short(first.get("host")) not in _hosts(table["culprits"]):
        faults.append(f"culprit: {first.get('host')}, want {'|'.join(table['culprits'])}")
    if "devices" in table and str(first.get("device")).lower() not in {d.lower() for d in table["devices"]}:
        faults.append(f"device: {first.get('device')}, want {'|'.join(table['devices'])}")
    if "ranks" in table and first.get("rank") not in table["ranks"]:
        faults.append(f"rank: {first.get('rank')}, want {table['ranks']}")
    if table.get("no_culprit") and culprits:
        faults.append(f"culprit where none can be known: {[s.get('host') for s in culprits]}")
    if verdict.get("action") in ISOLATING:
        blamed = _hosts(culprits) or {short(first.get("host"))}
        if wrong := blamed & _hosts(table.get("healthy_hosts", [])):
            faults.append(f"isolates healthy {sorted(wrong)} ({verdict.get('action')})")
    return faults


def _words(table: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    faults = []
    absent = list(answer.get("missing") or [])
    evidence = list(answer.get("evidence") or [])
    said = json.dumps(absent).lower()
    if "missing_any" in table and not any(word.lower() in said for word in table["missing_any"]):
        faults.append(f"missing: nothing about {'|'.join(table['missing_any'])}")
    texts = [str(entry.get("text")) for entry in evidence]
    if "evidence_any" in table and not any(re.search(pattern, text) for pattern in table["evidence_any"] for text in texts):
        faults.append(f"evidence: none matches {'|'.join(table['evidence_any'])}")
    if len(absent) > 8 or len(evidence) > 40:
        faults.append("length: more than 8 missing or 40 evidence entries")
    return faults


def _consequences(table: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    faults = []
    victims, spares = _hosts(answer.get("victims") or []), _hosts(answer.get("spares") or [])
    risk = {str(row.get("job_id")) for row in answer.get("at_risk") or []}
    if "victims_any" in table and not victims & _hosts(table["victims_any"]):
        faults.append(f"victims: {sorted(victims)[:4]}, want one of {table['victims_any'][:4]}")
    if wrong := victims & _hosts(table.get("not_victims", [])):
        faults.append(f"victims: calls {sorted(wrong)} a victim")
    if wrong := spares & _hosts(table.get("not_spares", [])):
        faults.append(f"spares: offers {sorted(wrong)}")
    if "spares_any" in table and not spares & _hosts(table["spares_any"]):
        faults.append(f"spares: {sorted(spares)[:4]}, want one of {table['spares_any']}")
    if "at_risk_any" in table and not risk & set(table["at_risk_any"]):
        faults.append(f"at_risk: {sorted(risk)}, want one of {table['at_risk_any']}")
    if "gpu_hours" in table:
        lost = sum(float(job.get("gpu_hours_lost") or 0) for job in answer.get("jobs") or [])
        low, high = table["gpu_hours"]
        if not low <= lost <= high:
            faults.append(f"gpu_hours: {lost:.2f}, want {low}..{high}")
    return faults
