"""What in a text is nobody else's business, by its shape: secrets, addresses, hardware identities, people. A real sample stands above each.

Patterns of tokens follow the vendors' own words on their prefixes; each is bounded and begins at a border, so that a text of any
length is read once.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]
SYSTEM = frozenset(
    "root slurm munge nobody daemon kernel systemd system unknown none null bin sys adm mail sshd ntp chrony dbus nvidia-persistenced "
    "postgres mysql all any user users name group default".split()
)
"""Names of services and fillers, which tell of no person."""
FOLDERS = frozenset("shared share data users user work all common public projects project scratch tmp models ckpt logs cache".split())
"""Folders under /home and the like that are no person's."""
NUMBER = re.compile(r"[\d.,eE+/-]{1,40}[A-Za-z/%]{0,8}")


def is_person(name: str) -> bool:
    """Whether a name of an account tells of a person, as far as a name can say."""
    return len(name) > 1 and any(c.isalpha() for c in name) and name.lower() not in SYSTEM


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of private thing. What the groups of `pattern` (or, without groups, the whole of it) hold is replaced where `holds` agrees."""

    kind: str
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = lambda _text: True

    def spans(self, text: str) -> Iterator[Span]:
        """Where in a text it stands."""
        for found in self.pattern.finditer(text):
            for group in range(1, self.pattern.groups + 1) if self.pattern.groups else (0,):
                if found[group] and self.holds(found[group]):
                    yield found.span(group)


def _is_v4(text: str) -> bool:
    return all(len(part) < 4 and int(part) < 256 and (part == "0" or part[0] != "0") for part in text.split("."))


def _is_v6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return any(c.isdigit() for c in text)


def _is_basic(text: str) -> bool:
    """`Basic YWxpY2U6...`, not `basic configuration`."""
    return any(c.isdigit() or c.isupper() or c in "+/=" for c in text)


def _is_value(text: str) -> bool:
    """Not the figure of `tokens: 4096` or `tokens/s=1.2e5`, nor a word that says there is none."""
    return NUMBER.fullmatch(text) is None and text.lower() not in ("none", "null", "true", "false", "required", "expired", "invalid")


def _is_key_body(text: str) -> bool:
    return any(c.isupper() for c in text) and any(c.islower() for c in text) and any(c.isdigit() for c in text)


def _is_home(text: str) -> bool:
    return is_person(text) and text.lower() not in FOLDERS


def _is_serial(text: str) -> bool:
    return any(c.isdigit() for c in text)


_FLAG = re.ASCII | re.IGNORECASE
_KEYS = "pass(?:word|wd|phrase)|pwd|secret|token|credential|(?:api|access|private|auth)[_-]?key|(?<=_)key"
_FLAGS = "(?<=--password) |(?<=--token) |(?<=--api-key) |(?<=--secret) "
_USERS = "user|userid|user_?name|login|logname|ruser|submitter|owner|uid|auid|requested_by|job_user"
_IS = r"[\"']?\s{0,4}[:=]\s{0,4}[\"']?"


def _shape(kind: str, pattern: str, holds: Callable[[str], bool] = lambda _text: True, flags: int = 0) -> Shape:
    return Shape(kind, re.compile(pattern, flags), holds)


SECRETS = (
    # -----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEAAAAA... -----END OPENSSH PRIVATE KEY-----
    _shape("secret", r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----([^-]{1,8000})"),
    # a line of the body of such a key
    _shape("secret", r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{60,4096}={0,2}(?![A-Za-z0-9+/=_-])", _is_key_body),
    # AKIAIOSFODNN7EXAMPLE
    _shape("secret", r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{16}\b"),
    # ghp_16C7e42F292c6912E7710c838347Ae178B4a | github_pat_11ABCDEFG0...
    _shape("secret", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255})"),
    # glpat-Xy3_abcDEF456ghi789J
    _shape("secret", r"\bgl(?:pat|dt|rt|ptt|cbt|ft|soat|agent|oas|imt)-[A-Za-z0-9_.-]{20,255}"),
    # xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx | https://hooks.slack.com/services/T0/B0/x
    _shape("secret", r"\b(?:xoxe\.xox[a-z]|xox[a-z]|xapp)-[A-Za-z0-9-]{10,255}"),
    _shape("secret", r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{1,200})"),
    # hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567
    _shape("secret", r"\bhf_[A-Za-z0-9]{20,255}"),
    # sk-proj-AbCdEfGhIjKlMnOpQrSt | sk-ant-api03-AbCdEfGhIjKlMnOpQrSt | nvapi-AbCdEfGhIjKlMnOpQrSt
    _shape("secret", r"\b(?:sk|nvapi)-[A-Za-z0-9_-]{20,255}"),
    # AIzaSyA1B2C3D4E5F6G7H8I9J0K1L2M3N4O5P6Q | ya29.a0AfH6SMBx1234567890
    _shape("secret", r"\bAIza[A-Za-z0-9_-]{30,60}|\bya29\.[A-Za-z0-9_-]{16,255}"),
    # npm_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789 | dop_v1_0a1b... | hvs.CAESIJ...
    _shape("secret", r"\bnpm_[A-Za-z0-9]{30,60}|\bpypi-[A-Za-z0-9_-]{30,255}|\bdop_v1_[a-f0-9]{40,80}|\bhvs\.[A-Za-z0-9_-]{20,255}"),
    # eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP
    _shape("secret", r"\beyJ[A-Za-z0-9_-]{5,2000}\.eyJ[A-Za-z0-9_-]{5,4000}(?:\.[A-Za-z0-9_-]{0,2000})?"),
    # postgres://alice:hunter2@db.example/x
    _shape("secret", r"://([^\s/:@]{1,64}:[^\s/@]{1,200})@"),
    # Authorization: Bearer 9f86d081884c7d65 | Proxy-Authorization: Basic YWxpY2U6aHVudGVyMg==
    _shape("secret", rf"\bauthorization{_IS}(?:bearer |basic |token |digest )?([^\s\"',;]{{4,4096}})", flags=_FLAG),
    _shape("secret", r"\bbearer\s{1,4}([A-Za-z0-9._~+/-]{12,4096}={0,2})", _is_basic, _FLAG),
    _shape("secret", r"\bbasic\s{1,4}([A-Za-z0-9+/]{8,4096}={0,2})", _is_basic, _FLAG),
    # password=hunter2 | "secret": "x" | WANDB_API_KEY=0a1b | --token abc | passwd: x
    _shape("secret", rf"(?:{_KEYS})(?:s|_id)?(?:{_IS}|{_FLAGS})([^\s\"',;&]{{3,4096}})", _is_value, _FLAG),
)
PLACES = (
    # fe80::1 | 2001:db8::7 | fe80:0000:0000:0000:0002:c903:000e:1b2c
    _shape("addr", r"(?<![\w:.])[0-9A-Fa-f:]{2,39}(?:(?<=:)(?:\d{1,3}\.){3}\d{1,3})?(?![\w:])(?!\.\d)", _is_v6),
    # aa:bb:cc:dd:ee:ff | 80:00:... of twenty | 0c-42-a1-00-11-22 | 0c42.a1ff.fe00
    _shape("addr", r"(?<![\w:-])(?:[0-9A-Fa-f]{2}:){5,19}[0-9A-Fa-f]{2}(?![\w:-])"),
    _shape("addr", r"(?<![\w:-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![\w:-])"),
    _shape("addr", r"(?<![\w.])[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}(?![\w.])"),
    # GUID:0x506b4b0300c2a1b4 | node_guid: 506b:4b03:00c2:a1b4
    _shape("addr", rf"guid(?:{_IS}|\s)((?:0x)?[0-9a-f]{{12,16}}|(?:[0-9a-f]{{4}}:){{3}}[0-9a-f]{{4}})\b", flags=_FLAG),
    # 10.1.2.3:29500
    _shape("addr", r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w)(?!\.\d)", _is_v4),
)
THINGS = (
    # GPU-0be1a7c4-9d66-4f2f-a1b8-6c0e32d5f811 | MIG-GPU-...-.../1/0 | GPU-0be1a7c4
    _shape("uuid", r"(?<![0-9A-Za-z])(?:MIG-)?(?:GPU-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", flags=_FLAG),
    _shape("uuid", r"(?<![0-9A-Za-z])(?:MIG-GPU|GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{1,12}){0,4}(?![0-9A-Za-z])", flags=_FLAG),
    # _MACHINE_ID=4f1c0d2e3b4a59687786958493a2b1c0 | boot_id: ...
    _shape("uuid", rf"(?:machine|boot|invocation)_?id(?:{_IS}|\s)([0-9a-f]{{32}})\b", flags=_FLAG),
    # GPU Board Serial Number: 1652922014477 | GPU serial number is 1653220099812 | serial=PK1A2 | S/N: 0331622
    _shape("serial", rf"\bserial(?:[ _-]?(?:number|no|num))?(?:\s{{0,30}}{_IS}| is |\s)([A-Z0-9][A-Z0-9_-]{{3,63}})", _is_serial, _FLAG),
    _shape("serial", rf"\b(?:S/N|SN){_IS}([A-Z0-9][A-Z0-9_-]{{3,63}})", _is_serial, _FLAG),
)
PEOPLE = (
    # alice@example.com
    _shape("addr", r"(?<![\w.+@-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,6}\b"),
    # ssh alice@gpu-044
    _shape("user", r"(?<![\w.+@-])([A-Za-z_][\w.-]{1,31})@(?=[A-Za-z][\w-]{0,62}\b)", is_person),
    # /home/alice/run | /mnt/users/alice | /srv/Users/alice | /export/homes/alice | ~alice/
    _shape("user", r"(?<!\w)(?:home|homes|users|u)/([^\s/:,;'\"()\[\]<>|]{2,64})", _is_home, _FLAG),
    _shape("user", r"(?<![\w~/.])~([A-Za-z_][\w.-]{1,31})(?=/)", is_person),
    # uid=1001(alice) | UserId=alice(1001) | user=alice | User: alice | LOGNAME=alice | --user alice
    _shape("user", r"\buid=\d{1,10}\(([A-Za-z_][\w.@\\-]{0,63})\)", is_person, _FLAG),
    _shape("user", rf"\b(?:{_USERS})(?:{_IS}|(?<=--user) )([A-Za-z_][\w.\\-]{{1,63}})", is_person, _FLAG),
    # session opened for user alice(uid=1001) | Started session 4 of user alice. | Invalid user alice from 10.0.0.1
    _shape("user", r"\b(?:(?:opened|closed) for|invalid|session \w{1,20} of) user ([A-Za-z_][\w.-]{0,62}\w)", is_person, _FLAG),
    # Accepted publickey for alice from 10.0.0.1
    _shape("user", r"\b(?:Accepted|Failed) \w{1,30} for ([A-Za-z_][\w.-]{1,63}) from\b", is_person),
    # sudo: alice : TTY=pts/0 ; PWD=/ | su: (to root) alice on pts/0
    _shape("user", r"\bsudo(?:\[\d{1,10}\])?:\s{1,20}([A-Za-z_][\w.-]{1,63}) : ", is_person),
    _shape("user", r"\(to [\w.-]{1,32}\) ([A-Za-z_][\w.-]{1,63}) on\b", is_person),
)
SHAPES = (*SECRETS, *THINGS, *PLACES, *PEOPLE)
"""In order: what a former one took is not looked at again."""
