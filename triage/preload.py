"""Modules that the analysis needs, imported by a thread while files are still searched: the search needs the interpreter little."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module

ANALYSIS = ("polars", "triage.pipeline", "pyarrow", "triage.recurrence", "scipy.special")


@contextmanager
def preloading(modules: tuple[str, ...] = ANALYSIS) -> Iterator[None]:
    """Import `modules` meanwhile; one that fails is left to whoever needs it, who says so better."""
    with ThreadPoolExecutor(1, "triage-preload") as pool:
        for module in modules:
            pool.submit(import_module, module)
        yield
