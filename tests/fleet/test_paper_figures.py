"""Published figures compute from their inputs to the digits that were printed."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from triage import checkpointing, overprovision, reliability
from triage.checkpointing import Costs
from triage.overprovision import Need
from triage.reliability import Projection

FIGURES = list(csv.DictReader((Path(__file__).parent / "paper_figures.csv").open(encoding="utf-8")))


def _need(hosts: float, recovery_s: float = 7920.0, rate: float | None = None, mtbe_h: float | None = None) -> Need:
    return Need(int(hosts), rate if rate is not None else 24_000.0 / (hosts * (mtbe_h or math.nan)), recovery_s)


def _ettr_v2_best(hosts: float, rate: float, restart_s: float, save_s: float) -> float:
    return reliability.ettr_v2(hosts, rate, reliability.best_interval_s(hosts, rate, save_s), restart_s, save_s)


def _flash_least(failures: float, period_s: float, restart_s: float, save_s: float) -> float:
    best = checkpointing.flashrecovery_best_s(failures, period_s, save_s)
    return checkpointing.flashrecovery_total_s(failures, period_s, best, restart_s, save_s)


CALLS: dict[str, Callable[..., float | None]] = {
    "mttf_h": reliability.mttf_h,
    "ettr_v1": reliability.ettr_v1,
    "ettr_v1_full": reliability.ettr_v1_full,
    "ettr_v2_best": _ettr_v2_best,
    "best_interval_min": lambda **k: reliability.best_interval_s(**k) / 60,
    "young_min": lambda **k: checkpointing.young_s(Costs(**k)) / 60,
    "young_waste_pct": lambda **k: 100 * checkpointing.waste(Costs(**k), checkpointing.young_s(Costs(**k))),
    "mtbe_h": reliability.mtbe_h,
    "mtbe_gb_h": reliability.mtbe_gb_h,
    "no_stall_month": lambda **k: overprovision.no_stall_month(_need(**k)),
    "no_stall_month_pct": lambda **k: 100 * overprovision.no_stall_month(_need(**k)) / k["hosts"],
    "time_availability": lambda **k: overprovision.time_availability(_need(**k)),
    "binomial_p99_day": lambda **k: overprovision.binomial_p99_day(_need(**k)),
    "flashrecovery_least_s": _flash_least,
    "failover_share": lambda **k: float(str(checkpointing.failover(**k)["threshold_s"])) / k["interval_s"],
    "gemini_recovery_pct": lambda **k: 100 * checkpointing.gemini_recovery(**{n: int(v) for n, v in k.items()}),
    "spare_share_pct": lambda **k: 100 * overprovision.spare_share(k["spares"], int(k["gang"])),
}


@pytest.mark.parametrize("row", FIGURES, ids=[f"{r['id']}-{r['call']}-{n}" for n, r in enumerate(FIGURES)])
def test_published_figure(row: dict[str, str]) -> None:
    inputs = {name: float(value) for name, value in (pair.split("=") for pair in row["inputs"].split(";"))}
    value = CALLS[row["call"]](**inputs)
    assert value is not None
    assert abs(value - float(row["printed"])) <= 0.5 * 10 ** -int(row["digits"]) + 1e-9


def test_project_has_its_keys_and_follows_the_full_form() -> None:
    out = reliability.project(Projection(1000, 6.5, checkpoint_s=1800, queue_s=60, run_s=7 * 86400))
    assert {"mttf_h", "ettr_v1", "ettr_v2", "best_interval_s"} <= out.keys()
    assert out["ettr_v1"] == pytest.approx(0.9051, abs=5e-5)


def test_project_without_an_interval_takes_the_best_one_for_v2() -> None:
    out = reliability.project(Projection(1500, 1.0))
    assert out["ettr_v2"] == pytest.approx(0.8979, abs=5e-5)
    assert out["best_interval_s"] == pytest.approx(97.98 * 60, abs=0.5)


def test_long_run_is_the_limit_of_the_full_form() -> None:
    long = reliability.ettr_v1_full(500, 5.0, 1800, 300, 120, 1e12)
    assert long == pytest.approx(reliability.ettr_v1_full(500, 5.0, 1800, 300, 120), rel=1e-6)


def test_ettr_never_falls_below_zero() -> None:
    out = reliability.project(Projection(100_000, 50.0))
    assert out["ettr_v1"] == 0
    assert out["note"]


def test_flashrecovery_minimum_is_the_stated_one_and_equals_young() -> None:
    m, d, s0, k0 = 7.0, 30 * 86400.0, 420.0, 35.0
    best = checkpointing.flashrecovery_best_s(m, d, k0)
    least = checkpointing.flashrecovery_total_s(m, d, best, s0, k0)
    assert least == pytest.approx(m * s0 + math.sqrt(2 * d * k0 * m))
    assert least < min(checkpointing.flashrecovery_total_s(m, d, best * f, s0, k0) for f in (0.9, 1.1))
    assert best == pytest.approx(checkpointing.young_s(Costs(d / m, k0)))


def test_checkpoint_rows() -> None:
    out = checkpointing.checkpoint(Costs(200 * 3600, 60, 60, 900))
    rows = out["rows"]
    assert isinstance(rows, list)
    assert [r["method"] for r in rows] == ["young", "daly", "flashrecovery", "meta_v2"]
    assert rows[1]["interval_s"] < rows[0]["interval_s"]
    assert checkpointing.daly_s(Costs(100, 250)) == 100


@pytest.mark.parametrize(("elapsed", "goes_on"), [(1100.0, False), (1300.0, True), (None, True)])
def test_failover(elapsed: float | None, goes_on: bool) -> None:
    assert checkpointing.failover(3600, 1.5, 0, elapsed)["continue"] is goes_on


@pytest.mark.parametrize("bad", [{"hosts": 0, "rate": 1}, {"hosts": 4, "rate": -1}, {"hosts": 4, "rate": 1, "recovery_s": math.inf}])
def test_impossible_inputs_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Need(**bad)  # type: ignore[arg-type]


def test_no_stall_month_is_the_least_that_suffices() -> None:
    from scipy.stats import poisson

    for hosts, rate, recovery in ((64, 2.0, 3600.0), (1000, 6.5, 7920.0), (152, 83.1, 300.0), (2000, 20.0, 86400.0)):
        need = Need(hosts, rate, recovery)
        k = overprovision.no_stall_month(need)
        stalls = [30 * 24 / need.mtbe_h * poisson.sf(n - 1, need.down) for n in (k - 1, k)]
        assert stalls[1] <= -math.log(0.99) < stalls[0]


def test_needed_rows_have_the_three_methods() -> None:
    rows = overprovision.needed(Need(152, 83.1), gang=60)
    assert [r["method"] for r in rows] == ["binomial_p99_day", "no_stall_month", "time_availability"]
    assert all(r["inputs"] for r in rows)


def test_poisson_interval_is_exact() -> None:
    low, high = reliability.poisson_interval(3)
    assert (round(low, 3), round(high, 3)) == (0.818, 7.754)
    assert reliability.poisson_interval(0)[0] == 0
