"""Every pattern of the code, how it is called, and texts that are hard on it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from re import _parser as sre  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, NamedTuple

import parsers
import triage
from parsers.shapes import Shape

CALLS = ("fullmatch", "match", "search", "finditer", "findall", "sub", "subn", "split")
# From the one that looks at least of the text to the one that goes on after a match.
HARDER = ("fullmatch", "match", "search", "split", "findall", "sub", "finditer")
# Tables whose patterns are taken from them and then asked for the whole of a cell or of a command.
WHOLE = frozenset({"_KINDS", "_POD_KINDS", "_NODE_KINDS", "_PIECES", "_HOSTS", "_TRES", "_COMPILED"})
MANY = "0aA_ \t.:,;-=/\"'[({<>})]|\\#x\u00e9\n"


@dataclass(frozen=True)
class Found:
    """A pattern, where it stands, and the call that is hardest on it."""

    place: str
    pattern: re.Pattern[str] | re.Pattern[bytes]
    call: str

    def seconds(self, text: str) -> float:
        """Processor time of the call; all matches are taken where the code takes all."""
        given: Any = text.encode("utf-8") if isinstance(self.pattern.pattern, bytes) else text
        pattern: re.Pattern[Any] = self.pattern
        began = time.process_time()
        if self.call == "finditer":
            deque(pattern.finditer(given), maxlen=0)
        elif self.call == "sub":
            pattern.sub(type(given)(), given)
        else:
            getattr(pattern, self.call)(given)
        return time.process_time() - began


def modules() -> Iterator[ModuleType]:
    for package in (parsers, triage):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not info.name.endswith("__main__"):
                yield importlib.import_module(info.name)


class _Held(NamedTuple):
    """A pattern in a value and, where a field holds it, the module of the field's class and its name."""

    pattern: re.Pattern[Any]
    field: tuple[str, str] | None


def _inside(value: object, depth: int = 0, held: tuple[str, str] | None = None) -> Iterator[_Held]:
    """Patterns in a value, its items and its fields."""
    if isinstance(value, re.Pattern):
        yield _Held(value, held)
    elif depth < 5 and isinstance(value, Shape):
        yield from (_Held(one, (Shape.__module__, "pattern")) for one in (value.pattern, value.told_before, value.told_after) if one)
    elif depth < 5 and isinstance(value, dict):
        for one in (*value, *value.values()):
            yield from _inside(one, depth + 1, held)
    elif depth < 5 and isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _inside(one, depth + 1, held)
    elif depth < 5 and is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _inside(getattr(value, field.name, None), depth + 1, (type(value).__module__, field.name))


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
                literal.append((node.lineno, node.args[0].value, _call(node.func.attr, node.args[1:])))
        else:
            named[owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")].add(_call(node.func.attr, node.args))
    return named, literal


def _call(name: str, args: list[ast.expr]) -> str:
    """The call as it costs: what is put in by a function or a template needs the match itself."""
    by_text = bool(args) and isinstance(args[0], ast.Constant) and "\\" not in str(args[0].value)
    return name if name in HARDER and (by_text or name != "sub") else "finditer"


def collected() -> list[Found]:
    """Each pattern once, with its hardest call: one that is only ever matched at the start is not searched for."""
    loaded = list(modules())
    calls = _Calls({}, defaultdict(set))
    out: dict[tuple[str | bytes, int], Found] = {}
    for module in loaded:
        calls.own[module.__name__], literal = _calls(ast.parse(Path(str(module.__file__)).read_text()))
        for name, how in calls.own[module.__name__].items():
            calls.everywhere[name] |= how
        for number, text, call in literal:
            _add(out, Found(f"{module.__name__}:{number}", re.compile(text), _hardest({call})))
    for module in loaded:
        whole = {id(held.pattern) for name, value in _names(module) if name in WHOLE for held in _inside(value)}
        for name, value in _names(module):
            for held in _inside(value):
                call = "fullmatch" if name in WHOLE else calls.hardest(module.__name__, name, held, id(held.pattern) in whole)
                _add(out, Found(f"{module.__name__}.{name}", held.pattern, call))
    return list(out.values())


def _add(out: dict[tuple[str | bytes, int], Found], found: Found) -> None:
    """Of a pattern that is met again the harder use counts."""
    key = (found.pattern.pattern, found.pattern.flags & ~re.UNICODE)
    met = out.setdefault(key, found)
    out[key] = replace(met, call=max(met.call, found.call, key=HARDER.index))


@dataclass(frozen=True)
class _Calls:
    """How patterns are called by the names that they have: in each module, and anywhere."""

    own: dict[str, dict[str, set[str]]]
    everywhere: defaultdict[str, set[str]]

    def hardest(self, module: str, name: str, held: _Held, is_whole: bool) -> str:
        if how := self.own[module].get(name):
            return _hardest(how)
        if is_whole:
            return "fullmatch"
        if held.field and (how := self.own.get(held.field[0], {}).get(held.field[1]) or self.everywhere.get(held.field[1])):
            return _hardest(how)
        return _hardest(self.everywhere.get(name) or {"finditer"})


def _names(module: ModuleType) -> Iterator[tuple[str, object]]:
    """What a module and its classes define."""
    for name, value in vars(module).items():
        yield name, value
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from vars(value).items()


def _hardest(how: set[str]) -> str:
    return max(how, key=HARDER.index)


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


@dataclass(frozen=True)
class Text:
    """A text of any length: `before` once, `unit` again and again, and at the end what fits nothing."""

    unit: str
    before: str = ""
    end: str = ""

    def of(self, length: int) -> str:
        return (self.before + self.unit * (length // len(self.unit) + 1))[: length - len(self.end)] + self.end


def hard(found: Found) -> list[Text]:
    """Single characters, the fitting text and its starts again and again, each repetition run on; in a fixed order."""
    stops: list[tuple[str, str]] = []
    text = found.pattern.pattern if isinstance(found.pattern.pattern, str) else found.pattern.pattern.decode("latin-1")
    unicode = re.UNICODE if isinstance(found.pattern.pattern, bytes) else 0
    whole = _sample(sre.parse(text, found.pattern.flags & ~re.DEBUG & ~unicode), stops)
    units = (whole[:1], whole, whole[:-1], whole[: len(whole) // 2], whole + "\0", *MANY, "a.", "a b ", "a=", "0:", "\0")
    texts = [Text(unit) for unit in units if unit]
    for before, unit in stops:
        if unit:
            texts += [Text(unit, before, "\0"), Text(before + unit * 40)]
    return list(dict.fromkeys(texts))
