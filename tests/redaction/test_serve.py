"""The local site with `--redact`: no page shows a user, a UUID or a serial; filters by pseudonym find what they stand for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from triage import desk
from triage.desk import Setup
from triage.redaction import Wish
from triage.rulebook import Rulebook
from triage.serve.app import Site, build

BASE = "http://localhost:8799"
UUID = "GPU-0a1b2c3d-1111-2222-3333-444455556666"
LOG = f"""\
2026-04-02T10:31:12.000000+00:00 tau-07 kernel: NVRM: GPU at PCI:0000:3b:00: {UUID}
2026-04-02T10:31:13.000000+00:00 tau-07 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=42, name=/home/zoe_b/run, GPU has fallen off the bus.
"""
ACCOUNTING = """\
JobID|JobName|User|Partition|NNodes|NodeList|AllocTRES|Submit|Start|End|Elapsed|State|ExitCode|Reason
51007|zoe_b-llama|zoe_b|train|1|tau-07|cpu=96,gres/gpu=8,node=1|2026-04-02T09:00:00|2026-04-02T09:01:00|2026-04-02T10:32:00|01:31:00|FAILED|1:0|None
"""
PAGES = ("/", "/incidents", "/hosts", "/hosts/tau-07", "/jobs", "/jobs/51007", "/bursts", "/lemons", "/sources", "/search?q=tau")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / "tau-07.kern.log").write_text(LOG)
    (home / "sacct.txt").write_text(ACCOUNTING)
    desk.ingest(Setup(str(home / "t.duckdb")), [str(home)])
    return home / "t.duckdb"


def visit(db: Path, book: Rulebook, hosts: bool) -> TestClient:
    site = Site(str(db), book, None, Site(str(db), book).names, Wish(hosts, b"k" * 32))
    return TestClient(build(site), base_url=BASE)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("hosts", [False, True])
def test_no_page_shows_it(path: str, hosts: bool, db: Path, book: Rulebook) -> None:
    with visit(db, book, hosts) as client:
        got = client.get(path)
    page = got.text
    assert got.status_code == 200
    assert "zoe_b" not in page and UUID not in page
    assert not hosts or "tau-07" not in page.replace("/hosts/tau-07", "").replace("q=tau", "")


def test_a_pseudonym_leads_to_what_it_stands_for(db: Path, book: Rulebook) -> None:
    with visit(db, book, False) as client:
        shown = re.findall(r"user-[a-z2-7]{8}", client.get("/jobs").text)
        assert shown
        found = client.get(f"/jobs?user={shown[0]}").text
        assert "51007" in found and "zoe_b" not in found
        report = re.findall(r'href="(/incidents/[^"]+)"', client.get("/incidents").text)[0].replace("/incidents/", "/reports/")
        assert "zoe_b" not in client.get(report).text
