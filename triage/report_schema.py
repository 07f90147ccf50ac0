"""The report of `triage report --format json` as types: an answer and what a postmortem needs beyond it.

`python -m triage.report_schema` prints what `report.schema.json` holds; a test holds the file and every sample's report against it.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from triage.answer_schema import Answer, ClassId, Code, Count, EvidenceRole, Part, Time, Word

Stage = EvidenceRole | Literal["unknown"]
Phase = Literal["queue", "kept", "lost", "stuck", "down", "restart"]
HostPart = EvidenceRole | Literal["culprit", "suspect", "quiet", "no_log", "other"]
Scalar = str | bool | int | float


class Rule(Part):
    """The row that decided, what it saw, and how its action is taken back."""

    id: Word
    status: Literal["experimental", "stable", "retired"]
    reason: Word
    source: str
    rulebook: Annotated[Word, Field(description="digest of the rules")]
    features: dict[str, Scalar]
    action_title: Word
    undo: str
    confidence: Annotated[str, Field(description="definition of the word")]


class Mark(Part):
    """One burst on the timeline."""

    ts: Time | None
    begin: Annotated[Time | None, Field(description="true start of a wait that ended at ts")]
    last: Time | None
    timed: bool
    host: str | None
    placed_by: Literal["log", "rank", "none"]
    device: str | None
    rank: int | None
    code: Code
    role: EvidenceRole
    count: Count
    text: str
    source: Word
    line: Annotated[int, Field(ge=1)]


class Bar(Part):
    """An attempt on a host."""

    host: str
    job_id: str
    attempt: Count
    start: Time | None
    end: Time | None
    state: str | None
    own: Annotated[bool, Field(description="the attempt of this incident")]


class State(Part):
    """A span in which a host was out."""

    host: str
    state: str
    start: Time | None
    end: Time | None
    reason: str


class Timeline(Part):
    """Hosts as lanes; `quiet` have none, `hidden` events are left out."""

    from_: Annotated[Time | None, Field(alias="from")]
    to: Time | None
    focus: Annotated[list[Time | None], Field(min_length=2, max_length=2)]
    lanes: list[str]
    events: list[Mark]
    jobs: list[Bar]
    states: list[State]
    quiet: list[str]
    hidden: Count


class Host(Part):
    """A cell of the fleet."""

    host: Word
    rack: str
    guessed: bool
    part: HostPart
    in_job: bool
    faults: Count
    codes: list[str]


class Node(Part):
    """A row of evidence in the cause graph."""

    id: Word
    stage: Stage
    code: str
    host: str | None
    hosts: Count
    device: str | None
    begin: Annotated[int | None, Field(description="microseconds since 1970")]
    waited_s: float | None
    count: Count
    text: str
    source: str
    line: Count


class Edge(Part):
    """What follows from what, and why it is taken to."""

    source: Word
    target: Word
    reason: Word


class Graph(Part):
    """Node-link data of networkx."""

    directed: Literal[True]
    multigraph: Literal[False]
    graph: dict[str, Any]
    nodes: list[Node]
    edges: list[Edge]


class RawLine(Part):
    """A line of a log as it stands there."""

    number: Annotated[int, Field(ge=1)]
    text: str
    hit: bool


class Excerpt(Part):
    """Raw lines around a row of evidence, or why there are none."""

    source: Word
    line: Annotated[int, Field(ge=1)]
    lines: list[RawLine]
    note: str


class CodeCount(Part):
    """How often a code was seen on the part."""

    code: Code
    lines: Count
    bursts: Count
    first: Time | None
    last: Time | None
    text: str
    places: list[str]


class Hardware(Part):
    """What a ticket says of a host or GPU; null: in no log that was read."""

    host: Word
    device: str | None
    role: Literal["culprit", "suspect"]
    uuid: str | None
    serial: str | None
    host_serials: list[str]
    model: str | None
    rack: str | None
    driver: str | None
    firmware: str | None
    codes: list[CodeCount]


class Earlier(Part):
    """An earlier incident that is alike."""

    id: Word
    start: Time | None
    class_: Annotated[ClassId, Field(alias="class")]
    hosts: list[str]
    job_id: str | None
    action: str
    why: Word
    summary: str


class Span(Part):
    """Where the time of the attempt went."""

    phase: Phase
    meaning: Word
    from_: Annotated[Time, Field(alias="from")]
    to: Time
    hours: float
    gpu_hours: float | None
    lost: bool


class Open(Part):
    """What is not settled."""

    question: Word
    why: Word
    command: str


class Change(Part):
    """A circumstance that would have changed the action."""

    rule: Word
    action: Word
    feature: Word
    value: str
    wanted: str


class Source(Part):
    """A file that was read."""

    path: Word
    digest: str | None
    bytes: int | None
    lines: int | None
    events: int | None
    rejects: int | None
    clock: str | None
    year_from: str | None
    zone: str | None
    host: str | None
    job_id: str | None


class Report(Answer):
    """The report of `triage report --format json`."""

    id: Annotated[str | None, Field(description="null where nothing was found")]
    title: Word
    classes: Annotated[dict[str, str], Field(description="class id to its title")]
    now: Annotated[Time | None, Field(description="last stamp in what was read")]
    rule: Rule | None
    timeline: Timeline | None
    fleet: list[Host]
    graph: Graph
    excerpts: Annotated[list[Excerpt], Field(description="one for each row of evidence, in order")]
    hardware: list[Hardware]
    earlier: list[Earlier]
    phases: list[Span]
    questions: list[Open]
    would_change: list[Change]
    sources: list[Source]
    people: Annotated[dict[str, str], Field(description="what people wrote, by place")]


def check(report: object) -> None:
    """Raises pydantic's ValidationError naming every key that is wrong."""
    Report.model_validate(report)


def json_schema() -> str:
    """The text of `report.schema.json`."""
    made = Report.model_json_schema(by_alias=True, mode="validation")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:gpu-triage:report:1"}
    return json.dumps({**head, **made}, indent=2) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
