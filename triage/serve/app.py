"""The site: one address for each list and each thing, all of them read from the analysis tables."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from triage.faults import Fault
from triage.redaction import Wish
from triage.rulebook import Rulebook
from triage.serve import listing, thing
from triage.serve.ask import Refused, asked
from triage.serve.guard import COOKIE, Door, Guard, Names
from triage.serve.listing import Content
from triage.serve.reader import Reader, TooLarge
from triage.serve.thing import Missing
from triage.serve.view import STYLES, page, text_of
from triage.store import Store, StoreFault

COOKIE_S, MOST_FORM = 12 * 3600, 4096

LISTS: dict[str, Callable[[Reader, Store, QueryParams], Content]] = {
    "/": listing.overview,
    "/incidents": listing.incidents,
    "/hosts": listing.hosts,
    "/lemons": listing.lemons,
    "/jobs": listing.jobs,
    "/bursts": listing.bursts,
    "/codes": listing.codes,
    "/sources": listing.sources,
    "/search": listing.search,
}
THINGS: dict[str, Callable[[Reader, Store, str], Content]] = {
    "/incidents": thing.incident,
    "/hosts": thing.host,
    "/jobs": thing.job,
    "/bursts": thing.burst,
    "/codes": thing.code,
}


@dataclass(frozen=True, slots=True)
class Site:
    """What is served, and to whom. Without a token everybody who reaches the address reads everything."""

    db: str
    book: Rulebook
    token: str | None = None
    names: Names = field(default_factory=Names)
    hide: Wish | None = None


def build(site: Site) -> ASGIApp:
    """The whole site behind its guard."""
    reader = Reader(site.db, site.book, site.hide)
    door = Door(site.token) if site.token else None

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        reader.close()

    routes = [Route(path, _list(reader, path, make)) for path, make in LISTS.items()]
    routes += [Route(f"{path}/{{name:path}}", _thing(reader, path, make)) for path, make in THINGS.items()]
    routes += [Route("/reports/{name:path}", _report(reader)), Route("/static/{name}", _static)]
    if door is not None:
        routes.append(Route("/sign-in", _sign_in(door), methods=["GET", "POST"]))
    handlers = {HTTPException: _refused, Fault: _refused, Missing: _refused, Exception: _refused}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, site.names, door, _ask_for_token)


Handler = Callable[[Request], Response]


def _show(reader: Reader, store: Store, path: str, content: Content, query: str = "") -> Response:
    template, values = content
    common = {"here": path, "fresh": reader.fresh(store), "q": query}
    return HTMLResponse(page(template, **(common | reader.mask(store).value(values))))


def _list(reader: Reader, path: str, make: Callable[[Reader, Store, QueryParams], Content]) -> Handler:
    def handler(request: Request) -> Response:
        with reader.visit() as store:
            mask = reader.mask(store)
            given = QueryParams([(name, mask.original(value)) for name, value in request.query_params.multi_items()])
            content = make(reader, store, given)
            return _show(reader, store, path, content, request.query_params.get("q", ""))

    return handler


def _thing(reader: Reader, path: str, make: Callable[[Reader, Store, str], Content]) -> Handler:
    def handler(request: Request) -> Response:
        asked(request.query_params)
        with reader.visit() as store:
            return _show(reader, store, path, make(reader, store, reader.mask(store).original(request.path_params["name"])))

    return handler


def _report(reader: Reader) -> Handler:
    """The report as `triage report --format html` writes it, without raw lines: the page opens no file but the database."""

    def handler(request: Request) -> Response:
        from triage.answers import Question, answer
        from triage.page import html
        from triage.reports import Read, report_of

        asked(request.query_params)
        name = request.path_params["name"]
        with reader.visit() as store:
            mask = reader.mask(store)
            thing.known(reader, store, name)
            try:
                analysis = reader.analysis(store)
            except TooLarge:
                return _show(reader, store, "/incidents", ("large", {"name": name, "db": reader.path}))
            read, rejects = Read.of(store), int(store.rows("reject_count")[0]["n"])
        decision = next((d for d in analysis.decisions if d.finding.incident.incident_id == name), None)
        if decision is None:
            raise Missing(f"no report of incident {name!r}: the analysis is older than the rules")
        data = answer(analysis, reader.book, Question(), rejects, chosen=decision)
        unread = Read([{**row, "digest": None} for row in read.sources], read.identities)
        return HTMLResponse(
            html(mask.value(report_of(analysis, decision, reader.book, data, unread))), headers={"Content-Security-Policy": _report_csp()}
        )

    return handler


@cache
def _report_csp() -> str:
    """The report carries our two scripts and our style; nothing else runs, whatever stands in a log."""
    from triage.page import LIBRARY

    texts = (text_of(name) for name in (LIBRARY, "page.js"))
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STYLES:
        raise Missing("no such file")
    kind = "image/svg+xml" if name.endswith(".svg") else "text/css"
    return Response(text_of(name), media_type=kind, headers={"Cache-Control": "max-age=3600"})


def _refused(request: Request, error: Exception) -> Response:
    """One clear line, on a page with the way back."""
    headers: dict[str, str] = {}
    if isinstance(error, Missing | HTTPException):
        status, line = getattr(error, "status_code", 404), str(error.args[0]) if isinstance(error, Missing) else "no such page"
    elif isinstance(error, Refused):
        status, line = 400, str(error)
    elif isinstance(error, StoreFault):
        status, line, headers = 503, str(error).partition(";")[0] + "; reload when it is done", {"Retry-After": "5"}
    elif isinstance(error, Fault):
        status, line, headers = 503, str(error), {"Retry-After": "30"}
    else:
        status, line = 500, "this page failed; the others still work"
    return HTMLResponse(page("refused", here="", fresh=True, q="", status=status, line=line), status, headers)


async def _ask_for_token(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    await _form(wanted, "", 401)(scope, receive, send)


def _form(wanted: str, line: str, status: int) -> Response:
    headers = {"WWW-Authenticate": 'Bearer realm="triage"'} if status == 401 else {}
    return HTMLResponse(page("sign_in", here="", fresh=True, q="", wanted=wanted, line=line), status, headers)


def _sign_in(door: Door) -> Callable[[Request], object]:
    """The form that takes the token and gives a cookie; nothing is stored on this side."""

    async def handler(request: Request) -> Response:
        if request.method != "POST":
            return _form("/", "", 200)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_FORM:
                return _form("/", "That is no token.", 400)
        given = dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=4))
        wanted = _inside(given.get("wanted", "/"))
        if not await run_in_threadpool(door.fits, given.get("token", "").strip()):
            return _form(wanted, "This is not the token.", 401)
        answer = RedirectResponse(wanted, 303)
        answer.set_cookie(COOKIE, door.cookie, max_age=COOKIE_S, httponly=True, samesite="lax", secure=request.url.scheme == "https")
        return answer

    return handler


def _inside(wanted: str) -> str:
    """A path of this site, never the address of another."""
    safe = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isascii() and wanted.isprintable()
    return wanted if safe else "/"
