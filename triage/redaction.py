"""`--redact`: people, addresses, hardware identities and secrets become pseudonyms, in the answer's data, before anything is rendered.

A pseudonym is a keyed digest: equal values get equal pseudonyms, and nobody without the key can try names until one fits.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import blake3

from triage.faults import Fault
from triage.private import FOLDERS, PEOPLE, SHAPES, Shape, Span, is_person

if TYPE_CHECKING:
    from triage.store import Store

KEY, KEY_FILE, SHORTEST = "TRIAGE_REDACT_KEY", "TRIAGE_REDACT_KEY_FILE", 16
OURS = frozenset(
    "schema class action layer manifestation confidence rule_id rule symptom role code device ts start end from to about first last "
    "digest rulebook source_id event_id burst_id family basis kind clock year_from zone host_from job_from method status feature "
    "dialects format placed_by topology_from".split()
)
"""Keys whose values are this program's own words, numbers or times."""
# gpu-044.kern.log | alice_train | DOMAIN-alice
_WORD = re.compile(r"[^\W_]{1,255}(?:[-_.][^\W_]{1,255}){0,40}")
# gpu-[001-008,017].cluster.example
_LIST = re.compile(r"(?<![\w.-])[\w.-]{0,200}\[[\d,-]{1,2000}\][\w.-]{0,200}")
_DOMAIN = re.compile(r"(?:\.[A-Za-z0-9-]{1,63}){2,6}$")
_FILE = re.compile(r"\.(?:log|txt|gz|zst|xz|bz2|out|err|json|csv|tar|tgz|\d{1,4})$")
_MARK = re.compile(r"([-_.])")
MOST_PARTS = 24
Replaced = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user wants hidden. Hosts and names of jobs stay, unless `hosts`: without them nobody can act on a report."""

    hosts: bool = False
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)


def wished(redact: bool, hosts: bool, environment: Mapping[str, str] = os.environ) -> Wish | None:
    """The wish of a command line; the key comes from the environment, else each run makes its own. Raises Fault."""
    if not (redact or hosts):
        return None
    key = environment.get(KEY, "").encode()
    if name := environment.get(KEY_FILE):
        try:
            key = Path(name).read_bytes().strip()
        except OSError as error:
            raise Fault(f"{name}: {error.strerror}; {KEY_FILE} names a file with a key") from error
    if not (key or name or KEY in environment):
        return Wish(hosts)
    if len(key) < SHORTEST:
        raise Fault(f"{name or KEY}: a key has at least {SHORTEST} characters; make one with: openssl rand -hex 32")
    return Wish(hosts, blake3.blake3(key).digest())


class Mask:
    """Replaces what is private in texts and in data. Without a wish it changes nothing."""

    def __init__(self, wish: Wish | None = None, known: Mapping[str, str] | None = None) -> None:
        """known: value -> kind, of the names that the database holds."""
        self._wish = wish
        self._known = dict(known or {})
        self._made: dict[tuple[str, str], str] = {}
        self._texts: dict[str, str] = {}
        self._stands_for: dict[str, str] = {}

    @classmethod
    def of(cls, wish: Wish | None, store: Store) -> Mask:
        """The mask for what a database holds."""
        if wish is None:
            return cls()
        rows = [(str(row["name"]), str(row["kind"])) for row in store.rows("private_names") if row["name"]]
        wanted = ("user", "serial", *(("job", "host") if wish.hosts else ()))
        return cls(wish, {name: kind for kind in reversed(wanted) for name, found in rows if found == kind and _worth(name, kind)})

    def pseudonym(self, kind: str, value: str) -> str:
        """user-k3v9qa2m: the same for the same value under the same key."""
        if (kind, value) not in self._made:
            key = self._wish.key if self._wish else b"\0" * 32
            digest = blake3.blake3(f"{kind}\0{value}".encode("utf-8", "replace"), key=key).digest(length=5)
            self._made[kind, value] = f"{kind}-{base64.b32encode(digest).decode().lower()}"
        return self._made[kind, value]

    def original(self, text: str) -> str:
        """What a pseudonym stands for, where it is a known name; else the text itself."""
        if self._wish is None:
            return text
        if not self._stands_for:
            self._stands_for = {self.pseudonym(kind, value): value for value, kind in self._known.items()}
        return self._stands_for.get(text, text)

    def text(self, text: str) -> str:
        """A text without what is private in it."""
        if self._wish is None or not text:
            return text
        if text not in self._texts:
            if len(self._texts) > 100_000:
                self._texts.clear()
            self._texts[text] = self._replaced(text)
        return self._texts[text]

    def value(self, data: Any, name: str = "") -> Any:
        """Plain data (dicts, lists, dataclasses, texts) without what is private in it; keys, and values that are our own words, stay."""
        if self._wish is None:
            return data
        self._learn(_texts(data))
        return self._value(data, name)

    def _value(self, data: Any, name: str) -> Any:
        if isinstance(data, str):
            return data if name in OURS else self._named(data, name)
        if isinstance(data, Mapping):
            return {key: self._value(each, str(key)) for key, each in data.items()}
        if isinstance(data, list | tuple):
            return type(data)(self._value(each, name) for each in data)
        if is_dataclass(data) and not isinstance(data, type):
            return replace(data, **{f.name: self._value(getattr(data, f.name), f.name) for f in fields(data) if f.init})
        return data

    def _learn(self, texts: Iterable[str]) -> None:
        """Who is named as a user in one text is hidden in all of them."""
        found = {text[a:b] for text in texts for shape in PEOPLE if shape.kind == "user" for a, b in shape.spans(text)}
        new = {name: "user" for name in found if name not in self._known and len(name) > 2}
        if new:
            self._known |= new
            self._texts.clear()

    def _named(self, text: str, name: str) -> str:
        if name == "user" and text.lower() not in ("root", "") and " " not in text:
            return self.pseudonym("user", text) if is_person(text) or text.isdigit() else text
        return self.text(text)

    def _replaced(self, text: str) -> str:
        pieces: list[Replaced] = [(text, False)]
        for shape in SHAPES:
            pieces = [new for piece in pieces for new in (self._split(piece[0], shape) if not piece[1] else (piece,))]
        return "".join(piece if done else self._without_names(piece) for piece, done in pieces)

    def _split(self, text: str, shape: Shape) -> Iterator[Replaced]:
        return _cut(text, shape.spans(text), lambda found: self.pseudonym(shape.kind, found))

    def _without_names(self, text: str) -> str:
        if not self._known:
            return text
        if self._wish is not None and self._wish.hosts and "[" in text:
            text = _LIST.sub(self._listed, text)
        return _WORD.sub(lambda found: self._word(found[0]), text)

    def _listed(self, found: re.Match[str]) -> str:
        """`gpu-[001-008]` stands for hosts that are known, one by one."""
        from parsers import hosts

        known = any(self._known.get(hosts.fold(name)) == "host" for name in hosts.expand(found[0])[:64])
        return self.pseudonym("hosts", found[0]) if known else found[0]

    def _word(self, word: str) -> str:
        """A word whose parts, or several of them together, are known names; the longest first."""
        if (kind := self._known.get(word)) is not None:
            return self.pseudonym(kind, word)
        parts = _MARK.split(word)
        if len(parts) == 1 or len(parts) > 2 * MOST_PARTS:
            return word
        for size in range(len(parts) - 2, 0, -2):
            for at in range(0, len(parts) - size + 1, 2):
                name = "".join(parts[at : at + size])
                if (kind := self._known.get(name)) is not None:
                    before, after = "".join(parts[:at]), "".join(parts[at + size :])
                    after = "" if kind == "host" and _DOMAIN.fullmatch(after) and not _FILE.search(after) else after
                    return self._beside(before, -1) + self.pseudonym(kind, name) + self._beside(after, 0)
        return word

    def _beside(self, text: str, mark: int) -> str:
        """What stands before or after a name, its joining mark kept."""
        if not text:
            return ""
        return self._word(text[:-1]) + text[-1] if mark else text[0] + self._word(text[1:])


OPEN = Mask()
"""Changes nothing."""


def _texts(data: Any) -> Iterator[str]:
    """Every text in plain data."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping | list | tuple):
        for each in data.values() if isinstance(data, Mapping) else data:
            yield from _texts(each)


def _worth(name: str, kind: str) -> bool:
    return (
        is_person(name) and name.lower() not in FOLDERS
        if kind == "user"
        else len(name) > 3
        if kind == "serial"
        else len(name) > 2 and not name.isdigit()
    )


def _cut(text: str, spans: Iterable[Span], replace: Callable[[str], str]) -> Iterator[Replaced]:
    at = 0
    for first, last in spans:
        if first >= at:
            yield text[at:first], False
            yield replace(text[first:last]), True
            at = last
    yield text[at:], False


__all__ = ["OPEN", "Mask", "Wish", "wished"]
