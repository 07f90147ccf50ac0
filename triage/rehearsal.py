"""`triage drill`: an incident of a kind and a seed, written as logs with its truth; and an answer marked against it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from triage.faults import Fault
from triage.screens import safe


def write(out: str | None, seed: int, kind: str | None) -> dict[str, Any]:
    """Write the drill of `seed` into `out`; `kind` list names the kinds. Raises Fault for a folder in use or an unknown kind."""
    from triage import drills

    if kind == "list":
        return {"schema": 1, "kinds": drills.kinds()}
    folder = _empty(out, "[--seed N] [--kind K]")
    if kind is not None and kind not in drills.kinds():
        raise Fault(f"{kind!r}: no such kind; see triage drill --kind list")
    case = drills.write(folder, seed, kind)
    return {"schema": 1, "folder": str(folder), "logs": str(folder / "logs"), "truth": str(folder / "case.toml"), "args": list(case.args)}


def write_fleet(out: str | None, seed: int, hosts: int, days: int) -> dict[str, Any]:
    """Write the logs of a made-up fleet of `seed` into `out`, with its lemons and what fools a plain count. Raises Fault."""
    from triage import drill_fleet_logs, drills_fleet

    folder = _empty(out, "--fleet [--seed N] [--hosts N] [--days N]")
    fleet = drills_fleet.generate(seed, drills_fleet.Recipe(hosts=hosts, days=days))
    drill_fleet_logs.write(fleet, folder)
    lemons = sorted(fleet.truth.filter("lemon")["host"])
    return {"schema": 1, "folder": str(folder), "logs": str(folder / "logs"), "truth": str(folder / "truth.json"), "lemons": lemons}


def _empty(out: str | None, options: str) -> Path:
    """The folder to write into; raises Fault when none is named, or when it holds something."""
    if out is None:
        raise Fault(f"name a folder to write into: triage drill OUT {options}")
    folder = Path(out)
    if folder.is_file() or (folder.exists() and any(folder.iterdir())):
        raise Fault(f"{out}: not empty; name a new folder")
    return folder


def mark(out: str | None, answer: str) -> dict[str, Any]:
    """Mark the JSON answer of a person or a tool against the truth in `out`. Raises Fault for files that cannot be read."""
    from triage import drills

    if out is None:
        raise Fault("name the drill's folder: triage drill OUT --score ANSWER")
    try:
        truth = tomllib.loads((Path(out) / "case.toml").read_text(encoding="utf-8"))
        given = json.loads(Path(answer).read_text(encoding="utf-8"))
    except OSError as error:
        raise Fault(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise Fault(f"{answer} or {out}/case.toml: cannot be read: {error}") from error
    faults = drills.score(given, truth)
    return {"schema": 1, "right": not faults, "faults": faults, "truth": truth["case"]["truth"]}


def screen(data: dict[str, Any]) -> str:
    """What was written, or the marks."""
    if "kinds" in data:
        return "\n".join(data["kinds"])
    if "right" in data:
        return "\n".join([*(safe(f) for f in data["faults"]), "right" if data["right"] else f"truth: {safe(data['truth'])}"])
    if "lemons" in data:
        logs = safe(data["logs"])
        ask = f"triage ingest {logs} --db fleet.duckdb; triage lemons --db fleet.duckdb"
        return f"logs in {logs}\nask: {ask}\ntruth in {safe(data['truth'])}"
    args = " ".join(data["args"])
    return f"logs in {safe(data['logs'])}\nask: triage now {safe(data['logs'])}{' ' + args if args else ''}\ntruth in {safe(data['truth'])}"
