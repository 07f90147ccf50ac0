"""The page in a real browser: nothing thrown, nothing asked for, hostile text dead; usable by keyboard, on a phone, on paper."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import chromium
from tests.reports.conftest import Make
from tests.reports.folders import big_folder, hostile_folder
from triage import reports

pytestmark = [pytest.mark.slow, pytest.mark.skipif(chromium.program() is None, reason="no Chromium on this machine")]

CASES = Path(__file__).parents[2] / "samples" / "cases"
STORIES = {name: CASES / name / "logs" for name in ("gpu-off-the-bus", "nan-loss-alone", "rack-without-power")}
PAGES = (*STORIES, "fleet", "hostile", "kept-hostile")
LARGEST = 3_000_000
FOREIGN = "img, iframe, object, embed, link, form, video, audio, base, a:not(.skip), marquee, font, [onload], [onerror], [onclick], [src]"
TOO_WIDE = """[...document.querySelectorAll('body *')]
  .filter((n) => n.getClientRects().length && !n.closest('.wide, .vh, .skip, svg, .tip, thead'))
  .filter((n) => n.getBoundingClientRect().right > innerWidth + 1).map((n) => n.outerHTML.slice(0, 120))"""
CHART = "echarts.getInstanceByDom(document.getElementById('chart-timeline')).getOption()"
MARKS = f"{CHART}.series.filter((s) => s.type === 'scatter')"
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")

Pages = dict[str, Path]
Open = Callable[..., chromium.Page]


@pytest.fixture(scope="module")
def pages(made: Make, tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """The report of each story as a file."""
    folder = tmp_path_factory.mktemp("pages")
    sources = dict(STORIES)
    for name, build in (("fleet", big_folder), ("hostile", hostile_folder)):
        sources[name] = tmp_path_factory.mktemp(name)
        build(sources[name])
    sources["kept-hostile"] = CASES.parent / "hostile"
    written = {}
    for name, source in sources.items():
        written[name] = folder / f"{name}.html"
        written[name].write_text(reports.render(made(source), "html"), encoding="utf-8")
    return written


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Browser]:
    found = chromium.program()
    assert found is not None
    with chromium.browser(found) as running:
        yield running


@pytest.fixture
def visit(browser: chromium.Browser, pages: Pages) -> Iterator[Open]:
    """Opens a page; after the test nothing may have been said, thrown or asked for."""
    opened: list[tuple[chromium.Page, str]] = []

    def go(name: str, width: int = 1280, height: int = 900, scheme: str = "light") -> chromium.Page:
        page = browser.open(width, height, scheme)
        page.goto(pages[name].as_uri())
        opened.append((page, pages[name].as_uri()))
        return page

    yield go
    for page, address in opened:
        page.settle(0.1)
        complaints, asked = page.complaints(), page.asked_for()
        page.close()
        assert complaints == []
        assert asked == [address]


def unfold(page: chromium.Page) -> None:
    """Opens every part that is folded, and goes through the events, so that tips are drawn too."""
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.settle(0.2)
    for _ in range(4):
        page.run("[...document.querySelectorAll('#zoom button')].at(-1)?.click()")
        page.settle(0.05)


@pytest.mark.parametrize("name", PAGES)
def test_opens_without_a_word_or_a_request(name: str, visit: Open, pages: Pages) -> None:
    page = visit(name)
    unfold(page)
    assert page.run("document.querySelector('h1').textContent").strip()
    charts = page.run("document.querySelectorAll('.chart').length")
    drawn = page.run("document.querySelectorAll('.chart svg, .chart canvas').length")
    assert drawn == charts > 0
    assert pages[name].stat().st_size < LARGEST


@pytest.mark.parametrize("name", PAGES)
def test_texts_of_logs_become_no_element(name: str, visit: Open) -> None:
    page = visit(name)
    unfold(page)
    assert page.run("window.zq") is None
    assert page.run(f"[...document.querySelectorAll({json.dumps(FOREIGN)})].map((n) => n.outerHTML.slice(0, 200))") == []
    assert page.run("document.scripts.length") == 3
    shown = page.run("document.body.innerText")
    assert not UNSEEN.search(shown.replace("\u2060", ""))


def test_hostile_texts_are_there_to_be_read(visit: Open) -> None:
    page = visit("hostile")
    unfold(page)
    shown = page.run("document.body.innerText")
    for piece in ("<script>window.zq=1</script>", "<img src=x onerror=window.zq=1>", "<svg onload=window.zq=1>", "[U+202E]zq", "␛[31;1m"):
        assert piece in shown, piece


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 800])
def test_fits_a_phone(name: str, width: int, visit: Open) -> None:
    page = visit(name, width=width, height=844)
    unfold(page)
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run(TOO_WIDE) == []


def test_table_is_sorted_and_filtered_by_keyboard(visit: Open) -> None:
    page = visit("gpu-off-the-bus")
    rows = "[...document.querySelectorAll('#evidence ~ .wide')][0].querySelectorAll('tbody tr')"
    column = f"[...{rows}].filter((r) => !r.hidden).map((r) => r.cells[1].textContent.trim())"
    before = page.run(column)
    page.tab_to("#evidence ~ .wide th:nth-child(2) button")
    page.press("Enter")
    assert page.run(column) == sorted(before)
    page.press("Enter")
    assert page.run(column) == sorted(before, reverse=True)
    assert page.run("document.activeElement.closest('th').getAttribute('aria-sort')") == "descending"
    page.run("document.querySelector('#evidence ~ .tools input').focus()")
    page.type("fallen off")
    assert set(page.run(column)) == {"root"}
    assert "of" in page.run("document.querySelector('#evidence ~ .tools [aria-live]').textContent")


def test_timeline_is_used_by_keyboard(visit: Open) -> None:
    page = visit("gpu-off-the-bus")
    marks = f"{MARKS}.map((s) => s.name)"
    zoom = f"(({{start, end}}) => end - start)({CHART}.dataZoom[0])"
    assert "symptom" in page.run(marks)
    page.tab_to("#roles label:nth-of-type(3) input")
    page.press(" ")
    assert "symptom" not in page.run(marks)
    page.press(" ")
    assert "symptom" in page.run(marks)
    page.tab_to("#chart-timeline")
    page.press("+")
    page.press("+")
    assert page.run(zoom) == pytest.approx(25)
    page.press("n")
    assert page.run("document.getElementById('say-timeline').textContent").startswith("1 of ")
    page.press("0")
    assert page.run(zoom) == pytest.approx(100)
    page.tab_to("#events summary")
    page.press("Enter")
    page.settle()
    assert page.run("document.querySelectorAll('#events tbody tr').length") == page.run(
        "JSON.parse(document.getElementById('data').textContent).timeline.events.length"
    )


def test_filter_of_the_timeline_takes_words(visit: Open) -> None:
    page = visit("fleet")
    count = f"{MARKS}.reduce((n, s) => n + s.data.length, 0)"
    everything = page.run(count)
    page.tab_to("#roles input[type=search]")
    page.type("k03-n17")
    assert 0 < page.run(count) < 10 < everything


def test_fleet_is_read_by_keyboard(visit: Open) -> None:
    page = visit("fleet")
    say = "document.getElementById('say-fleet').textContent"
    page.tab_to("#byfaults")
    page.press(" ")
    assert page.run("document.getElementById('racks').classList.contains('byfaults')")
    page.tab_to("#racks li")
    first = page.run(say)
    assert first.startswith("k00-n00:")
    page.press("ArrowRight")
    assert page.run(say).startswith("k00-n01:")
    page.press("ArrowLeft")
    assert page.run(say) == first


def test_a_command_is_copied_by_keyboard(visit: Open) -> None:
    page = visit("gpu-off-the-bus")
    page.tab_to(".command button")
    page.press("Enter")
    page.settle()
    assert page.run("document.activeElement.textContent") == "copied"


def test_first_tab_leads_past_the_head(visit: Open) -> None:
    page = visit("gpu-off-the-bus")
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    page.press("Enter")
    assert page.run("location.hash") == "#evidence"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_follows_the_system_until_it_is_chosen(scheme: str, visit: Open) -> None:
    page = visit("gpu-off-the-bus", scheme=scheme)
    dark = "(([r]) => Number(r) < 128)(getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g))"
    assert page.run(dark) is (scheme == "dark")
    page.tab_to(".theme")
    page.press("Enter")
    assert page.run(dark) is (scheme == "light")
    page.media("light" if scheme == "dark" else "dark")
    assert page.run(dark) is (scheme == "light")
    page.press("Enter")
    assert page.run(dark) is (scheme == "dark")


LUMINANCE = r"""(() => {
  const part = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => { const [r, g, b] = rgb.match(/[0-9.]+/g).map(part); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const clear = (colour) => /^rgba.*, 0\)$/.test(colour), back = (n) => getComputedStyle(n).backgroundColor;
  const ground = (n) => (n === null ? "rgb(255,255,255)" : clear(back(n)) ? ground(n.parentElement) : back(n));
  const says = (n) => [...n.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim()) && n.getClientRects().length;
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  return [...document.querySelectorAll("main *")].filter((n) => says(n) && !n.closest("svg, .vh, .chart"))
    .map((n) => [ratio(light(getComputedStyle(n).color), light(ground(n))), n]).filter(([r]) => r < 4.5)
    .map(([r, n]) => `${r.toFixed(2)} ${n.className} ${n.textContent.slice(0, 40)}`);
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["gpu-off-the-bus", "fleet"])
def test_texts_stand_out_from_their_ground(name: str, scheme: str, visit: Open) -> None:
    page = visit(name, scheme=scheme)
    assert page.run(LUMINANCE) == []


@pytest.mark.parametrize("name", ["gpu-off-the-bus", "fleet"])
def test_prints_light_with_its_charts(name: str, visit: Open) -> None:
    page = visit(name, scheme="dark")
    paper = page.paper()
    assert paper.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", paper)) < 60
    page.media("dark", "print")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("[...document.querySelectorAll('.tools, button:not(th button)')].every((n) => getComputedStyle(n).display === 'none')")
