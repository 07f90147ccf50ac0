"""The rules as data: read, checked as a whole, looked up. All faults are reported at once, each with its file and line.

Shipped rules lie in `rules/` (in a wheel inside the package); a site lays a folder of files of the same names over them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from triage.rule_files import Entries, Entry, Fault, RuleError, entries_of, merge, names_once, read, shipped_folder
from triage.rule_rows import (
    CATALOGUES,
    KINDS,
    Action,
    Code,
    Level,
    Rule,
    Signature,
    Symptom,
    TaxonomyClass,
    Threshold,
    When,
)
from triage.rule_tables import (
    CLASSES,
    CONFIDENCE,
    FEATURES,
    Box,
    Cell,
    CellError,
    Feature,
    Value,
    cell_of,
    nearest,
    unreachable,
)

__all__ = ["Decision", "Fault", "RuleError", "Rulebook", "Tried", "check", "check_tables", "fill", "load"]

R = TypeVar("R", Rule, Level)

# --- checks over the whole ---------------------------------------------------------------------------------------------

PLACEHOLDERS = ("host", "device", "job", "reason", "spare", "exclude", "from", "to")
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z_]{1,20})\}")
_NUMBERED = re.compile(r"s?xid\.\d{1,6}")


def _known_code(code: str, codes: Iterable[str]) -> bool:
    return code in codes or bool(_NUMBERED.fullmatch(code))


def _no_code(code: str, codes: Iterable[str]) -> str:
    return f"no code {code!r}{nearest(code, codes) or '; add it to codes.csv first'}"


def _templates(row: object) -> Iterable[tuple[str, str]]:
    for part in getattr(row, "collect", ()):
        yield from (("collect", part.what), ("collect", part.command))
    for part in getattr(row, "commands", ()):
        yield ("commands", part.command)
    if isinstance(row, Action):
        yield from (("sentence", row.sentence), ("undo", row.undo))


def _check_templates(entry: Entry) -> Iterable[Fault]:
    for name, text in _templates(entry.row):
        for word in _PLACEHOLDER.findall(text):
            if word not in PLACEHOLDERS:
                yield entry.place.fault(name, f"no placeholder {{{word}}}{nearest(word, PLACEHOLDERS)}")
        if name in ("commands", "collect") and re.search(r"['\"]\{[a-z]{1,20}\}", text):
            yield entry.place.fault(name, "leave the quotes away: values are quoted when they are filled in")


def _check_signature(entry: Entry, classes: Iterable[str], codes: Iterable[str]) -> Iterable[Fault]:
    row: Signature = entry.row
    if row.class_ != "none" and row.class_ not in classes:
        yield entry.place.fault("class", f"no class {row.class_!r}{nearest(row.class_, ('none', *classes))}")
    if not row.codes:
        yield entry.place.fault("codes", "name at least one code")
    for code in row.codes:
        if code != "*" and not _known_code(code, codes):
            yield entry.place.fault("codes", _no_code(code, codes))
    if row.when.catalogue and not all(code.startswith("sxid.") for code in row.codes):
        yield entry.place.fault("when", "catalogue is for sxid codes only")


def _cells(entry: Entry, features: Mapping[str, Feature], thresholds: Mapping[str, float], faults: list[Fault]) -> dict[str, Cell]:
    box: dict[str, Cell] = {}
    for name, written in entry.row.when.items():
        if name not in features:
            faults.append(entry.place.fault("when", f"no feature {name!r}{nearest(name, features)}"))
            continue
        try:
            box[name] = cell_of(features[name], written, thresholds)
        except CellError as error:
            faults.append(entry.place.fault("when", str(error)))
    return box


def _check_rule(entry: Entry, actions: Iterable[str], codes: Iterable[str]) -> Iterable[Fault]:
    row: Rule = entry.row
    if row.action not in actions:
        yield entry.place.fault("action", f"no action {row.action!r}{nearest(row.action, actions)}")
    wanted = row.when.get("root_code", ())
    for code in [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else ():
        if code != "none" and not _known_code(str(code), codes):
            yield entry.place.fault("when", _no_code(str(code), codes))


def _check_catch_all(entries: Sequence[Entry]) -> Iterable[Fault]:
    """The last row, and only it, has an empty `when`."""
    for entry in entries[:-1]:
        if not entry.row.when:
            yield entry.place.fault("when", "only the last row may be empty: it decides everything below it")
    if entries and entries[-1].row.when:
        yield entries[-1].place.fault("when", "the last row must be the catch-all: when = {}")


def _check_complete(entries: Entries, folder: str) -> Iterable[Fault]:
    have = {entry.row.id for entry in entries["taxonomy.toml"]}
    for missing in [name for name in CLASSES if name not in have]:
        yield Fault(f"{folder}/taxonomy.toml", 1, "id", f"class {missing} is missing")
    for entry in entries["taxonomy.toml"]:
        if entry.row.id not in CLASSES:
            yield entry.place.fault("id", f"classes are T01 to T24, not {entry.row.id!r}")


# --- the book ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tried:
    """A row that was asked: the first cell that did not hold, or none if the row decided."""

    rule_id: str
    feature: str | None
    value: Value | None
    wanted: object


@dataclass(frozen=True, slots=True)
class Decision:
    """The row that decided, and the values that it saw."""

    rule: Rule
    values: Mapping[str, Value] = field(repr=False)
    boxes: Sequence[tuple[Rule, Box]] = field(repr=False)

    @property
    def tried(self) -> tuple[Tried, ...]:
        """The rows asked up to the one that decided, each with the first cell that did not hold."""
        return tuple(_tried(self.boxes, self.values))


@dataclass(frozen=True, eq=False)
class Rulebook:
    """All rules, frozen. `digest` names them in what they decided."""

    codes: Mapping[str, Code]
    signatures: tuple[Signature, ...]
    classes: Mapping[str, TaxonomyClass]
    symptoms: Mapping[int, Symptom]
    actions: Mapping[str, Action]
    rules: tuple[Rule, ...]
    levels: tuple[Level, ...]
    thresholds: Mapping[str, Threshold]
    digest: str
    texts: Mapping[str, str] = field(repr=False)
    entries: Mapping[str, Sequence[Entry]] = field(repr=False)
    boxes: tuple[tuple[Rule, Box], ...] = field(repr=False)
    level_boxes: tuple[tuple[Level, Box], ...] = field(repr=False)

    def signature_for(self, code: str, severity: str | None = None, state: str | None = None, message: str | None = None) -> Signature:
        """The first signature row that fits an event; the last row fits every code."""
        rows = self.signatures_of(code)
        if not rows[0].when.model_fields_set:
            return rows[0]
        text = f"{state or ''}\n{message or ''}".casefold()
        return next(row for row in rows if self._fits(row.when, code, severity, text))

    def _fits(self, when: When, code: str, severity: str | None, text: str) -> bool:
        if when.severity and _plain(severity or "") not in {_plain(name) for name in when.severity}:
            return False
        if when.text_contains and not any(part.casefold() in text for part in when.text_contains):
            return False
        return self._catalogued(when, code)

    def _catalogued(self, when: When, code: str) -> bool:
        return not when.catalogue or self._sxid_severity.get(code.removeprefix("sxid.")) in when.catalogue

    def may_fit(self, row: Signature, code: str) -> bool:
        """Whether some event of this code can meet the row: the catalogue's part of its condition holds."""
        return self._catalogued(row.when, code)

    def signatures_of(self, code: str) -> tuple[Signature, ...]:
        """The rows that may decide an event of this code, in order."""
        found = self._signature_index.get(code)
        if found is None:
            wildcard = code.split(".", 1)[0] + ".*"
            found = tuple(row for row in self.signatures if not {code, wildcard, "*"}.isdisjoint(row.codes))
            self._signature_index[code] = found
        return found

    @cached_property
    def _signature_index(self) -> dict[str, tuple[Signature, ...]]:
        return {}

    @cached_property
    def _sxid_severity(self) -> dict[str, str]:
        first: dict[str, str] = {}
        for row in self.catalogue("sxid_catalog.csv"):
            first.setdefault(row["code"], row["severity"])
        return first

    def class_(self, name: str) -> TaxonomyClass:
        """The class T01..T24. KeyError for others, `none` included."""
        return self.classes[name]

    def action(self, name: str) -> Action:
        """The action of this name. KeyError for others."""
        return self.actions[name]

    def symptom(self, number: int) -> Symptom:
        """The observation 1..11. KeyError for others."""
        return self.symptoms[number]

    def threshold(self, name: str) -> float:
        """A threshold's number, in seconds where it is a time. KeyError for others."""
        return float(self.thresholds[name].value)

    def decide(self, features: Mapping[str, Value]) -> Decision:
        """The first row whose every cell holds. Features left out take their quiet default. Raises ValueError for unknown ones."""
        values = _complete(features, FEATURES)
        return Decision(_first(self.boxes, values), values, self.boxes)

    def confidence(self, links: Mapping[str, Value]) -> Level:
        """The level of confidence for what is known of an incident's links. Raises ValueError for unknown names."""
        return _first(self.level_boxes, _complete(links, CONFIDENCE))

    def catalogue(self, name: str) -> tuple[dict[str, str], ...]:
        """Rows of a catalogue file, parsed at first use."""
        if name not in self._catalogues:
            self._catalogues[name] = tuple(csv.DictReader(io.StringIO(self.texts[name])))
        return self._catalogues[name]

    @cached_property
    def _catalogues(self) -> dict[str, tuple[dict[str, str], ...]]:
        return {}

    def explain(self, code: str) -> list[dict[str, str]]:
        """What is known of an Xid, SXid, NCCL, exit, signal or completion code, dissent included; empty for unknown words."""
        from triage.catalogue import explain

        return explain(self, code)


def _plain(severity: str) -> str:
    return severity.casefold().replace("-", "").replace(" ", "").replace("_", "")


def _complete(given: Mapping[str, Value], features: Mapping[str, Feature]) -> dict[str, Value]:
    values = {name: feature.default for name, feature in features.items()}
    for name, value in given.items():
        if name not in features:
            raise ValueError(f"no feature {name!r}{nearest(name, features)}")
        feature = features[name]
        fits = isinstance(value, feature.type) or (feature.type is float and type(value) is int)
        if not fits or (feature.type is int and isinstance(value, bool)) or (feature.values and value not in feature.values):
            raise ValueError(f"{name} cannot be {value!r}")
        values[name] = value
    return values


def _first(boxes: Sequence[tuple[R, Box]], values: Mapping[str, Value]) -> R:
    for row, box in boxes:
        for name, cell in box.items():
            if not cell.holds(values[name]):
                break
        else:
            return row
    raise AssertionError("a loaded table ends with a catch-all")


def _tried(boxes: Sequence[tuple[Rule, Box]], values: Mapping[str, Value]) -> Iterator[Tried]:
    for row, box in boxes:
        miss = next((name for name, cell in box.items() if not cell.holds(values[name])), None)
        yield Tried(row.id, miss, values[miss] if miss else None, row.when[miss] if miss else None)
        if miss is None:
            return


def load(extra_dir: Path | None = None) -> Rulebook:
    """The shipped rules, with a site's folder laid over them. Raises RuleError with every fault that was found."""
    faults: list[Fault] = []
    shipped = shipped_folder()
    texts = read(shipped, "rules", faults)
    faults += [Fault(f"rules/{name}", 1, "file", "is missing") for name in (*KINDS, *CATALOGUES) if name not in texts]
    entries = entries_of(texts, "rules", False, faults)
    if faults:
        raise RuleError(faults)
    if extra_dir is not None:
        texts = _lay_over(extra_dir, texts, entries, faults)
    book = _assemble(texts, entries, faults)
    if extra_dir is not None and not faults:
        faults += check_tables(book)
    if faults:
        raise RuleError(faults)
    return book


def _lay_over(folder: Path, texts: Mapping[str, str], entries: Entries, faults: list[Fault]) -> dict[str, str]:
    """Merges a site's folder into `entries`; returns the texts of both."""
    if not folder.is_dir():
        raise RuleError([Fault(str(folder), 1, "--rules", "is no folder")])
    site_texts = read(folder, str(folder), faults)
    if not site_texts and not faults:
        raise RuleError([Fault(str(folder), 1, "--rules", f"holds no rule file; write one of {', '.join((*KINDS, *CATALOGUES))}")])
    site = entries_of(site_texts, str(folder), True, faults)
    for name, rows in site.items():
        names_once(KINDS[name], rows, faults)
        entries[name] = merge(KINDS[name], entries[name], rows, faults)
    both = dict(texts)
    for name, text in site_texts.items():
        joined = name in CATALOGUES and _same_columns(f"{folder}/{name}", text, CATALOGUES[name], faults)
        both[name if joined else f"site/{name}"] = text.rstrip() + texts[name][texts[name].index("\n") :] if joined else text
    return both


def _same_columns(path: str, text: str, columns: Sequence[str], faults: list[Fault]) -> bool:
    """A site's catalogue rows stand before the shipped ones of the same columns."""
    head = text.split("\n", 1)[0].strip()
    if head != ",".join(columns):
        faults.append(Fault(path, 1, "columns", f"write {','.join(columns)}"))
    return head == ",".join(columns)


def _assemble(texts: Mapping[str, str], entries: Entries, faults: list[Fault]) -> Rulebook:
    """Checks what rows say of each other, then freezes them. The result may be used only if no fault was added."""
    for name, rows in entries.items():
        names_once(KINDS[name], [row for row in rows if not row.overlay], faults)
    tables = {name: {getattr(e.row, KINDS[name].key): e.row for e in rows} for name, rows in entries.items()}
    thresholds = {name: float(row.value) for name, row in tables["thresholds.toml"].items()}
    faults += _cross_checks(entries, tables)
    live = [entry for entry in entries["decisions.toml"] if entry.row.status != "retired"]
    levels = entries["confidence.toml"]
    return Rulebook(
        codes=tables["codes.csv"],
        signatures=tuple(tables["signatures.toml"].values()),
        classes=tables["taxonomy.toml"],
        symptoms=tables["symptoms.toml"],
        actions=tables["actions.toml"],
        rules=tuple(tables["decisions.toml"].values()),
        levels=tuple(tables["confidence.toml"].values()),
        thresholds=tables["thresholds.toml"],
        digest=_digest(texts),
        texts=texts,
        entries=entries,
        boxes=tuple((entry.row, _cells(entry, FEATURES, thresholds, faults)) for entry in live),
        level_boxes=tuple((entry.row, _cells(entry, CONFIDENCE, thresholds, faults)) for entry in levels),
    )


def _cross_checks(entries: Entries, tables: Mapping[str, Mapping[Any, Any]]) -> Iterable[Fault]:
    codes, classes, actions = tables["codes.csv"], tables["taxonomy.toml"], tables["actions.toml"]
    yield from _check_complete(entries, "rules")
    for entry in entries["signatures.toml"]:
        yield from _check_signature(entry, classes, codes)
    for entry in entries["decisions.toml"]:
        yield from _check_rule(entry, actions, codes)
    for name in ("taxonomy.toml", "symptoms.toml", "actions.toml"):
        for entry in entries[name]:
            yield from _check_templates(entry)
    yield from _check_catch_all([entry for entry in entries["decisions.toml"] if entry.row.status != "retired"])
    yield from _check_catch_all(entries["confidence.toml"])


def _digest(texts: Mapping[str, str]) -> str:
    """Of all files by name and content, 16 hexadecimal digits."""
    total = hashlib.sha256()
    for name in sorted(texts):
        total.update(f"{name}\0{texts[name]}\0".encode())
    return total.hexdigest()[:16]


def fill(template: str, values: Mapping[str, str | None]) -> str:
    """A command with its placeholders filled in, each quoted for a shell; what is not known stays as its name in capitals."""

    def value(found: re.Match[str]) -> str:
        known = values.get(found[1])
        unknown = found[1].upper() if found[1] in PLACEHOLDERS else found[0]
        return shlex.quote(known) if known else unknown

    return _PLACEHOLDER.sub(value, template)


# --- table analysis ----------------------------------------------------------------------------------------------------


def check_tables(book: Rulebook) -> list[Fault]:
    """Rows that never decide, and thresholds of a site that nothing reads."""
    live = [entry for entry in book.entries["decisions.toml"] if entry.row.status != "retired"]
    faults = _shadowed(live, [box for _, box in book.boxes], FEATURES)
    faults += _shadowed(book.entries["confidence.toml"], [box for _, box in book.level_boxes], CONFIDENCE)
    faults += _shadowed_signatures(book.entries["signatures.toml"])
    faults += _unread_thresholds(book)
    return sorted(faults)


def _shadowed(entries: Sequence[Entry], boxes: Sequence[Box], features: Mapping[str, Feature]) -> list[Fault]:
    faults = []
    for row, above in unreachable(boxes, features):
        if not above:
            faults.append(entries[row].place.fault("when", "can never fire: a cell allows no value"))
            continue
        names = ", ".join(entries[n].row.id for n in above)
        what = f"can never fire: {names} decide{'s' * (len(above) == 1)} all of it; move it up with before, or narrow those"
        faults.append(_blocked("when", what, entries[row], [entries[n] for n in above]))
    return faults


def _blocked(name: str, what: str, entry: Entry, above: Sequence[Entry]) -> Fault:
    """A row that never decides; where a site's row takes everything from a shipped one, the site's row is at fault."""
    site = next((other for other in above if other.overlay), None)
    if site is None or entry.overlay:
        return entry.place.fault(name, what)
    return site.place.fault(name, f"leaves nothing to the shipped row {entry.row.id!r}: narrow it, or replace that row")


def _shadowed_signatures(entries: Sequence[Entry]) -> list[Fault]:
    """A code that an earlier row takes under the same or no condition."""
    faults = []
    taken: dict[str, list[Entry]] = {}
    for entry in entries:
        for code in entry.row.codes:
            rows = [*taken.get(code, ()), *taken.get(code.split(".", 1)[0] + ".*", ()), *taken.get("*", ())]
            above = next((other for other in rows if other.row.when in (entry.row.when, When())), None)
            if above is not None:
                what = f"{code} is decided above by {above.row.id!r}: move this row up with before"
                faults.append(_blocked("codes", what, entry, [above]))
            taken.setdefault(code, []).append(entry)
    return faults


def _unread_thresholds(book: Rulebook) -> Iterable[Fault]:
    """A site may change numbers; a name of its own is read only by its own rules."""
    used = {word for entry in book.entries["decisions.toml"] for word in re.findall(r"@([a-z0-9_]{1,60})", str(entry.row.when))}
    rows = book.entries["thresholds.toml"]
    shipped = {entry.row.name for entry in rows if not entry.overlay}
    for entry in rows:
        if entry.overlay and not entry.row.replaces and entry.row.name not in used:
            yield entry.place.fault("name", f"nothing reads {entry.row.name!r}{nearest(entry.row.name, shipped)}")


def check(book: Rulebook, samples: Path | None = None) -> list[Fault]:
    """Everything that an author should mend: tables, and the samples that stable rules owe.

    `samples` defaults to `samples/decisions` of the checkout; a site's rules keep theirs in `samples/` of their folder.
    """
    from triage.rule_samples import check_samples

    shipped = samples or Path(__file__).resolve().parent.parent / "samples" / "decisions"
    return sorted([*check_tables(book), *check_samples(book, shipped)])
