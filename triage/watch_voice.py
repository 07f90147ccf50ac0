"""How a watch speaks: a screen that is kept up in a terminal, lines where nobody looks, JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from triage.screens import safe
from triage.watch_notice import line_of

if TYPE_CHECKING:
    from rich.live import Live

    from triage.desk import Answer
    from triage.watch import Progress

NOTES = 3


def _clock() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def footer(seen: Progress) -> str:
    """What is being watched, in a line."""
    return f"{_clock()}  watching {seen.files} file(s), {seen.bytes / 1e6:,.1f} MB, {seen.verdicts} verdict(s); Ctrl-C ends"


def todo(data: Mapping[str, Any]) -> list[str]:
    """The commands of the answer, to copy."""
    return [f"  $ {safe(row['command'])}" for row in data["commands"] if row["command"]]


class OnChange:
    """Speaks of changes alone: the same verdict from more lines, and a look that found nothing, pass in silence."""

    def again(self, answer: Answer) -> None:
        """Nothing new."""

    def status(self, seen: Progress) -> None:
        """Nothing new."""


class Lines(OnChange):
    """One line for each change, and under it the commands to run."""

    def __init__(self, out: Callable[[str], None], commands: bool) -> None:
        self._out, self._commands = out, commands

    def verdict(self, answer: Answer, told: bool) -> None:
        """Print it."""
        data = answer.shown
        verdict = data["verdict"]
        words = ""
        if verdict["class"] != "none":
            words = f"{verdict['class']} {verdict['confidence']} -> {verdict['action'].replace('_', ' ')}: "
        self._out(f"{_clock()} {words}{line_of(data)}{' (told before)' if told else ''}")
        for line in todo(data) if self._commands else ():
            self._out(line)

    def note(self, text: str) -> None:
        """Print it."""
        self._out(f"{_clock()} note: {safe(text)}")


class Records(OnChange):
    """One JSON object a line: the answer of `triage now` with `at` and `told`, or a note."""

    def __init__(self, out: Callable[[str], None]) -> None:
        self._out = out

    def verdict(self, answer: Answer, told: bool) -> None:
        """Print it."""
        self._out(json.dumps({"at": _clock(), "kind": "verdict", "told": told, **answer.shown}, ensure_ascii=True, default=str))

    def note(self, text: str) -> None:
        """Print it."""
        self._out(json.dumps({"schema": 1, "at": _clock(), "kind": "note", "text": text}, ensure_ascii=True))


class Screen:
    """The answer's screen, kept up to date in a terminal. Use as a context manager."""

    def __init__(self, file: IO[str], screen: Callable[[Answer], str]) -> None:
        from rich.console import Console

        self._console = Console(file=file)
        self._screen, self._text, self._since = screen, "reading ...", ""
        self._notes: list[str] = []
        self._live: Live | None = None

    def __enter__(self) -> Screen:
        from rich.live import Live

        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def verdict(self, answer: Answer, told: bool) -> None:
        """Put it up, and ring the bell where it is news."""
        self._text, self._since = self._screen(answer), f"so since {_clock()}"
        if not told and answer.decision is not None:
            self._console.bell()

    def again(self, answer: Answer) -> None:
        """Bring it up to date."""
        self._text = self._screen(answer)

    def status(self, seen: Progress) -> None:
        """Draw."""
        from rich.text import Text

        if self._live is not None:
            lines = [self._text, "", *self._notes, f"{footer(seen)}  {self._since}"]
            self._live.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True)

    def note(self, text: str) -> None:
        """Show it under the answer, with the two before it."""
        self._notes = [*self._notes, f"note: {safe(text)}"][-NOTES:]


@contextmanager
def voiced(form: str, file: IO[str], screen: Callable[[Answer], str], commands: bool) -> Iterator[Screen | Lines | Records]:
    """The voice for a format and an output: `screen` in a terminal, else lines, with the `commands` of the answer where nobody is told."""

    def out(text: str) -> None:
        print(text, file=file, flush=True)

    if form == "json":
        yield Records(out)
    elif file.isatty():
        with Screen(file, screen) as shown:
            yield shown
    else:
        yield Lines(out, commands)
