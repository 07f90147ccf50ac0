"""Samples of decision rules: features that fire a rule, and features that it must leave alone.

samples/decisions/<rule id>.toml
[[fires]]
name = "four hosts of one rack"
features = { class = "T10", shared = "rack", root_hosts = 4 }
[[spares]]
...
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triage.rule_files import Fault, Place
    from triage.rule_rows import Rule
    from triage.rulebook import Rulebook


def check_samples(book: Rulebook, shipped: Path) -> Iterable[Fault]:
    """What stable rules owe, and samples that another row decides. Without a samples folder (a wheel) nothing is owed."""
    for entry in book.entries["decisions.toml"]:
        rule: Rule = entry.row
        folder = Path(entry.place.path).parent / "samples" if entry.overlay else shipped
        if rule.status == "retired" or not (entry.overlay or folder.is_dir()):
            continue
        if rule.status == "stable":
            for kind in ("fires", "spares"):
                if not getattr(rule, kind):
                    yield entry.place.fault(kind, "a stable rule names at least one sample; until then it is experimental")
        yield from _check_file(book, rule, entry.place, folder / f"{rule.id}.toml")


def _check_file(book: Rulebook, rule: Rule, place: Place, path: Path) -> Iterable[Fault]:
    if not rule.fires and not rule.spares:
        return
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        yield place.fault("fires", f"its samples samples/{path.name} cannot be read: {error.strerror}")
        return
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        yield place.fault("fires", f"its samples samples/{path.name} are no TOML: {error}")
        return
    for kind, names in (("fires", rule.fires), ("spares", rule.spares)):
        yield from _check_names(place, kind, names, data.get(kind, []))
        for sample in data.get(kind, []):
            yield from _check_sample(book, rule, place, kind, sample)


def _check_names(place: Place, kind: str, names: Sequence[str], samples: Sequence[Mapping[str, Any]]) -> Iterable[Fault]:
    have = [str(sample.get("name")) for sample in samples]
    for name in names:
        if name not in have:
            yield place.fault(kind, f"its samples hold no [[{kind}]] named {name!r}")
    for name in have:
        if name not in names:
            yield place.fault(kind, f"name the sample {name!r} here too")


def _check_sample(book: Rulebook, rule: Rule, place: Place, kind: str, sample: Mapping[str, Any]) -> Iterable[Fault]:
    try:
        decision = book.decide(sample.get("features", {}))
    except ValueError as error:
        yield place.fault(kind, f"sample {sample.get('name')!r}: {error}")
        return
    if kind == "fires" and decision.rule.id != rule.id:
        missed = next((row for row in decision.tried if row.rule_id == rule.id), None)
        why = f": {missed.feature} is {missed.value!r}, not {missed.wanted!r}" if missed else ""
        yield place.fault(kind, f"sample {sample.get('name')!r} is decided by {decision.rule.id!r}{why}")
    if kind == "spares" and decision.rule.id == rule.id:
        yield place.fault(kind, f"sample {sample.get('name')!r} fires it")
