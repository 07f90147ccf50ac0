"""A small database made from logs of its own, and a client of the site over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from triage import desk
from triage.rulebook import Rulebook
from triage.serve.app import Site, build
from triage.serve.guard import Names
from triage.store import Store

BASE = "http://localhost:8799"
TOKEN = "0123456789abcdef-of-a-test"
EVIL = "<script>alert('x')</script>"

KERNEL = f"""\
2026-04-02T10:00:01.000000+00:00 tau-07 kernel: hrtimer: interrupt took 52117 ns
2026-04-02T10:31:12.000000+00:00 tau-07 kernel: NVRM: GPU at PCI:0000:3b:00: GPU-0a1b2c3d-1111-2222-3333-444455556666
2026-04-02T10:31:13.000000+00:00 tau-07 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name={EVIL}, GPU has fallen off the bus.
2026-04-02T10:40:00.000000+00:00 tau-07 kernel: hrtimer: interrupt took 42117 ns
"""
ACCOUNTING = f"""\
JobID|JobName|User|Partition|NNodes|NodeList|AllocTRES|Submit|Start|End|Elapsed|State|ExitCode|Reason
51007|{EVIL}|ada|train|2|tau-[07-08]|billing=192,cpu=192,gres/gpu=16,node=2|2026-04-02T09:00:00|2026-04-02T09:01:00|2026-04-02T10:32:00|01:31:00|FAILED|1:0|None
51008|quiet|ada|train|1|tau-09|billing=96,cpu=96,gres/gpu=8,node=1|2026-04-02T09:00:00|2026-04-02T09:01:00|2026-04-02T10:02:00|01:01:00|COMPLETED|0:0|None
"""

Visit = Callable[..., TestClient]


def seed(folder: Path, book: Rulebook) -> Path:
    """A database from two logs."""
    logs = folder / "logs"
    logs.mkdir()
    (logs / "tau-07.kern.log").write_text(KERNEL, encoding="utf-8")
    (logs / "sacct.txt").write_text(ACCOUNTING, encoding="utf-8")
    db = folder / "fleet.duckdb"
    with Store(str(db)) as store:
        desk.read(store, [str(logs)], book, None)
    return db


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, book: Rulebook) -> Path:
    """The database that most tests visit and none changes."""
    return seed(tmp_path_factory.mktemp("small"), book)


@pytest.fixture
def visit(book: Rulebook) -> Iterator[Visit]:
    """A client of the site over a database, closed after the test."""
    with ExitStack() as open_clients:

        def make(db: Path, token: str | None = None, names: Names | None = None, base: str = BASE) -> TestClient:
            app = build(Site(str(db), book, token, names or Names()))
            return open_clients.enter_context(TestClient(app, base_url=base, follow_redirects=False))

        yield make
