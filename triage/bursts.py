"""Rows of `bursts`: events of one host, device and code whose gaps are at most the burst gap (Delta: 5 s) are one burst.

The same fault read from two logs is one burst: its count is the larger one's, `copies` says how many logs hold it.
Facts (steps, communicator lines, identities) make no bursts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import polars as pl

from triage.schema import TABLES

KEY = ("host", "device", "code", "job_id", "attempt", "rank", "peer", "severity", "state", "signal", "exit_code")
_ORDER = ("ts_near", "boot_s", "source_id", "line_first", "event_id")


class Signed(Protocol):
    """What the rulebook says of an event."""

    @property
    def class_id(self) -> str | None: ...
    @property
    def role(self) -> str: ...
    @property
    def layer(self) -> str: ...
    @property
    def user_possible(self) -> bool: ...


Sign = Callable[[str, str | None, str | None, str | None], Signed]
"""(code, severity, state, message) -> signature."""


def build(events: pl.DataFrame, gap_s: float, sign: Sign) -> pl.DataFrame:
    """Bursts of `events` (rows of that table without facts), in order of time.

    gap_s  seconds of quiet that end a burst
    sign   the rulebook's reading of a code
    """
    grouped = _grouped(events, gap_s)
    signed = [_signed(row, sign) for row in grouped.select("code", "severity", "state", "message").iter_rows(named=True)]
    extra = pl.DataFrame(signed, schema={"class": pl.String, "role": pl.String, "layer": pl.String, "user_possible": pl.Boolean})
    frame = pl.concat([grouped, extra], how="horizontal") if grouped.height else grouped.join(extra, how="cross")
    dtypes = TABLES["bursts"].dtypes()
    return joined([frame.select(pl.col(name).cast(dtype) for name, dtype in dtypes.items())])


def joined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The bursts of several builds, in order of time."""
    whole = pl.concat(frames) if frames else pl.DataFrame(schema=TABLES["bursts"].dtypes())
    return whole.sort("first", "host", "device", "burst_id", nulls_last=True)


def _signed(row: Mapping[str, Any], sign: Sign) -> dict[str, Any]:
    signature = sign(row["code"], row["severity"], row["state"], row["message"])
    return {"class": signature.class_id, "role": signature.role, "layer": signature.layer, "user_possible": signature.user_possible}


def _grouped(events: pl.DataFrame, gap_s: float) -> pl.DataFrame:
    gap = pl.duration(microseconds=int(gap_s * 1_000_000))
    last = pl.coalesce("ts_last", "ts_near")
    ordered = events.sort(*KEY, *_ORDER, nulls_last=True)
    starts = pl.struct(KEY).ne_missing(pl.struct(KEY).shift()) | (pl.col("ts_near") - last.shift() > gap).fill_null(False)
    numbered = ordered.with_columns(starts.fill_null(True).cum_sum().alias("burst"))
    per_source = numbered.group_by("burst", "source_id").agg(pl.col("repeats").sum().alias("lines"))
    copies = per_source.group_by("burst").agg(pl.col("lines").max().alias("count"), pl.len().alias("copies"))
    firsts = [pl.col(c).first() for c in (*KEY, "family", "message", "source_id", "op", "seq")]
    bursts = numbered.group_by("burst", maintain_order=True).agg(
        *firsts,
        pl.col("event_id").first().alias("burst_id"),
        pl.col("line_first").first().alias("line"),
        pl.col("ts_near").min().alias("first"),
        last.max().alias("last"),
        pl.col("ts").is_not_null().any().alias("timed"),
        pl.len().alias("events"),
        pl.col("duration_s").max(),
    )
    return bursts.join(copies, on="burst", how="left").drop("burst")
