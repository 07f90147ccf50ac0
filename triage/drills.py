"""Drills: seeded incidents written as logs with their truth beside them, and the score of answers against it.

`write` makes one story; `rehearse` runs many through the engine in this process and counts what went wrong.
"""

from __future__ import annotations

import random
import tempfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triage import (
    answers,
    desk,
    drill_decoys,
    drill_demo,
    drill_fabric,
    drill_gpu,
    drill_host,
    drill_jobs,
    drill_records,
    drill_traps,
    pipeline,
)
from triage.drill_plots import PLOTS
from triage.drill_scene import flush, scene
from triage.drill_truth import ISOLATING, Case, score, short
from triage.moments import parse_time
from triage.rulebook import Rulebook
from triage.rulebook import load as load_rules
from triage.store import Store

__all__ = ["Case", "Rehearsal", "ask", "kinds", "rehearse", "score", "write"]
_ACTS = (drill_decoys, drill_demo, drill_gpu, drill_host, drill_fabric, drill_jobs, drill_records, drill_traps)


def kinds() -> list[str]:
    """The names of all plots."""
    return sorted(PLOTS)


def write(folder: Path, seed: int, kind: str | None = None) -> Case:
    """Writes one incident under `folder`: `logs/` and `case.toml`; the same seed and kind give the same bytes.

    kind  a name of `kinds()`; without it the seed chooses one. Raises KeyError for a name that is none.
    """
    chosen = kind or kinds()[random.Random(seed).randrange(len(PLOTS))]
    plot = PLOTS[chosen]
    s = scene(random.Random(seed * 1_000_003 + zlib.crc32(chosen.encode())))
    told = plot(s)
    case = Case(chosen, told.title, told.truth, told.expect, told.args)
    flush(s, folder / "logs")
    case.save(folder)
    return case


@dataclass(slots=True)
class Rehearsal:
    """What a run of drills came to.

    confusion  (wanted class, given class) -> count, where a given class among the defensible ones counts as the wanted
    """

    stories: int = 0
    right: int = 0
    class_right: int = 0
    culprits: int = 0
    culprit_right: int = 0
    healthy_isolated: int = 0
    insufficient: int = 0
    insufficient_right: int = 0
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, case: Case, answer: Mapping[str, Any]) -> None:
        """Counts one story."""
        faults = score(answer, case.expect)
        verdict, suspects = answer["verdict"], answer.get("suspects") or []
        given, wanted = str(verdict["class"]), case.expect.get("class", [])
        self.stories += 1
        self.right += not faults
        self.class_right += given in wanted
        self.confusion[case.first_class, case.first_class if given in wanted else given] += 1
        if "culprits" in case.expect:
            self.culprits += 1
            self.culprit_right += bool(suspects) and short(suspects[0].get("host")) in map(short, case.expect["culprits"])
        if case.expect.get("confidence") == ["insufficient"]:
            self.insufficient += 1
            self.insufficient_right += verdict["confidence"] == "insufficient"
        self.healthy_isolated += verdict["action"] in ISOLATING and any("isolates healthy" in fault for fault in faults)
        if faults:
            self.faults[name] = faults


def ask(logs: Path, args: Sequence[str] = (), book: Rulebook | None = None) -> dict[str, Any]:
    """The answer of `triage now` for a folder, made in memory in this process; of the options `--job` and `--at` are known."""
    rules = book or load_rules()
    options = dict(zip(args[::2], args[1::2], strict=True))
    with Store() as store:
        report = desk.read(store, [str(logs)], rules, None)
        analysis = pipeline.judge(pipeline.load(store, rules), rules)
        rejects = int(store.rows("reject_count")[0]["n"])
        when = parse_time(options["--at"], analysis.history.now) if "--at" in options else None
        return answers.answer(analysis, rules, answers.Question(options.get("--job"), when), rejects, not report.sources)


def rehearse(stories: int, seed: int = 0, only: str | None = None, book: Rulebook | None = None, start: int = 0) -> Rehearsal:
    """Runs `stories` seeded drills through the engine and says how it did: each kind in turn, from the `start`-th on.

    only  part of a kind's name; the others stay out.
    """
    rules = book or load_rules()
    names = [name for name in kinds() if only is None or only in name]
    total = Rehearsal()
    with tempfile.TemporaryDirectory() as scratch:
        for n in range(stories):
            name = names[(start + n) % len(names)]
            folder = Path(scratch) / f"{name}.{seed + n}"
            case = write(folder, seed + n, name)
            total.add(folder.name, case, ask(folder / "logs", case.args, rules))
    return total
