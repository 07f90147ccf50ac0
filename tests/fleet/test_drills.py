"""The ranking against synthetic fleets whose lemons are known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from statistics import mean
from typing import Any, cast

import polars as pl
import pytest

from triage import drill_fleet_logs, drills_fleet, lemon, recurrence
from triage.drills_fleet import FRAMES, Fleet, Marks, Recipe

WINDOW = timedelta(days=28)
QUIET = recurrence.Params(second_opinion=False)


def _ranked(fleet: Fleet, params: recurrence.Params = QUIET) -> pl.DataFrame:
    frames = [fleet.frames[name] for name in FRAMES]
    return recurrence.build(*frames, now=fleet.now, window=WINDOW, params=params, exclusions=fleet.exclusions)


@dataclass(slots=True)
class Pooled:
    """Marks of each fleet, average precision of two plain rankings, and what the backtest and the null model say."""

    marks: list[Marks] = field(default_factory=list)
    lines: list[float] = field(default_factory=list)
    days: list[float] = field(default_factory=list)
    ahead: list[dict[str, Any]] = field(default_factory=list)
    chance: list[dict[str, Any]] = field(default_factory=list)

    def add(self, fleet: Fleet) -> None:
        table = _ranked(fleet)
        wanted = drills_fleet.visible(fleet.truth)
        precision, bursts = drills_fleet.average_precision, fleet.frames["bursts"]
        self.marks.append(drills_fleet.marks(table, fleet.truth))
        self.lines.append(precision(drills_fleet.by_xid_lines(bursts), wanted))
        self.days.append(precision(drills_fleet.by_days(bursts), wanted))
        data = lemon.lemons(table, *(fleet.frames[name] for name in FRAMES), now=fleet.now, window=WINDOW, params=QUIET)
        self.ahead.append(cast(dict[str, Any], data["backtest"]))
        self.chance.append(cast(dict[str, Any], data["concentration"]))

    def captured(self, kind: str | None = None) -> float:
        """Share of the next failures that the top 5 % held, over all fleets; `kind` names a ranking beside the full one."""
        caught = [(row[kind] if kind else row)["capture_at_5pct"] * row["failures"] for row in self.ahead]
        return float(sum(caught) / sum(row["failures"] for row in self.ahead))


def _judge(seeds: range, recipe: Recipe) -> Pooled:
    pooled = Pooled()
    for seed in seeds:
        pooled.add(drills_fleet.generate(seed, recipe))
    return pooled


def _check(pooled: Pooled) -> None:
    marks = pooled.marks
    true, false, missed = (sum(getattr(m, name) for m in marks) for name in ("true", "false", "missed"))
    precision, recall = true / (true + false), (true / (true + missed))
    average, lines, days = mean(m.average_precision for m in marks), mean(pooled.lines), mean(pooled.days)
    coverage = mean(m.coverage for m in marks)
    print(f"\nprecision {precision:.3f} recall {recall:.3f} MAP {average:.3f}; Xid lines {lines:.3f}, host-device-code-days {days:.3f}")
    print(f"coverage {coverage:.3f}, most misses in a fleet {max(m.missed for m in marks)}, above a lemon {sum(m.above for m in marks)}")
    print(f"over all planted: MAP {mean(m.average_precision_all for m in marks):.3f}, missed {sum(m.missed_all for m in marks)}")
    assert precision >= 0.95
    assert recall >= 0.90
    assert average >= 0.95
    assert average > max(lines, days) + 0.05
    assert coverage >= 0.90
    assert max(m.missed for m in marks) <= 1
    assert sum(m.above for m in marks) == 0


def _check_ahead(pooled: Pooled) -> None:
    full, blind = pooled.captured(), pooled.captured("without_history")
    observed, null = (mean(row[name] for row in pooled.chance) for name in ("top10_share", "null_share"))
    areas = [mean(row["auc"] for row in pooled.ahead), mean(row["without_history"]["auc"] for row in pooled.ahead)]
    print(f"capture at 5 %: {full:.3f}, lift {full / 0.05:.1f}, AUC {areas[0]:.3f}")
    print(f"without recency and recurrence: {blind:.3f}, {blind / 0.05:.1f}, {areas[1]:.3f}")
    print(f"the worst tenth of hosts holds {observed:.3f} of the failures, by chance {null:.3f}")
    assert full > 2 * blind
    assert areas[0] > areas[1]
    assert observed > null


def test_small_fleets() -> None:
    _check(_judge(range(100, 104), Recipe(hosts=120, days=45)))


@pytest.mark.slow
def test_twenty_fleets_of_200_hosts_and_60_days() -> None:
    pooled = _judge(range(20), Recipe())
    _check(pooled)
    _check_ahead(pooled)


@pytest.mark.slow
def test_fleets_without_a_lemon_hardly_ever_have_one() -> None:
    fleets = [drills_fleet.generate(seed, Recipe(lemon_rate=(5e-3, 5e-3))) for seed in range(200, 210)]
    assert sum(int(_ranked(fleet)["lemon"].sum()) for fleet in fleets) <= 2


def test_equal_seeds_give_equal_fleets() -> None:
    one, two = (drills_fleet.generate(7, Recipe(hosts=40, days=30)) for _ in range(2))
    assert one.truth.equals(two.truth)
    assert all(one.frames[name].equals(two.frames[name]) for name in FRAMES)


def test_the_ranking_does_not_depend_on_the_order_of_rows() -> None:
    fleet = drills_fleet.generate(11, Recipe(hosts=60, days=40))
    before = _ranked(fleet)
    fleet.frames = {name: frame.sample(fraction=1.0, shuffle=True, seed=3) for name, frame in fleet.frames.items()}
    after = _ranked(fleet)
    assert after["host"].to_list() == before["host"].to_list()
    assert after["lemon"].to_list() == before["lemon"].to_list()


def test_the_ranking_does_not_depend_on_names() -> None:
    fleet = drills_fleet.generate(12, Recipe(hosts=60, days=40))
    before = _ranked(fleet)
    renamed = {name: _renamed(frame) for name, frame in fleet.frames.items()}
    after = _ranked(replace(fleet, frames=renamed, exclusions=_renamed(fleet.exclusions)))
    lemons = {"q" + host[::-1] for host in before.filter("lemon")["host"]}
    assert lemons
    assert set(after.filter("lemon")["host"]) == lemons


def _renamed(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(host=pl.lit("q") + pl.col("host").str.reverse()) if "host" in frame.columns else frame


def test_second_opinion_is_seeded_and_shown() -> None:
    fleet = drills_fleet.generate(13, Recipe(hosts=60, days=40))
    one, two = (_ranked(fleet, recurrence.Params()) for _ in range(2))
    assert one.equals(two)
    assert one["signals"].str.contains('"detectors": [012]').all()


def test_equal_fleets_write_equal_logs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        drill_fleet_logs.write(drills_fleet.generate(7, Recipe(hosts=16, days=30)), tmp_path / name)
    one, two = ({p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()} for n in ("one", "two"))
    assert one == two
    assert Path("logs/sacct.txt") in one


def test_nothing_starts_on_a_host_that_is_away() -> None:
    frames = drills_fleet.generate(7, Recipe(hosts=40, days=30)).frames
    away = frames["host_states"].select("host", since="start", back="end")
    both = frames["job_hosts"].join(away, on="host").filter((pl.col("start") >= pl.col("since")) & (pl.col("start") < pl.col("back")))
    assert both.height == 0
