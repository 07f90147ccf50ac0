"""The commands of an incident from its stored rows, so that they are there where the history is too long to be judged again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from triage.answers import filled
from triage.identity import UNKNOWN_JOB
from triage.moments import iso, micros
from triage.rulebook import Rulebook

Row = Mapping[str, Any]
SCHEDULERS = ("kubectl", "scontrol", "scancel", "sbatch", "squeue", "sinfo")
BEFORE, AFTER = timedelta(minutes=15), timedelta(minutes=10)


def commands(
    book: Rulebook, incident: Row, suspects: Sequence[Row], evidence: Sequence[Row], spares: Sequence[Row]
) -> list[dict[str, str]]:
    """What to do now, as commands to copy (what, command), each value quoted for a shell; one that lacks a value is left out."""
    action = book.actions.get(incident["action"])
    if action is None:
        return []
    values = _values(incident, suspects, evidence, spares)
    kubernetes = any(row["code"].startswith("k8s.") for row in evidence if row["code"])
    rows = []
    for command in action.commands:
        other_scheduler = command.command.startswith(SCHEDULERS) and command.command.startswith("kubectl") != kubernetes
        if not other_scheduler and all(value for name, value in values.items() if "{" + name + "}" in command.command):
            rows.append({"what": filled(command.what, values, False), "command": filled(command.command, values, True)})
    return rows


def _values(incident: Row, suspects: Sequence[Row], evidence: Sequence[Row], spares: Sequence[Row]) -> dict[str, str | None]:
    first = suspects[0] if suspects else None
    start = incident["start"]
    end = incident["end"] or start
    job = incident["job_id"]
    return {
        "host": (first["host"] if first else None) or (incident["hosts"][0] if incident["hosts"] and not job else None),
        "device": first["device"] if first else None,
        "job": job if job and not job.startswith(UNKNOWN_JOB) else None,
        "reason": _reason(incident, suspects, evidence),
        "from": None if start is None else f"{start - BEFORE:%Y-%m-%d %H:%M:%S}",
        "to": None if end is None else f"{end + AFTER:%Y-%m-%d %H:%M:%S}",
        "spare": spares[0]["host"] if spares else None,
        "exclude": ",".join(sorted({row["host"] for row in suspects if row["host"]})) or None,
    }


def _reason(incident: Row, suspects: Sequence[Row], evidence: Sequence[Row]) -> str:
    root = next((row for row in (*suspects, *(e for e in evidence if e["part"] == "root")) if row["code"]), None)
    code = root["code"].replace("xid.", "XID ") if root else incident["class"]
    device = f" on {root['device']}" if root and root["device"] else ""
    return f"{code}{device} {(iso(micros(incident['start'])) or '')[:16]} triage:{incident['rule_id']}"
