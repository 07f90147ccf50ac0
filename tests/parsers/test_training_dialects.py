"""Training dialects: samples, shared grammar of groups and names, dumps that must not be loaded, text of any kind."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import c10d, exceptions, flight, nccl, stacks, torchrun, train
from parsers.contract import Dialect, Document, DocumentDialect, Event, Line, LineDialect, Record, Reject, Section, SectionDialect
from parsers.frames import peel

SAMPLES = Path(__file__).parents[2] / "samples"
DIALECTS: dict[str, Dialect] = {
    one.name: one
    for one in (nccl.DIALECT, c10d.DIALECT, *torchrun.DIALECTS, exceptions.DIALECT, train.DIALECT, flight.DIALECT, *stacks.DIALECTS)
}
NAMES = {"Event": "event", "RankRecord": "rank", "Reject": "reject", "Benign": "benign"}


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


def peeled(data: bytes) -> list[Line]:
    return [peel(number, raw.decode("utf-8", "replace")) for number, raw in enumerate(data.split(b"\n"), 1)]


def read(dialect: Dialect, name: str, data: bytes) -> list[Record]:
    """The records of one dialect alone; rank and host of an event come from its line where they are empty."""
    if isinstance(dialect, DocumentDialect):
        return list(dialect.parse(Document(name, data))) if dialect.sniff(data[: 64 << 10]) else []
    lines = peeled(data)
    return list(_lines(dialect, lines) if isinstance(dialect, LineDialect) else _sections(dialect, lines))


def _lines(dialect: LineDialect, lines: list[Line]) -> Iterator[Record]:
    for at, line in enumerate(lines):
        if any(mark in line.raw for mark in (*dialect.needles, *dialect.hints)):
            for record in dialect.parse(Lines(lines, at)):
                if isinstance(record, Event):
                    record.rank = line.rank if record.rank is None else record.rank
                    record.host = record.host or line.host
                yield record


def _sections(dialect: SectionDialect, lines: list[Line]) -> Iterator[Record]:
    section: Section | None = None
    for line in lines:
        records: Iterable[Record] | None = section.feed(line) if section else None
        yield from records or ()
        if records is None:
            section = dialect.open(line) if any(opener in line.raw for opener in dialect.openers) else None


def samples() -> Iterator[tuple[str, Path]]:
    for name in DIALECTS:
        for path in sorted((SAMPLES / name).iterdir()):
            if not path.name.endswith(".expected.jsonl"):
                yield name, path


def expected(path: Path) -> list[dict[str, object]]:
    beside = (path.with_name(f"{stem}.expected.jsonl") for stem in (path.name, path.stem))
    rows = next(candidate for candidate in beside if candidate.exists())
    return [json.loads(row) for row in rows.read_text().splitlines()]


@pytest.mark.parametrize(("name", "path"), [pytest.param(name, path, id=f"{name}/{path.name}") for name, path in samples()])
def test_samples(name: str, path: Path) -> None:
    records = read(DIALECTS[name], path.name, path.read_bytes())
    wanted = expected(path)
    assert [NAMES[type(record).__name__] for record in records] == [row["record"] for row in wanted]
    for record, row in zip(records, wanted, strict=True):
        got = asdict(record)
        assert {key: got[key] for key in row if key != "record"} == {key: value for key, value in row.items() if key != "record"}


def events(name: str, topic: str) -> list[Event]:
    path = SAMPLES / name / topic
    return [record for record in read(DIALECTS[name], path.name, path.read_bytes()) if isinstance(record, Event)]


def test_a_traceback_tells_the_users_frame() -> None:
    frames = [event.attrs.get("frame") for event in events("exceptions", "user.log")]
    assert frames[:2] == ["/srv/job/metrics.py:41", "/srv/job/data.py:9"]  # two ranks, interleaved
    assert events("exceptions", "faults.log")[0].attrs["frame"] == "/srv/job/pretrain.py:212"  # not the library's


def test_desync_ranks() -> None:
    assert [event.attrs["ranks"] for event in events("c10d", "desync.log")] == [[0, 2], [1], [5, 6], [1, 0], [3, 4], [5]]


def test_first_observed_is_only_a_remark() -> None:
    marked = [event.rank for event in events("torchrun", "block.log") if event.severity == "first_observed"]
    assert marked == [10]


def test_pickle_and_twin_tell_the_same() -> None:
    folder = SAMPLES / "flight"
    pair = [flight.parse(Document(name, (folder / name).read_bytes())) for name in ("h100-c04_rank_2", "h100-c04_rank_2.json")]
    assert list(pair[0]) == list(pair[1])


@pytest.mark.parametrize(
    ("name", "rank", "host"),
    [
        ("_dump_9", 9, None),
        ("rank_3", 3, None),
        ("b300-17_rank_3", 3, "b300-17"),
        ("nccl_trace_rank_3.pkl", 3, None),
        ("nccl_trace_b300-17_3", 3, "b300-17"),
        ("ip-10-2-4-77_rank_5.json", 5, "ip-10-2-4-77"),
        ("notes", None, None),
    ],
)
def test_names_of_dumps(name: str, rank: int | None, host: str | None) -> None:
    assert flight.named(name) == (rank, host)


def test_rank_from_the_groups() -> None:
    dump = {"pg_config": {"0": {"ranks": "[0, 1, 2]"}, "1": {"ranks": [2]}}, "entries": []}
    first = next(iter(flight.parse(Document("unnamed", json.dumps(dump).encode()))))
    assert isinstance(first, Event) and first.rank == 2


class Caller:
    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("a dump was executed",))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_no_dump_is_executed(protocol: int) -> None:
    data = pickle.dumps({"pg_config": {}, "entries": [Caller()]}, protocol=protocol)
    assert flight.sniff(data)
    (record,) = flight.parse(Document("rank_0", data))
    assert isinstance(record, Reject) and "load or call" in record.reason


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 80), 1 << 80) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(plain, st.integers(2, 5))
def test_reader_agrees_with_pickle(value: object, protocol: int) -> None:
    assert flight.Reader(pickle.dumps(value, protocol=protocol)).load() == value


@given(st.binary(max_size=200))
def test_any_bytes_as_a_dump(data: bytes) -> None:
    (record,) = flight.parse(Document("rank_0", b"\x80\x02" + data))
    assert isinstance(record, Reject)


keys = st.sampled_from(["entries", "pg_config", "pg_status", "version", "rank", "host", "hostname"])
fields = st.dictionaries(keys, st.lists(plain, max_size=3) | plain, max_size=7)


@given(fields)
def test_any_json_as_a_dump(whole: dict[str, object]) -> None:
    assert list(flight.parse(Document("rank_0", json.dumps(whole).encode())))


MARKS = sorted({mark for one in DIALECTS.values() if isinstance(one, LineDialect) for mark in (*one.needles, *one.hints)})
pieces = st.sampled_from([*MARKS, "[rank3]:", "rank 1 ", "nan", "0x1", "<1>", "[1, 2]", ": ", "| ", "=", " ", "9" * 30, "\ud800", "é"])


@given(st.lists(st.lists(pieces | st.text(max_size=6), max_size=9).map("".join), min_size=1, max_size=4))
def test_any_text(texts: list[str]) -> None:
    lines = [Line(number, text, text) for number, text in enumerate(texts, 1)]
    for dialect in DIALECTS.values():
        if isinstance(dialect, LineDialect):
            for at in range(len(lines)):
                list(dialect.parse(Lines(lines, at)))
        elif isinstance(dialect, SectionDialect):
            list(_sections(dialect, lines))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CUDA error: an illegal memory access was encountered", "torch.cuda_fault"),
        ("CUDA error: uncorrectable ECC error encountered", "torch.cuda_ecc"),
        ("NCCL error in: NCCLUtils.hpp:268, internal error, NCCL version 2.19.3", "nccl.system_error"),
        ("HTTPSConnectionPool(host='hub', port=443): Connection refused", None),
        ("Function 'MulBackward0' returned nan values in its 0th output.", "train.nan"),
        ("No CUDA GPUs are available", "torch.exception"),
        ("must be real number, not dict", None),
    ],
)
def test_error_texts(text: str, code: str | None) -> None:
    reading = exceptions.classify(text)
    assert (reading.code if reading else None) == code


def test_watchdog_and_recorder_name_a_group_alike() -> None:
    told = {event.grp for event in events("c10d", "heartbeat.log")}
    recorded = {event.grp for event in events("flight", "nccl_trace_rank_3.pkl") if event.grp and event.code != "flight.group"}
    assert told == recorded == {"0:default_pg"}
