"""Unknown text that stands out: masks, re-reading, templates of a small job whose hosts say known things and one new one."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.engine.rows import at
from triage import reread, templates
from triage.incidents import Incident
from triage.jobs import Attempt
from triage.masking import folded, host_patterns, masked
from triage.reread import Reading
from triage.schema import TABLES
from triage.store import frame_of
from triage.templates import Span

HOSTS = [f"n-{i:02d}" for i in range(10)]


def one(line: str, *hosts: str) -> str:
    return str(pl.DataFrame({"t": [line]}).select(masked(pl.col("t"), hosts)).item())


@pytest.mark.parametrize(
    ("line", "template"),
    [
        ("2026-03-04T10:02:03.123Z took 3.5 ms", "<TIME> took <NUM> ms"),
        ("Mar  6 04:07:23 n-07 agent[88]: up", "<TIME> <HOST> agent[<NUM>]: up"),
        ("left 3:10:22, 11 of 12", "left <TIME>, <NUM> of <NUM>"),
        ("id 1b4e28ba-2fa1-11d2-883f-0016d3cca427 ok", "id <UUID> ok"),
        ("key \"a b/7\" and 'c 8' can't", "key <QUOTED> and <QUOTED> can't"),
        ("open /data/set1/part-7.bin: s3+x://b.example:9000/c?d=1", "open <PATH> <PATH>"),
        ("from 10.1.2.3:4711 via fe80::1:22 dev 0000:3b:00.0", "from <ADDRESS> via <ADDRESS> dev <ADDRESS>"),
        ("at 0x7f3c00 of 12345678 sum 9f86d081884c7d65", "at <HEX> of <NUM> sum <HEX>"),
        ("gpu7 lr 1.5e-3 mem 80GB", "gpu<NUM> lr <NUM> mem <NUM>GB"),
    ],
)
def test_what_varies_is_masked(line: str, template: str) -> None:
    assert one(line, "n-07") == template


def test_host_names_are_masked_whole() -> None:
    assert one("alpha lost alpha-2 and alphabet", "alpha", "alpha-2") == "<HOST> lost <HOST> and alphabet"
    assert host_patterns(["a", "x y", "(", ""]) == []
    assert len(host_patterns(f"host{i}" for i in range(1100))) == 3


def test_lines_that_differ_in_digits_fold_together() -> None:
    frame = pl.DataFrame({"t": ["10:02:03 n-1 id fa3b-11 took 3.5", "11:00:00 n-2 id 0c1d-92 took 12"]})
    assert frame.select(folded(pl.col("t")).n_unique()).item() == 1


def test_a_hostile_line_costs_little() -> None:
    for line in ('"' * 100_000, "/" * 100_000, "1:" * 50_000, "a'" * 50_000, "\x00\xff" * 1000):
        assert one(line[:200_000], "n-1")


def test_chunks_keep_line_numbers_and_cut_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reread, "BLOCK", 7)
    monkeypatch.setattr(reread, "LONG_LINE", 20)
    data = b"one\ntwo\n" + b"x" * 500 + b"\nfour\nlast"
    found = [(n + i, line) for n, block in reread.chunks(io.BytesIO(data)) for i, line in enumerate(block.split(b"\n")[:-1])]
    assert [n for n, _ in found] == [1, 2, 3, 4, 5]
    assert (found[0][1], found[3][1], found[4][1]) == (b"one", b"four", b"last")
    assert len(found[2][1]) < 40


Lines = dict[str, list[tuple[int, str]]]


def read(readings: list[Reading], claimed: set[tuple[str, int]] | None = None, limit: int = reread.LIMIT) -> Lines:
    found: Lines = {}
    for reading, frame in reread.unclaimed(readings, claimed or set(), limit):
        found.setdefault(reading.source_id, []).extend(frame.rows())
    return found


def test_claimed_and_blank_lines_are_left_out_wherever_the_source_lies(tmp_path: Path) -> None:
    text = b"alpha\nbeta\n\ngamma\r\nold\rnew\n\x1b[31mred\x1b[0m\n"
    text += b'{"log":"in a \\"box\\"\\n","stream":"stderr"}\n' + b"\xff\xfe\x00\n"
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(text))
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        (tmp_path / "c.log").write_bytes(text)
        archive.add(tmp_path / "c.log", "logs/c.log")
    want = [(1, "alpha"), (4, "gamma"), (5, "new"), (6, "red"), (7, 'in a "box"')]
    paths = {"gz": f"{tmp_path}/a.log.gz", "tar": f"{tmp_path}/b.tar!logs/c.log", "gone": f"{tmp_path}/gone.log", "pipe": "-"}
    found = read([Reading(s, p, "output") for s, p in paths.items()], {(s, 2) for s in paths})
    assert sorted(found) == ["gz", "tar"]
    assert found["gz"][:5] == found["tar"][:5] == want


def test_of_a_long_output_the_end_is_read(tmp_path: Path) -> None:
    (tmp_path / "small").write_text("a\nb\n")
    (tmp_path / "large").write_text("".join(f"line {i}\n" for i in range(1, 101)))
    readings = [Reading("large", f"{tmp_path}/large", "output", lines=100), Reading("small", f"{tmp_path}/small", "output", lines=2)]
    found = read(readings, limit=12)
    assert len(found["small"]) == 2
    assert found["large"][0] == (91, "line 91") and found["large"][-1] == (100, "line 100")


@pytest.mark.parametrize("form", ["2026-06-01T10:{m:02d}:00Z n1 kernel: step {m}", "Jun  1 10:{m:02d}:00 n1 kernel: step {m}\n   and more"])
def test_a_kernel_log_is_read_in_the_window(tmp_path: Path, form: str) -> None:
    (tmp_path / "k").write_text("".join(form.format(m=m) + "\n" for m in range(60)))
    reading = Reading("k", f"{tmp_path}/k", "kernel", "n1", at("10:20:00"), at("10:22:30"), at("10:00:00"), at("10:59:00"))
    found = read([reading])["k"]
    assert [t.rsplit(" ", 1)[1] for _, t in found if "step" in t] == ["20", "21", "22"]


def test_a_log_without_stamps_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("x\ny\n")
    assert len(read([Reading("k", f"{tmp_path}/k", "kernel", "n1", 1, 2)])["k"]) == 2


def test_readings_of_an_incident_and_of_its_healthy_runs() -> None:
    run = Attempt("7", name="pre", user="ann", state="FAILED", start=at("10:00:00"), end=at("11:00:00"), hosts=["n1"])
    well = Attempt("6", name="pre", user="ann", state="COMPLETED", start=at("08:00:00"), end=at("09:00:00"), hosts=["n2"])
    other = Attempt("5", name="eval", user="ann", state="COMPLETED", start=at("08:00:00"), end=at("09:00:00"), hosts=["n1"])
    incident = Incident("job-7-0", "job", at("10:50:00"), at("11:00:00"), at("09:50:00"), at("11:15:00"), run, ["n1"])

    def source(name: str, job: str | None, host: str | None, first: str, last: str) -> dict[str, Any]:
        place = {"source_id": name, "path": name, "job_id": job, "host": host, "lines": 9, "dialects": ["flight"] if name == "dump" else []}
        return place | {"first_ts": at(first), "last_ts": at(last)}

    rows = [
        source("out7", "7", None, "10:00:00", "11:00:00"), source("out6", "6", None, "08:00:00", "09:00:00"),
        source("out5", "5", None, "08:00:00", "09:00:00"), source("k1", None, "n1", "00:00:00", "23:00:00"),
        source("dump", "7", None, "10:00:00", "11:00:00"),
        source("k2", None, "n2", "00:00:00", "23:00:00"), source("old", None, "n1", "01:00:00", "02:00:00"),
    ]  # fmt: skip
    coverage = [{"source_id": s, "host": h, "family": "kernel"} for s, h in (("k1", "n1"), ("k2", "n2"), ("old", "n1"))]
    found = reread.readings(incident, [run, well, other], rows, coverage)
    assert [(r.source_id, r.kind, r.healthy) for r in found] == [
        ("out7", "output", False), ("k1", "kernel", False), ("out6", "output", True), ("k2", "kernel", True),
    ]  # fmt: skip
    assert (found[1].low, found[1].high) == (at("09:50:00"), at("11:15:00"))


def test_claimed_lines_of_events() -> None:
    rows = [{"source_id": "s", "line_first": 3, "line_last": 5}, {"source_id": "s", "line_first": 9, "line_last": None}]
    assert reread.claimed_of(rows) == {("s", 3), ("s", 4), ("s", 5), ("s", 9)}


def frame(*lines: str) -> pl.DataFrame:
    return pl.DataFrame({"line": list(range(1, len(lines) + 1)), "text": lines}, schema={"line": pl.Int64, "text": pl.String})


def kernels(count: int, extra: dict[int, list[str]]) -> list[tuple[Reading, pl.DataFrame]]:
    """Kernel logs with alike noise; `extra` lines of some of them."""
    pick = random.Random(1)
    made = []
    for number in range(count):
        noise = [f"2026-06-01T10:00:{i:02d}Z {HOSTS[number]} kernel: veth{pick.randrange(999)}: link {i} ready" for i in range(20)]
        lines = noise + [f"2026-06-01T10:01:00Z {HOSTS[number]} kernel: {line}" for line in extra.get(number, [])]
        made.append((Reading(f"k{number}", f"k{number}", "kernel", HOSTS[number], lines=len(lines)), frame(*lines)))
    return made


@pytest.mark.parametrize("count", [4, 10])
def test_a_host_that_says_what_no_peer_says(count: int) -> None:
    alone = ["acmenet 0000:3b:00.0: firmware error 17, giving up", "acmenet 0000:3b:00.0: firmware error 18, giving up"]
    rows = templates.build("i", kernels(count, {2: alone}), Span(HOSTS))
    assert [(r["template"], r["why"], r["hosts"], r["count"], r["source_id"], r["line"]) for r in rows] == [
        ("kernel: acmenet <ADDRESS>: firmware error <NUM>, giving up", ["only_here", "outlier_host"], ["n-02"], 2, "k2", 21)
    ]
    assert (rows[0]["hosts_read"], rows[0]["first"], rows[0]["example"]) == (count, at("10:01:00"), alone[0])
    assert frame_of(TABLES["templates"], rows).frame.height == 1


def test_two_hosts_have_no_peers() -> None:
    assert templates.build("i", kernels(2, {1: ["something error 5"]}), Span(HOSTS)) == []


def test_the_order_of_sources_changes_nothing() -> None:
    made = kernels(9, {2: ["link reset by peer 7 failed"], 5: ["link reset by peer 8 failed", "odd thing happened"]})
    assert templates.build("i", made, Span(HOSTS))[0]["template"] == templates.build("i", made[::-1], Span(HOSTS))[0]["template"]


def outputs(*lines: str, healthy: bool = False) -> tuple[Reading, pl.DataFrame]:
    name = "well" if healthy else "ill"
    return Reading(name, name, "output", lines=len(lines), healthy=healthy), frame(*lines)


def test_what_a_healthy_run_says_too_is_dropped() -> None:
    before = outputs("loaded shard 1 of 4", "worker 3 started anew", "store: slow answer, retry 1", healthy=True)
    now = outputs("loaded shard 3 of 4", "worker 4 vanished anew", "store: slow answer, retry 2", "loaded shard 2 of 4")
    rows = templates.build("i", [before, now])
    assert [(r["template"], r["why"], r["hosts"]) for r in rows] == [("worker <NUM> vanished anew", ["new_since_healthy"], [])]


def test_trouble_never_shares_a_template_with_calm_lines() -> None:
    calm = outputs(*[f"rank {i} of the job reached the end of its epoch and then it succeeded" for i in range(5)], healthy=True)
    rows = templates.build("i", [calm, outputs("rank 7 of the job reached the end of its epoch and then it failed")])
    assert [r["template"] for r in rows] == ["rank <NUM> of the job reached the end of its epoch and then it failed"]


def test_hosts_come_from_ranks_and_frames() -> None:
    lines = [f"[rank{r}]: loader waits for page {i}" for r in range(4) for i in range(5)] + ["[rank2]: loader gave up: cannot map page 9"]
    rows = templates.build("i", [outputs(*lines)], Span(HOSTS, {r: HOSTS[r] for r in range(4)}))
    assert [(r["hosts"], r["why"]) for r in rows] == [(["n-02"], ["only_here", "outlier_host"])]
    named = [f"{h}:77:80 [1] loader waits" for h in HOSTS[:4]] + ["n-01:77:80 [1] loader failed"]
    assert templates.build("i", [outputs(*named)], Span(HOSTS))[0]["hosts"] == ["n-01"]


def test_an_iteration_unlike_the_others() -> None:
    lines, steps = [], []
    for step in range(30):
        lines += [f"prefetch of bucket {step}", f"flush of bucket {step}"] + (["spill of cache 3 to disk"] * 4 if step == 17 else [])
        lines.append("")
        steps.append((len(lines), step))
    made = frame(*lines).filter(pl.col("text") != "")
    rows = templates.build("i", [(Reading("o", "o", "output"), made)], Span(steps={"o": steps}))
    assert [(r["template"], r["why"]) for r in rows] == [("spill of cache <NUM> to disk", ["odd_iteration"])]


def test_evidence_says_how_many_and_why() -> None:
    said = {n: [f"acme{word}: {'very ' * n}bad error {n}"] for n, word in enumerate("abcdefg")}
    rows = templates.build("i", kernels(10, said), Span(HOSTS))
    entries = templates.evidence(rows, lambda source: f"/logs/{source}")
    assert len(rows) == 7 and len(entries) == 5
    first, number = entries[0], int(entries[0]["host"][2:])
    assert first["text"].startswith("1 of 10 hosts, 1 line; no other host says it")
    assert first["text"].endswith(f": {said[number][0]}")
    assert (first["source"], first["line"], first["ts"], first["role"]) == (f"/logs/k{number}", 21, "2026-06-01T10:01:00Z", "fact")


def test_memory_is_bounded_by_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MERGE_AT", 50)
    monkeypatch.setattr(templates, "MOST_KINDS", 40)
    letters = "abcdefghijklmnopqrstuvwxyz"
    tally = templates.Tally(Span())
    for part in range(20):
        tally.add(*outputs(*[f"{letters[part]}{x} happened" for x in letters]))
    assert tally.folds().height <= 50


def test_lines_without_end_in_kinds_are_few_to_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_DRAINED", 3)
    letters = "abcdefghijklmnopqrstuvwxyz"
    calm = outputs("nothing of it", healthy=True)
    rows = templates.build("i", [calm, outputs(*[f"{x}{y} happened" for x in letters for y in letters], "zz failed")])
    assert len(rows) == 3 and rows[0]["template"] == "zz failed"


def test_nothing_in_nothing_out() -> None:
    assert templates.build("i", []) == []
    assert templates.evidence([], str) == []
