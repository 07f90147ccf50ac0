"""Rows of `rejects`: lines that carry a needle and do not parse. Counted, kept, shown; never dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parsers.contract import Reject
from triage.scanner import Claim


def build(source_id: str, claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """One dict per reject; the first reason given for a line wins."""
    rows: dict[int, dict[str, Any]] = {}
    for claim in claims:
        if isinstance(claim.record, Reject):
            reject = claim.record
            text = reject.text[:200]
            rows.setdefault(
                reject.line, {"source_id": source_id, "line": reject.line, "parser": claim.dialect, "reason": reject.reason, "text": text}
            )
    return list(rows.values())
