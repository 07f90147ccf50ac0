"""How many spare hosts a fleet needs: closed forms over stated inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """What `triage spares --hosts N --rate F` was asked.

    rate        failures per 1,000 host-days
    recovery_s  mean time until a failed host is back; 2.2 h is Delta's measured repair time
    confidence  of a day without shortage (binomial) and of a month without stall
    available   share of time in which the spares suffice
    horizon_d   the month
    """

    hosts: int
    rate: float
    recovery_s: float = 7920.0
    confidence: float = 0.99
    available: float = 0.999
    horizon_d: float = 30.0

    def __post_init__(self) -> None:
        for name, value in {"hosts": self.hosts, "rate": self.rate, "recovery": self.recovery_s, "horizon": self.horizon_d}.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be above 0")
        for name, value in {"confidence": self.confidence, "available": self.available}.items():
            if not 0 < value < 1:
                raise ValueError(f"{name} must lie between 0 and 1")

    @property
    def mtbe_h(self) -> float:
        """Hours between two failures anywhere in the fleet."""
        return 24_000.0 / (self.hosts * self.rate)

    @property
    def down(self) -> float:
        """Mean number of hosts that are down at once (M/G/infinity: only the mean repair time matters)."""
        return self.recovery_s / 3600.0 / self.mtbe_h


def binomial_p99_day(need: Need) -> int:
    """Least k with BinomCDF(k; hosts, p) >= confidence, p = chance that a host fails in a day. Source: ByteRobust (arXiv 2509.16293)."""
    from scipy.stats import binom

    return int(binom.ppf(need.confidence, need.hosts, min(1.0, need.rate / 1000.0)))


def time_availability(need: Need) -> int:
    """Least k with P(Poisson(down) > k) <= 1 - available: spares suffice in that share of the time."""
    from scipy.stats import poisson

    return min(need.hosts, int(poisson.ppf(need.available, need.down)))


def no_stall_month(need: Need) -> int:
    """Least k with (H / MTBE) P(Poisson(down) >= k) <= -ln(confidence): no failure of the whole horizon finds every spare in use.

    Gives the 5 % and 2 % that Delta publishes for repairs of 2.2 h and 5 min, which the share of time does not.
    """
    from scipy.stats import poisson

    failures = need.horizon_d * 24.0 / need.mtbe_h
    wanted = -math.log(need.confidence) / failures
    if wanted >= 1:
        return 0
    # P(X >= k) <= wanted is P(X > k - 1) <= wanted
    return min(need.hosts, int(poisson.isf(wanted, need.down)) + 1)


METHODS = {"binomial_p99_day": binomial_p99_day, "no_stall_month": no_stall_month, "time_availability": time_availability}


def needed(need: Need, gang: int | None = None) -> list[dict[str, object]]:
    """The `needed` rows of `triage spares`; `gang` is the host count of the largest job, for the spare share (504-GPU report)."""
    inputs: dict[str, object] = {
        "hosts": need.hosts,
        "rate_per_1000_host_days": need.rate,
        "recovery_s": need.recovery_s,
        "confidence": need.confidence,
        "available": need.available,
        "horizon_days": need.horizon_d,
        "mtbe_system_h": need.mtbe_h,
        "mean_down": need.down,
    }
    rows: list[dict[str, object]] = []
    for method, spares in METHODS.items():
        count = spares(need)
        share = spare_share(count, gang) if gang else None
        rows.append({"method": method, "spares": count, "share": count / need.hosts, "share_of_gang": share, "inputs": inputs})
    return rows


def spare_share(spares: float, gang: int) -> float:
    """Spares over the hosts of the largest gang job. Source: 504-GPU report (arXiv 2605.09370), 3/60."""
    return spares / gang
