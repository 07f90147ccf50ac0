"""Reading for the pages: the database is held while visits follow each other, and let go in between, so that `triage ingest` gets in."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.faults import Fault
from triage.redaction import OPEN, Mask
from triage.store import Store

if TYPE_CHECKING:
    from triage.pipeline import Analysis
    from triage.redaction import Wish
    from triage.rulebook import Rulebook

HOLD_S = 1.0
MOST_BURSTS = 20_000
"""Up to so many bursts the whole history is judged again for a full report: a matter of seconds."""
PATIENCE_S = 30.0

Stamp = tuple[int, int]


class TooLarge(Fault):
    """A history that is not judged while a visitor waits."""


class Reader:
    """The database file, opened read-only, a connection for each page."""

    def __init__(self, path: str, book: Rulebook, hide: Wish | None = None) -> None:
        self.path, self.book, self.hide = path, book, hide
        self._mask: tuple[Stamp, Mask] | None = None
        self._lock, self._judging = threading.Lock(), threading.Lock()
        self._held: Store | None = None
        self._timer: threading.Timer | None = None
        self._used = 0.0
        self._fresh: tuple[Stamp, bool] | None = None
        self._analysis: tuple[Stamp, Analysis] | None = None

    @contextmanager
    def visit(self) -> Iterator[Store]:
        """A store for one page; raises StoreFault while another process writes."""
        self._hold()
        with Store(self.path, write=False) as store:
            yield store

    def _hold(self) -> None:
        """Keep one connection open for a moment: opening the file anew costs more than most pages."""
        with self._lock:
            self._used = time.monotonic()
            if self._held is None:
                self._held = Store(self.path, write=False)
                self._wait(HOLD_S)

    def _wait(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._release)
        self._timer.daemon = True
        self._timer.start()

    def _release(self) -> None:
        with self._lock:
            left = self._used + HOLD_S - time.monotonic()
            if left > 0:
                self._wait(left)
            else:
                self._let_go()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.__exit__()
            self._held = None

    def close(self) -> None:
        """Let the file go at once."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._let_go()

    def rows(self, store: Store, name: str, **values: Any) -> list[dict[str, Any]]:
        """Rows of a statement of the site."""
        return store.rows(f"site_{name}", **values)

    def _stamp(self) -> Stamp:
        found = Path(self.path).stat()
        return found.st_mtime_ns, found.st_size

    def fresh(self, store: Store) -> bool:
        """Whether the analysis tables were made from the sources and rules of today; asked once for each state of the file."""
        from triage.pipeline import stamp_of

        stamp = self._stamp()
        if self._fresh is None or self._fresh[0] != stamp:
            self._fresh = stamp, store.meta("built") == stamp_of(store, self.book)
        return self._fresh[1]

    def mask(self, store: Store) -> Mask:
        """What hides names on every page; made once for each state of the file."""
        if self.hide is None:
            return OPEN
        stamp = self._stamp()
        if self._mask is None or self._mask[0] != stamp:
            self._mask = stamp, Mask.of(self.hide, store)
        return self._mask[1]

    def analysis(self, store: Store) -> Analysis:
        """Every incident judged, once for each state of the file; raises TooLarge."""
        from triage.pipeline import judge, load

        if store.rows("site_size")[0]["bursts"] > MOST_BURSTS:
            raise TooLarge("this history is too long to be judged while you wait")
        if not self._judging.acquire(timeout=PATIENCE_S):
            raise Fault("the reports are being prepared; reload in a minute")
        try:
            stamp = self._stamp()
            if self._analysis is None or self._analysis[0] != stamp:
                self._analysis = stamp, judge(load(store, self.book), self.book)
            return self._analysis[1]
        finally:
            self._judging.release()
