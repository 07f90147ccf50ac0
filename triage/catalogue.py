"""What is known of a code: the vendor's row, who disagrees, and the row of ours that decided."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triage.rule_rows import Signature
    from triage.rulebook import Rulebook

KEYS = ("kind", "code", "mnemonic", "meaning", "action", "severity", "user_possible", "source", "edition")

# 94, xid 94, XID-94, Xid: 94, sxid.20034, exit 137, signal 9, -9, nccl 6, status 12, ib 12
_ASKED = re.compile(r"(?:(s?xid|exit(?:[ _-]?code)?|rc|signal|sig|nccl|status|ib|wc|wc[ _]status)\s{0,3}[.:=# -]?\s{0,3})?(-?\d{1,6})")

_KINDS = {"rc": "exit", "sig": "signal", "status": "ib", "wc": "ib"}


def explain(book: Rulebook, code: str) -> list[dict[str, str]]:
    """Rows with the keys `KEYS`, every value a string. kind: xid | sxid | nccl | ib | exit | signal | event | signature | class.

    A bare number is looked up everywhere; `xid 12` or `exit 12` ask for one kind. Names such as `SIGKILL`, `ncclRemoteError`,
    `IBV_WC_RETRY_EXC_ERR`, `nccl.timeout` and class ids are known too.
    """
    word = code.strip()
    asked = _ASKED.fullmatch(word.casefold())
    if asked:
        return list(_by_number(book, _kind(asked[1]), int(asked[2])))
    return [*_by_name(book, word.casefold()), *_by_event(book, word.casefold()), *_by_class(book, word.upper())]


def _kind(word: str | None) -> str | None:
    if word is None:
        return None
    first = re.split(r"[ _-]", word, maxsplit=1)[0]
    return _KINDS.get(first, first)


def _row(**values: str) -> dict[str, str]:
    return {key: values.get(key, "") for key in KEYS}


def _by_number(book: Rulebook, kind: str | None, number: int) -> Iterable[dict[str, str]]:
    for name in ("xid", "sxid"):
        if kind in (None, name):
            yield from _xid(book, name, str(number))
    for row in book.catalogue("result_codes.csv"):
        wanted = _signalled(row["kind"], number)
        if kind in (None, row["kind"]) and row["code"] == str(wanted):
            yield _row(**row)


def _signalled(kind: str, number: int) -> int:
    """torchrun and Python write a signal as a negative exit code."""
    return -number if kind == "signal" and number < 0 else 128 - number if kind == "exit" and number < 0 else number


def _xid(book: Rulebook, kind: str, number: str) -> Iterable[dict[str, str]]:
    if number.startswith("-"):
        return
    rows = [row for row in book.catalogue(f"{kind}_catalog.csv") if row["code"] == number]
    for row in rows:
        then = f"{row['bucket']}; then {row['investigate']}" if row.get("investigate") else row["bucket"]
        yield _row(**{**row, "kind": kind, "code": f"{kind}.{number}", "action": then})
    if rows or (kind == "xid" and int(number) < 1000):
        yield from _signatures(book, f"{kind}.{number}")


def _signatures(book: Rulebook, code: str) -> Iterable[dict[str, str]]:
    """The rows that may decide an event of this code, in order; a condition is part of the meaning."""
    for row in book.signatures_of(code):
        if not book.may_fit(row, code):
            continue
        cells = row.when.model_dump(exclude_defaults=True)
        when = "; ".join(f"if {name} is {' or '.join(map(str, values))}" for name, values in cells.items())
        yield _row(
            kind="signature",
            code=code,
            mnemonic=row.id,
            meaning=f"{row.class_} {row.role}: {row.reason}" + (f" ({when})" if when else ""),
            action=_usual(book, row, code),
            severity="fatal to the host" if row.fatal else "",
            user_possible="yes" if row.user_possible else "no",
            source=f"rules/signatures.toml, after {row.source}",
        )
        if not cells:
            return


def _usual(book: Rulebook, row: Signature, code: str) -> str:
    """What the decision table says of one such event alone, on one host, that a job's failure followed."""
    if row.role not in ("root", "symptom", "outcome") or row.class_ == "none":
        return ""
    features: dict[str, str | bool | int] = {
        "class": row.class_,
        "root_code": code,
        "root_role": row.role,
        "root_fatal": row.fatal,
        "root_hosts": 1,
        "user_possible": row.user_possible,
        "followed_by_job_failure": True,
        "job_end": "failed",
        "has_job": True,
    }
    decision = book.decide(features)
    return f"{decision.rule.action} (rule {decision.rule.id})"


def _by_name(book: Rulebook, word: str) -> Iterable[dict[str, str]]:
    for row in book.catalogue("result_codes.csv"):
        if row["mnemonic"] and word == row["mnemonic"].casefold():
            yield _row(**row)
    for kind in ("xid", "sxid"):
        for row in book.catalogue(f"{kind}_catalog.csv"):
            if row["mnemonic"] and word in row["mnemonic"].casefold().split(" / "):
                yield from _xid(book, kind, row["code"])


def _by_event(book: Rulebook, word: str) -> Iterable[dict[str, str]]:
    code = book.codes.get(word)
    if code is None or word.endswith("*"):
        return
    yield _row(kind="event", code=word, meaning=code.meaning, source="rules/codes.csv")
    yield from _signatures(book, word)


def _by_class(book: Rulebook, word: str) -> Iterable[dict[str, str]]:
    row = book.classes.get(word)
    if row is not None:
        checks = "; ".join(row.first_checks)
        yield _row(kind="class", code=row.id, meaning=row.title, action=checks, severity=row.severity, source="rules/taxonomy.toml")
