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
    if out is None:
        raise Fault("name a folder to write into: triage drill OUT [--seed N] [--kind K]")
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()):
        raise Fault(f"{out}: not empty; name a new folder")
    if kind is not None and kind not in drills.kinds():
        raise Fault(f"{kind!r}: no such kind; see triage drill --kind list")
    case = drills.write(folder, seed, kind)
    return {"schema": 1, "folder": str(folder), "logs": str(folder / "logs"), "truth": str(folder / "case.toml"), "args": list(case.args)}


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
    args = " ".join(data["args"])
    return f"logs in {safe(data['logs'])}\nask: triage now {safe(data['logs'])}{' ' + args if args else ''}\ntruth in {safe(data['truth'])}"
