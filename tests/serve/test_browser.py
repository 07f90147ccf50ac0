"""The site in a real browser: what a link leads to opens without a word, a script or a request elsewhere, wide and on a phone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import chromium
from tests.serve.conftest import EVIL, seed
from triage import desk
from triage.rulebook import Rulebook
from triage.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.skipif(chromium.program() is None, reason="no Chromium on this machine")]

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-c", "from triage.cli import app_main; app_main()")
MOST_PAGES = 60
LINKS = "[...document.querySelectorAll('a[href]')].map((a) => new URL(a.getAttribute('href'), location).href.split('#')[0])"
TOO_WIDE = """[...document.querySelectorAll('body *')]
  .filter((n) => n.getClientRects().length && !n.closest('.wide, .vh, .skip, svg, thead'))
  .filter((n) => n.getBoundingClientRect().right > innerWidth + 1).map((n) => n.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, book: Rulebook) -> Iterator[str]:
    """A running site over a database of a few stories and a hostile one."""
    db = seed(tmp_path_factory.mktemp("site"), book)
    stories = ("gpu-off-the-bus", "rack-without-power", "neighbour-job-at-risk")
    with Store(str(db)) as store:
        desk.read(store, [str(ROOT / "samples" / "cases" / name / "logs") for name in stories], book, None)
        desk.read(store, [str(ROOT / "samples" / "hostile")], book, None)
    process = subprocess.Popen([*PROGRAM, "serve", "--db", str(db), "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().split()[0]
    process.terminate()
    process.wait()


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Browser]:
    found = chromium.program()
    assert found is not None
    with chromium.browser(found) as running:
        yield running


def walk(page: chromium.Page, address: str) -> Iterator[str]:
    """Opens the first page and then what links lead to, each once, those of different kinds first."""
    waiting, seen = [address], set[str]()
    while waiting and len(seen) < MOST_PAGES:
        waiting.sort(key=lambda url: (sum(kind(url) == kind(other) for other in seen), len(url)))
        url = waiting.pop(0)
        seen.add(url)
        page.goto(url)
        waiting += [found for found in dict.fromkeys(page.run(LINKS)) if found not in seen and found not in waiting]
        yield url


def kind(url: str) -> str:
    return "/".join(url.split("?")[0].split("/")[3:4])


@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_opens(width: int, browser: chromium.Browser, address: str) -> None:
    page = browser.open(width, 844)
    visited = []
    for url in walk(page, address):
        visited.append(url)
        assert url.startswith(address), url
        assert page.run("document.querySelector('h1').textContent").strip(), url
        assert page.run("document.scripts.length") == (3 if kind(url) == "reports" else 0), url
        assert page.run("document.querySelectorAll('img, iframe, object, embed').length") == 0, url
        assert page.run("document.documentElement.scrollWidth") <= width, (url, page.run(TOO_WIDE))
    kinds = {kind(url) for url in visited}
    assert kinds >= {"", "incidents", "hosts", "jobs", "bursts", "codes", "sources", "lemons", "reports"}
    assert page.complaints() == []
    assert {url for url in page.asked_for() if not url.startswith(address)} == set()
    page.close()


def test_hostile_text_is_read_as_text(browser: chromium.Browser, address: str) -> None:
    page = browser.open()
    page.goto(f"{address}jobs/51007")
    assert EVIL in page.run("document.body.innerText")
    page.goto(f"{address}search?q={EVIL.replace('<', '%3C').replace('>', '%3E')}")
    assert page.run("document.querySelector('input[type=search]').value") == EVIL
    assert page.complaints() == []
    page.close()


def test_search_by_keyboard(browser: chromium.Browser, address: str) -> None:
    page = browser.open()
    page.goto(address)
    page.tab_to("input[type=search]")
    page.type("gpu-044")
    page.press("Enter")
    page.settle(1.0)
    assert "gpu-044" in page.run("location.href")
    assert "gpu-044" in page.run("document.querySelector('main').innerText")
    page.close()
