"""Frames: samples with the fields expected of each line, glued records, hostile text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import clocks
from parsers.frames import peel, peel_all

SAMPLES = Path(__file__).parents[2] / "samples" / "frames"
ROWS = [
    pytest.param(path.with_name(path.name.replace(".peeled.jsonl", ".log")), json.loads(row), id=f"{path.stem}:{n}")
    for path in sorted(SAMPLES.glob("*.peeled.jsonl"))
    for n, row in enumerate(path.read_text().splitlines(), 1)
]
# What frames are made of, so that random text reaches the deep branches.
PIECES = st.sampled_from(
    [
        "[",
        "]",
        "{",
        "}",
        '"',
        ":",
        " ",
        "<14>",
        "\x1b[31m",
        "\r",
        "\0",
        "Mar  6 04:07:23 ",
        "2025-01-01T00:00:00Z ",
        "[ 12.345678] ",
        "n1 ",
        "kernel: ",
        '{"log":"',
        '"}',
        '{"MESSAGE":',
        "[rank3]:",
        "3: ",
        "[0] ",
        "(a pid=3) ",
        "1 ",
        "- ",
        "x[3]: ",
        "6,1,2,-;",
        "Feb 30 00:00:00 ",
        "[1739288589.1,{",
        "²",
    ]
)


@pytest.mark.parametrize(("path", "row"), ROWS)
def test_sample_lines(path: Path, row: dict[str, object]) -> None:
    raw = path.read_text().splitlines()[int(str(row["line"])) - 1]
    line = peel(1, raw)
    seen = {key: getattr(line, key) for key in row if key != "line"}
    if isinstance(seen.get("ts"), int):
        seen["ts"] = clocks.iso(line.ts or 0)
    assert seen == {key: value for key, value in row.items() if key != "line"}
    assert line.raw == raw


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[31mred\x1b[0m alert", "red alert"),
        ("\x1b]0;title\x07plain", "plain"),
        ("10%\r20%\r[rank1]: CUDA error\r", "CUDA error"),
        ("a\0b\x07c\ttab", "abc\ttab"),
        ("\r\r\r", ""),
        ("", ""),
        ("just words", "just words"),
    ],
)
def test_control_characters_go(raw: str, text: str) -> None:
    assert peel(1, raw).text == text


def test_glued_records_come_apart() -> None:
    raw = "<14>Mar  6 04:07:23 n1 app[3]: one<30>Mar  6 04:07:24 n2 app[4]: two <3> units<14>2025-03-06T04:07:25.000001+00:00 n3 app: three"
    lines = peel_all(7, raw)
    assert [(x.number, x.host, x.text) for x in lines] == [(7, "n1", "one"), (7, "n2", "two <3> units"), (7, "n3", "app: three")]


def test_ranks_that_wrote_at_once_come_apart() -> None:
    raw = " 2%|x | 1/9 [00:01<00:09, 1.0s/it][rank0]:[E402 08:21:40.664 P.cpp:607] one."
    raw += "[rank1]:[E402 08:21:40.665 P.cpp:607] two [rank2]: three"
    assert [(x.number, x.text.rpartition("] ")[2]) for x in peel_all(7, raw)] == [(7, "one."), (7, "two [rank2]: three")]
    assert peel_all(7, raw)[1].rank == 1


def test_redrawn_parts_are_lines() -> None:
    assert [x.text for x in peel_all(1, "one\r\rtwo\r")] == ["one", "two"]


def test_otlp_and_loki_batches_spread() -> None:
    record = {"timeUnixNano": "1741944413250117000", "body": {"stringValue": "x y"}}
    host = {"attributes": [{"key": "host.name", "value": {"stringValue": "n9"}}]}
    batch = {"resourceLogs": [{"resource": host, "scopeLogs": [{"logRecords": [record, record]}]}]}
    stream = {"stream": {"host": "n9"}, "values": [["1741944413250117000", "x y"], ["1741944413250117000", "x y"]]}
    for obj in (batch, stream):
        lines = peel_all(1, json.dumps(obj))
        assert [(x.text, x.host, x.ts) for x in lines] == [("x y", "n9", 1741944413250117)] * 2


def test_answers_of_log_stores_spread() -> None:
    stream = {"stream": {"host": "n9"}, "values": [["1741944413250117000", "x y"]]}
    hit = {"_source": {"@timestamp": "2025-03-14T09:26:53.250117Z", "message": "x y", "host": {"name": "n9"}}}
    for obj in ({"data": {"resultType": "streams", "result": [stream, stream]}}, {"hits": {"hits": [hit, hit]}}):
        lines = peel_all(1, json.dumps(obj))
        assert [(x.text, x.host, x.ts) for x in lines] == [("x y", "n9", 1741944413250117)] * 2
    events = {"events": [{"timestamp": 1741944413250, "message": "x y", "logStreamName": "n9/kern"}] * 2}
    assert [(x.text, x.label, x.ts) for x in peel_all(1, json.dumps(events))] == [("x y", "n9/kern", 1741944413250000)] * 2


@given(st.one_of(st.text(), st.lists(PIECES, max_size=14).map("".join)))
def test_never_raises_and_keeps_raw(raw: str) -> None:
    assert peel(1, raw).raw == raw
    assert peel_all(1, raw)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6), lambda inner: st.lists(inner, max_size=3))
)
def test_any_json_value_in_any_field_is_survived(value: object) -> None:
    for key in (
        "MESSAGE",
        "log",
        "msg",
        "timestamp",
        "host",
        "kubernetes",
        "attributes",
        "_PID",
        "rank",
        "labels",
        "resourceLogs",
        "values",
        "stream",
        "data",
        "hits",
        "events",
        "_source",
    ):
        peel_all(1, json.dumps({"line": "a b", key: value}))
        peel_all(1, json.dumps({"message": "a b", "stream": {}, key: {"attributes": value, "host": value}}))
        peel(1, json.dumps([value, {key: value}]))


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    peel_all(1, data.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "unit", ["[", "{", '{"a":', "<", "1", " ", "\x1b[", "a ", "a:", '{a="', "(a", "[a]", '"\\', "[rank1]:", "9,9,9,-", "\0"]
)
def test_long_hostile_lines_end(unit: str) -> None:
    peel_all(1, unit * (1_000_000 // len(unit)))
    peel(1, "1 2021-03-06T04:07:38Z h a 1 - [" + unit * 50_000)
