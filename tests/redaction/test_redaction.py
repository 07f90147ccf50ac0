"""`--redact`: nothing private of any story is in any format; the verdict is the same; equal values have equal pseudonyms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsers.hosts import is_address
from tests.cli.conftest import Run
from triage import cli, desk, reports
from triage.collect_run import Bundle
from triage.desk import Answer, Setup
from triage.faults import Fault
from triage.private import SHAPES
from triage.redaction import KEY, KEY_FILE, Mask, Wish, wished

CASES = Path(__file__).parents[2] / "samples" / "cases"
STORIES = sorted(path for path in CASES.iterdir() if (path / "logs").is_dir())
WISH = Wish(key=b"k" * 32)
NOBODY = {"root", "slurm", "slurm(64030)", "kernel", "unknown", "(null)", "nobody", "user", ""}

# What logs hold, looked for by other means than those of the program.
LOOKS = (
    re.compile(r"\bUserId=([A-Za-z]\w*)"),
    re.compile(r"\bUser(?:name)?[=:] ?([a-z]\w+)\b"),
    re.compile(r"\buid=\d+\((\w+)\)"),
    re.compile(r"/home/([\w.-]+)"),
    re.compile(r"\b((?:[1-9]\d{0,2})(?:\.(?:0|[1-9]\d{0,2})){3})(?![\w.]*\w)"),
    re.compile(r"(?<![\w:])((?:[0-9a-f]{2}:){5}[0-9a-f]{2})(?![\w:])", re.IGNORECASE),
    re.compile(r"\b(fe80::[0-9a-f:]+|2001:[0-9a-f:]+[0-9a-f])\b", re.IGNORECASE),
    re.compile(r"\b([\w.]+@[a-z]\w*\.[a-z]\w+)\b"),
    re.compile(r"((?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+)", re.IGNORECASE),
    re.compile(r"\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b", re.IGNORECASE),
    re.compile(r"[Ss]erial [Nn]umber(?: is)?:? +(\d{6,})"),
)


def texts(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix not in (".gz", ".zst", ".bz2", ".xz", ".tar", ".pkl"):
            yield path.read_text(encoding="utf-8", errors="replace")


def _columns(text: str) -> Iterator[str]:
    """Users and serials out of tables that have a column for them."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        mark = "|" if "|" in line else "," if "," in line else None
        names = line.split(mark)
        for place, name in enumerate(names):
            if name.strip().lower() in ("user", "username", "gpu_serials"):
                for row in lines[at + 1 :]:
                    cells = row.split(mark)
                    if len(cells) == len(names):
                        yield from re.split(r"[;\s]+", cells[place].strip())


def private(folder: Path) -> set[str]:
    """Every user, address, serial and UUID of some logs."""
    found: set[str] = set()
    for text in texts(folder):
        found |= {value for look in LOOKS for value in look.findall(text)} | set(_columns(text))
    return {value for value in found if value.lower() not in NOBODY and re.search("[A-Za-z0-9]", value)}


def outputs(answer: Answer) -> dict[str, str]:
    """Every format of `now` and `report`."""
    report = answer.report()
    written = {form: reports.render(report, form) for form in reports.FORMATS}
    written["html"] = written["html"].split('<script type="application/json" id="data">')[0] + json.dumps(report)
    return written | {"text": cli._screen(answer), "now json": json.dumps(answer.shown, default=str)}


def standing(values: set[str], text: str) -> list[str]:
    return [v for v in sorted(values) if re.search(rf"(?<![A-Za-z0-9]){re.escape(v)}(?![A-Za-z0-9])", text)]


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.name)
def test_nothing_private_of_a_story_is_shown_and_the_verdict_stays(story: Path) -> None:
    answer = desk.now(Setup(hide=WISH), [str(story / "logs")], None, None, None, for_page=True)
    secret = private(story / "logs")
    for form, text in outputs(answer).items():
        assert standing(secret, text) == [], form
    kept = ("class", "symptom", "manifestation", "layer", "action", "confidence", "rule_id", "start", "end")
    assert [answer.shown["verdict"][k] for k in kept] == [answer.data["verdict"][k] for k in kept]
    for shown, found in zip(answer.shown["suspects"], answer.data["suspects"], strict=True):
        assert shown["host"] == (answer.mask.text(found["host"]) if is_address(found["host"] or "") else found["host"])
        assert [shown[k] for k in ("device", "rank", "role", "score")] == [found[k] for k in ("device", "rank", "role", "score")]


def test_the_stories_hold_something_private() -> None:
    found = {value for story in STORIES for value in private(story / "logs")}
    assert len(found) > 50
    assert any(v.startswith("GPU-") for v in found)


# kind, and a text in which all between « and » is private
SAMPLES = """
secret «AKIAIOSFODNN7EXAMPLE»
secret AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»
secret git clone failed: «ghp_16C7e42F292c6912E7710c838347Ae178B4a»
secret «github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz»
secret «glpat-Xy3_abcDEF456ghi789J»
secret «xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx»
secret POST https://hooks.slack.com/services/«T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX»
secret «hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567»
secret «sk-proj-AbCdEfGhIjKlMnOpQrStUvWx»
secret «nvapi-AbCdEfGhIjKlMnOpQrStUvWxYz»
secret «AIzaSyA1B2C3D4E5F6G7H8I9J0K1L2M3N4O5P6Q»
secret «npm_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789»
secret cookie «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p»
secret cannot reach postgres://«ann:hunter2»@db.example/x
secret Authorization: Bearer «9f86d081884c7d659a2f»
secret Proxy-Authorization: Basic «YWxpY2U6aHVudGVyMg==»
secret WANDB_API_KEY=«0a1b2c3d4e5f60718293a4b5c6d7e8f901234567»
secret "password": "«correct-horse»"
secret login --password «hunter2hunter2»
secret -----BEGIN RSA PRIVATE KEY-----«MIIEpAIBAAKCAQEA7bq1kq»-----END RSA PRIVATE KEY-----
secret «MIIEpAIBAAKCAQEA7bq1kq0PZ9XhFqkT5b3uRrJx0bKcM0m1N2o3P4q5R6s7T8u9»
addr peer «10.1.2.3»:29500 with
addr peer «fe80::ba59:9fff:fe12:3456»%ib0
addr from [«2001:db8::7»]:40000
addr hw «0c:42:a1:00:11:22» up
addr mail to «ann.b@example.com» failed
addr new port with GUID:«0x506b4b0300c2a1b4» LID range
uuid GPU at PCI:0000:3b:00: «GPU-0be1a7c4-9d66-4f2f-a1b8-6c0e32d5f811»
uuid «MIG-4f0d66b1-5a0e-5a77-9e0b-3b1c2a9e7f10»
uuid pod «7f31c0de-19a4-4b60-8e55-1b6a1521f4c0» killed
uuid _MACHINE_ID=«4f1c0d2e3b4a59687786958493a2b1c0»
serial GPU Board Serial Number: «1652922014477»
serial GPU serial number is «1653220099812».
user ssh «ann»@gpu-044
user can't open file '/home/«ann»/train.py'
user /lustre/users/«ann.b»/ckpt
user UserId=«ann»(3021) GroupId
user Started session 4 of user «ann».
user pam_unix(sshd:session): session opened for user «ann»(uid=1001)
user Accepted publickey for «ann» from
user sudo[811]:  «ann» : TTY=pts/0 ; COMMAND=/bin/ls
"""
# Nothing private, however much it looks like it.
PLAIN = """
throughput: tokens/s=12345.6, tokens: 4096, num_tokens=1024
NCCL version 2.21.5+cuda12.4
NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build
VBIOS Version 96.00.74.00.1A
NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, GPU has fallen off the bus.
04:36:25 started c10d::ProcessGroupNCCL at 12:34:56
signal by user program; the user code that was run
[PG ID 0 PG GUID 0(default_pg) Rank 7]
"""


@pytest.mark.parametrize("line", SAMPLES.strip().splitlines())
def test_each_shape_is_replaced_and_nothing_around_it(line: str) -> None:
    kind, marked = line.split(" ", 1)
    secret = re.findall(r"«(.*?)»", marked)[0]
    shown = Mask(WISH).text(marked.replace("«", "").replace("»", ""))
    before, after = re.split(r"«.*?»", marked)
    assert secret not in shown
    assert re.fullmatch(rf"{re.escape(before)}{kind}-[a-z2-7]{{8}}{re.escape(after)}", shown) or "://" in marked, shown


def test_every_shape_has_a_sample() -> None:
    lines = [line.split(" ", 1)[1].replace("«", "").replace("»", "") for line in SAMPLES.strip().splitlines()]
    bare = [shape.pattern.pattern for shape in SHAPES if not any(list(shape.spans(line)) for line in lines)]
    assert len(bare) <= 6, bare


@pytest.mark.parametrize("line", PLAIN.strip().splitlines())
def test_what_is_not_private_stays(line: str) -> None:
    assert Mask(WISH).text(line) == line


SECRETS = ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "hunter2-horse", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9")
PEOPLE = ("zoe_b", "maxw")
THINGS = ("10.77.1.9", "1652922099999", "GPU-0be1a7c4-9d66-4f2f-a1b8-6c0e32d5f8aa", "0c:42:a1:77:11:22", "carla@corp.example")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A story with something private in every place that an output takes texts from: lines, their neighbours, names, paths, reasons."""
    logs = tmp_path / "home" / "zoe_b" / "logs"
    logs.mkdir(parents=True)
    kernel = f"""\
2026-06-01T10:00:00.000000+00:00 tau-07 kernel: NVRM: GPU at PCI:0000:3b:00: {THINGS[2]}
2026-06-01T10:00:00.000000+00:00 tau-07 kernel: NVRM: GPU Board Serial Number: {THINGS[1]}
2026-06-01T10:00:01.000000+00:00 tau-07 sshd[4]: Accepted password for maxw from {THINGS[0]} port 22, password={SECRETS[1]}
2026-06-01T10:31:13.000000+00:00 tau-07 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=42, name={SECRETS[0]}, GPU has fallen off the bus.
2026-06-01T10:31:14.000000+00:00 tau-07 app[9]: {SECRETS[2]} jwt {SECRETS[3]}.eyJzdWIiOiIxMjM0In0.abc {THINGS[3]} {THINGS[4]} maxw
"""
    (logs / "tau-07.kern.log").write_text(kernel)
    (logs / "sacct.txt").write_text(
        "JobID|JobName|User|Partition|NNodes|NodeList|AllocTRES|Submit|Start|End|Elapsed|State|ExitCode|Reason\n"
        "51007|zoe_b-llama|zoe_b|train|1|tau-07|billing=96,cpu=96,gres/gpu=8,node=1|2026-06-01T09:00:00|2026-06-01T09:01:00"
        "|2026-06-01T10:32:00|01:31:00|FAILED|1:0|None\n"
    )
    (logs / "slurm-51007.out").write_text(
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/home/maxw/train.py", line 3, in <module>\n'
        f"[rank0]: RuntimeError: CUDA error: unknown error at {THINGS[0]} token={SECRETS[1]}\n"
    )
    return logs


COMMANDS = (
    "now {logs} --format text", "now {logs} --format json --explain", "now {logs} --format md", "now {logs} --format html",
    "now {logs} --format slack", "now {logs} --format ticket", "report --last --db {db} --format md",
    "report --last --db {db} --format html",
    "report --last --db {db} --format json", "incidents --db {db}", "incidents --db {db} --format json", "bursts --db {db}",
    "bursts --db {db} --format json", "lemons --db {db} --format json", "lemons --db {db}", "stats --db {db} --format json",
    "spares --db {db} --format json", "watch {logs} --for 1s", "watch {logs} --for 1s --format json",
    "collect --job 51007 --hosts tau-07 --format json", "ingest {logs} --db {new} --format json", "ingest {logs} --db {new}",
)  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_no_command_shows_what_was_planted(line: str, planted: Path, triage: Run, tmp_path: Path) -> None:
    db = tmp_path / "fleet.duckdb"
    desk.ingest(Setup(str(db)), [str(planted)])
    done = triage(*line.format(logs=planted, db=db, new=tmp_path / "new.duckdb").split(), "--redact")
    assert done.code == 0, done.err
    assert standing({*SECRETS, *PEOPLE, *THINGS}, done.out + done.err) == []
    if line.startswith(("now", "report", "bursts")):
        assert "tau-07" in done.out


def test_sql_is_redacted_too(planted: Path, triage: Run, tmp_path: Path) -> None:
    db = tmp_path / "fleet.duckdb"
    desk.ingest(Setup(str(db)), [str(planted)])
    query = "select j.user, j.name, e.message, e.attrs, e.gpu_uuid from events e left join jobs j using (job_id)"
    done = triage("sql", query, "--db", db, "--redact", "--format", "json")
    assert standing({*SECRETS, *PEOPLE, *THINGS}, done.out) == []
    assert any(row["user"] and row["user"].startswith("user-") for row in done.json)


@pytest.mark.parametrize("form", ["text", "json", "md", "html", "slack", "ticket"])
def test_hosts_and_names_of_jobs_go_where_it_is_asked(form: str, planted: Path, triage: Run) -> None:
    done = triage("now", planted, "--redact-hosts", "--format", form)
    assert done.code == 0
    assert standing({"tau-07", "llama", *PEOPLE}, done.out) == []
    assert "host-" in done.out


def test_pseudonyms_last_as_long_as_the_key(planted: Path, triage: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def seen() -> set[str]:
        return set(re.findall(r"user-[a-z2-7]{8}", triage("now", planted, "--redact", "--format", "json").out))

    first, other = seen(), seen()
    assert first and other and not first & other
    monkeypatch.setenv(KEY, "0123456789abcdef0123")
    assert seen() == seen()
    kept = seen()
    monkeypatch.delenv(KEY)
    (tmp_path / "key").write_text("0123456789abcdef0123\n")
    monkeypatch.setenv(KEY_FILE, str(tmp_path / "key"))
    assert seen() == kept


def test_a_key_that_is_none_is_refused(planted: Path, triage: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "short")
    done = triage("now", planted, "--redact")
    assert (done.code, done.out) == (2, "")
    assert "at least 16 characters" in done.err
    monkeypatch.setenv(KEY_FILE, "/no/such/file")
    assert triage("now", planted, "--redact").code == 2
    with pytest.raises(Fault):
        wished(True, False, {KEY: ""})


def test_equal_values_of_one_kind_are_one_person() -> None:
    mask = Mask(WISH, {"zoe_b": "user"})
    assert mask.value({"user": "zoe_b", "text": "job of zoe_b", "state": "zoe_b"})["user"] in mask.text("job of zoe_b")
    assert mask.text("zoe_bert and xzoe_b stay") == "zoe_bert and xzoe_b stay"
    assert mask.original(mask.pseudonym("user", "zoe_b")) == "zoe_b"


def test_host_lists_and_domains_go_with_the_hosts() -> None:
    mask = Mask(Wish(hosts=True, key=b"k" * 32), {"gpu-001": "host", "gpu-002": "host"})
    assert "gpu" not in mask.text("gpu-[001-002] not responding; gpu-001.cluster.example gpu-002")
    assert "example" not in mask.text("gpu-001.cluster.example.com down")
    assert mask.text("gpu-001.kern.log").endswith(".kern.log")


def test_our_own_words_stay_even_where_a_user_bears_one() -> None:
    mask = Mask(WISH, {"gpu": "user", "root": "user"})
    assert mask.value({"layer": "gpu", "role": "root", "why": "gpu lost"}) == {
        "layer": "gpu", "role": "root", "why": f"{mask.pseudonym('user', 'gpu')} lost",
    }  # fmt: skip


def test_a_long_line_is_read_once() -> None:
    for unit in ("a", "a-", "a.", "x@", "token=", "1:", "10.", "-----BEGIN PRIVATE KEY-----", "eyJ", "/home/"):
        assert Mask(WISH, {"zz": "user"}).text(unit * (200_000 // len(unit)))


def test_a_bundle_is_written_anew_with_its_manifest(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path / "bundle")
    bundle.create()
    (bundle.logs / "sacct.txt").write_text("51007|zoe_b|10.1.2.3\n")
    (bundle.logs / "core").write_bytes(b"zoe_b\0\1")
    bundle.rows = [
        {"file": f"logs/{name}", "argv": ["sacct", "-u", "zoe_b"], "host": None, "why": "x", "bytes": 9, "blake3": ""}
        for name in ("sacct.txt", "core")
    ]
    bundle.redact(Mask(WISH, {"zoe_b": "user"}))
    bundle.write({"job": "51007"})
    written = "".join(path.read_text() for path in bundle.folder.rglob("*") if path.is_file())
    assert re.search(r"51007\|user-[a-z2-7]{8}\|addr-[a-z2-7]{8}\n", written)
    assert standing({"zoe_b", "10.1.2.3"}, written) == []
    assert [row["bytes"] for row in bundle.rows] == [(bundle.logs / "sacct.txt").stat().st_size, 0]
