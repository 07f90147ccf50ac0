"""`triage watch`: files are looked at every half second, and the verdict is spoken when it changes.

Nothing is kept outside the logs and the database: a watch that was killed reads on from the logs when it is started again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb

from triage.answers import Question, answer, choose
from triage.desk import Answer, Setup, _families, rulebook
from triage.faults import Fault
from triage.ingest import Options
from triage.pipeline import STAGES, judge, load, refresh
from triage.redaction import OPEN, Mask
from triage.store import MEMORY, Store, StoreFault
from triage.watch_input import Pipe
from triage.watch_roster import Followed, Roster
from triage.watch_uptake import LIVE, Uptake

if TYPE_CHECKING:
    from triage.rulebook import Rulebook

EVERY = 0.5
"""Seconds between two looks."""
PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Rest after work, as a part of the time that the work took, so that a slow machine is never busy with watching alone; seconds at most."""
SPOKEN = "watch_spoken"
Key = tuple[object, ...]


class Voice(Protocol):
    """Says what is seen."""

    def verdict(self, answer: Answer, told: bool) -> None:
        """The verdict has changed; `told` when an earlier watch on this database has spoken it."""
        ...

    def again(self, answer: Answer) -> None:
        """The same verdict, from more lines."""
        ...

    def status(self, seen: Progress) -> None:
        """After each look, so twice a second."""
        ...

    def note(self, text: str) -> None:
        """Something that the user should know: a file that cannot be read, a command that failed."""
        ...


class Listener(Protocol):
    """Is told of changes."""

    def tell(self, answer: Mapping[str, Any]) -> None:
        """A verdict that was not told before."""
        ...


@dataclass(slots=True)
class Progress:
    """What a watch has done so far. `busy_s` is how long the last look took that found something."""

    files: int = 0
    bytes: int = 0
    looks: int = 0
    verdicts: int = 0
    busy_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Order:
    """What to watch, and how: a job, seconds between looks, seconds after which to stop, size from which files are read on in place."""

    paths: tuple[str, ...]
    job: str | None = None
    every: float = EVERY
    limit_s: float | None = None
    live: int = LIVE


def key_of(data: Mapping[str, Any]) -> Key:
    """What makes a verdict another one: its class, action, confidence, jobs and suspects; not how many lines say so."""
    verdict = data["verdict"]
    suspects = sorted((s["host"] or "", s["device"] or "", s["role"]) for s in data["suspects"])
    jobs = sorted((j["job_id"], j["attempt"], j["state"] or "") for j in data["jobs"]) if verdict["class"] != "none" else []
    return (*(verdict[k] for k in ("class", "symptom", "manifestation", "action", "confidence")), tuple(jobs), tuple(suspects))


@dataclass(slots=True)
class Watch:
    """One watch over some paths. `run` ends when `stop` says so, when a pipe that was all there was ends, or after the time given."""

    setup: Setup
    order: Order
    voice: Voice
    listener: Listener | None = None
    seen: Progress = field(default_factory=Progress)
    _book: Rulebook = field(init=False)
    _uptake: Uptake = field(init=False)
    _roster: Roster = field(init=False)
    _memory: Store | None = None
    _pipe: Pipe | None = None
    _last: Key | None = None
    _mask: Mask = OPEN
    _noted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._book = rulebook(self.setup.rules)
        options = Options(_families(self._book), self.setup.zone)
        options.stated_zone()
        self._uptake = Uptake(options, self.order.live)

    def run(self, stop: Callable[[], bool]) -> Progress:
        """Watch. Raises Fault for paths, rules or a database that cannot be used at the start."""
        began = time.monotonic()
        with self._opened():
            self._attend(first=True)
            while not (stop() or self._over(began)):
                self._rest(stop)
                self._attend()
            self._attend(last=True)
        return self.seen

    @contextmanager
    def _opened(self) -> Iterator[None]:
        paths = [p for p in self.order.paths if p != "-"]
        self._roster = Roster(tuple(paths))
        self._roster.check()
        if self.setup.db is None:
            self._memory = Store(MEMORY)
        try:
            if len(paths) < len(self.order.paths):
                self._listen()
            yield
        finally:
            self._roster.close()
            if self._memory is not None:
                self._memory.__exit__()
            if self._pipe is not None:
                self._pipe.close()

    def _listen(self) -> None:
        """Standard input becomes one more folder; beside a database it is kept, with what an earlier watch took from its own."""
        kept = Path(f"{self.setup.db}.stdin") if self.setup.db else None
        self._pipe = Pipe(sys.stdin.buffer, kept)
        try:
            folder = str(self._pipe.start())
        except OSError as error:
            raise Fault(f"{kept}: {error.strerror}; standard input is kept there") from error
        self._roster.paths = (*self._roster.paths, folder)
        if kept is None:
            self._roster.labels[folder] = "-"

    def _over(self, began: float) -> bool:
        if self.order.limit_s is not None and time.monotonic() - began >= self.order.limit_s:
            return True
        return self._pipe is not None and self._pipe.ended and len(self._roster.paths) == 1

    def _rest(self, stop: Callable[[], bool]) -> None:
        pause = max(self.order.every - self.seen.busy_s, min(PAUSE * self.seen.busy_s, LONGEST_PAUSE))
        until = time.monotonic() + pause
        while not stop() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def _attend(self, first: bool = False, last: bool = False) -> None:
        """One look: read what is new, judge it, speak."""
        began = time.monotonic()
        changed = self._roster.look()
        files = self._uptake.wanted(changed, self._roster.known, last)
        self.seen.looks += 1
        self.seen.busy_s = 0.0
        if files or first:
            try:
                self._judge(files, last, first)
            except StoreFault as fault:
                if first:
                    raise
                self._note(str(fault))
            self.seen.busy_s = time.monotonic() - began
        self._roster.trim()
        self._count()
        self._tell_notes()
        self.voice.status(self.seen)

    def _judge(self, files: Sequence[Followed], last: bool, first: bool) -> None:
        with self._store() as store:
            stored = self._uptake.take(store, files, self._roster.known, last)
            if not (stored or first):
                return
            self._analyse(store)
            said = self._answer(store)
            key = key_of(said.data)
            if key == self._last:
                self.voice.again(said)
                return
            told = store.meta(SPOKEN) == repr(key) if first else False
            self._last = key
            self.seen.verdicts += 1
            self.voice.verdict(said, told)
            if self.listener is not None and not told and (said.decision is not None or not first):
                self.listener.tell(said.shown)
            store.set_meta(SPOKEN, repr(key))

    @contextmanager
    def _store(self) -> Iterator[Store]:
        """The database, held only while it is written, so that others can read it in between."""
        if self._memory is not None:
            yield self._memory
            return
        try:
            with Store(self.setup.path) as store:
                yield store
        except duckdb.Error as error:
            raise Fault(f"{self.setup.path}: {' '.join(str(error).split())[:200]}; free the disk or name another with --db") from error

    def _analyse(self, store: Store) -> None:
        """Bring the tables up to date; those that only other commands read are left out where nobody can ask for them."""
        if self._memory is None:
            refresh(store, self._book)
            return
        with store.transaction():
            for _, stage in STAGES:
                stage(store, self._book)

    def _answer(self, store: Store) -> Answer:
        history = load(store, self._book)
        if self.setup.db:
            history.lemons = {r["host"] for r in store.rows("lemons")}
        analysis = judge(history, self._book)
        rejects = int(store.rows("reject_count")[0]["n"])
        asked = Question(self.order.job)
        nothing = not history.paths
        self._mask = Mask.of(self.setup.hide, store)
        data = answer(analysis, self._book, asked, rejects, nothing)
        return Answer(data, choose(analysis, asked), analysis, self._book, mask=self._mask)

    def _count(self) -> None:
        self.seen.files = len(self._roster.known)
        self.seen.bytes = sum(f.size for f in self._roster.known.values())

    def _tell_notes(self) -> None:
        for path, reason in [*self._roster.skipped.items(), *self._uptake.skipped.items()]:
            if not reason.endswith("is no log") and reason != "hidden file":
                self._note(f"not read: {path}: {reason}")
        self._uptake.skipped.clear()
        if self._pipe is not None and self._pipe.failure:
            self._note(f"standard input: {self._pipe.failure}")
        failures = getattr(self.listener, "failures", [])
        while failures:
            self.voice.note(self._mask.text(failures.pop(0)))

    def _note(self, text: str) -> None:
        """Say a thing once."""
        if text not in self._noted and len(self._noted) < 1000:
            self._noted.add(text)
            self.voice.note(self._mask.text(text))


@contextmanager
def signals() -> Iterator[Callable[[], bool]]:
    """Whether the user or the system asked to stop: the first INT or TERM lets the watch end in order, the next one ends it at once."""
    import signal

    asked: list[int] = []
    before = {}

    def ask(number: int, _frame: object) -> None:
        asked.append(number)
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # not the main thread
            before[number] = signal.signal(number, ask)
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
