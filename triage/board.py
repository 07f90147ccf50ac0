"""Failures per GPU board, wherever it sat: a board that was moved takes its history along."""

from __future__ import annotations

import json

import polars as pl
from polars._typing import AsofJoinStrategy

MOST = 20
PLACE = ["host", "device"]


def identities(events: pl.DataFrame) -> pl.DataFrame:
    """host, device, since, board: from rows of gpu.identity; the board is its serial number, else the GPU's UUID."""
    serial = pl.col("attrs").map_elements(_serial, return_dtype=pl.String)
    named = events.select("host", "device", since="ts_near", board=pl.coalesce(serial, "gpu_uuid"))
    return named.drop_nulls().unique().sort("since")


def _serial(attrs: str) -> str | None:
    found = json.loads(attrs).get("serial")
    return str(found) if found else None


def boards(charged: pl.DataFrame, known: pl.DataFrame) -> list[dict[str, object]]:
    """Boards by counted failures: board, failures (weighted), days, last, places (host and device in order of time), moved.

    charged   rows of `blame.charges`; a board is the one that the last identity before the failure names, else the first one after it
    """
    hits = charged.filter((pl.col("weight") > 0) & pl.col("device").is_not_null()).sort("ts")
    if not hits.height or not known.height:
        return []
    named = hits
    ways: tuple[tuple[str, AsofJoinStrategy], ...] = (("before", "backward"), ("after", "forward"))
    for name, strategy in ways:
        named = named.join_asof(
            known.rename({"board": name}).sort("since"), left_on="ts", right_on="since", by=PLACE, strategy=strategy, check_sortedness=False
        ).drop("since")
    named = named.with_columns(board=pl.coalesce("before", "after")).drop_nulls("board")
    place = pl.concat_str("host", "device", separator=" ")
    rows = named.group_by("board").agg(
        failures=pl.col("weight").sum(),
        days=pl.col("ts").dt.date().n_unique(),
        last=pl.col("ts").max(),
        places=place.unique(maintain_order=True),
        moved=place.n_unique() > 1,
    )
    worst = rows.sort(["failures", "board"], descending=[True, False]).head(MOST)
    return [{**row, "last": f"{row['last'].isoformat()}Z"} for row in worst.iter_rows(named=True)]
