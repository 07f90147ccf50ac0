"""What stands before every page: whom we answer (Host, token), what a browser may do with the answer, a line instead of a traceback."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import sys
from base64 import b64decode
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "triage"
OPEN_PATHS = ("/sign-in", "/static/")
"""Reached without a token: the form that takes it and the style of that form."""
CSP = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""On every answer; a page that sets one of them itself keeps its own."""


def is_loopback(host: str) -> bool:
    """Whether an address or name can only be reached from this machine."""
    address = _address(host)
    return address.is_loopback if address is not None else host.lower().rstrip(".") == "localhost"


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _without_port(header: str) -> str:
    """`[::1]:8799` as `::1`, `localhost:8799` as `localhost`."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower().rstrip(".")


@dataclass(frozen=True, slots=True)
class Names:
    """Host headers that are answered. A page of a stranger whose name was rebound to our address carries its own name, and gets nothing.

    An address carries no name that could be rebound, so that beyond loopback every address is taken.
    """

    names: frozenset[str] = frozenset()
    loopback: bool = True

    def known(self, header: str) -> bool:
        """Whether a Host header, with or without a port, is one of ours."""
        host = _without_port(header)
        return is_loopback(host) or host in self.names or (not self.loopback and _address(host) is not None)


@dataclass(frozen=True, slots=True)
class Door:
    """The token, compared in constant time. The cookie holds no token but a sign of it that ends with this process."""

    token: str
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    @property
    def cookie(self) -> str:
        """The value of the cookie of a visitor who has shown the token."""
        return hmac.new(self.token.encode(), self._salt, hashlib.sha256).hexdigest()

    def fits(self, shown: str) -> bool:
        """Whether somebody shows the token."""
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self.token.encode())

    def lets(self, headers: Headers) -> bool:
        """Whether a request carries the token (Bearer, or Basic with any name) or our cookie."""
        shown = _shown(headers.get("authorization", ""))
        by_header = self.fits(shown) if shown else False
        return by_header or hmac.compare_digest(_cookie(headers).encode("utf-8", "replace"), self.cookie.encode())


def _shown(header: str) -> str:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return b64decode(value.strip(), validate=True).decode("utf-8", "replace").partition(":")[2]
    except ValueError:
        return ""


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


class Guard:
    """Wraps the site. `refuse` is the page that asks for the token."""

    def __init__(self, app: ASGIApp, names: Names, door: Door | None, refuse: ASGIApp) -> None:
        self.app, self.names, self.door, self.refuse = app, names, door, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the one pass that may."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return None
        begun = False

        async def sealed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _seal(message)
            await send(message)

        try:
            await self._chosen(scope)(scope, receive, sealed)
        except Exception as error:  # whatever a page meets, its visitor gets a line and the terminal a word, never a traceback
            print(f"triage serve: a page failed: {type(error).__name__}", file=sys.stderr)
            if not begun:
                await PlainTextResponse("this page failed; the others still work\n", 500)(scope, receive, sealed)
        return None

    def _chosen(self, scope: Scope) -> ASGIApp:
        headers = Headers(scope=scope)
        if len(headers.getlist("host")) != 1 or not self.names.known(headers["host"]):
            return _line("no page under this name: open the address that triage serve printed, or name it with --name", 421)
        if scope["method"] not in ("GET", "HEAD") and not (scope["method"] == "POST" and scope["path"] == "/sign-in" and self.door):
            return _line("read-only: GET and HEAD are answered, nothing else", 405, {"Allow": "GET, HEAD"})
        if self.door and not scope["path"].startswith(OPEN_PATHS) and not self.door.lets(headers):
            return self.refuse
        return self.app


def _line(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(text + "\n", status, headers)


def _seal(message: Message) -> None:
    headers = MutableHeaders(raw=message.setdefault("headers", []))
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    message["headers"] = headers.raw
