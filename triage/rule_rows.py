"""The rows that rules files hold, and which file holds which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Layer = Literal["user", "system_software", "gpu", "interconnect", "network", "host", "storage", "facility", "scheduler", "unknown"]
Manifestation = Literal["fail_stop", "fail_hang", "fail_slow", "fail_on_start", "silent", "none"]
Role = Literal["root", "cascade", "symptom", "outcome", "precursor", "recovery", "operator", "fact", "noise", "advice"]
Confidence = Literal["confirmed", "probable", "possible", "insufficient"]
Family = Literal["gpu", "host", "network", "storage", "scheduler", "training"]
Texts = Annotated[tuple[str, ...], Field(strict=False)]
Text = Annotated[str, Field(min_length=1)]
Cells = dict[str, object]


class Row(BaseModel):
    """`replaces` and `before` are for a site's folder: a row that takes another's place, or stands above it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    replaces: bool = False
    before: str | None = None


class When(BaseModel):
    """What an event must look like. Lists mean any of; nothing is told apart by case.

    severity       as the line prints it, hyphens and blanks dropped
    text_contains  in the event's state or message
    catalogue      severity that the SXid catalogue gives the number
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    severity: Texts = ()
    text_contains: Texts = ()
    catalogue: Annotated[tuple[Literal["fatal", "error", "warning", "info"], ...], Field(strict=False)] = ()


class Signature(Row):
    """What an event means. `fatal`: a host does not survive it. `user_possible`: a program can raise it."""

    id: Text
    codes: Texts
    when: When = When()
    class_: Annotated[str, Field(alias="class")]
    role: Role
    layer: Layer
    manifestation: Manifestation = "none"
    weight: Annotated[int, Field(ge=0, le=100)]
    scope: Literal["device", "host", "job", "shared"] = "host"
    fatal: bool = False
    user_possible: bool = False
    reason: Text
    source: Text

    @property
    def class_id(self) -> str:
        """T01..T24 or none."""
        return self.class_


class Collect(BaseModel):
    """Something to collect: `what` and `command` are templates."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    what: Text
    why: Text
    command: Text


class Command(BaseModel):
    """A command to copy."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    what: Text
    command: Text


Collects = Annotated[tuple[Collect, ...], Field(strict=False)]


class TaxonomyClass(Row):
    """A failure class. `p_infra`: published share of infrastructure among its cases."""

    id: Text
    title: Text
    tag: Literal["C", "S", "O"]
    domains: Annotated[tuple[Literal["U", "S", "H", "P"], ...], Field(strict=False)]
    layer: Layer
    severity: Literal["SEV1", "SEV2", "SEV3"]
    p_infra: Annotated[float, Field(ge=0, le=1)] | None = None
    first_checks: Texts
    collect: Collects


class Symptom(Row):
    """One of the observations that an on-call engineer starts from."""

    number: Annotated[int, Field(ge=1, le=99)]
    observed: Text
    layer: Layer
    first_check: Text
    evidence: Text
    source: Text
    answerable: Literal["yes", "partly", "no"]
    collect: Collects


class Action(Row):
    """What to do. `isolating`: it takes a host away."""

    id: Text
    title: Text
    isolating: bool
    sentence: Text
    commands: Annotated[tuple[Command, ...], Field(strict=False)]
    undo: Text


class Rule(Row):
    """One row of the decision table."""

    id: Text
    status: Literal["experimental", "stable", "retired"]
    when: Cells
    action: Text
    layer: Layer | None = None
    manifestation: Manifestation | None = None
    max_confidence: Confidence | None = None
    reason: Text
    source: Text
    fires: Texts = ()
    spares: Texts = ()


class Level(Row):
    """One level of confidence."""

    id: Confidence
    definition: Text
    when: Cells


class Threshold(Row):
    """A number that stages and rules read. Seconds where the unit is `s`."""

    name: Text
    value: float
    unit: Literal["s", "count", "share", "ratio"]
    reason: Text
    source: Text


class Code(Row):
    """An event code and its usual part; the signatures decide."""

    code: Text
    family: Family
    layer: Layer
    role: Role
    meaning: Text


@dataclass(frozen=True, slots=True)
class Kind:
    """A rules file: the array that it holds, its model, the column that names a row; `ordered`: the first row wins."""

    section: str
    model: type[Row]
    key: str
    ordered: bool = False


KINDS = {
    "codes.csv": Kind("code", Code, "code"),
    "thresholds.toml": Kind("threshold", Threshold, "name"),
    "taxonomy.toml": Kind("class", TaxonomyClass, "id"),
    "actions.toml": Kind("action", Action, "id"),
    "symptoms.toml": Kind("symptom", Symptom, "number"),
    "signatures.toml": Kind("signature", Signature, "id", ordered=True),
    "confidence.toml": Kind("level", Level, "id", ordered=True),
    "decisions.toml": Kind("rule", Rule, "id", ordered=True),
}

CATALOGUES = {
    "xid_catalog.csv": ("code", "mnemonic", "meaning", "bucket", "investigate", "severity", "user_possible", "source", "edition"),
    "sxid_catalog.csv": ("code", "mnemonic", "meaning", "bucket", "severity", "user_possible", "source", "edition"),
    "result_codes.csv": ("kind", "code", "mnemonic", "meaning", "action", "source"),
}
