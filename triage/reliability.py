"""Closed forms for failure rates, MTTF and expected ETTR; stated inputs only.

A rate is in failures per 1,000 host-days, as operators quote it; times are seconds unless the name says otherwise.
ETTR is productive run time over wall time (queue included) of a job run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Projection:
    """What `triage project` was asked; the defaults are the assumptions of Meta's paper (arXiv 2410.21680).

    checkpoint_s   interval between checkpoints; None: one hour for ETTR v1, the best interval for v2
    restart_s      overhead of each start, u0
    save_s         time for which a save blocks training, w_cp
    queue_s        wait before each start
    run_s          productive time of the whole run; None: long against every overhead
    """

    hosts: float
    rate: float
    checkpoint_s: float | None = None
    restart_s: float = 300.0
    save_s: float = 300.0
    queue_s: float = 0.0
    run_s: float | None = None

    def __post_init__(self) -> None:
        positive = {"hosts": self.hosts, "rate": self.rate, "checkpoint": self.checkpoint_s, "save": self.save_s, "run": self.run_s}
        for name, value in positive.items():
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be above 0")
        for name, value in {"restart": self.restart_s, "queue": self.queue_s}.items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must not be negative")


def failures_per_s(hosts: float, rate: float) -> float:
    """N r_f in failures per second of a job on `hosts` hosts."""
    return hosts * rate / 1000.0 / DAY_S


def mttf_h(hosts: float, rate: float) -> float:
    """Mean time to failure in hours of a job on `hosts` hosts, 1/(N r_f). Source: Meta, HPCA 2025."""
    return 1.0 / failures_per_s(hosts, rate) / 3600.0


def lost_share(hosts: float, rate: float, checkpoint_s: float, restart_s: float) -> float:
    """Share of run time that failures undo, A = N r_f (u0 + dt/2): a restart and half an interval for each. Source: Meta v1."""
    return failures_per_s(hosts, rate) * (restart_s + checkpoint_s / 2.0)


def ettr_v1(hosts: float, rate: float, checkpoint_s: float, restart_s: float) -> float:
    """1 - N r_f (u0 + dt/2): no queue, a long run; not below 0. Source: Meta v1; within about 5 % of simulation."""
    return max(0.0, 1.0 - lost_share(hosts, rate, checkpoint_s, restart_s))


def ettr_v1_full(
    hosts: float, rate: float, checkpoint_s: float, restart_s: float, queue_s: float = 0.0, run_s: float | None = None
) -> float:
    """R(1-A) / ((R+u0)(1 + N r_f q) + q(1-A)), re-derived from the definition R/(Q+R+U); `run_s` None is its limit for a long run.

    Source: definitions of Meta v1.
    """
    kept = ettr_v1(hosts, rate, checkpoint_s, restart_s)
    queues = 1.0 + failures_per_s(hosts, rate) * queue_s
    if run_s is None:
        return kept / queues
    return run_s * kept / ((run_s + restart_s) * queues + queue_s * kept)


def ettr_v2(hosts: float, rate: float, checkpoint_s: float, restart_s: float, save_s: float) -> float:
    """(1 - N r_f (u0 + dt/2)) / (1 + w_cp/dt): saves block training for w_cp. Source: Meta v2."""
    return ettr_v1(hosts, rate, checkpoint_s, restart_s) / (1.0 + save_s / checkpoint_s)


def best_interval_s(hosts: float, rate: float, save_s: float) -> float:
    """Interval in seconds that maximises ETTR v2 to first order, sqrt(2 w_cp / (N r_f)). Source: Meta v2."""
    return math.sqrt(2.0 * save_s / failures_per_s(hosts, rate))


def project(asked: Projection) -> dict[str, object]:
    """The JSON of `triage project`: MTTF, ETTR v1 (queue and run length where given), ETTR v2 at the stated or else the best interval."""
    n, rate = asked.hosts, asked.rate
    best = best_interval_s(n, rate, asked.save_s)
    v1_interval = asked.checkpoint_s or 3600.0
    v2_interval = asked.checkpoint_s or best
    lost = lost_share(n, rate, v1_interval, asked.restart_s)
    return {
        "mttf_h": mttf_h(n, rate),
        "ettr_v1": ettr_v1_full(n, rate, v1_interval, asked.restart_s, asked.queue_s, asked.run_s),
        "ettr_v2": ettr_v2(n, rate, v2_interval, asked.restart_s, asked.save_s),
        "best_interval_s": best,
        "ettr_v2_best": ettr_v2(n, rate, best, asked.restart_s, asked.save_s),
        "inputs": {
            "hosts": n,
            "rate_per_1000_host_days": rate,
            "checkpoint_s": asked.checkpoint_s,
            "ettr_v1_interval_s": v1_interval,
            "ettr_v2_interval_s": v2_interval,
            "restart_s": asked.restart_s,
            "save_s": asked.save_s,
            "queue_s": asked.queue_s,
            "run_s": asked.run_s,
        },
        "note": "failures undo all progress at this interval: ETTR is 0" if lost >= 1 else None,
    }


def mtbe_h(hours: float, errors: float, per: float = 1.0) -> float | None:
    """Mean time between errors in hours, hours * per / errors; None without an error.

    `per` is 1 for the system, the number of hosts or of GPUs for one of them. Source: NCSA Delta (arXiv 2503.11901).
    """
    return hours * per / errors if errors > 0 else None


def mtbe_gb_h(gpu_mtbe_h: float, gb: float) -> float:
    """Mean time between memory errors per GB of GPU memory, in hours. Source: NCSA Delta."""
    return gpu_mtbe_h * gb


def availability(mtbf_h: float, mttr_h: float) -> float:
    """MTBF / (MTBF + MTTR) of one host. Source: NCSA Delta."""
    return mtbf_h / (mtbf_h + mttr_h)


def poisson_interval(count: float, level: float = 0.9) -> tuple[float, float]:
    """Exact (Garwood, 1936) interval of a Poisson mean for a count; fractional counts are allowed."""
    # scipy.stats has the same under other names and takes a second to load
    from scipy.special import gammaincinv

    tail = (1.0 - level) / 2.0
    low = float(gammaincinv(count, tail)) if count > 0 else 0.0
    return low, float(gammaincinv(count + 1.0, 1.0 - tail))


def share_interval(hits: int, trials: int, level: float = 0.9) -> tuple[float, float]:
    """Exact (Clopper-Pearson, 1934) interval of a share."""
    from scipy.special import betaincinv

    tail = (1.0 - level) / 2.0
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits > 0 else 0.0
    return low, float(betaincinv(hits + 1, trials - hits, 1.0 - tail)) if hits < trials else 1.0
