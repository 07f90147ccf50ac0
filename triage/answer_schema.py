"""The answer of `triage now` as types: what `answer.schema.json` is written from. Adding a key is a new schema number.

`python -m triage.answer_schema` prints the JSON Schema (draft 2020-12); a test holds the file and every sample's answer against it.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Time = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$", description="UTC, ISO 8601")]
ClassId = Annotated[str, Field(pattern=r"^(T(0[1-9]|1\d|2[0-4])|none)$", description="row of rules/taxonomy.toml, or none")]
Code = Annotated[str, Field(pattern=r"^[a-z0-9_]+\.[A-Za-z0-9_.-]+$", description="event code, as in rules/codes.csv: xid.79")]
Word = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]

Layer = Literal[
    "user", "system_software", "gpu", "interconnect", "network", "host", "storage", "facility", "scheduler", "unknown",
]  # fmt: skip
Manifestation = Literal["fail_stop", "fail_hang", "fail_slow", "fail_on_start", "silent", "none"]
Confidence = Literal["confirmed", "probable", "possible", "insufficient"]
EvidenceRole = Literal["root", "cascade", "symptom", "teardown", "outcome", "precursor", "recovery", "operator", "fact"]
ActionId = Literal[
    "isolate_now", "drain_at_job_end", "reset_gpu", "reboot_host", "replace_hardware", "restart_job", "restart_on_spares",
    "rollback_change", "fix_and_resubmit", "hold_and_collect", "escalate_facility", "escalate_network", "escalate_storage",
    "monitor", "none",
]  # fmt: skip


class Part(BaseModel):
    """No other keys, no coercion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Verdict(Part):
    """What it was, what to do, how sure."""

    class_: Annotated[ClassId, Field(alias="class")]
    symptom: Annotated[int | None, Field(ge=1, le=11, description="row of rules/symptoms.toml")]
    manifestation: Manifestation
    layer: Layer
    action: ActionId
    confidence: Confidence
    rule_id: Annotated[Word, Field(description="row of rules/decisions.toml that decided, or nothing-found")]
    summary: Word
    reason: Word
    start: Annotated[Time | None, Field(description="true start, which may lie long before the line that tells it")]
    end: Time | None


class Suspect(Part):
    """A host, GPU or rank, most suspected first."""

    host: str | None
    device: Annotated[str | None, Field(description="dddd:bb:dd in lower case, function 0 dropped; or a port's name")]
    rank: Annotated[int | None, Field(ge=0, description="global rank")]
    role: Literal["culprit", "suspect"]
    score: Annotated[float, Field(ge=0, le=1)]
    why: Word


class Victim(Part):
    """A host that only waited or gave way."""

    host: Word
    why: Word


class Job(Part):
    """An attempt of a job and what its end cost."""

    job_id: Word
    attempt: Annotated[int, Field(ge=0, description="from 0, in order of start")]
    name: str | None
    user: str | None
    hosts: list[str]
    gpus: Count | None
    start: Time | None
    end: Annotated[Time | None, Field(description="null while it runs")]
    state: str | None
    gpu_hours_lost: Annotated[float, Field(ge=0)]
    basis: Literal["checkpoint", "start", "completed", "unknown"]
    preemptor: str | None
    last_checkpoint: str | None


class AtRisk(Part):
    """Another job on a suspected host."""

    job_id: Word
    hosts: list[str]
    why: Word


class Evidence(Part):
    """One or many alike lines; `source` and `line` name the first."""

    source: Word
    line: Annotated[int, Field(ge=1)]
    ts: Annotated[Time | None, Field(description="null where the line has no stamp of its own")]
    about: Annotated[Time | None, Field(description="ts, else that of a neighbouring line")]
    host: str | None
    text: str
    role: EvidenceRole
    code: Code
    count: Annotated[Count, Field(description="lines")]
    hosts: Annotated[Count, Field(description="hosts that are named")]
    ranks: Annotated[Count, Field(description="ranks that are named")]


class Alternative(Part):
    """Another reading that the evidence leaves open."""

    class_: Annotated[ClassId, Field(alias="class")]
    why: Word


class Missing(Part):
    """What to collect, what it would decide, and how to get it."""

    what: Word
    why: Word
    command: Word


class Command(Part):
    """To be copied; nothing is run."""

    what: Word
    command: Word


class Spare(Part):
    """An idle host that could stand in."""

    host: Word
    why: Word


class Other(Part):
    """Another incident, in one line."""

    id: Word
    class_: Annotated[ClassId, Field(alias="class")]
    hosts: list[str]
    start: Time | None
    job_id: str | None
    action: ActionId


class Coverage(Part):
    """A host and kind of log, and the span that was there to read."""

    host: Word
    family: Literal["kernel", "scheduler", "training", "bmc", "fabric"]
    from_: Annotated[Time | None, Field(alias="from")]
    to: Time | None
    pieces: Annotated[int, Field(ge=1, description="spans without a gap of a minute")]


class Tried(Part):
    """A decision row that was asked, and the first cell that did not hold."""

    rule_id: Word
    feature: str | None
    value: str | bool | int | float | None
    wanted: Any


class Explain(Part):
    """Only with --explain."""

    tried: list[Tried]
    features: dict[str, str | bool | int | float]


class Answer(Part):
    """The answer of `triage now --format json`."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    verdict: Verdict
    suspects: list[Suspect]
    victims: list[Victim]
    jobs: list[Job]
    at_risk: list[AtRisk]
    evidence: Annotated[list[Evidence], Field(max_length=40)]
    alternatives: list[Alternative]
    missing: Annotated[list[Missing], Field(max_length=8)]
    commands: list[Command]
    spares: list[Spare]
    others: list[Other]
    coverage: list[Coverage]
    rejects: Count
    explain: Explain | None = None


def check(answer: object) -> None:
    """Raises pydantic's ValidationError naming every key that is wrong."""
    Answer.model_validate(answer)


def json_schema() -> str:
    """The text of `answer.schema.json`."""
    made = Answer.model_json_schema(by_alias=True, mode="validation")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:gpu-triage:answer:1"}
    return json.dumps({**head, **made}, indent=2) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
