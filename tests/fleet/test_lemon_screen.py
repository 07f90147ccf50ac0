"""The lemon screen fits the terminal and says what it must; boards keep their history when they move."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from triage import board, drills_fleet, fleet_screens, lemon, recurrence
from triage.drills_fleet import FRAMES, Recipe

QUIET = recurrence.Params(second_opinion=False)
DAY = datetime(2031, 3, 3)  # noqa: DTZ001


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    fleet = drills_fleet.generate(101, Recipe(hosts=120, days=45))
    frames = [fleet.frames[name] for name in FRAMES]
    table = recurrence.build(*frames, now=fleet.now, params=QUIET)
    return lemon.lemons(table, *frames, now=fleet.now, params=QUIET, paths={})


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 50), (100, 16)])
def test_the_ranking_fits_one_screen(data: dict[str, Any], columns: int, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    shown = fleet_screens.lemons_screen(data).splitlines()
    assert len(shown) < lines
    assert max(len(line) for line in shown) <= columns
    assert any(line.startswith("Backtest") for line in shown)
    assert [line for line in shown if "LEMON" in line]


def test_a_lemon_says_what_it_cost(data: dict[str, Any]) -> None:
    worst = data["hosts"][0]
    assert worst["lemon"]
    assert len(worst["jobs"]) >= 3
    assert worst["gpu_hours_lost"] == pytest.approx(sum(b["gpu_hours_lost"] for b in worst["broken"]))
    assert any(line.startswith(f"cost {len(worst['jobs'])} job(s)") for line in worst["why"])
    json.dumps(data, allow_nan=False)


def _charge(day: float, host: str, device: str = "0000:1a:00", weight: float = 1.0) -> dict[str, object]:
    return {"ts": DAY + timedelta(days=day), "host": host, "device": device, "weight": weight}


def _identity(day: float, host: str, serial: str | None, uuid: str | None = None) -> dict[str, object]:
    told = json.dumps({"serial": serial}) if serial else None
    return {"host": host, "device": "0000:1a:00", "ts_near": DAY + timedelta(days=day), "attrs": told, "gpu_uuid": uuid}


def test_a_board_that_moved_keeps_its_history() -> None:
    events = pl.DataFrame([_identity(0, "a", "S1"), _identity(0, "b", "S2"), _identity(5, "b", "S1"), _identity(5, "a", None, "GPU-9")])
    charged = pl.DataFrame(
        [_charge(1, "a"), _charge(2, "b"), _charge(6, "b"), _charge(7, "b"), _charge(8, "a"), _charge(9, "b", weight=0.0)]
    )
    rows = board.boards(charged, board.identities(events))
    assert [(r["board"], r["failures"], r["moved"]) for r in rows] == [("S1", 3.0, True), ("GPU-9", 1.0, False), ("S2", 1.0, False)]
    assert rows[0]["places"] == ["a 0000:1a:00", "b 0000:1a:00"]


def test_no_identity_gives_no_board() -> None:
    none = pl.DataFrame(schema={"host": pl.String, "device": pl.String, "since": pl.Datetime("us"), "board": pl.String})
    assert board.boards(pl.DataFrame([_charge(1, "a")]), none) == []
