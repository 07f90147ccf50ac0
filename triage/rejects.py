"""Rows of `rejects`: lines that carry a needle and do not parse. Counted, kept, shown; never dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parsers.contract import Reject
from triage.schema import TABLES
from triage.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

CHUNK, TEXT = 8192, 200


@dataclass(slots=True)
class Refused:
    """Takes the rejects of one source in file order; the first reason given for a line wins."""

    spool: Spool = field(default_factory=Spool)
    _rows: dict[int, tuple[int, str, str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.spool.height + len(self._rows)

    def take(self, dialect: str, reject: Reject) -> None:
        """One reject."""
        self._rows.setdefault(reject.line, (reject.line, dialect, reject.reason, reject.text[:TEXT]))
        if len(self._rows) >= 2 * CHUNK:
            self._flush(CHUNK)

    def _flush(self, count: int) -> None:
        import polars as pl

        lines = sorted(self._rows)[:count]
        if lines:
            rows = [self._rows.pop(line) for line in lines]
            kinds = {"line": pl.Int64, "parser": pl.String, "reason": pl.String, "text": pl.String}
            self.spool.add(pl.DataFrame(rows, schema=kinds, orient="row"))

    def finish(self) -> None:
        """No more will come."""
        self._flush(len(self._rows))

    def frames(self, source_id: str) -> Iterator[pl.DataFrame]:
        """The rows as the table has them."""
        import polars as pl

        for frame in self.spool:
            yield frame.with_columns(pl.lit(source_id).alias("source_id")).select(TABLES["rejects"].names)

    def marks(self, before: int) -> list[tuple[Any, ...]]:
        """(line, reason) of those before a line, sorted."""
        return sorted(row for frame in self.spool for row in frame.filter(frame["line"] < before).select("line", "reason").rows())
