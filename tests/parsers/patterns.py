"""Every pattern of the code, how it is called, and texts that are hard on it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from re import _parser as sre  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

import parsers
import triage
from parsers.shapes import HEAD, Shape

CALLS = ("fullmatch", "match", "search", "finditer", "findall", "sub", "subn", "split")
ANCHORED = {"fullmatch", "match"}
# Tables whose patterns are taken from them and then asked for the whole of a cell or of a command.
WHOLE = frozenset({"_KINDS", "_PIECES", "_HOSTS", "_TRES", "_COMPILED"})
CUT = 64 << 10  # bytes; of a longer line the scanner hands on a part
WHOLE_FILE = 1 << 20
DOCUMENTS = frozenset(f"parsers.{name}" for name in ("flight", "json_fields", "k8s_json", "slurm_json", "torchrun"))
MANY = "0aA_ \t.:,;-=/\"'[({<>})]|\\#x\u00e9\n"


@dataclass(frozen=True)
class Found:
    """A pattern, where it stands, the call that is hardest on it, and how much text it is given."""

    place: str
    pattern: re.Pattern[str] | re.Pattern[bytes]
    call: str
    length: int = CUT


def modules() -> Iterator[ModuleType]:
    for package in (parsers, triage):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not info.name.endswith("__main__"):
                yield importlib.import_module(info.name)


def _inside(value: object, depth: int = 0) -> Iterator[tuple[re.Pattern[Any], int]]:
    """Patterns in a value, its items and its fields, with the length of text that each is given."""
    if isinstance(value, re.Pattern):
        yield value, CUT
    elif depth < 5 and isinstance(value, Shape):
        yield from ((one, HEAD) for one in (value.pattern, value.told_before, value.told_after) if one)
    elif depth < 5 and isinstance(value, dict):
        for one in (*value, *value.values()):
            yield from _inside(one, depth + 1)
    elif depth < 5 and isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _inside(one, depth + 1)
    elif depth < 5 and is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _inside(getattr(value, field.name, None), depth + 1)


def _calls(tree: ast.AST) -> tuple[dict[str, set[str]], list[tuple[int, str, str]]]:
    """Name of a pattern -> how it is called; and the patterns that are written in a call of `re` itself."""
    named: defaultdict[str, set[str]] = defaultdict(set)
    literal: list[tuple[int, str, str]] = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS):
            continue
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id == "re":
            if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                literal.append((node.lineno, node.args[0].value, node.func.attr))
        else:
            named[owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")].add(node.func.attr)
    return named, literal


def collected() -> list[Found]:
    """Each pattern once, with its hardest call: one that is only ever matched at the start is not searched for."""
    loaded = list(modules())
    everywhere: defaultdict[str, set[str]] = defaultdict(set)
    own: dict[str, dict[str, set[str]]] = {}
    out: dict[tuple[str | bytes, int], Found] = {}
    for module in loaded:
        named, literal = _calls(ast.parse(Path(str(module.__file__)).read_text()))
        own[module.__name__] = named
        for name, how in named.items():
            everywhere[name] |= how
        for number, text, call in literal:
            out.setdefault((text, 0), Found(f"{module.__name__}:{number}", re.compile(text), call))
    for module in loaded:
        for name, value in _names(module):
            for pattern, length in _inside(value):
                key = (pattern.pattern, pattern.flags)
                if key not in out:
                    how = own[module.__name__].get(name) or everywhere.get(name) or {"search"}
                    given = WHOLE_FILE if module.__name__ in DOCUMENTS else length
                    out[key] = Found(f"{module.__name__}.{name}", pattern, _hardest(name, how), given)
    return list(out.values())


def _names(module: ModuleType) -> Iterator[tuple[str, object]]:
    """What a module and its classes define."""
    for name, value in vars(module).items():
        yield name, value
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from vars(value).items()


def _hardest(name: str, how: set[str]) -> str:
    return "fullmatch" if name in WHOLE else "match" if how <= ANCHORED else "search"


def _sample(tree: Any, stops: list[tuple[str, str]], so_far: str = "") -> str:
    """A text that fits; `stops` collects, before each repetition, the text up to it and what is repeated."""
    text = so_far
    for op, args in tree:
        match str(op):
            case "LITERAL":
                text += chr(args)
            case "NOT_LITERAL":
                text += "a" if args != ord("a") else "b"
            case "ANY":
                text += "x"
            case "IN":
                text += _member(args)
            case "BRANCH":
                for one in args[1][1:]:
                    _sample(one, stops, text)
                text = _sample(args[1][0], stops, text)
            case "SUBPATTERN":
                text = _sample(args[3], stops, text)
            case "ATOMIC_GROUP":
                text = _sample(args, stops, text)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                unit = _sample(args[2], [], "")
                stops.append((text, unit))
                text = _sample(args[2], stops, text) if args[1] else text
                text += unit * max(0, min(int(args[0]), 100) - 1)
            case "ASSERT":
                _sample(args[1], stops, text)
    return text


def _member(args: Any) -> str:
    kinds = {"CATEGORY_DIGIT": "7", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a", "CATEGORY_NOT_SPACE": "a", "CATEGORY_NOT_DIGIT": "a"}
    if str(args[0][0]) == "NEGATE":
        return next((c for c in "a0 -x~" if not re.match(_class(args[1:]), c)), "\u00e9")
    op, value = args[0]
    return chr(value[0]) if str(op) == "RANGE" else chr(value) if str(op) == "LITERAL" else kinds.get(str(value), " ")


def _class(items: Any) -> str:
    parts = {"CATEGORY_DIGIT": r"\d", "CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w"}
    texts = []
    for op, value in items:
        if str(op) == "RANGE":
            texts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        else:
            texts.append(re.escape(chr(value)) if str(op) == "LITERAL" else parts.get(str(value), ""))
    return f"[{''.join(texts)}]" if any(texts) else r"[^\s\S]"


def hard(found: Found, length: int) -> list[str]:
    """Texts of a length: single characters, the fitting text and its starts again and again, each repetition run on; in a fixed order."""
    stops: list[tuple[str, str]] = []
    text = found.pattern.pattern if isinstance(found.pattern.pattern, str) else found.pattern.pattern.decode("latin-1")
    unicode = re.UNICODE if isinstance(found.pattern.pattern, bytes) else 0
    whole = _sample(sre.parse(text, found.pattern.flags & ~re.DEBUG & ~unicode), stops)
    units = (whole[:1], whole, whole[:-1], whole[: len(whole) // 2], whole + "\0", *MANY, "a.", "a b ", "a=", "0:", "\0")
    texts = [(unit * (length // len(unit) + 1))[:length] for unit in units if unit]
    for before, unit in stops:
        if unit:
            texts.append((before + unit * (length // len(unit)))[: length - 1] + "\0")
            texts.append(((before + unit * 40) * (length // (len(before) + 40 * len(unit)) + 1))[:length])
    return texts
