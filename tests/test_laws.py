"""Laws of the code base that no linter knows. Each test lists every offender."""

from __future__ import annotations

import ast
import csv
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import pytest

from parsers import DIALECTS
from parsers.contract import Event
from tests.conftest import Scan
from triage.answers import BLANKS
from triage.rule_tables import FEATURES
from triage.rulebook import PLACEHOLDERS, Rulebook

ROOT = Path(__file__).parents[1]
PACKAGES = ("triage", "parsers")
CODE = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in CODE}
Function = ast.FunctionDef | ast.AsyncFunctionDef

LONGEST, MEDIAN, MOST_IGNORES = 60, 12, 25
# a site's rules may count strikes; the shipped rows count those before the incident
FOR_SITES = {"strikes"}
# an attribute of OpenTelemetry, a basis of rank records
NO_CODES = {"host.name", "nccl.split"}
HEAVY = {"polars", "pyod", "networkx", "duckdb", "pydantic", "scipy", "numpy", "jinja2", "drain3", "sklearn"}
SHAPELESS = {"utils", "util", "helpers", "helper", "manager", "managers", "base", "common", "misc"}
# the schema owns the columns, so it owns their DDL too
SQL_OWNERS = {"store.py", "statements.py", "schema.py"}
# "SELECT host FROM hosts", but not the word select in a sentence
SQL = re.compile(
    r"\bSELECT\s[\s\S]{0,4000}?\bFROM\b|\b(?:INSERT\s+INTO|DELETE\s+FROM|CREATE\s+(?:OR|TABLE|VIEW|TEMP)|DROP\s+TABLE)\b|\bUPDATE\s+\w+\s+SET\b"
)
# the folders of a build machine, a home of somebody
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work/(?:main|shared)|farm/in)\b|(?<![\w.~-])/Users/\w|\b[A-Z]:\\Users\\")
# an index that only this or that machine reaches; the public ones need no naming either
REGISTRY = re.compile(r"\b(?:pypi|artifactory|nexus|devpi|npm)[\w-]{0,20}\.[a-z]{2,8}\b|--(?:extra-)?index-url\s*=?\s*h", re.IGNORECASE)
FORBIDDEN = re.compile(r"\bsub-?agents?\b|\bthe\s+brief\b|\b(?:issue|ticket)\s#\d+|(?-i:\b(?:TODO|FIXME)\b)", re.IGNORECASE)


def none(offenders: Iterable[str]) -> None:
    """Fail with every offender, one a line."""
    listed = sorted(offenders)
    assert not listed, "\n" + "\n".join(listed)


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def functions() -> Iterator[tuple[Path, Function]]:
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def public() -> Iterator[tuple[Path, Function | ast.ClassDef]]:
    """Functions and classes that a module offers."""
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield path, node


def in_package(name: str) -> Iterator[tuple[Path, ast.Module]]:
    return ((path, tree) for path, tree in TREES.items() if path.relative_to(ROOT).parts[0] == name)


def imports(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or ""


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """String literals, docstrings left out."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docs = {id(n.body[0].value) for n in ast.walk(tree) if isinstance(n, documented) and n.body and isinstance(n.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the checkout."""
    folders = ("triage", "parsers", "rules", "samples", "notebooks", "tests", ".ci")
    paths = [p for folder in folders for p in (ROOT / folder).rglob("*")]
    paths += [p for p in ROOT.iterdir() if p.suffix in (".md", ".toml", ".yaml", ".lock")]
    for path in (*paths, ROOT / "Makefile"):
        hidden = any(part.startswith((".", "__")) and part != ".ci" for part in path.relative_to(ROOT).parts[:-1])
        if path.is_file() and not hidden and path.suffix not in (".duckdb", ".pkl"):
            yield path, path.read_text(encoding="utf-8", errors="replace")


def test_parsers_never_import_triage() -> None:
    offenders = [where(p, n) for p, tree in in_package("parsers") for n, name in imports(tree) if name.split(".")[0] == "triage"]
    none(offenders)


def test_parsers_import_lightly() -> None:
    offenders = [where(p, n) for p, tree in in_package("parsers") for n, name in imports(tree) if name.split(".")[0] in HEAVY]
    none(offenders)


def test_sql_stands_in_the_store_and_the_statements_only() -> None:
    offenders = [where(p, s) for p, tree in TREES.items() if p.name not in SQL_OWNERS for s in strings(tree) if SQL.search(str(s.value))]
    none(offenders)


def test_functions_are_short() -> None:
    lengths = {where(p, f): (f.end_lineno or f.lineno) - f.lineno + 1 for p, f in functions()}
    print(f"{len(lengths)} functions, median {median(lengths.values()):.0f} lines, longest {max(lengths.values())}")
    assert {place: n for place, n in lengths.items() if n > LONGEST} == {}
    assert median(lengths.values()) <= MEDIAN


def test_modules_and_what_they_offer_are_documented() -> None:
    # a drill is named by what it plays
    offenders = [str(p.relative_to(ROOT)) for p, tree in TREES.items() if not ast.get_docstring(tree)]
    offenders += [f"{where(p, n)} {n.name}" for p, n in public() if not ast.get_docstring(n) and not p.stem.startswith("drill_")]
    none(offenders)


def test_functions_are_annotated() -> None:
    offenders = []
    for path, function in functions():
        named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        more = [a for a in (function.args.vararg, function.args.kwarg) if a is not None]
        bare = [a.arg for a in (*named, *more) if a.annotation is None and a.arg not in ("self", "cls")]
        if bare or function.returns is None:
            offenders.append(f"{where(path, function)} {function.name} {bare}")
    none(offenders)


def test_no_module_is_named_for_nothing() -> None:
    assert [str(p.relative_to(ROOT)) for p in CODE if p.stem in SHAPELESS] == []


def test_help_waits_for_no_heavy_library() -> None:
    program = (
        "import sys\nfrom triage.cli import app\nsys.argv = ['triage', '--help']\n"
        f"try:\n    app()\nexcept SystemExit:\n    pass\nprint(*sorted(set(sys.modules) & {HEAVY!r}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "Usage" in done.stdout
    assert done.stderr.strip() == ""


def test_exemptions_are_few_and_say_what_they_exempt() -> None:
    marks = [
        (p, n, line)
        for p in CODE
        for n, line in enumerate(p.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"# (?:type: ignore|noqa)", line)
    ]
    bare = [
        f"{p.relative_to(ROOT)}:{n}"
        for p, n, line in marks
        if not re.search(r"# type: ignore\[[\w-]+(?:, ?[\w-]+)*\]|# noqa: ?[A-Z]+\d+", line)
    ]
    print(f"{len(marks)} exemptions")
    none(bare)
    assert len(marks) <= MOST_IGNORES


@pytest.mark.parametrize("law", [MACHINE_PATH, REGISTRY, FORBIDDEN], ids=["machine path", "registry", "word"])
def test_no_text_speaks_of_where_it_was_written(law: re.Pattern[str]) -> None:
    offenders = [f"{p.relative_to(ROOT)}: {found[0]}" for p, text in texts() if p.name != "test_laws.py" and (found := law.search(text))]
    none(offenders)


def test_the_lock_names_no_address() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()


def rule_texts() -> Iterator[str]:
    return (path.read_text(encoding="utf-8") for path in (ROOT / "rules").glob("*.toml"))


def known_codes() -> set[str]:
    with (ROOT / "rules" / "codes.csv").open(encoding="utf-8") as file:
        return {row["code"] for row in csv.DictReader(file)}


def is_known(code: str, codes: set[str]) -> bool:
    return code in codes or f"{code.split('.', 1)[0]}.*" in codes


def test_every_code_in_the_parsers_source_is_known() -> None:
    codes = known_codes()
    families = {code.split(".", 1)[0] for code in codes}
    shape = re.compile(rf"(?:{'|'.join(sorted(families))})\.[a-z][a-z0-9_]{{1,40}}[a-z0-9]")
    offenders = [
        f"{where(path, node)} {node.value!r}"
        for path, tree in in_package("parsers")
        for node in strings(tree)
        if shape.fullmatch(str(node.value)) and not is_known(str(node.value), codes) and node.value not in NO_CODES
    ]
    none(offenders)


def test_every_code_that_samples_yield_is_known(scan: Scan) -> None:
    codes, seen = known_codes(), set()
    for dialect in DIALECTS:
        for path in (ROOT / "samples" / dialect.name).glob("*"):
            if not path.name.endswith(".expected.jsonl"):
                seen |= {c.record.code for c in scan(path.read_bytes(), path.name) if isinstance(c.record, Event)}
    none(code for code in seen if not is_known(code, codes))


def test_every_threshold_is_read(book: Rulebook) -> None:
    read = {str(node.value) for _, tree in in_package("triage") for node in threshold_names(tree)}
    read |= {word for text in rule_texts() for word in re.findall(r"@([a-z0-9_]{1,60})", text)}
    names = {entry.row.name for entry in book.entries["thresholds.toml"]}
    none(names - read - FOR_SITES)
    none(read - names - {"name"})


def threshold_names(tree: ast.AST) -> Iterator[ast.Constant]:
    """The literals in `threshold("name")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == "threshold":
                yield node.args[0]


def test_every_placeholder_of_the_rules_is_known() -> None:
    used = {word for text in rule_texts() for word in re.findall(r"\{([a-z_]{1,30})\}", text)}
    assert used <= set(PLACEHOLDERS)
    assert set(BLANKS) <= set(PLACEHOLDERS)


def test_every_feature_decides_something(book: Rulebook) -> None:
    used = {name for entry in book.entries["decisions.toml"] for name in entry.row.when}
    print(f"features that no row reads: {sorted(set(FEATURES) - used)}")
    assert used <= set(FEATURES)
