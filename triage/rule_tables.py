"""What a rule may ask for, and which rows of a table can never decide.

A `when` cell is a set of values of one feature; a row is a box of such sets. A row that lies in the union of the rows
above it never fires.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Value = str | bool | int | float

CLASSES = tuple(f"T{n:02d}" for n in range(1, 25))
LAYERS = ("user", "system_software", "gpu", "interconnect", "network", "host", "storage", "facility", "scheduler", "unknown")
MANIFESTATIONS = ("fail_stop", "fail_hang", "fail_slow", "fail_on_start", "silent", "none")
LEVELS = ("confirmed", "probable", "possible", "insufficient")
ROLES = ("root", "cascade", "symptom", "outcome", "precursor", "recovery", "operator", "fact", "noise", "advice")


@dataclass(frozen=True, slots=True)
class Feature:
    """A column that rules may test. `values` of a string feature are all it can be; none means event codes."""

    name: str
    type: type[str] | type[bool] | type[int] | type[float]
    default: Value
    note: str
    values: tuple[str, ...] = ()


def _features(*rows: Feature) -> dict[str, Feature]:
    return {row.name: row for row in rows}


_LEADS = ("none", "root", "symptom", "outcome", "precursor", "operator")
_ENDS = ("none", "running", "completed", "failed", "node_fail", "cancelled", "time_limit", "preempted", "out_of_memory", "requeued")
_REPAIRS = ("none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", "recover_imex")

FEATURES = _features(
    Feature("class", str, "none", "class of the event that leads the incident", ("none", *CLASSES)),
    Feature("root_code", str, "none", "its code"),
    Feature("root_role", str, "none", "its role; none: no event leads", _LEADS),
    Feature("root_fatal", bool, False, "it is on the list of errors that a host does not survive"),
    Feature("root_hosts", int, 0, "hosts that show it"),
    Feature("root_share", float, 0.0, "their share of the job's hosts, 0 to 1"),
    Feature("root_devices", int, 0, "devices that show it"),
    Feature("shared", str, "none", "the common part of those hosts", ("none", "rack", "leaf", "storage", "job", "fleet")),
    Feature("user_possible", bool, False, "a program can raise it"),
    Feature("followed_by_job_failure", bool, False, "the job failed after it"),
    Feature("job_end", str, "none", "how the attempt ended", _ENDS),
    Feature("hang", bool, False, "no progress, not dead"),
    Feature("slow", str, "none", "who is slow", ("none", "all", "rank", "host", "step_change")),
    Feature("silent", bool, False, "wrong results without an error"),
    Feature("on_start", bool, False, "within the first ten minutes of the attempt"),
    Feature("strikes_7d", int, 0, "earlier incidents of this host within seven days"),
    Feature("same_gpu_7d", int, 0, "earlier incidents of this GPU within seven days"),
    Feature("recovery_action", str, "none", "repair that the driver asks for (Xid 154)", _REPAIRS),
    Feature("operator", bool, False, "an operator's act ended the job"),
    Feature("host_named", bool, False, "the scheduler or srun names the lost host"),
    Feature("reboot_seen", bool, False, "the host started again within the window"),
    Feature("kernel_log", bool, False, "the suspect's kernel log covers the window"),
    Feature("link_flaps", int, 0, "drops of one port within the flap window"),
    Feature("fleet_share", float, 0.0, "share of the known hosts that this rule would isolate now"),
    Feature("missing_ranks", int, 0, "ranks that never entered the collective"),
    Feature("lagging_ranks", int, 0, "ranks that enter late"),
    Feature("job_hosts", int, 0, "hosts of the job"),
    Feature("has_job", bool, False, "a job is known"),
    Feature("idle_host", bool, False, "no job ran on the host"),
)

CONFIDENCE = _features(
    Feature("root_seen", bool, False, "a root event is seen"),
    Feature("in_window", bool, False, "it lies in the job's window"),
    Feature("device_known", bool, False, "its device is known, or a device does not apply"),
    Feature("host_known", bool, False, "its host is known"),
    Feature("dependents_agree", bool, False, "the symptoms that should follow did follow"),
    Feature("inferred_links", int, 0, "links (time, rank, device) that were inferred"),
    Feature("rivals", int, 0, "other root candidates that are not excluded"),
)


@dataclass(frozen=True, slots=True)
class Names:
    """Named values: any of them, or with `complement` anything else."""

    values: frozenset[Value]
    complement: bool = False

    def holds(self, value: Value) -> bool:
        return (value in self.values) != self.complement

    def meet(self, other: Names) -> Names:
        if self.complement and other.complement:
            return Names(self.values | other.values, complement=True)
        if self.complement:
            return Names(other.values - self.values)
        return Names(self.values - other.values if other.complement else self.values & other.values)

    def minus(self, other: Names) -> list[Names]:
        rest = self.meet(Names(other.values, not other.complement))
        return [rest] if rest.values or rest.complement else []

    @property
    def empty(self) -> bool:
        return not self.values and not self.complement


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from `low` to `high`; an open end does not count itself in. `whole`: counts, whose ends are then never open."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    whole: bool = False

    def holds(self, value: Value) -> bool:
        number = float(value)
        above = number > self.low or (number == self.low and not self.low_open)
        return above and (number < self.high or (number == self.high and not self.high_open))

    def meet(self, other: Span) -> Span:
        low, low_open = max((self.low, self.low_open), (other.low, other.low_open))
        high, shut = min((self.high, not self.high_open), (other.high, not other.high_open))
        return Span(low, high, low_open, not shut, self.whole or other.whole)._tight()

    def _tight(self) -> Span:
        """`>2` and `>=3` are one count."""
        if not self.whole:
            return self
        low = self.low if math.isinf(self.low) else math.floor(self.low) + 1 if self.low_open else math.ceil(self.low)
        high = self.high if math.isinf(self.high) else math.ceil(self.high) - 1 if self.high_open else math.floor(self.high)
        return Span(low, high, whole=True)

    def minus(self, other: Span) -> list[Span]:
        left = self.meet(Span(high=other.low, high_open=not other.low_open))
        right = self.meet(Span(low=other.high, low_open=not other.high_open))
        return [part for part in (left, right) if not part.empty]

    @property
    def empty(self) -> bool:
        nowhere = self.low == math.inf or self.high == -math.inf
        return nowhere or self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))


Cell = Names | Span
Box = Mapping[str, Cell]

# `>=3`, `<0.5`, `>= @strikes`
_COMPARISON = re.compile(r"(>=|<=|>|<|=)\s?(@[a-z0-9_]{1,60}|-?\d{1,12}(?:\.\d{1,9})?)")


class CellError(ValueError):
    """A `when` cell that cannot be read; the text says what to write instead."""


def cell_of(feature: Feature, written: object, thresholds: Mapping[str, float]) -> Cell:
    """The set that a cell means. Raises CellError."""
    if feature.type is bool:
        if not isinstance(written, bool):
            raise CellError(f"{feature.name} is yes or no: write true or false, not {written!r}")
        return Names(frozenset((written,)))
    if feature.type is str:
        return _names(feature, written)
    return _span(feature, written, thresholds)


def _names(feature: Feature, written: object) -> Names:
    listed = written if isinstance(written, list) else [written]
    texts = [text for text in listed if isinstance(text, str)]
    if not texts or len(texts) < len(listed):
        raise CellError(f"{feature.name} is a name or a list of names, not {written!r}")
    for text in texts:
        if feature.values and text not in feature.values:
            raise CellError(f"{feature.name} has no value {text!r}{nearest(text, feature.values)}")
    return Names(frozenset(texts))


def _span(feature: Feature, written: object, thresholds: Mapping[str, float]) -> Span:
    if isinstance(written, int | float) and not isinstance(written, bool):
        return _whole(feature).meet(Span(float(written), float(written)))
    if not isinstance(written, str):
        raise CellError(f'{feature.name} is a number: write 3 or ">=3", not {written!r}')
    span = _whole(feature)
    for part in written.split(","):
        found = _COMPARISON.fullmatch(part.strip())
        if not found:
            raise CellError(f'{feature.name} is a number: write 3, ">=3" or ">=1, <3", not {written!r}')
        span = span.meet(_bound(found[1], _number(found[2], thresholds)))
    return span


def _number(text: str, thresholds: Mapping[str, float]) -> float:
    if not text.startswith("@"):
        return float(text)
    if text[1:] not in thresholds:
        raise CellError(f"no threshold {text[1:]!r}{nearest(text[1:], thresholds)}")
    return thresholds[text[1:]]


def _bound(sign: str, number: float) -> Span:
    if sign == "=":
        return Span(number, number)
    open_end = sign in ("<", ">")
    return Span(low=number, low_open=open_end) if sign[0] == ">" else Span(high=number, high_open=open_end)


def domain(feature: Feature) -> Cell:
    """Every value that the feature can take."""
    if feature.type is bool:
        return Names(frozenset((True, False)))
    if feature.type is str:
        return Names(frozenset(feature.values)) if feature.values else Names(frozenset(), complement=True)
    return _whole(feature)


def _whole(feature: Feature) -> Span:
    """Shares go from 0 to 1, counts from 0 on."""
    return Span(0.0, 1.0) if feature.type is float else Span(0.0, whole=True)


def unreachable(boxes: Sequence[Box], features: Mapping[str, Feature]) -> list[tuple[int, list[int]]]:
    """Rows that can never decide, each with a least set of rows above that take its place. Rows with an empty cell name none."""
    whole = {name: domain(feature) for name, feature in features.items()}
    faults: list[tuple[int, list[int]]] = []
    for row, box in enumerate(boxes):
        if any(cell.empty for cell in box.values()):
            faults.append((row, []))
            continue
        above = [other for other in range(row) if _overlap(box, boxes[other])]
        if _covered({**whole, **box}, [boxes[other] for other in above]):
            faults.append((row, _least({**whole, **box}, boxes, above)))
    return faults


def _least(box: Box, boxes: Sequence[Box], above: list[int]) -> list[int]:
    """`above` without the rows that are not needed to cover `box`, the lowest kept first."""
    alone = next((other for other in above if _covered(box, [boxes[other]])), None)
    if alone is not None:
        return [alone]
    for other in list(above):
        fewer = [row for row in above if row != other]
        if _covered(box, [boxes[row] for row in fewer]):
            above = fewer
    return above


def _overlap(one: Box, other: Box) -> bool:
    return not any(_meet(cell, other[name]).empty for name, cell in one.items() if name in other)


_PIECES = 3000
"""Beyond so many pieces the question is left open: a row is then taken as reachable."""


def _covered(box: Box, above: Iterable[Box]) -> bool:
    pieces = [dict(box)]
    for other in above:
        pieces = [rest for piece in pieces for rest in _cut(piece, other)]
        if not pieces:
            return True
        if len(pieces) > _PIECES:
            return False
    return False


def _cut(piece: dict[str, Cell], other: Box) -> list[dict[str, Cell]]:
    """`piece` without `other`, as disjoint boxes."""
    if not _overlap(piece, other):
        return [piece]
    rest: list[dict[str, Cell]] = []
    left = dict(piece)
    for name, cell in other.items():
        rest += [{**left, name: part} for part in _minus(left[name], cell)]
        left[name] = _meet(left[name], cell)
    return rest


def _meet(one: Cell, other: Cell) -> Cell:
    if isinstance(one, Span) and isinstance(other, Span):
        return one.meet(other)
    if isinstance(one, Names) and isinstance(other, Names):
        return one.meet(other)
    raise TypeError("cells of two kinds")


def _minus(one: Cell, other: Cell) -> Sequence[Cell]:
    if isinstance(one, Span) and isinstance(other, Span):
        return one.minus(other)
    if isinstance(one, Names) and isinstance(other, Names):
        return one.minus(other)
    raise TypeError("cells of two kinds")


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...` for a near miss, else what there is to choose from, else nothing."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(names)}" if len(names) <= 16 else ""
