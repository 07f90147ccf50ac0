"""Text tables of command-line tools: separated, dash-ruled, or set by blanks alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from parsers.contract import Line, Record, Reject

Kinds = Mapping[str, re.Pattern[str]]
# NODELIST(REASON) | AllocTRES | S:C:T
_NAME = re.compile(r"S:C:T|LAST SEEN|FIRST SEEN|NOMINATED NODE|READINESS GATES|[A-Za-z][\w/]{0,63}(?:\([^()]{0,24}\))?")
_RULE = re.compile(r"-{1,4096}(?: {1,4}-{1,4096}){1,300} *")
_HEADER_LIMIT, _COLUMNS, _EXTRAS = 8192, 200, 60
# Columns that hold commas themselves: where the comma divides, each of their pieces has this form.
_HOSTS, _TRES = re.compile(r"[\w.,\[\]-]{0,4000}|\(null\)|None assigned"), re.compile(r"[\w/:.-]{1,80}=[\w/.-]{0,80}|")
_PIECES = dict.fromkeys(("nodelist", "hostnames", "nodename", "exc_nodes"), _HOSTS) | dict.fromkeys(("alloctres", "reqtres"), _TRES)
_COMMA = re.compile(r"\[[^\[\]]*\]|,")


def _apart(text: str) -> list[str]:
    """The pieces between commas that stand in no brackets."""
    cuts = [found.start() for found in _COMMA.finditer(text) if found[0] == ","]
    return [text[a:b] for a, b in zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(text)], strict=True)]


class Table:
    """The columns of one header line. `kinds` gives the form of the cells of some columns; the others hold free text."""

    def __init__(self, names: list[str], separator: str | None, header: str, kinds: Kinds) -> None:
        self.names = names
        self.separator = separator
        self.trailing = bool(separator) and header.rstrip(" ").endswith(separator or "")
        comma = separator == ","
        self.kinds = [_PIECES.get(name, kinds.get(name)) if comma else kinds.get(name) for name in names]
        self.many = [kind is None or (comma and name in _PIECES) for name, kind in zip(names, self.kinds, strict=True)]
        self.starts = [found.start() for found in _NAME.finditer(header)] if separator is None else []
        self.ends = [found.end() for found in _NAME.finditer(header)] if separator is None else []
        self.spans: list[tuple[int, int]] = []

    def rule(self, text: str) -> bool:
        """Whether `text` is the dashed line below the header; its dashes are the columns."""
        if self.separator is not None or self.spans or not _RULE.fullmatch(text):
            return False
        spans = [found.span() for found in re.finditer("-+", text)]
        self.spans = spans if len(spans) == len(self.names) else []
        return bool(self.spans)

    def pieces(self, text: str) -> list[str]:
        """The pieces between the separators, as they stand."""
        parts = _apart(text) if self.separator == "," else text.split(self.separator)
        if self.trailing and len(parts) > 1 and not parts[-1].strip():
            parts.pop()
        return parts

    def cells(self, text: str) -> dict[str, str] | None:
        """Column name to cell; None when the line does not fit the columns."""
        row = self._row(text)
        if row is None:
            return None
        return dict(zip(reversed(self.names), (cell.strip() for cell in reversed(row)), strict=True))

    def _row(self, text: str) -> list[str] | None:
        if self.spans:
            return self._sliced(text)
        parts = self.pieces(text)
        if len(parts) == len(self.names) and (self.separator is not None or self._fits(parts)):
            return parts
        aligned = align(parts, self.kinds, self.many, self.separator or " ")
        return aligned if aligned is not None or self.separator is not None else self._placed(text)

    def _fits(self, row: list[str]) -> bool:
        return all(kind is None or kind.fullmatch(cell.strip()) for kind, cell in zip(self.kinds, row, strict=True))

    def _sliced(self, text: str) -> list[str] | None:
        """By the dashes; the tools pad by bytes, so a name that is not ASCII shifts what follows."""
        row = [text[start:end] for start, end in self.spans]
        if self._fits(row):
            return row
        data = text.encode("utf-8", "replace")
        row = [data[start:end].decode("utf-8", "replace") for start, end in self.spans]
        return row if self._fits(row) else align(text.split(), self.kinds, self.many, " ")

    def _placed(self, text: str) -> list[str] | None:
        """By where the names stand: first as left ends, then as right ends of their columns."""
        left = [text[a:b] for a, b in zip(self.starts, [*self.starts[1:], None], strict=True)]
        if self._fits(left):
            return left
        right = [text[a:b] for a, b in zip([0, *self.ends[:-1]], [*self.ends[:-1], None], strict=True)]
        return right if self._fits(right) else None


def read_header(text: str, known: frozenset[str], kinds: Kinds) -> Table | None:
    """The table that `text` heads; None unless at least two of its names are `known` and one separator divides them all.

    Names are given in lower case. A name that was cut to its column's width is completed where only one known name begins so.
    """
    text = text.rstrip("\r\n")
    found = list(_NAME.finditer(text)) if len(text) <= _HEADER_LIMIT else []
    if not 2 <= len(found) <= _COLUMNS or text[: found[0].start()].strip():
        return None
    gaps = [text[a.end() : b.start()] for a, b in pairwise(found)]
    marks = {gap if gap == "\t" else gap.strip(" ") for gap in gaps}
    mark = next(iter(marks))
    if len(marks) != 1 or len(mark) > 3 or text[found[-1].end() :].strip(" ") not in ("", mark):
        return None
    names = [_completed(one[0].lower(), known) for one in found]
    if sum(name in known for name in names) < 2:
        return None
    return Table(names, mark or None, text, kinds)


def _completed(name: str, known: frozenset[str]) -> str:
    longer = [k for k in known if k.startswith(name)] if name not in known and len(name) > 3 else []
    return longer[0] if len(longer) == 1 else name


def align(parts: list[str], kinds: list[re.Pattern[str] | None], many: list[bool], glue: str) -> list[str] | None:
    """Joins surplus pieces into the columns that may hold `many`, so that each piece of a known kind fits; else None.

    For rows whose free text holds the separator.
    """
    extras = len(parts) - len(kinds)
    if not 0 <= extras <= _EXTRAS:
        return None
    # spare[column]: surplus pieces used by the columns before it -> surplus taken by that column
    spare: list[dict[int, int]] = [{0: 0}]
    for column, kind in enumerate(kinds):
        reached: dict[int, int] = {}
        for used in spare[-1]:
            for take in range(extras - used + 1 if many[column] else 1):
                if kind is not None and not kind.fullmatch(parts[column + used + take].strip()):
                    break
                reached.setdefault(used + take, take)
        spare.append(reached)
    return _joined(parts, spare, extras, glue) if extras in spare[-1] else None


def _joined(parts: list[str], spare: list[dict[int, int]], extras: int, glue: str) -> list[str]:
    row: list[str] = []
    used = extras
    for column in range(len(spare) - 2, -1, -1):
        take = spare[column + 1][used]
        row.append(glue.join(parts[column + used - take : column + used + 1]))
        used -= take
    return row[::-1]


# Names of columns that head other tables of the same tools.
_OTHERS = frozenset(
    "jobid jobname name user partition account alloccpus state exitcode nodelist nodename cluster reason timestamp timestart timeend avail "
    "timelimit nodes st time hostnames elapsed start end submit nnodes ncpus maxrss "
    "status ready restarts age ip node roles version".split()
)


def heads_table(text: str) -> bool:
    """Whether `text` is a line of column names and nothing else."""
    table = read_header(text, _OTHERS, {})
    return table is not None and 2 * sum(name.partition("(")[0] in _OTHERS for name in table.names) > len(table.names)


class Rows:
    """A section of a table with one row a line; ends at the first line for which `read` gives None, and at another table's header.

    loose  no column of the table has a form that other text lacks: then it ends at a blank line as well
    """

    def __init__(self, table: Table, read: Callable[[dict[str, str], Line], Iterable[Record] | None], loose: bool = False) -> None:
        self.table = table
        self.read = read
        self.loose = loose

    def feed(self, line: Line) -> Iterable[Record] | None:
        """The records of a row; nothing for blank lines and the dashed rule."""
        text = line.raw.rstrip()
        if heads_table(text) or (self.loose and not text):
            return None
        if not text or self.table.rule(text):
            return ()
        cells = self.table.cells(line.raw.rstrip("\r\n"))
        if cells is not None:
            return self.read(cells, line)
        if self.table.separator and self.table.separator in text:
            return (Reject(line.number, f"{len(self.table.pieces(text))} cells for {len(self.table.names)} columns"),)
        return None

    def close(self) -> Iterable[Record]:
        """A row is never held back."""
        return ()
