"""Every page of `triage serve`: it answers, shows what the tables hold, and never takes a text of a log for markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.serve.conftest import EVIL, Visit, seed
from triage.answers import Question, answer
from triage.moments import moment, parse_time
from triage.pipeline import judge, load
from triage.rulebook import Rulebook
from triage.serve.app import LISTS
from triage.serve.view import NAV, bars, lanes, link
from triage.store import Store

MOST_PAGES = 300
WHEN = moment(parse_time("2026-04-02T11:00:00Z"))


class Tags(HTMLParser):
    """Tags and attributes of a page, as a browser would read them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def tags(text: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(text)
    return parser.seen


def inside(text: str) -> list[str]:
    """Addresses of this site that a page links to."""
    return [unescape(found) for found in re.findall(r'href="(/[^"]*)"', text) if not found.startswith("/static")]


def crawl(client: TestClient) -> Iterator[tuple[str, str]]:
    """Every page that can be reached by links, its address and text."""
    seen: set[str] = set()
    open_pages = ["/", "/search?q=tau"]
    while open_pages and len(seen) < MOST_PAGES:
        address = open_pages.pop(0)
        if address in seen:
            continue
        seen.add(address)
        answered = client.get(address)
        assert answered.status_code == 200, f"{address}: {answered.status_code} {answered.text[:400]}"
        yield address, answered.text
        open_pages += [] if address.startswith("/reports/") else inside(answered.text)


def test_every_page_is_reached_by_links_and_answers(small: Path, visit: Visit) -> None:
    pages = dict(crawl(visit(small)))
    kinds = {address.split("?")[0].split("/")[1] for address in pages}
    assert kinds == {"", "incidents", "reports", "hosts", "lemons", "jobs", "bursts", "codes", "sources", "search"}
    for text in pages.values():
        assert "<script>alert" not in text
    for address, text in pages.items():
        if not address.startswith("/reports/"):
            assert [tag for tag, _ in tags(text) if tag in ("script", "style", "iframe", "object", "embed", "img")] == []
            assert [a for _, a in tags(text) if any(name.startswith("on") or name == "style" for name in a)] == []


def test_every_list_is_in_the_menu_but_the_search() -> None:
    assert {path for path, _ in NAV} == set(LISTS) - {"/search"}


def test_the_host_page_tells_its_story(small: Path, visit: Visit) -> None:
    text = visit(small).get("/hosts/tau-07").text
    assert "xid.79" in text and "0000:3b:00" in text and "51007" in text
    assert "&lt;script&gt;alert" in text


def test_the_job_page_shows_attempt_and_hosts(small: Path, visit: Visit) -> None:
    text = visit(small).get("/jobs/51007").text
    assert "FAILED" in text and 'href="/hosts/tau-08"' in text and 'href="/hosts/tau-07"' in text


def test_the_incident_page_agrees_with_the_report(small: Path, visit: Visit) -> None:
    client = visit(small)
    address = next(a for a in inside(client.get("/incidents").text) if a.startswith("/incidents/"))
    page, report = client.get(address), client.get(address.replace("/incidents/", "/reports/", 1))
    title = re.findall(r"<h1>(.*?)</h1>", page.text)[0]
    assert title in report.text and "isolate now" in page.text
    policy = report.headers["content-security-policy"]
    assert "'sha256-" in policy and "script-src 'unsafe-inline'" not in policy and "frame-ancestors 'none'" in policy
    assert "the file was not read again" in report.text


def test_the_incident_page_offers_the_commands_of_the_answer(small: Path, visit: Visit, book: Rulebook) -> None:
    client = visit(small)
    with Store(str(small), write=False) as store:
        history = load(store, book)
    analysis = judge(history, book)
    for decision in analysis.decisions:
        text = client.get(link("incidents", decision.finding.incident.incident_id)).text
        wanted = [c["command"] for c in answer(analysis, book, Question(), 0, chosen=decision)["commands"]]
        assert [unescape(c) for c in re.findall(r'<pre class="said">(.*?)</pre>', text)] == wanted


def test_search_finds_hosts_jobs_codes_and_incidents(small: Path, visit: Visit) -> None:
    client = visit(small)
    assert 'href="/hosts/tau-08"' in client.get("/search?q=TAU").text
    assert 'href="/jobs/51007"' in client.get("/search?q=51007").text
    assert 'href="/codes/xid.79"' in client.get("/search?q=79").text
    assert "Nothing in this database" in client.get("/search?q=no%25such_thing").text
    assert "Nothing in this database" in client.get("/search", params={"q": "' OR 1=1 --"}).text


def test_lists_go_on_where_they_stopped(small: Path, visit: Visit) -> None:
    client = visit(small)
    for path in ("/hosts", "/jobs", "/bursts", "/codes", "/sources"):
        whole = client.get(f"{path}?rows=200").text
        kind = path if path != "/sources" else "/static"
        names = [a for a in inside(whole.split("<main", 1)[1]) if a.startswith(f"{kind}/")]
        found, address = [], f"{path}?rows=1"
        for _ in range(50):
            text = client.get(address).text
            found += [a for a in inside(text.split("<main", 1)[1]) if a.startswith(f"{kind}/")]
            following = re.search(r'rel="next" href="([^"]*)"', text)
            if following is None:
                break
            address = unescape(following[1])
        assert found == names


@pytest.mark.parametrize(
    "path", ["/nothing", "/hosts/nobody", "/jobs/0", "/incidents/none", "/bursts/none", "/codes/none", "/reports/none", "/static/x"]
)
def test_what_is_not_there_is_a_page_with_a_way_back(small: Path, visit: Visit, path: str) -> None:
    answered = visit(small).get(path)
    assert answered.status_code == 404
    assert len(re.findall(r'role="alert">[^<\n]+<', answered.text)) == 1 and 'href="/"' in answered.text


@pytest.mark.parametrize(
    "address",
    [
        "/hosts?rows=0", "/hosts?rows=201", "/hosts?rows=x", "/hosts?rows=%D9%A3", "/hosts?rows=",
        "/hosts?colour=red", "/hosts?rack=a&rack=b",
        "/jobs?after=nonsense", "/jobs?after=2026-01-01T00:00:00Z", "/jobs?after=99999-01-01~x",
        "/bursts?after=0001-01-01T00:00:00%2B23:00~x",
        "/lemons?lemon=maybe", "/lemons?after=x", "/search?q=" + "x" * 4097, "/search?q=%00", "/hosts/tau-07?x=1", "/incidents?host=a%00b",
    ],
)  # fmt: skip
def test_a_bad_parameter_is_one_line(small: Path, visit: Visit, address: str) -> None:
    answered = visit(small).get(address)
    assert answered.status_code == 400
    assert len(re.findall(r'role="alert">[^<\n]+<', answered.text)) == 1


@pytest.mark.parametrize(
    "text", ["%ff", "%F0%9F%98%80", "%E2%80%AE", "..%2F..%2Fetc", "%27%3B%20DROP%20TABLE%20jobs", "$host", "%25s%25n", "{{7*7}}"]
)
def test_odd_names_are_only_names(small: Path, visit: Visit, text: str) -> None:
    client = visit(small)
    assert client.get(f"/search?q={text}").status_code == 200
    assert client.get(f"/jobs?host={text}").status_code == 200
    assert client.get(f"/hosts/{text}").status_code == 404


HOSTILE = [
    EVIL, "<img src=x onerror=alert(1)>", "a/b?c#d&e=f", '"><svg onload=alert(1)>', "javascript:alert(1)", "\u202egnp.exe",
    "{{7*7}}{% raw %}",
    "=HYPERLINK(1)", "n\u0007\u001b[31m", "日本", "' OR 1=1 --", "100% sure", "x" * 3000,
]  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path, book: Rulebook) -> Path:
    """Every text column of the tables that pages read holds something that wants to be markup."""
    db = seed(tmp_path, book)
    with Store(str(db)) as store:
        for n, evil in enumerate(HOSTILE):
            texts = dict.fromkeys(("state", "reason", "user"), evil)
            owner = {"job_id": evil, "attempt": 0}
            store.add("hosts", [{"host": evil, "rack": evil, "leaf": evil, "ip": evil, "gpu_model": evil, "topology_from": "csv"}])
            store.add("host_states", [{"host": evil, "start": WHEN, **texts}])
            store.add("jobs", [{**owner, "start": WHEN, "name": evil, "failed_host": evil, "preemptor": evil, "partition": evil, **texts}])
            store.add("job_hosts", [{**owner, "host": evil}])
            store.add("sources", [{"source_id": f"s{n}", "path": evil, "host": evil, "clock": evil}])
            burst = {
                "burst_id": evil,
                "host": evil,
                "device": evil,
                "code": evil,
                "role": evil,
                "message": evil,
                "source_id": f"s{n}",
                "line": 1,
            }
            store.add(
                "bursts", [burst | {"first": WHEN, "last": WHEN, "count": 1, "job_id": evil, "attempt": 0, "class": evil, "peer": evil}]
            )
            words = dict.fromkeys(("class", "layer", "action", "confidence", "rule_id", "summary", "manifestation"), evil)
            store.add("incidents", [{"incident_id": evil, "hosts": [evil], "jobs": [evil], **owner, "start": WHEN, **words}])
            store.add("incident_bursts", [{"incident_id": evil, "burst_id": evil, "role": evil}])
            store.add("findings", [{"incident_id": evil, "place": 1, "host": evil, "role": "suspect", "why": evil, "device": evil}])
            store.add("findings", [{"incident_id": evil, "place": 2, "host": evil, "role": "victim", "why": evil}])
            store.add("decisions", [{"incident_id": evil, "rule_id": evil, "reason": evil}])
            store.add("spares", [{"incident_id": evil, "place": 1, "host": evil, "why": evil}])
            store.add("recurrence", [{"place": 900 + n, "host": evil, "score": 1.0, "lemon": True, "next": evil, "why": [evil, evil]}])
    return db


def test_hostile_texts_are_shown_as_text(hostile: Path, visit: Visit) -> None:
    client = visit(hostile)
    addresses = [*LISTS, *(link(kind, evil) for evil in HOSTILE for kind in ("incidents", "hosts", "jobs", "bursts", "codes"))]
    addresses += [link("reports", evil) for evil in HOSTILE]
    calm = {tag for tag, _ in tags(client.get("/hosts/tau-07").text)} | {
        "section",
        "details",
        "summary",
        "select",
        "option",
        "ul",
        "li",
        "code",
    }
    for address in addresses:
        answered = client.get(address)
        is_report = address.startswith("/reports/")
        assert answered.status_code == (404 if is_report or (address.startswith("/codes/x") and len(address) < 20) else 200), address
        found = tags(answered.text)
        assert {tag for tag, _ in found} <= calm | {"figure", "svg", "circle", "g", "text", "a", "pre", "nav"}, address
        assert not any(name.startswith("on") for _, attributes in found for name in attributes), address
        assert all((a.get("href") or "/").startswith(("/", "#content")) and not (a.get("href") or "").startswith("//") for _, a in found), (
            address
        )
        assert "\x1b" not in answered.text and "\u202e" not in answered.text and ">49" not in answered.text


def test_links_of_hostile_names_lead_to_their_pages(hostile: Path, visit: Visit) -> None:
    client = visit(hostile)
    for address in inside(client.get("/hosts?rows=200").text):
        assert client.get(address).status_code == 200, address


def test_drawings_of_nothing_are_none() -> None:
    assert bars([], None) is None
    assert bars([], WHEN) is None
    assert lanes([], None, None) is None
    one = {"host": "a", "first": WHEN, "part": "root", "code": "xid.79", "burst_id": "b"}
    assert lanes([one], WHEN, WHEN) is None
    drawn = lanes([one, {**one, "host": None, "part": "odd"}], None, None)
    assert drawn is not None and [lane["host"] for lane in drawn["lanes"]] == ["a", "no host"]
