"""Dialects of logs, in the order in which they are asked. A new one is one module and one line here."""

from __future__ import annotations

from parsers.contract import Dialect

DIALECTS: tuple[Dialect, ...] = ()
