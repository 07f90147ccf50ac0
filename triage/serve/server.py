"""The process behind `triage serve`: what may be bound, the token, and uvicorn without a log of what visitors ask."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from triage.faults import Fault, InputFault
from triage.redaction import Wish
from triage.rulebook import Rulebook
from triage.serve.guard import Names, is_loopback

SHORTEST = 16
MOST_AT_ONCE = 64


def token_of(path: str) -> str:
    """The token in a file, its first line; a short one, or one that others can change, is refused."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        mode = os.stat(path).st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise InputFault(path, "cannot be read", "name a text file that holds the token") from error
    token = text.strip().split("\n", 1)[0].strip()
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise InputFault(
            path, f"holds no token of {SHORTEST} or more characters without spaces", f"make one: openssl rand -hex 24 > {path}"
        )
    if mode & 0o022:
        raise InputFault(path, "can be changed by others", f"chmod 600 {path}")
    if mode & 0o044:
        print(f"triage: {path}: others can read this token; chmod 600 {path}", file=sys.stderr)
    return token


def names_of(host: str, more: Sequence[str]) -> Names:
    """The names under which a site at this address is visited."""
    own = () if is_loopback(host) else (socket.gethostname().lower(), socket.getfqdn().lower())
    return Names(frozenset(n.lower().rstrip(".") for n in (*own, host, *more)), loopback=is_loopback(host))


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; raises Fault with what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        raise Fault(f"{host}:{port} cannot be bound ({getattr(error, 'strerror', None) or 'no such address'}); try --port") from error
    return listener


def run(db: str, book: Rulebook, host: str, port: int, token_file: str | None, names: Sequence[str] = (), hide: Wish | None = None) -> None:
    """Serve until interrupted. An address that others reach needs a token."""
    if not is_loopback(host) and token_file is None:
        raise Fault(f"{host} is reached by others: name a file with a token (--token-file), or stay at 127.0.0.1")
    try:
        import uvicorn

        from triage.serve.app import Site, build
    except ModuleNotFoundError as error:
        raise Fault(f"the page needs {error.name}; pip install 'gpu-triage[serve]'") from error
    from triage.store import Store

    token = token_of(token_file) if token_file is not None else None
    with Store(db, write=False):
        pass
    listener = bound(host, port)
    app = build(Site(db, book, token, names_of(host, names), hide))
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_AT_ONCE,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
        ws="none",
    )
    note = "read-only" if token else "read-only, open to every user of this machine"
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{listener.getsockname()[1]}/  {note}; Ctrl-C ends it", flush=True)
    if not is_loopback(host):
        print("triage: what is read here travels in the clear; put TLS before it, or use an SSH tunnel", file=sys.stderr)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
