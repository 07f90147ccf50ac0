"""Bursts that are too many to hold: their rows lie on disk, and those that are asked for are made anew, a part at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from sys import intern
from typing import TYPE_CHECKING, overload

from triage.history import LOST, Burst, Mark
from triage.spool import Spool

if TYPE_CHECKING:
    import polars as pl

    from triage.rule_rows import Signature

PART = 2048
HELD = 10
"""Parts whose bursts stay in memory: a history of up to PART x HELD bursts is made once."""
SHOWN = (
    "burst_id", "code", "family", "class", "role", "layer", "user_possible", "message", "source_id", "line", "count", "copies", "host",
    "device", "first", "last", "timed", "job_id", "attempt", "rank", "peer", "duration_s", "severity", "state", "signal", "exit_code", "op",
    "seq",
)  # fmt: skip
OFTEN = ("code", "family", "class", "role", "layer", "source_id", "host", "device", "job_id", "peer", "severity", "state", "op")
"""Columns whose values many bursts share."""
_made: Callable[..., Burst] = Burst
Sign = Callable[[str, str | None, str | None, str | None], "Signature"]
"""(code, severity, state, message) -> signature."""


class Archive(Sequence[Burst]):
    """The bursts of a database, in its order. Equal places give equal bursts, not always the same object."""

    def __init__(self, sign: Sign) -> None:
        self._sign, self._spool = sign, Spool()
        self._begins: list[int] = []
        self._made: dict[int, list[Burst]] = {}
        self._last: tuple[int, int, list[Burst]] = (0, 0, [])

    def fill(self, frames: Iterable[pl.DataFrame]) -> Iterator[Mark]:
        """Take rows of `bursts` with times in microseconds; what the indexes need of each."""
        for frame in frames:
            at = len(self)
            self._begins.append(at)
            self._spool.add(frame.select(SHOWN))
            rows = frame.select("burst_id", "host", "first", "role", "code", "job_id", "attempt").rows()
            for place, (name, host, first, role, code, job, attempt) in enumerate(rows, at):
                yield Mark(place, name, host and intern(host), first, role == "root" or code in LOST, job and intern(job), attempt)

    def __len__(self) -> int:
        return self._spool.height

    @overload
    def __getitem__(self, place: int) -> Burst: ...
    @overload
    def __getitem__(self, place: slice) -> list[Burst]: ...
    def __getitem__(self, place: int | slice) -> Burst | list[Burst]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        begin, end, part = self._last
        if not begin <= place < end:
            if not 0 <= place < len(self):
                raise IndexError(place)
            number = bisect_right(self._begins, place) - 1
            part, begin = self._part(number), self._begins[number]
            self._last = begin, begin + len(part), part
        return part[place - begin]

    def __iter__(self) -> Iterator[Burst]:
        for number in range(len(self._begins)):
            yield from self._part(number)

    def _part(self, number: int) -> list[Burst]:
        """The bursts of one frame; those that were not asked for lately make room."""
        part = self._made.pop(number, None)
        if part is None:
            part = list(self._bursts(self._spool.part(number), self._begins[number]))
            if len(self._made) >= HELD:
                del self._made[next(iter(self._made))]
        self._made[number] = part
        return part

    def _bursts(self, frame: pl.DataFrame, at: int) -> Iterator[Burst]:
        columns = [_shared(frame[name].to_list()) if name in OFTEN else frame[name].to_list() for name in SHOWN]
        for place, row in enumerate(zip(*columns, strict=True), at):
            name, code, family, class_id, role, layer, user_possible, message = row[:MESSAGE]
            signature = self._sign(code, row[SEVERITY], row[STATE], message)
            yield _made(
                name, code, family, class_id, role, layer, signature.weight, signature.fatal, signature.scope, user_possible,
                signature.manifestation, signature.id, message, *row[MESSAGE:], place,
            )  # fmt: skip


MESSAGE, SEVERITY, STATE = SHOWN.index("message") + 1, SHOWN.index("severity"), SHOWN.index("state")


def _shared(values: list[str | None]) -> list[str | None]:
    return [value and intern(value) for value in values]
