"""Rows of `bursts`: events of one host, device and code whose gaps are at most the burst gap (Delta: 5 s) are one burst.

The same fault read from two logs is one burst: its count is the larger one's, `copies` says how many logs hold it.
Facts (steps, communicator lines, identities) make no bursts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import polars as pl

from triage.schema import TABLES

KEY = ("host", "device", "code", "job_id", "attempt", "rank", "peer", "severity", "state", "signal", "exit_code")
ORDER = (*KEY, "ts_near", "boot_s", "source_id", "line_first", "event_id")
COLUMNS = (*ORDER, "ts", "ts_last", "family", "message", "op", "seq", "duration_s", "repeats")
BY_TIME = ("first", "host", "device", "burst_id")
MOST = 10_000


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
    frames = [*stream([events.sort(*ORDER, nulls_last=True)], gap_s, sign)]
    whole = pl.concat(frames) if frames else pl.DataFrame(schema=TABLES["bursts"].dtypes())
    return whole.sort(*BY_TIME, nulls_last=True)


def stream(parts: Iterable[pl.DataFrame], gap_s: float, sign: Sign, most: int = MOST) -> Iterator[pl.DataFrame]:
    """Bursts of events that come in `ORDER`, nulls last, in parts of any size; the bursts are in that order, too.

    most  of the events of a burst that goes on from part to part so many are held, then they are folded
    """
    held: pl.DataFrame | None = None
    for part in parts:
        events = part.select(*COLUMNS).with_columns(pl.lit(1, pl.Int64).alias("events"))
        numbered = _numbered(events if held is None else pl.concat([held, events]), gap_s)
        if not numbered.height:
            continue
        last = numbered["burst"] == numbered["burst"][-1]
        held = numbered.filter(last).drop("burst")
        if held.height > most:
            held = _folded(held)
        if not last.all():
            yield _built(numbered.filter(~last), sign)
    if held is not None:
        yield _built(_numbered(held, gap_s), sign)


def _folded(events: pl.DataFrame) -> pl.DataFrame:
    """Events of one burst as a row for each source, and the last one, which tells when the burst ends: they make the same burst."""
    until = pl.coalesce("ts_last", "ts_near").max()
    kept = {name: pl.col(name).first() for name in COLUMNS} | {
        "ts": pl.col("ts").drop_nulls().first(),
        "ts_near": pl.col("ts_near").min(),
        "repeats": pl.col("repeats").sum(),
        "duration_s": pl.col("duration_s").max(),
        "events": pl.col("events").sum(),
    }
    early = events.head(-1)
    rows = early.group_by("source_id", maintain_order=True).agg(**{name: value for name, value in kept.items() if name != "source_id"})
    rows = rows.with_columns(ts_last=pl.lit(early.select(until).item(), pl.Datetime("us")))
    return pl.concat([rows.select(events.columns), events.tail(1)])


def _built(numbered: pl.DataFrame, sign: Sign) -> pl.DataFrame:
    grouped = _grouped(numbered)
    signed = [_signed(row, sign) for row in grouped.select("code", "severity", "state", "message").iter_rows(named=True)]
    extra = pl.DataFrame(signed, schema={"class": pl.String, "role": pl.String, "layer": pl.String, "user_possible": pl.Boolean})
    frame = pl.concat([grouped, extra], how="horizontal")
    return frame.select(pl.col(name).cast(dtype) for name, dtype in TABLES["bursts"].dtypes().items())


def _signed(row: Mapping[str, Any], sign: Sign) -> dict[str, Any]:
    signature = sign(row["code"], row["severity"], row["state"], row["message"])
    return {"class": signature.class_id, "role": signature.role, "layer": signature.layer, "user_possible": signature.user_possible}


def _numbered(ordered: pl.DataFrame, gap_s: float) -> pl.DataFrame:
    gap = pl.duration(microseconds=int(gap_s * 1_000_000))
    last = pl.coalesce("ts_last", "ts_near")
    starts = pl.struct(KEY).ne_missing(pl.struct(KEY).shift()) | (pl.col("ts_near") - last.shift() > gap).fill_null(False)
    return ordered.with_columns(starts.fill_null(True).cum_sum().alias("burst"))


def _grouped(numbered: pl.DataFrame) -> pl.DataFrame:
    last = pl.coalesce("ts_last", "ts_near")
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
        pl.col("events").sum(),
        pl.col("duration_s").max(),
    )
    return bursts.join(copies, on="burst", how="left", maintain_order="left").drop("burst")
