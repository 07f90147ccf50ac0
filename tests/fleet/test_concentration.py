"""Concentration against its null, and the back-test."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from triage.concentration import backtest, concentration


def at(day: float) -> datetime:
    return datetime.fromisoformat("2031-05-01") + timedelta(days=day)


def _table(failures: list[int], days: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"host": [f"h{i:03d}" for i in range(len(days))], "failures": failures, "days": days})


@pytest.mark.parametrize(("mean", "share"), [(0.2, 0.60), (1.0, 0.30), (5.0, 0.185)])
def test_chance_alone_concentrates_sparse_failures(mean: float, share: float) -> None:
    counts = np.random.default_rng(5).poisson(mean, 500).tolist()
    out = concentration(_table(counts, [28.0] * 500))
    assert out["null_share"] == pytest.approx(share, abs=0.03)
    assert float(str(out["p_value"])) > 0.01


def test_few_hosts_with_most_failures_stand_out() -> None:
    out = concentration(_table([12, 10, 9] + [0, 1] * 30, [28.0] * 63))
    assert float(str(out["p_value"])) < 0.001
    assert float(str(out["top10_share"])) > float(str(out["null_p99"]))


def test_a_busy_host_is_no_concentration() -> None:
    out = concentration(_table([40] + [2] * 20, [560.0] + [28.0] * 20))
    assert float(str(out["p_value"])) > 0.05


def test_no_failures_give_nulls() -> None:
    out = concentration(_table([0, 0], [1.0, 1.0]))
    assert out["top10_share"] is None
    assert out["p_value"] is None


def _spans(hosts: int, days: int) -> pl.DataFrame:
    return pl.DataFrame([{"host": f"h{i:03d}", "start": at(0), "end": at(days)} for i in range(hosts)])


def test_recurring_hosts_are_found_ahead_and_only_by_their_history() -> None:
    rows = [{"host": f"h{h:03d}", "ts": at(d + 0.1 * h), "weight": 1.0} for h in (3, 7) for d in range(1, 60, 3)]
    out = backtest(pl.DataFrame(rows), _spans(100, 62), at(62))
    assert out["capture_at_5pct"] == 1.0
    assert out["lift"] == pytest.approx(20)
    assert out["auc"] == 1.0
    blind = out["without_history"]
    assert isinstance(blind, dict)
    assert blind["auc"] == pytest.approx(0.5)
    assert blind["capture_at_5pct"] == pytest.approx(0.05)


def test_failures_by_chance_are_not_found_ahead() -> None:
    rng = np.random.default_rng(8)
    rows = [
        {"host": f"h{h:03d}", "ts": at(d), "weight": 1.0} for h, d in zip(rng.integers(0, 100, 200), rng.uniform(0, 90, 200), strict=True)
    ]
    out = backtest(pl.DataFrame(rows), _spans(100, 90), at(90))
    assert float(str(out["auc"])) == pytest.approx(0.5, abs=0.08)


def test_too_little_data_gives_nulls() -> None:
    none = pl.DataFrame(schema={"host": pl.String, "ts": pl.Datetime("us"), "weight": pl.Float64})
    assert backtest(none, _spans(3, 5), at(5))["auc"] is None
    assert backtest(none, none.select("host", start="ts", end="ts"), at(5))["capture_at_5pct"] is None
