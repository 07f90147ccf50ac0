"""Writes docs/reference/ from the code, the rules and the samples, and runs the console blocks of the other pages again.

`python docs/generate.py` writes; `python docs/generate.py --check` names what is out of date and ends with 1.
"""

from __future__ import annotations

import contextlib
import csv
import html
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path[:0] = [str(ROOT)]

import typer  # noqa: E402  the checkout comes first

from parsers import MODULES  # noqa: E402
from parsers.contract import DocumentDialect, LineDialect  # noqa: E402
from tests.fleet.test_paper_figures import CALLS  # noqa: E402
from triage import cli, drills_fleet, fleet_screens, lemon, recurrence, rule_tables  # noqa: E402
from triage.rulebook import Rulebook, load  # noqa: E402
from triage.schema import RAW, TABLES  # noqa: E402

COLUMNS, WIDE_COLUMNS, LINES = 110, 150, 24
SHOWN_RECORDS = 4
LONGEST_LINE = 220
SAMPLES = ROOT / "samples"
# ```console
# $ triage now samples/cases/healthy/logs | head -20
CONSOLE = re.compile(r"(?P<fence>`{3,4})console\n(?P<body>\$ triage .*?)(?P=fence)\n", re.DOTALL)
TYPED = re.compile(r"^\$ (triage .{1,400})$", re.MULTILINE)
# how long a run took is not the same twice: "2 file(s) read, ..., 0.2 s -> fleet.duckdb"
TOOK = re.compile(r"\b\d+\.\d s -> ")
FLEET = re.compile(r"(?P<mark><!-- fleet: lemons -->\n```text\n).*?```\n", re.DOTALL)


def cell(value: object) -> str:
    """Text that is safe in a table."""
    text = html.escape("" if value is None else str(value), quote=False).replace("|", "&#124;").replace("\n", " ")
    return re.sub(r"([*`\\])", r"\\\1", text)


def code(value: object) -> str:
    """A code span for a table; blank stays blank."""
    text = str(value).replace("\n", " ").replace("`", "'")
    return f"`{text}`" if text and "|" not in text else f"<code>{cell(text)}</code>" if text else ""


def codes(values: Iterable[object]) -> str:
    return ", ".join(code(v) for v in values)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def page(title: str, intro: str, *parts: str) -> str:
    return "\n".join([f"# {title}\n", "<!-- written by docs/generate.py -->\n", f"{intro}\n", *parts])


def commands() -> Iterator[tuple[str, str]]:
    """Every command with its help, in the order of `triage --help`."""
    yield from _commands(typer.main.get_command(cli.app), "triage")


def _commands(command: Any, name: str) -> Iterator[tuple[str, str]]:
    yield name, command.get_help(command.context_class(command, info_name=name, terminal_width=100))
    for word, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{name} {word}")


def cli_page() -> str:
    intro = (
        "Every command, as `--help` prints it. Spans of time read `90s`, `15m`, `8h` or `28d`. Exit status: 0 done; 2 the input, the rules "
        "or the arguments are wrong; 3 done, and a decision at or above `--fail-on` was reached."
    )
    return page("Commands", intro, *(f"## {name}\n\n```text\n{text.rstrip()}\n```\n" for name, text in commands()))


def _when(cells: Mapping[str, object]) -> str:
    shown = (f"{k} {_condition(v)}" for k, v in cells.items())
    return "<br>".join(code(s) for s in shown) or "anything else"


def _condition(value: object) -> str:
    if isinstance(value, list):
        return "in " + ", ".join(map(str, value))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if text[:1] in "<>" else f"= {text}"


def rules_page(book: Rulebook) -> str:
    intro = (
        "The first row whose every condition holds decides. `@name` is a [threshold](#thresholds). "
        "`triage rules explain ID` prints one row."
    )
    rows = ([code(r.id), _when(r.when), code(r.action), cell(r.reason), cell(r.source)] for r in book.rules)
    asked = rule_tables.FEATURES.values()
    features = ([code(f.name), cell(f.type.__name__), code(f.default), cell(f.note), codes(f.values)] for f in asked)
    levels = ([code(x.id), cell(x.definition), _when(x.when)] for x in book.levels)
    numbers = ([code(t.name), f"{t.value:g}", cell(t.unit), cell(t.reason), cell(t.source)] for t in book.thresholds.values())
    return page(
        "Decision rules",
        intro,
        table(("Rule", "When", "Action", "Reason", "Source"), rows),
        "## Features\n\nWhat a condition may ask for. A feature that is not known has its default.\n",
        table(("Feature", "Type", "Default", "Meaning", "Values"), features),
        "## Confidence\n",
        table(("Word", "Definition", "When"), levels),
        "## Thresholds\n",
        table(("Name", "Value", "Unit", "Reason", "Source"), numbers),
    )


def _commands_of(rows: Iterable[Any]) -> list[str]:
    said = ((f"{row.what}: {row.why}" if hasattr(row, "why") else row.what, row.command) for row in rows)
    return [f"- {cell(what)}\n\n    ```text\n    {command}\n    ```\n" for what, command in said]


def actions_page(book: Rulebook) -> str:
    intro = (
        "What a verdict may ask for, and the commands that are printed with it. Nothing is executed. "
        "`{...}` is filled in from the incident."
    )
    parts = []
    for action in book.actions.values():
        takes = "Takes a host away." if action.isolating else "Takes no host away."
        parts += [f"## {action.id}\n", f"{cell(action.sentence)} {takes}\n", *_commands_of(action.commands)]
        parts += [f"Undo:\n\n```text\n{action.undo}\n```\n"] if action.undo.strip("-") else []
    return page("Actions", intro, *parts)


def signatures_page(book: Rulebook) -> str:
    intro = (
        "What one event means. The first row that fits its code (and severity or text, where the row asks for them) gives class, role and "
        "layer. The heavier row wins among the roots of one window."
    )
    rows = (
        [code(s.id), codes(s.codes), _meets(s.when), code(s.class_), s.role, s.layer, str(s.weight), cell(s.reason), cell(s.source)]
        for s in book.signatures
    )
    known = ([code(c.code), cell(c.family), cell(c.layer), cell(c.role), cell(c.meaning)] for c in book.codes.values())
    return page(
        "Signatures and event codes",
        intro,
        table(("Signature", "Codes", "When", "Class", "Role", "Layer", "Weight", "Reason", "Source"), rows),
        "## Event codes\n\nThe names that parsers give, and the part that each usually plays.\n",
        table(("Code", "Family", "Layer", "Usual role", "Meaning"), known),
    )


def _meets(when: Any) -> str:
    given = when.model_dump(exclude_unset=True)
    return "<br>".join(f"{cell(name)}: {codes(values)}" for name, values in given.items())


TAGS = {"C": "a cause", "S": "a symptom: several causes look like it", "O": "an outcome"}
DOMAINS = {"U": "program", "S": "system software", "H": "hardware", "P": "policy"}


def classes_page(book: Rulebook) -> str:
    intro = "The failure classes that a verdict names, and the eleven observations that people start from."
    parts = []
    for row in book.classes.values():
        facts = [TAGS[row.tag], "domain: " + ", ".join(DOMAINS[d] for d in row.domains), f"layer: {row.layer}", row.severity]
        facts += [f"share of infrastructure among published cases: {row.p_infra:.2f}"] if row.p_infra is not None else []
        parts += [f"## {row.id}: {cell(row.title)}\n", f"{cell('; '.join(facts))}.\n", "Check first:\n"]
        parts += ["\n".join(f"- {cell(check)}" for check in row.first_checks) + "\n", "Collect:\n", *_commands_of(row.collect)]
    symptoms = book.symptoms.values()
    seen = ([str(s.number), cell(s.observed), cell(s.layer), cell(s.first_check), cell(s.evidence), s.answerable] for s in symptoms)
    header = ("#", "Observed", "First layer", "First check", "Why", "Do logs settle it?")
    return page("Classes and symptoms", intro, "## The eleven symptoms\n", table(header, seen), *parts)


def tables_page() -> str:
    intro = "The tables of a database, for `triage sql` and notebooks. Times are UTC, in microseconds."
    parts = []
    for row in TABLES.values():
        owner = "filled by `triage ingest`" if row.name in RAW else "rebuilt from the others when sources or rules change"
        key = f"; key {codes(row.key)}" if row.key else ""
        parts += [f"## {row.name}\n", f"{cell(row.note[:1].upper() + row.note[1:])} ({owner}{key}).\n"]
        parts += [table(("Column", "Type", "Meaning"), ([code(c.name), code(c.type), cell(c.note)] for c in row.columns))]
    return page("Tables", intro, *parts)


def _dialects(module: ModuleType) -> tuple[Any, ...]:
    found: tuple[Any, ...] = getattr(module, "DIALECTS", None) or (module.DIALECT,)
    return found


def _sample_pairs(name: str) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """Files of a dialect's folder that hold records, hostile and neighbouring ones left out."""
    for beside in sorted((SAMPLES / name).glob("*.expected.jsonl")):
        stem = beside.name.removesuffix(".expected.jsonl")
        files = [p for p in sorted(beside.parent.iterdir()) if stem in (p.name, p.stem) and p != beside and not p.name.endswith(".jsonl")]
        records = [json.loads(line) for line in beside.read_text(encoding="utf-8").splitlines() if line.strip()]
        if files and records and not stem.startswith(("hostile", "neighbour", "cut", "odd", "bytes")):
            yield files[0], records


def _record(record: Mapping[str, Any]) -> str:
    name = record.get("code") or record["record"]
    hidden = ("record", "code", "line", "line_first", "line_last", "ts", "message", "attrs")
    return f"{name} " + " ".join(f"{k}={_short(v)}" for k, v in record.items() if k not in hidden)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else text[:57] + "..."


def _example(path: Path, records: Sequence[Mapping[str, Any]], whole: bool) -> str:
    shown = [r for r in records if r["record"] not in ("reject", "benign")][:SHOWN_RECORDS]
    lines: list[str] = []
    if not whole:
        text = path.read_bytes().decode("utf-8", "replace").split("\n")
        numbers = sorted({r.get("line_first") or r.get("line") or 1 for r in shown})
        head = [1] if numbers and numbers[0] == 2 else []
        lines = ["".join(c if c.isprintable() else " " for c in text[n - 1])[:LONGEST_LINE].rstrip() for n in [*head, *numbers]]
        lines.append("")
    rows = [f"-> {_record(r)}"[:LONGEST_LINE].rstrip() for r in shown]
    return f"`samples/{path.parent.name}/{path.name}`\n\n```text\n" + "\n".join([*lines, *rows]) + "\n```\n"


def dialects_page() -> str:
    intro = (
        "The log dialects, in the order in which they are asked. A dialect is found by content, never by a file's name. "
        "A line that carries a needle and that nobody claims is a reject; a hint is only worth a look."
    )
    parts = []
    for module in MODULES:
        for dialect in _dialects(module):
            parts += [_dialect(module, dialect)]
    return page("Dialects", intro, *parts)


def _dialect(module: ModuleType, dialect: Any) -> str:
    kind = type(dialect).__name__.removesuffix("Dialect").lower()
    about = " ".join((module.__doc__ or "").strip().split("\n\n")[0].split())
    parts = [f"## {dialect.name}\n", f"{cell(about)}\n", f"Reads by {kind}; `{module.__name__.replace('.', '/')}.py`.\n"]
    needles = dialect.needles if isinstance(dialect, LineDialect) else getattr(dialect, "openers", ())
    if needles:
        parts.append(f"Needles: {codes(needles)}.\n")
    if getattr(dialect, "hints", ()):
        parts.append(f"Hints: {codes(dialect.hints)}.\n")
    best = max(_sample_pairs(dialect.name), key=lambda pair: min(SHOWN_RECORDS, len(pair[1])), default=None)
    if best is not None:
        parts.append(_example(*best, isinstance(dialect, DocumentDialect)))
    return "\n".join(parts)


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(part) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return codes(schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}" + (f", at most {schema['maxItems']}" if "maxItems" in schema else "")
    note = f" ({cell(schema['description'])})" if "pattern" in schema and "ISO" in schema.get("description", "") else ""
    return cell(schema.get("type", "anything")) + note


def _object(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    rows = ([code(k), _kind(v), "yes" if k in required else "no", cell(v.get("description"))] for k, v in schema["properties"].items())
    return table(("Key", "Value", "Always there", "Meaning"), rows)


def answer_page() -> str:
    schema = json.loads((ROOT / "triage" / "answer.schema.json").read_text(encoding="utf-8"))
    intro = (
        "What `triage now --format json` prints; the schema itself is `triage/answer.schema.json`, that of `triage report --format json` "
        '`triage/report.schema.json`. Within `"schema": 1` keys are added, '
        "never removed or given another meaning. `rank` is an integer or null, `job_id` a string, times are UTC."
    )
    parts = []
    for name, inner in schema["$defs"].items():
        parts += [f"## {name}\n", f"{cell(inner.get('description', ''))}\n", _object(inner) if "properties" in inner else ""]
    return page("The JSON of an answer", intro, "## Answer\n", _object(schema), *parts)


def figures_page() -> str:
    intro = (
        "Figures of papers, computed by our functions from the inputs that the papers state ([formulas](../methods.md)). "
        "Expected is the figure as printed. Where a paper prints fewer digits, or leaves a quantity to be derived, a row holds what "
        "follows from its inputs. A test holds us to every row."
    )
    with (ROOT / "tests" / "fleet" / "paper_figures.csv").open(encoding="utf-8", newline="") as file:
        rows = [[code(r["id"]), code(r["call"]), _inputs(r["inputs"]), r["printed"], _ours(r)] for r in csv.DictReader(file)]
    return page("Published figures", intro, table(("Check", "Function", "Inputs", "Expected", "Ours"), rows))


def _inputs(text: str) -> str:
    return "<br>".join(code(pair.replace("=", " = ")) for pair in text.split(";"))


def _ours(row: Mapping[str, str]) -> str:
    values = {name: float(value) for name, value in (pair.split("=") for pair in row["inputs"].split(";"))}
    return f"{CALLS[row['call']](**values):.{int(row['digits']) + 1}f}"


def fleet_lemons() -> str:
    """The screen of `triage lemons` over a synthetic fleet: 120 hosts, 45 days, seed 101."""
    fleet = drills_fleet.generate(101, drills_fleet.Recipe(hosts=120, days=45))
    frames = [fleet.frames[name] for name in drills_fleet.FRAMES]
    params = recurrence.Params(second_opinion=False)
    ranking = recurrence.build(*frames, now=fleet.now, params=params, exclusions=fleet.exclusions)
    data = lemon.lemons(ranking, *frames, now=fleet.now, params=params)
    with _wide(WIDE_COLUMNS):
        return fleet_screens.lemons_screen(data)


@contextlib.contextmanager
def _wide(columns: int, lines: int = LINES) -> Iterator[None]:
    """A screen of fixed size."""
    wanted = {"COLUMNS": str(columns), "LINES": str(lines)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _bench() -> Iterator[None]:
    """A folder of its own with the samples in it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _wide(COLUMNS):
        Path("samples").symlink_to(SAMPLES)
        yield


def printed(line: str) -> str:
    """What a console line prints; `| head -N` and `| tail -N` are understood."""
    typed, _, cut = line.partition(" | ")
    out, arguments = io.StringIO(), sys.argv
    sys.argv = shlex.split(typed)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
            cli.app_main()
    finally:
        sys.argv = arguments
    lines = [text.rstrip() for text in TOOK.sub("0.2 s -> ", out.getvalue()).rstrip().split("\n")]
    end, _, count = cut.partition(" -")
    kept = {"": lines, "head": lines[: int(count or 0)], "tail": lines[-int(count or 0) :]}[end]
    return "\n".join(kept) + "\n"


def replayed(text: str) -> str:
    """A page with the output of its console blocks, which are one session in one folder."""
    text = FLEET.sub(lambda block: f"{block['mark']}{fleet_lemons().rstrip()}\n```\n", text)
    with _bench():
        return CONSOLE.sub(lambda block: f"{block['fence']}console\n{_session(TYPED.findall(block['body']))}{block['fence']}\n", text)


def _session(lines: Iterable[str]) -> str:
    return "".join(f"$ {line}\n{printed(line)}" for line in lines)


@cache
def _book() -> Rulebook:
    return load()


REFERENCE: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "rules.md": lambda: rules_page(_book()),
    "actions.md": lambda: actions_page(_book()),
    "signatures.md": lambda: signatures_page(_book()),
    "classes.md": lambda: classes_page(_book()),
    "tables.md": tables_page,
    "dialects.md": dialects_page,
    "answer.md": answer_page,
    "figures.md": figures_page,
}


def prose() -> list[Path]:
    """Hand-written pages that show output."""
    found = ((path, path.read_text(encoding="utf-8")) for path in sorted(DOCS.glob("*.md")))
    return [path for path, text in found if CONSOLE.search(text) or FLEET.search(text)]


def pages() -> Iterator[tuple[Path, Callable[[], str]]]:
    """Every page that this script writes or rewrites."""
    for name, make in REFERENCE.items():
        yield DOCS / "reference" / name, make
    for path in prose():
        yield path, lambda path=path: replayed(path.read_text(encoding="utf-8"))  # type: ignore[misc]


def main(check: bool) -> int:
    stale = []
    for path, make in pages():
        old, new = path.read_text(encoding="utf-8") if path.exists() else None, make()
        if old != new:
            stale.append(path.relative_to(ROOT))
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(new, encoding="utf-8")
    for name in stale:
        print(f"{name}: {'out of date, run make docs' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
