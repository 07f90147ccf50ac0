"""Rules files: rows with the line that they stand in, a site's folder laid over the shipped one, faults with their place."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from triage.rule_rows import CATALOGUES, KINDS, Kind, Row
from triage.rule_tables import nearest


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Something wrong in a rules file, and what would mend it."""

    path: str
    line: int
    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.field}: {self.what}"


class RuleError(ValueError):
    """The rules cannot be used; `faults` holds every reason, in file order."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(str(fault) for fault in self.faults))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands. Lines of its keys, `""` for its header."""

    path: str
    lines: Mapping[str, int]

    def fault(self, name: str, what: str) -> Fault:
        return Fault(self.path, self.lines.get(name.split(".")[0], self.lines.get("", 1)), name, what)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row and its place."""

    row: Any
    place: Place
    overlay: bool = False


Entries = dict[str, list[Entry]]


# --- reading -----------------------------------------------------------------------------------------------------------

# [[rule]]
_HEADER = re.compile(r"\s{0,8}\[\[\s{0,8}([A-Za-z_]{1,40})\s{0,8}\]\]")
# reason = "..."
_KEY = re.compile(r"\s{0,8}([A-Za-z_]{1,40})\s{0,40}=")


def _line_index(text: str, section: str) -> list[dict[str, int]]:
    """Line of the header (`""`) and of each key of every `[[section]]`."""
    found: list[dict[str, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _HEADER.match(line)) and header[1] == section:
            found.append({"": number})
        elif found and (key := _KEY.match(line)):
            found[-1].setdefault(key[1], number)
    return found


def _toml_entries(path: str, text: str, kind: Kind, overlay: bool, faults: list[Fault]) -> list[Entry]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d{1,9})", str(error))
        faults.append(Fault(path, int(line[1]) if line else text.count("\n") + 1, "toml", str(error)))
        return []
    for name in data.keys() - {kind.section}:
        line_of = next((n for n, row in enumerate(text.splitlines(), 1) if re.match(rf"\s*\[*\s*{re.escape(name)}\b", row)), 1)
        faults.append(Fault(path, line_of, name, f"this file holds [[{kind.section}]] rows only"))
    rows = data.get(kind.section, [])
    if not isinstance(rows, list):
        faults.append(Fault(path, 1, kind.section, f"write [[{kind.section}]], with two brackets"))
        return []
    lines = _line_index(text, kind.section)
    places = (Place(path, lines[n] if n < len(lines) else {}) for n in range(len(rows)))
    return [entry for raw, place in zip(rows, places, strict=True) if (entry := _entry(raw, kind, place, overlay, faults))]


def _csv_entries(path: str, text: str, kind: Kind, overlay: bool, faults: list[Fault]) -> list[Entry]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    entries = []
    try:
        for raw in reader:
            place = Place(path, {"": reader.line_num})
            if None in raw or None in raw.values():
                faults.append(place.fault("row", f"has not {len(reader.fieldnames or ())} columns"))
                continue
            row: dict[str, object] = {name: value for name, value in raw.items() if name != "replaces"}
            row |= {"replaces": True} if raw.get("replaces") == "true" else {}
            if entry := _entry(row, kind, place, overlay, faults):
                entries.append(entry)
    except csv.Error as error:
        faults.append(Fault(path, reader.line_num, "csv", str(error)))
    return entries


def _entry(raw: object, kind: Kind, place: Place, overlay: bool, faults: list[Fault]) -> Entry | None:
    try:
        return Entry(kind.model.model_validate(raw), place, overlay)
    except ValidationError as error:
        faults.extend(_schema_fault(place, kind.model, dict(item)) for item in error.errors(include_url=False))
        return None


def _schema_fault(place: Place, model: type[Row], item: Mapping[str, Any]) -> Fault:
    """pydantic's finding in our words: what to write."""
    where = ".".join(str(part) for part in item["loc"])
    known = [info.alias or name for name, info in model.model_fields.items()]
    match item["type"]:
        case "extra_forbidden":
            return place.fault(where, f"no such key{nearest(where, known)}")
        case "missing":
            return place.fault(where, "is missing")
        case "literal_error":
            names = re.findall(r"'([^']{1,60})'", str(item["ctx"]["expected"]))
            return place.fault(where, f"{item['input']!r} is not allowed{nearest(str(item['input']), names)}")
        case "tuple_type":
            return place.fault(where, f'write a list: ["..."], not {item["input"]!r}'[:200])
        case _:
            return place.fault(where, f"{item['msg']}, not {item['input']!r}"[:200])


def shipped_folder() -> Path:
    """In a wheel the rules lie inside the package, in a checkout beside it."""
    inside = Path(str(resources.files("triage"))) / "rules"
    return inside if inside.is_dir() else Path(__file__).resolve().parent.parent / "rules"


def read(folder: Path, label: str, faults: list[Fault]) -> dict[str, str]:
    """Every rules file of a folder by name. An overlay holds some of them, and nothing else but notes and samples."""
    texts: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        shown = f"{label}/{path.name}"
        if path.name in KINDS or path.name in CATALOGUES:
            try:
                texts[path.name] = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                faults.append(Fault(shown, 1, "file", f"cannot be read: {error}"))
        elif path.suffix in (".toml", ".csv"):
            faults.append(Fault(shown, 1, "file", f"no rules file has this name{nearest(path.name, (*KINDS, *CATALOGUES))}"))
    return texts


def entries_of(texts: Mapping[str, str], label: str, overlay: bool, faults: list[Fault]) -> Entries:
    """Rows of each rules file that is there, with their places; `label` is how the folder is shown."""
    found: Entries = {}
    for name, kind in KINDS.items():
        if name in texts:
            parse = _csv_entries if name.endswith(".csv") else _toml_entries
            found[name] = parse(f"{label}/{name}", texts[name], kind, overlay, faults)
    return found


# --- overlay -----------------------------------------------------------------------------------------------------------


def merge(kind: Kind, shipped: list[Entry], site: list[Entry], faults: list[Fault]) -> list[Entry]:
    """Site rows among the shipped ones: replacing only where they say so, new ones before the catch-all."""
    merged = list(shipped)
    taken: set[object] = set()
    for entry in site:
        names = [getattr(other.row, kind.key) for other in merged]
        name = getattr(entry.row, kind.key)
        if name in taken:
            continue
        taken.add(name)
        if entry.row.replaces and name not in names:
            faults.append(entry.place.fault("replaces", f"no row {name!r} to replace{nearest(str(name), map(str, names))}"))
        elif entry.row.replaces:
            merged[names.index(name)] = entry
        elif name in names:
            faults.append(entry.place.fault(kind.key, f"{name!r} exists already: write replaces = true, or give it another name"))
        else:
            merged.insert(_slot(kind, entry, names, faults), entry)
    return merged


def _slot(kind: Kind, entry: Entry, names: list[Any], faults: list[Fault]) -> int:
    before = entry.row.before
    if before is not None and before not in names:
        faults.append(entry.place.fault("before", f"no row {before!r}{nearest(before, map(str, names))}"))
    if before in names:
        return names.index(before)
    return len(names) - 1 if kind.ordered and names else len(names)


def names_once(kind: Kind, entries: list[Entry], faults: list[Fault]) -> None:
    """Within one folder each name stands once; `replaces` and `before` are for overlays."""
    seen: dict[object, int] = {}
    for entry in entries:
        name = getattr(entry.row, kind.key)
        if name in seen:
            faults.append(entry.place.fault(kind.key, f"{name!r} stands already in line {seen[name]}"))
        seen.setdefault(name, entry.place.lines.get("", 1))
        for key in ("replaces", "before"):
            if not entry.overlay and getattr(entry.row, key):
                faults.append(entry.place.fault(key, "only a site's folder may say so"))
