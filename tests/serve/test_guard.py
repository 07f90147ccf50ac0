"""Whom the site answers: names, tokens, methods, headers; and that nothing is written, logged or left locked."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.serve.conftest import TOKEN, Visit, seed
from triage.faults import Fault
from triage.rulebook import Rulebook
from triage.serve.guard import HEADERS, Door, Names
from triage.serve.reader import HOLD_S, Reader
from triage.serve.server import bound, names_of, run, token_of
from triage.store import Store

ROOT = Path(__file__).parents[2]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("host", ["localhost", "localhost:8799", "127.0.0.1:1", "127.9.9.9", "[::1]:8799", "LOCALHOST.", "mine.example:80"])
def test_our_names_are_answered(small: Path, visit: Visit, host: str) -> None:
    assert visit(small, names=Names(frozenset({"mine.example"}))).get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "10.1.2.3", "[::2]", "evil.example:8799", "0"]
)
def test_other_names_are_not(small: Path, visit: Visit, host: str) -> None:
    answer = visit(small).get("/hosts", headers={"host": host})
    assert answer.status_code == 421
    assert "tau" not in answer.text and answer.text.count("\n") == 1


def test_beyond_loopback_addresses_are_taken_and_names_are_not() -> None:
    names = names_of("0.0.0.0", ["triage.example"])
    assert names.known("10.1.2.3:8799") and names.known("triage.example") and not names.known("evil.example")


def test_every_answer_carries_the_headers(small: Path, visit: Visit) -> None:
    client = visit(small)
    for path in ("/", "/nothing", "/hosts?x=1", "/static/site.css"):
        answer = client.get(path)
        assert set(map(str.lower, HEADERS)) <= set(answer.headers), path
        assert (
            "default-src 'none'" in answer.headers["content-security-policy"] and "script" not in answer.headers["content-security-policy"]
        )
    assert "server" not in client.get("/").headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_nothing_can_be_written(small: Path, visit: Visit, method: str) -> None:
    before = digest(small)
    client = visit(small)
    for path in ("/", "/hosts/tau-07", "/jobs", "/sign-in", "/static/site.css"):
        assert client.request(method, path, content=b"x").status_code == 405
    assert digest(small) == before


def test_visits_leave_the_database_as_it_was(tmp_path: Path, book: Rulebook, visit: Visit) -> None:
    db = seed(tmp_path, book)
    before, files = digest(db), sorted(os.listdir(tmp_path))
    db.chmod(0o444)
    client = visit(db)
    for path in ("/", "/incidents", "/hosts/tau-07", "/search?q=tau"):
        assert client.get(path).status_code == 200
    assert digest(db) == before and sorted(os.listdir(tmp_path)) == files


def test_statements_cannot_write(small: Path, book: Rulebook) -> None:
    reader = Reader(str(small), book)
    with reader.visit() as store, pytest.raises(Exception, match="read-only"):
        store.set_meta("built", "never")
    reader.close()


def test_without_the_token_nothing_is_shown(small: Path, visit: Visit) -> None:
    client = visit(small, token=TOKEN)
    for path in ("/", "/hosts/tau-07", "/reports/x", "/nothing"):
        answer = client.get(path)
        assert answer.status_code == 401 and "tau-07" not in answer.text.replace(f'value="{path}"', "")
    wrong = [
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer",
        "Bearer  ",
        "Basic !!!",
        "Basic " + b64encode(b"nocolon").decode(),
        TOKEN,
        "Bearer \xff",
    ]
    for header in wrong:
        assert client.get("/", headers={b"authorization": header.encode("latin-1")}).status_code == 401, header
    for cookie in (f"triage={TOKEN}", "triage=", 'triage="\\', "a=b; triage=" + "0" * 64):
        assert client.get("/", headers={"cookie": cookie}).status_code == 401, cookie


def test_the_token_opens_by_header_and_by_cookie(small: Path, visit: Visit) -> None:
    client = visit(small, token=TOKEN)
    assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/", headers={"authorization": "Basic " + b64encode(f"me:{TOKEN}".encode()).decode()}).status_code == 200
    assert client.post("/sign-in", data={"token": "wrong", "wanted": "/hosts"}).status_code == 401
    answer = client.post("/sign-in", data={"token": TOKEN, "wanted": "/hosts?rack=r1"})
    assert answer.status_code == 303 and answer.headers["location"] == "/hosts?rack=r1"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=lax" in cookie.lower() and TOKEN not in cookie
    assert client.get("/hosts/tau-07").status_code == 200


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/a\r\nset-cookie: x=y", ""])
def test_signing_in_leads_nowhere_else(small: Path, visit: Visit, wanted: str) -> None:
    answer = visit(small, token=TOKEN).post("/sign-in", data={"token": TOKEN, "wanted": wanted})
    assert answer.status_code == 303 and answer.headers["location"] == "/"


def test_a_long_form_is_not_read(small: Path, visit: Visit) -> None:
    assert visit(small, token=TOKEN).post("/sign-in", content=b"token=" + b"x" * 100_000).status_code == 400


def test_cookies_end_with_the_process() -> None:
    assert Door(TOKEN).cookie != Door(TOKEN).cookie


def test_token_files(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(Fault, match="cannot be read"):
        token_of(str(path))
    for text in ("", "short", "has spaces in the token itself", "ünïcödé-ünïcödé-ünïcödé"):
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        with pytest.raises(Fault, match="no token"):
            token_of(str(path))
    path.write_text(TOKEN + "\n", encoding="utf-8")
    path.chmod(0o622)
    with pytest.raises(Fault, match="changed by others"):
        token_of(str(path))
    path.chmod(0o600)
    assert token_of(str(path)) == TOKEN


def test_an_address_for_others_needs_a_token(small: Path, book: Rulebook) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "host.example"):
        with pytest.raises(Fault, match="token"):
            run(str(small), book, host, 0, None)


def test_a_taken_port_is_one_line() -> None:
    first = bound("127.0.0.1", 0)
    try:
        with pytest.raises(Fault, match="cannot be bound"):
            bound("127.0.0.1", first.getsockname()[1])
    finally:
        first.close()


def test_a_missing_extra_is_one_line(small: Path, book: Rulebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(Fault, match=r"gpu-triage\[serve\]"):
        run(str(small), book, "127.0.0.1", 0, None)


def test_a_failing_page_shows_no_traceback(tmp_path: Path, book: Rulebook, visit: Visit) -> None:
    db = seed(tmp_path, book)
    client = visit(db)
    db.unlink()
    time.sleep(2 * HOLD_S)
    answer = client.get("/")
    assert answer.status_code == 503 and "Traceback" not in answer.text
    assert len(re.findall(r'role="alert">[^<\n]+<', answer.text)) == 1


def test_a_fault_of_ours_is_one_line_too(
    small: Path, book: Rulebook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], visit: Visit
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret of the log")

    monkeypatch.setattr(Reader, "rows", broken)
    answer = visit(small).get("/hosts")
    assert answer.status_code == 500 and "secret" not in answer.text and 'role="alert"' in answer.text
    assert set(map(str.lower, HEADERS)) <= set(answer.headers)
    assert capsys.readouterr().err == "triage serve: a page failed: RuntimeError\n"


def test_a_stale_analysis_is_said(tmp_path: Path, book: Rulebook, visit: Visit) -> None:
    db = seed(tmp_path, book)
    client = visit(db)
    assert "triage incidents --db" not in client.get("/").text
    time.sleep(2 * HOLD_S)
    with Store(str(db)) as store:
        store.set_meta("built", "by other rules")
    assert "triage incidents --db" in client.get("/").text


def test_the_process_serves_logs_nothing_and_lets_ingest_in(tmp_path: Path, book: Rulebook) -> None:
    db = seed(tmp_path, book)
    token = tmp_path / "token"
    token.write_text(TOKEN, encoding="utf-8")
    token.chmod(0o600)
    program = "from triage.cli import app_main; app_main()"
    command = [sys.executable, "-c", program, "serve", "--db", str(db), "--port", "0", "--token-file", str(token)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        assert visited(address + "hosts/tau-07") == 200
        time.sleep(2 * HOLD_S)
        with Store(str(db)) as store:  # the lock of the visit is gone
            assert visited(address) == 503
            assert store.meta("schema")
        assert visited(address) == 200
    finally:
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert (out, errors) == ("", "")


def visited(address: str) -> int:
    """The status of a visit with the token."""
    from urllib.error import HTTPError
    from urllib.request import Request

    try:
        with urlopen(Request(address, headers={"Authorization": f"Bearer {TOKEN}"}), timeout=20) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
