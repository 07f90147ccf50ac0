"""What the user did wrong, as one line: what, where, what to do. Commands print it and exit 2."""

from __future__ import annotations


class Fault(Exception):
    """Input, rules or arguments that the user can mend."""


class InputFault(Fault):
    """A path that cannot be used."""

    def __init__(self, path: str, what: str, mend: str) -> None:
        super().__init__(f"{path}: {what}; {mend}")
        self.path, self.what, self.mend = path, what, mend
