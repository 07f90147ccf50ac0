"""The ranking against synthetic fleets whose lemons are known."""

from __future__ import annotations

from datetime import timedelta
from statistics import mean

import polars as pl
import pytest

from triage import drills_fleet, recurrence
from triage.drills_fleet import FRAMES, Fleet, Marks, Recipe

WINDOW = timedelta(days=28)
QUIET = recurrence.Params(second_opinion=False)


def _ranked(fleet: Fleet, params: recurrence.Params = QUIET) -> pl.DataFrame:
    frames = [fleet.frames[name] for name in FRAMES]
    return recurrence.build(*frames, now=fleet.now, window=WINDOW, params=params, exclusions=fleet.exclusions)


def _judge(seeds: range, recipe: Recipe) -> tuple[list[Marks], float, float]:
    """Marks per fleet, and the mean average precision of two plain rankings: accusations counted, log lines counted."""
    found, accused, lines = [], [], []
    for seed in seeds:
        fleet = drills_fleet.generate(seed, recipe)
        found.append(drills_fleet.marks(_ranked(fleet), fleet.truth))
        wanted = drills_fleet.visible(fleet.truth)
        accused.append(drills_fleet.average_precision(drills_fleet.by_count(fleet.frames["findings"]), wanted))
        lines.append(drills_fleet.average_precision(drills_fleet.by_count(fleet.frames["bursts"], "count"), wanted))
    return found, mean(accused), mean(lines)


def _check(found: list[Marks], accused: float, lines: float) -> None:
    true, false, missed = (sum(getattr(m, name) for m in found) for name in ("true", "false", "missed"))
    precision, recall = true / (true + false), (true / (true + missed))
    average = mean(m.average_precision for m in found)
    coverage = mean(m.coverage for m in found)
    print(
        f"precision {precision:.3f} recall {recall:.3f} MAP {average:.3f} ({accused:.3f}, {lines:.3f} by counting) coverage {coverage:.3f}"
    )
    print(f"over all planted: MAP {mean(m.average_precision_all for m in found):.3f}, missed {sum(m.missed_all for m in found)}")
    assert precision >= 0.95
    assert recall >= 0.90
    assert average >= 0.95
    assert average > max(accused, lines) + 0.05
    assert coverage >= 0.90


def test_small_fleets() -> None:
    _check(*_judge(range(100, 104), Recipe(hosts=120, days=45)))


@pytest.mark.slow
def test_twenty_fleets_of_200_hosts_and_60_days() -> None:
    _check(*_judge(range(20), Recipe()))


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
    after = _ranked(Fleet(renamed, fleet.now, fleet.truth, _renamed(fleet.exclusions)))
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
