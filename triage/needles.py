"""Literal search over blocks of bytes: which lines are worth a look, at several GB/s.

Hyperscan's literal mode reports every needle of every dialect in one pass; only the lines that it names reach Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import hyperscan

from parsers.contract import Dialect, DocumentDialect, LineDialect, SectionDialect


@dataclass(frozen=True, slots=True)
class Needle:
    """A literal and the dialects (by place) that asked for it; `strong` needles must be accounted for."""

    text: bytes
    dialects: tuple[int, ...]
    strong: bool


def needles_of(dialects: Sequence[Dialect]) -> list[Needle]:
    """Every literal once, with the dialects that want it."""
    wanted: dict[bytes, list[int]] = {}
    strong: set[bytes] = set()
    for place, dialect in enumerate(dialects):
        for text, is_strong in _literals(dialect):
            wanted.setdefault(text, []).append(place)
            if is_strong:
                strong.add(text)
    return [Needle(text, tuple(places), text in strong) for text, places in wanted.items()]


def _literals(dialect: Dialect) -> list[tuple[bytes, bool]]:
    match dialect:
        case LineDialect():
            return [(n.encode(), True) for n in dialect.needles] + [(h.encode(), False) for h in dialect.hints]
        case SectionDialect():
            return [(o.encode(), False) for o in dialect.openers]
        case DocumentDialect():
            return []


@lru_cache(maxsize=4)
def _compiled(texts: tuple[bytes, ...]) -> hyperscan.Database:
    """Once a process: it takes 50 ms, and may be shared by threads."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=list(texts), ids=list(range(len(texts))), elements=len(texts), flags=[0] * len(texts), literal=True)
    return database


@dataclass(slots=True)
class Finder:
    """One scratch per thread; `find` gives (end offset, needle id) in order of the end."""

    needles: list[Needle]
    _database: hyperscan.Database = field(init=False)
    _scratch: hyperscan.Scratch = field(init=False)
    _hits: list[tuple[int, int]] = field(default_factory=list)
    longest: int = field(init=False)

    def __post_init__(self) -> None:
        self.longest = max((len(n.text) for n in self.needles), default=1)
        self._database = _compiled(tuple(n.text for n in self.needles))
        self._scratch = hyperscan.Scratch(self._database)

    def find(self, block: bytes) -> list[tuple[int, int]]:
        self._hits = []
        self._database.scan(block, match_event_handler=self._keep, scratch=self._scratch)
        return self._hits

    def _keep(self, needle: int, _start: int, end: int, _flags: int, _context: object) -> None:
        self._hits.append((end, needle))
