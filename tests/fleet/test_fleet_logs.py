"""Synthetic fleets written as logs and read back: what is proposed, what it cost and who is marked, against the truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from triage import desk, drill_fleet_logs, drills_fleet, recurrence
from triage.drills_fleet import FRAMES, Fleet, Recipe
from triage.store import Store

DAY = timedelta(days=1)
QUIET = recurrence.Params(second_opinion=False)
SMALL = Recipe(hosts=48, days=30)


@dataclass(slots=True)
class Read:
    """A fleet, and the tables that were read from its logs."""

    fleet: Fleet
    frames: dict[str, pl.DataFrame]
    spares: dict[str, list[str]]
    lemons: dict[str, Any]
    standby: dict[str, Any]

    def flagged(self, at: datetime) -> set[str]:
        """Hosts that the ranking marks as lemons with what was known at a moment."""
        known = {name: _until(frame, at) for name, frame in self.frames.items()}
        known["findings"] = known["findings"].join(known["incidents"].select("incident_id"), on="incident_id", how="semi")
        table = recurrence.build(*(known[name] for name in FRAMES), now=at, params=QUIET)
        return set(table.filter("lemon")["host"])


def _until(frame: pl.DataFrame, at: datetime) -> pl.DataFrame:
    began = next((c for c in ("start", "first") if c in frame.columns), None)
    return frame if began is None else frame.filter(pl.col(began) <= at)


def read(fleet: Fleet, folder: Path) -> Read:
    drill_fleet_logs.write(fleet, folder)
    setup = desk.Setup(str(folder / "fleet.duckdb"))
    desk.ingest(setup, [str(folder / "logs")])
    with Store(setup.path, write=False) as store:
        frames = {name: store.frame(name) for name in FRAMES}
        offered = store.frame("spares").sort("incident_id", "place").group_by("incident_id", maintain_order=True).agg("host")
    return Read(fleet, frames, dict(offered.iter_rows()), desk.lemons(setup, None, None), desk.spare_hosts(setup, None, None))


def told(read: Read) -> pl.DataFrame:
    """What broke in truth, with the incident that was read for it."""
    named = read.frames["incidents"].select("incident_id", "job_id", "attempt", read_lost="gpu_hours_lost", read_class="class")
    return read.fleet.broken.join(named, on=["job_id", "attempt"], how="left")


def away(fleet: Fleet, at: datetime) -> set[str]:
    """Hosts down or drained at a moment, in truth."""
    states = fleet.frames["host_states"]
    return set(states.filter((pl.col("start") <= at) & (pl.col("end") > at))["host"])


def held(fleet: Fleet, at: datetime) -> set[str]:
    """Hosts that a job held at a moment, in truth."""
    spans = fleet.frames["job_hosts"]
    return set(spans.filter((pl.col("start") <= at) & (pl.col("end").is_null() | (pl.col("end") > at)))["host"])


def victims(fleet: Fleet, at: datetime) -> set[str]:
    """Hosts of jobs that broke within five minutes."""
    near = fleet.broken.filter((pl.col("end") - at).abs() <= timedelta(minutes=5))
    return {host for hosts in near["hosts"] for host in hosts}


def free(read: Read, at: datetime, barred: set[str]) -> set[str]:
    """Hosts that had worked before, were in service and idle at a moment and had not failed for a day, in truth.

    In the last day the snapshot of the end decides, since somebody may act on it: a host that was taken meanwhile is not free.
    """
    fleet = read.fleet
    taken = held(fleet, fleet.now) if fleet.now - at <= DAY else set()
    known = set(fleet.frames["job_hosts"].filter(pl.col("start") < at)["host"])
    accused = fleet.frames["findings"].filter((pl.col("ts") > at - DAY - timedelta(minutes=5)) & (pl.col("ts") <= at))
    seen = fleet.frames["bursts"].filter((pl.col("first") > at - DAY - timedelta(minutes=5)) & (pl.col("first") <= at))
    back = fleet.frames["host_states"].filter((pl.col("end") > at - DAY) & (pl.col("start") < at))
    return known - barred - taken - away(fleet, at) - held(fleet, at) - set(accused["host"]) - set(seen["host"]) - set(back["host"])


def faults(read: Read, row: dict[str, object]) -> list[str]:
    """What is wrong with the spares that were proposed for a broken attempt."""
    at, fleet = row["end"], read.fleet
    assert isinstance(at, datetime)
    offered = read.spares.get(str(row["incident_id"]), [])
    flagged = read.flagged(at)
    bad = {"away": away(fleet, at), "allocated": held(fleet, at), "victim": victims(fleet, at), "flagged": flagged}
    found = [f"{row['job_id']} at {at}: {host} was {why}" for why, hosts in bad.items() for host in offered if host in hosts]
    leaf = dict(fleet.frames["hosts"].select("host", "leaf").iter_rows())
    named = read.frames["findings"].filter((pl.col("incident_id") == row["incident_id"]) & pl.col("role").is_in(["culprit", "suspect"]))
    gang = row["hosts"]
    assert isinstance(gang, list)
    rest = {leaf[h] for h in gang if h not in set(named["host"])} or {leaf[h] for h in gang}
    near = {h for h in free(read, at, flagged | victims(fleet, at)) if leaf[h] in rest}
    if near and read.spares and (not offered or leaf[offered[0]] not in rest):
        found.append(f"{row['job_id']} at {at}: {offered[:1]} shares no leaf, {sorted(near)[:3]} did")
    return found


@dataclass(slots=True)
class Marks:
    """incidents judged, those with a spare, faults of these, largest error of the cost; lemons marked rightly, wrongly and missed."""

    number: int = 0
    offered: int = 0
    faults: list[str] = field(default_factory=list)
    cost: float = 0.0
    right: int = 0
    wrong: int = 0
    missed: int = 0


def judged(fleets: list[Fleet], folder: Path, most: int) -> Marks:
    """Each fleet written, read and held against its truth; `most` incidents of each, spread over its days."""
    marks = Marks()
    for n, fleet in enumerate(fleets):
        found = read(fleet, folder / str(n))
        rows = told(found)
        assert rows["incident_id"].null_count() == 0
        marks.cost = max(marks.cost, cost_error(rows))
        for row in rows.sort("end").gather_every(max(1, rows.height // most)).tail(most).iter_rows(named=True):
            marks.number, marks.offered = marks.number + 1, marks.offered + bool(found.spares.get(row["incident_id"]))
            marks.faults += faults(found, row)
        visible, planted = drills_fleet.visible(fleet.truth), set(fleet.truth.filter("lemon")["host"])
        flagged = {str(host["host"]) for host in found.lemons["hosts"] if host["lemon"]}
        marks.right, marks.wrong = marks.right + len(flagged & planted), marks.wrong + len(flagged - planted)
        marks.missed += len(visible - flagged)
    return marks


def cost_error(rows: pl.DataFrame) -> float:
    """Largest share by which a cost differs from the truth. Accounting has whole seconds: one second of the job's GPUs is no error."""
    off = (pl.col("read_lost") - pl.col("gpu_hours_lost")).abs() - pl.col("gpus") / 3600.0
    return float(rows.select((off.clip(0) / pl.col("gpu_hours_lost")).max()).item())


def test_a_small_fleet_is_read_back(tmp_path: Path) -> None:
    marks = judged([drills_fleet.generate(3, SMALL)], tmp_path, 25)
    assert marks.faults == []
    assert marks.offered >= marks.number // 2
    assert marks.cost <= 0.05
    assert marks.wrong == 0
    assert marks.right >= 1


def test_what_stands_by_now_is_idle_in_truth_and_places_are_told(tmp_path: Path) -> None:
    fleet = drills_fleet.generate(3, SMALL)
    found = read(fleet, tmp_path)
    bad = away(fleet, fleet.now) | held(fleet, fleet.now) | {host["host"] for host in found.lemons["hosts"] if host["lemon"]}
    named = [row["host"] for row in found.standby["candidates"]]
    assert named
    assert not set(named) & bad
    standing = found.standby["standing"]
    assert len(named) <= standing["usable"] <= standing["hosts"] - len(bad)
    assert not standing["breaker"]
    worst = found.lemons["hosts"][0]
    assert worst["lemon"]
    assert all(row["source"] and row["line"] for row in worst["broken"])
    assert worst["signals"]["excl_jobid_count"] is not None


@pytest.mark.slow
def test_200_job_killing_incidents_of_four_fleets(tmp_path: Path) -> None:
    marks = judged([drills_fleet.generate(seed) for seed in range(4)], tmp_path, 50)
    print(f"{marks.number} incidents, spares for {marks.offered}, {len(marks.faults)} faults, cost off by at most {marks.cost:.2%}")
    print(f"from logs: {marks.right} lemons marked, {marks.wrong} wrongly, {marks.missed} missed")
    assert marks.number == 200
    assert marks.offered >= 190
    assert marks.faults == []
    assert marks.cost <= 0.05
    assert marks.right >= 0.95 * (marks.right + marks.wrong)
    assert marks.right >= 0.90 * (marks.right + marks.missed)
