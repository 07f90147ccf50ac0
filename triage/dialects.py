"""The dialects in use: the shipped ones, then those of the entry-point group `triage.parsers`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from parsers import DIALECTS
from parsers.contract import Dialect, DocumentDialect, LineDialect, SectionDialect
from triage.faults import Fault

GROUP = "triage.parsers"


@cache
def dialects() -> tuple[Dialect, ...]:
    """Shipped dialects and third parties'; raises Fault for an entry point that cannot be used."""
    return (*DIALECTS, *(d for point in entry_points(group=GROUP) for d in _loaded(point)))


def _loaded(point: EntryPoint) -> Iterable[Dialect]:
    try:
        found = point.load()
    except Exception as error:
        raise Fault(f"parser {point.name} ({point.value}): cannot be loaded: {error}; mend or uninstall it") from error
    many = found if isinstance(found, tuple) else (found,)
    if not all(isinstance(d, LineDialect | SectionDialect | DocumentDialect) for d in many):
        raise Fault(f"parser {point.name} ({point.value}): is no dialect; see parsers/contract.py")
    return many
