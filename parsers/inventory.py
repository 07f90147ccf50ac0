"""Host inventory as CSV: a `host` column and any of rack, leaf switch, rail, ip, GPU model, count and serials."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from parsers.contract import Document, DocumentDialect, HostRecord, Record, Reject
from parsers.slurm_fields import names

_HOST = ("host", "hostname")
_COLUMN = {
    "rack": "rack",
    "leaf_switch": "leaf",
    "leaf": "leaf",
    "switch": "leaf",
    "rail": "rail",
    "ip": "ip",
    "gpu_model": "gpu_model",
    "gpus": "gpus",
    "gpu_serials": "gpu_serials",
}
_CLEAN = re.compile(r"[\x00-\x1f\x7f]")


def _header(text: str) -> tuple[list[str], str] | None:
    """(column names in lower case, delimiter) of a header line; None when it heads no inventory."""
    for mark in (",", "\t", ";"):
        cells = [cell.strip().strip('"').lower() for cell in text.split(mark)]
        if len(cells) > 1 and any(cell in _HOST for cell in cells) and any(cell in _COLUMN for cell in cells):
            return cells, mark
    return None


def _is_preface(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _sniff(head: bytes) -> bool:
    lines = head[:8192].decode("utf-8", "replace").lstrip("\ufeff").splitlines()
    first = next((line for line in lines if not _is_preface(line)), "")
    return len(first) < 2048 and _header(first) is not None


def _parse(document: Document) -> Iterable[Record]:
    lines = document.data.decode("utf-8", "replace").lstrip("\ufeff").replace("\x00", "\ufffd").split("\n")
    at = next(number for number, line in enumerate(lines) if not _is_preface(line))
    header = _header(lines[at].rstrip("\r"))
    if header is None:
        return
    columns, mark = header
    for number, line in enumerate(lines[at + 1 :], at + 2):
        if not _is_preface(line):
            yield from _row(line.rstrip("\r"), number, columns, mark)


def _row(line: str, number: int, columns: list[str], mark: str) -> Iterator[Record]:
    """A row is one line: a quote that is not closed costs its own line only."""
    try:
        cells = next(csv.reader([line], delimiter=mark, strict=True, skipinitialspace=True))
    except (csv.Error, StopIteration) as error:
        yield Reject(number, f"no CSV row: {error}", line[:200])
        return
    if len(cells) > len(columns):
        yield Reject(number, f"{len(cells)} cells for {len(columns)} columns", line[:200])
        return
    row = {name: _CLEAN.sub("", cell).strip() for name, cell in zip(columns, cells, strict=False)}
    hosts = names(next((row[name] for name in _HOST if row.get(name)), ""))
    if not hosts:
        yield Reject(number, "no host", line[:200])
    for host in hosts:
        yield _record(host, number, row)


def _record(host: str, number: int, row: dict[str, str]) -> HostRecord:
    record = HostRecord(host, number, "csv")
    for column, name in _COLUMN.items():
        text = row.get(column)
        if not text:
            continue
        if name == "gpus":
            record.gpus = int(text) if re.fullmatch(r"\d{1,5}", text, re.ASCII) else None
        elif name == "gpu_serials":
            record.gpu_serials = tuple(serial.strip() for serial in text.split(";") if serial.strip())
        elif getattr(record, name) is None:
            setattr(record, name, text)
    return record


DIALECT = DocumentDialect("inventory", _sniff, _parse)
