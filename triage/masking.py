"""Bulk masks: what varies in a line (times, ids, paths, addresses, numbers, host names) is named, a whole column at once.

Lines that differ in digits alone are folded first by one cheap expression; the precise masks then see one line of each fold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

MASKS: tuple[tuple[str, str], ...] = (
    # 2026-03-04T10:02:03.123Z | 2026-03-04 10:02:03,123+00:00
    ("TIME", r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"),
    # Mar  6 04:07:23 | Fri Mar  6 04:07:23.123 2026
    ("TIME", rf"(?:\b[A-Z][a-z]{{2}} )?\b{_MONTH} [ 0-9][0-9] [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]+)?(?: [0-9]{{4}}\b)?"),
    # 3:10:22 | 04:07:23.123456
    ("TIME", r"\b[0-9]{1,3}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?\b"),
    # 1b4e28ba-2fa1-11d2-883f-0016d3cca427
    ("UUID", r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
    # "shard 7" | 'shard 7', but not can't
    ("QUOTED", r'"[^"\n]*"'),
    ("QUOTED", r"\B'[^'\n]+'"),
    # https://store.example:9000/bucket | /data/set1/part-7.bin
    ("PATH", r"\b[a-z][a-z0-9+]*://[^\s,;)\]]+"),
    ("PATH", r"(?:/[A-Za-z0-9_.@%+:~=-]+){2,}/?"),
    # 10.1.2.3:4711 | 0c:42:a1:00:11:22 | 0000:3b:00.0 | fe80::1:2
    ("ADDRESS", r"\b[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}(?::[0-9]{1,5}\b)?"),
    ("ADDRESS", r"\b(?:[0-9a-fA-F]{2}:){5,19}[0-9a-fA-F]{2}\b"),
    ("ADDRESS", r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\b"),
    ("ADDRESS", r"\b[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{0,4}){3,7}\b"),
    # 0x7f3c00 | 12345678 and 0.25, numbers | 9f86d081884c7d65 | gpu7, 1.5e-3, -3
    ("HEX", r"\b0[xX][0-9a-fA-F]+\b"),
    ("NUM", r"\b[0-9]+(?:[.,][0-9]+)?(?:[eE][+-]?[0-9]+)?\b"),
    ("HEX", r"\b[0-9a-fA-F]{8,128}\b"),
    ("NUM", r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"),
)
"""Name and pattern in order of use, for an engine whose time is linear (polars')."""

_DIGITS = r"[0-9a-fA-F]*[0-9][0-9a-fA-Fx:.,-]*"
_HOST_NAME = re.compile(r"[\w.-]{3,253}")
MOST_HOSTS, AT_ONCE = 4096, 512


def folded(column: pl.Expr) -> pl.Expr:
    """Lines with each run of digits (hexadecimal ones, and what joins them) made one: equal folds are one line to the masks."""
    return column.str.replace_all(_DIGITS, "0")


def masked(column: pl.Expr, hosts: Iterable[str] = ()) -> pl.Expr:
    """Lines with everything of `MASKS` and the given host names replaced by `<NAME>`."""
    for pattern in host_patterns(hosts):
        column = column.str.replace_all(pattern, "<HOST>")
    for name, pattern in MASKS:
        column = column.str.replace_all(pattern, f"<{name}>")
    return column


def host_patterns(hosts: Iterable[str]) -> list[str]:
    """Patterns of whole host names, the longest names first, at most 512 names each."""
    names = sorted({h for h in hosts if _HOST_NAME.fullmatch(h)}, key=lambda h: (-len(h), h))[:MOST_HOSTS]
    parts = [names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE)]
    return [rf"\b(?:{'|'.join(map(re.escape, part))})\b" for part in parts]
