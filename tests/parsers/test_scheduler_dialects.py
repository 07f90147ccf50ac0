"""Scheduler dialects: samples, values, tables that are cut or glued, and text of any kind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import (
    inventory,
    k8s,
    k8s_json,
    sacct,
    sacctmgr,
    scontrol,
    sinfo,
    slurm_fields,
    slurm_json,
    slurmctld,
    slurmd,
    slurmstep,
    squeue,
)
from parsers.clocks import from_text, iso
from parsers.columns import align, read_header
from parsers.contract import (
    Dialect,
    Document,
    DocumentDialect,
    Event,
    HostStateRecord,
    JobRecord,
    Line,
    LineDialect,
    Record,
    Reject,
    Section,
    SectionDialect,
)
from parsers.frames import peel

SAMPLES = Path(__file__).parents[2] / "samples"
DIALECTS: dict[str, Dialect] = {
    one.name: one
    for one in (
        *(module.DIALECT for module in (slurmctld, slurmstep, slurmd, sacct, squeue, sinfo, sacctmgr)),
        *scontrol.DIALECTS,
        *k8s.DIALECTS,
        *(module.DIALECT for module in (slurm_json, k8s_json, inventory)),
    )
}
NAMES = {
    "Event": "event",
    "JobRecord": "job",
    "HostStateRecord": "host_state",
    "HostRecord": "host",
    "RankRecord": "rank",
    "Reject": "reject",
    "Benign": "benign",
}


@dataclass
class Lines:
    """A window over peeled lines."""

    lines: list[Line]
    at: int

    @property
    def line(self) -> Line:
        return self.lines[self.at]

    def after(self, limit: int) -> Iterator[Line]:
        yield from self.lines[self.at + 1 : self.at + 1 + limit]

    def before(self, limit: int) -> Iterator[Line]:
        yield from reversed(self.lines[max(0, self.at - limit) : self.at])


def read(dialect: Dialect, name: str, data: bytes) -> list[Record]:
    """The records of one dialect alone, framed as the scanner frames them."""
    if isinstance(dialect, DocumentDialect):
        return list(dialect.parse(Document(name, data))) if dialect.sniff(data[: 64 << 10]) else []
    lines = [peel(number, raw.rstrip(b"\r").decode("utf-8", "replace")) for number, raw in enumerate(data.split(b"\n"), 1)]
    return list(_lines(dialect, lines) if isinstance(dialect, LineDialect) else _sections(dialect, lines))


def _lines(dialect: LineDialect, lines: list[Line]) -> Iterator[Record]:
    for at, line in enumerate(lines):
        if any(mark in line.raw for mark in (*dialect.needles, *dialect.hints)):
            records = list(dialect.parse(Lines(lines, at)))
            if not records and any(needle in line.raw for needle in dialect.needles):
                records = [Reject(line.number, "fits no pattern")]
            yield from (framed(record, line) for record in records)


def _sections(dialect: SectionDialect, lines: list[Line]) -> Iterator[Record]:
    section: Section | None = None
    for line in lines:
        records: Iterable[Record] | None = section.feed(line) if section else None
        if records is None:
            yield from section.close() if section else ()
            section = dialect.open(line) if any(opener in line.raw for opener in dialect.openers) else None
        yield from records or ()
    yield from section.close() if section else ()


def framed(record: Record, line: Line) -> Record:
    if isinstance(record, Event):
        record.ts = line.ts if record.ts is None else record.ts
        record.host = line.host if record.host is None else record.host
    return record


def expected(path: Path) -> list[dict[str, object]]:
    return [json.loads(row) for row in path.with_name(f"{path.stem}.expected.jsonl").read_text(encoding="utf-8").splitlines()]


def samples() -> list[tuple[str, Path]]:
    found = ((name, path) for name in DIALECTS for path in sorted((SAMPLES / name).iterdir()))
    return [(name, path) for name, path in found if not path.name.endswith(".expected.jsonl")]


def of(kind: type[Record], name: str, text: str) -> list[Record]:
    return [record for record in read(DIALECTS[name], "file", text.encode()) if isinstance(record, kind)]


@pytest.mark.parametrize(("name", "path"), [pytest.param(name, path, id=f"{name}/{path.name}") for name, path in samples()])
def test_samples(name: str, path: Path) -> None:
    records = read(DIALECTS[name], path.name, path.read_bytes())
    wanted = expected(path)
    assert [NAMES[type(record).__name__] for record in records] == [row["record"] for row in wanted]
    for record, row in zip(records, wanted, strict=True):
        got = json.loads(json.dumps(asdict(record), default=str))
        assert {"record": row["record"], **{key: got[key] for key in row if key != "record"}} == row


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_hostile_and_neighbour_samples_exist(name: str) -> None:
    topics = {path.stem for path in (SAMPLES / name).iterdir()}
    assert {"hostile", "neighbour"} <= topics and len(topics) > 4


def test_neighbours_are_refused() -> None:
    refused = [path for _, path in samples() if path.stem == "neighbour"]
    assert all(not any(row["record"] != "reject" for row in expected(path)) for path in refused)


@pytest.mark.parametrize(
    ("text", "state", "by"),
    [
        ("CANCELLED by 1000", "CANCELLED", "1000"),
        ("CANCELLED+", "CANCELLED", None),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", None),
        ("NF", "NODE_FAIL", None),
        ("COMPLETI", None, None),
        ("", None, None),
        ("x", None, None),
    ],
)
def test_job_states(text: str, state: str | None, by: str | None) -> None:
    assert slurm_fields.job_state(text) == (state, by)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("DOWN*+DRAIN", "down"),
        ("IDLE+DRAIN", "drain"),
        ("drng", "drain"),
        ("idle", "idle"),
        ("idle*", "unknown"),
        ("idle~", "unknown"),
        ("mix-", "mixed"),
        ("ALLOCATED+CLOUD", "alloc"),
        ("IDLE+RESERVED", "up"),
        ("INVAL", "down"),
        ("n/a", None),
        ("two words", None),
    ],
)
def test_node_states(text: str, state: str | None) -> None:
    assert slurm_fields.node_state(text) == state


@pytest.mark.parametrize(
    ("text", "gpus"),
    [("cpu=1,gres/gpu=64,gres/gpu:h100=64", 64), ("gres/gpu:a=2,gres/gpu:b=3", 5), ("cpu=8", None), ("", None), ("gres/gpumem=5", None)],
)
def test_gpus_of_tres(text: str, gpus: int | None) -> None:
    assert slurm_fields.tres_gpus(text) == gpus


@pytest.mark.parametrize(
    ("text", "count", "model"),
    [
        ("gpu:h100:8(S:0-1)", 8, "h100"),
        ("gpu:8", 8, None),
        ("gpu:1g.10gb:7,gpu:a100:1", 8, "1g.10gb"),
        ("(null)", None, None),
        ("N/A", None, None),
    ],
)
def test_gres(text: str, count: int | None, model: str | None) -> None:
    assert slurm_fields.gres(text) == (count, model)


def test_only_the_schedulers_own_options_exclude() -> None:
    line = "sbatch -N 4 -J -x --exclusive -x plum[01-02] --exclude=plum03,plum02 --exclude plum07 run.sh -x plum09"
    assert slurm_fields.excluded(line) == ("plum01", "plum02", "plum03", "plum07")


def test_cut_host_lists_name_nobody() -> None:
    assert slurm_fields.names("plum[001-0+") == ()
    assert slurm_fields.names("plum[001-0") == ()
    assert slurm_fields.names("None assigned") == ()


@pytest.mark.parametrize("order", list(permutations(("JobID", "State", "End", "JobName"))))
@pytest.mark.parametrize("mark", ["|", ";", "\t", "^", "||"])
def test_any_columns_in_any_order(order: tuple[str, ...], mark: str) -> None:
    cells = {"JobID": "77", "State": "TIMEOUT", "End": "2026-04-02T09:08:00", "JobName": "a b"}
    for tail in ("", mark):
        (event,) = of(Event, "sacct", f"{mark.join(order)}{tail}\n{mark.join(cells[name] for name in order)}{tail}\n")
        assert isinstance(event, Event)
        assert (event.job_id, event.state, event.ts and iso(event.ts)) == ("77", "TIMEOUT", "2026-04-02T09:08:00Z")


def test_requeued_attempts_are_rows_of_their_own() -> None:
    rows = [f"9|{state}|2026-04-02T0{n}:00:00|2026-04-02T0{n}:30:00" for n, state in enumerate(("NODE_FAIL", "PREEMPTED", "COMPLETED"))]
    jobs = of(JobRecord, "sacct", "\n".join(["JobID|State|Start|End", *rows]))
    assert [(job.state, job.start) for job in jobs if isinstance(job, JobRecord)] == [
        ("NODE_FAIL", from_text("2026-04-02T00:00:00Z")[0]),  # type: ignore[index]
        ("PREEMPTED", from_text("2026-04-02T01:00:00Z")[0]),  # type: ignore[index]
        ("COMPLETED", from_text("2026-04-02T02:00:00Z")[0]),  # type: ignore[index]
    ]


def test_a_table_ends_where_another_log_begins() -> None:
    text = "JobID|State|SubmitLine\n9|FAILED|sbatch a\n[2026-04-02T08:10:03.017] sched: Allocate JobId=5 NodeList=n1 #CPUs=1\n10|FAILED|x\n"
    assert [event.job_id for event in of(Event, "sacct", text) if isinstance(event, Event)] == ["9"]


def test_one_event_for_each_host_of_a_list() -> None:
    text = "[2026-04-02T08:21:40.000] error: Nodes plum[01-03,09] not responding, setting DOWN"
    hosts = [event.host for event in of(Event, "slurmctld", text) if isinstance(event, Event)]
    assert hosts == ["plum01", "plum02", "plum03", "plum09"]
    assert len(of(HostStateRecord, "slurmctld", text)) == 4


def test_the_controller_is_not_what_a_job_event_is_about() -> None:
    (event,) = of(Event, "slurmctld", "Apr  2 08:10:03 head slurmctld[811]: Requeuing JobId=5501")
    assert isinstance(event, Event) and event.host == ""


def test_align_joins_surplus_into_free_text() -> None:
    table = read_header("JOBID NAME ST TIME", frozenset(("jobid", "name")), squeue._KINDS)
    assert table is not None
    assert table.cells("7 a b c R 1:02") == {"jobid": "7", "name": "a b c", "st": "R", "time": "1:02"}
    assert align(["a"] * 500, [None], [True], " ") is None


LITERALS = sorted(
    {
        mark
        for dialect in DIALECTS.values()
        for mark in (
            (*dialect.needles, *dialect.hints)
            if isinstance(dialect, LineDialect)
            else dialect.openers
            if isinstance(dialect, SectionDialect)
            else ()
        )
    }
    | {
        "JobID|State|End",
        "NODELIST STATE REASON",
        "JobId=1 JobName=x",
        "NodeName=n[1-3] State=DOWN CPUTot=1",
        "|",
        "[",
        "=",
        ":",
        "\n",
        " 1:2 ",
    }
)
PIECES = st.lists(st.one_of(st.sampled_from(LITERALS), st.text(max_size=12)), max_size=14).map("".join)


@given(PIECES)
def test_no_text_raises(text: str) -> None:
    for dialect in DIALECTS.values():
        read(dialect, "file", text.encode("utf-8", "surrogatepass"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "kind metadata name items status conditions spec reason jobs nodes state job_id time exit_code tres labels array".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(JSON)
def test_no_document_raises(tree: object) -> None:
    data = json.dumps(tree).encode()
    wrapped = json.dumps({"jobs": [tree], "nodes": [tree], "sinfo": [tree], "items": [tree], "kind": "List"}).encode()
    for module in (slurm_json, k8s_json):
        list(module.DIALECT.parse(Document("x", data)))
        list(module.DIALECT.parse(Document("x", wrapped)))
