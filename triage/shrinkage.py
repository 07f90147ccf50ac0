"""Gamma-Poisson shrinkage of host rates with two kinds of host: the healthy many and the bad few.

A single Gamma prior drags the few bad hosts to the fleet's mean and pads the healthy ones; two Gammas fitted to the fleet do neither,
and the lower bound of a host's interval rises only when the data rules the healthy kind out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is assumed before any data.

    healthy      shape of the healthy Gamma; 2: rates of healthy hosts vary by 70 %
    bad          shape of the bad Gamma; 1: anything from rare to daily
    ratio        the bad mean is at least so many times the healthy one
    rate         failures per host-day where the fleet says little (Meta RSC-1, 6.5 per 1,000)
    rate_hosts   weight of `rate`, in hosts
    bad_hosts    prior count of bad hosts, among
    most_bad     lemons are few: a larger share is how the fleet is
    prior_hosts  so many: 4 %, between Meta's 1.2 to 1.7 % and the 3 of 63 hosts of the 504-GPU report
    """

    healthy: float = 2.0
    bad: float = 1.0
    ratio: float = 5.0
    rate: float = 6.5e-3
    rate_hosts: float = 1.0
    bad_hosts: float = 1.0
    prior_hosts: float = 25.0
    most_bad: float = 0.1


@dataclass(frozen=True, slots=True)
class Prior:
    """The fitted fleet: share of bad hosts and the mean rate of each kind, per host-day."""

    share_bad: float
    healthy: float
    bad: float
    shape: Shape


@dataclass(frozen=True, slots=True)
class Posterior:
    """Per host: rate (posterior mean), low and high (of the interval) and the chance of being of the bad kind."""

    rate: Vector
    low: Vector
    high: Vector
    bad: Vector


def fit(counts: Vector, days: Vector, shape: Shape, rounds: int = 100) -> Prior:
    """Fit the two kinds to (fractional) counts over exposure in days by expectation-maximisation."""
    if not counts.size:
        return Prior(shape.bad_hosts / shape.prior_hosts, shape.rate, shape.rate * 20, shape)
    ordinary = counts <= max(1.0, float(np.quantile(counts, 0.9)))
    calm = (counts[ordinary].sum() + shape.rate) / (days[ordinary].sum() + 1.0)
    prior = Prior(shape.bad_hosts / shape.prior_hosts, max(calm, 1e-6), max(calm, shape.rate) * 20, shape)
    for _ in range(rounds):
        prior = _step(prior, counts, days)
    return prior


def posterior(counts: Vector, days: Vector, prior: Prior, level: float = 0.9, evidence: Vector | float = 0.0) -> Posterior:
    """Mean and central interval of each host's rate; `evidence` is added to the log-odds of the bad kind (see `same_device`)."""
    bad = _chance_bad(prior, counts, days, evidence)
    kinds = _kinds(prior, counts, days)
    rate = (1.0 - bad) * kinds[0][0] / kinds[0][1] + bad * kinds[1][0] / kinds[1][1]
    tail = (1.0 - level) / 2.0
    return Posterior(rate, _quantile(tail, bad, kinds), _quantile(1.0 - tail, bad, kinds), bad)


def _kinds(prior: Prior, counts: Vector, days: Vector) -> tuple[tuple[Vector, Vector], tuple[Vector, Vector]]:
    """Shape and inverse scale of each kind's posterior Gamma."""
    s = prior.shape
    return (
        (s.healthy + counts, s.healthy / prior.healthy + days),
        (s.bad + counts, s.bad / prior.bad + days),
    )


def _step(prior: Prior, counts: Vector, days: Vector) -> Prior:
    s = prior.shape
    bad = _chance_bad(prior, counts, days)
    (a0, b0), (a1, b1) = _kinds(prior, counts, days)
    healthy = float((((1 - bad) * a0 / b0).sum() + s.rate_hosts * s.rate) / ((1 - bad).sum() + s.rate_hosts))
    worst = float(((bad * a1 / b1).sum() + s.bad_hosts * 20 * healthy) / (bad.sum() + s.bad_hosts))
    share = float((bad.sum() + s.bad_hosts) / (counts.size + s.prior_hosts))
    return Prior(min(share, s.most_bad), healthy, max(worst, s.ratio * healthy), s)


def same_device(faults: Vector, most: Vector, devices: Vector, repeats: float = 0.9, hardware: float = 0.5) -> Vector:
    """Log-likelihood ratio, bad against healthy, of how a host's faults fall on its devices.

    faults    faults whose device is known; most: those on the device hit most; devices: how many the host has
    repeats   share of the faults of a bad device's host that fall on it; hardware: share of bad hosts that are so for one device

    A healthy host's faults fall on any of its devices alike; three on one GPU of eight are 1 in 64 by chance.
    """
    later, stray = np.maximum(most - 1, 0), np.maximum(faults - most, 0)
    size = np.maximum(devices, 2)
    one = later * np.log(repeats) + stray * np.log((1 - repeats) / (size - 1)) + np.maximum(faults - 1, 0) * np.log(size)
    ratio: Vector = np.where(faults >= 2, np.log(1 - hardware + hardware * np.exp(np.minimum(one, 50.0))), 0.0)
    return ratio


def _chance_bad(prior: Prior, counts: Vector, days: Vector, evidence: Vector | float = 0.0) -> Vector:
    s = prior.shape
    odds = _log_marginal(counts, days, s.bad, prior.bad) - _log_marginal(counts, days, s.healthy, prior.healthy)
    odds += np.log(prior.share_bad) - np.log1p(-prior.share_bad) + evidence
    chance: Vector = 1.0 / (1.0 + np.exp(-np.clip(odds, -700, 700)))
    return chance


def _log_marginal(counts: Vector, days: Vector, shape: float, mean: float) -> Vector:
    """Log of the negative binomial mass without the part that both kinds share."""
    from scipy.special import gammaln

    inverse = shape / mean
    mass: Vector = gammaln(shape + counts) - gammaln(shape) + shape * np.log(inverse / (inverse + days)) - counts * np.log(inverse + days)
    return mass


def _quantile(level: float, bad: Vector, kinds: tuple[tuple[Vector, Vector], tuple[Vector, Vector]]) -> Vector:
    """Quantile of the mixture by bisection over the logarithm of the rate."""
    from scipy.special import gammainc

    low, high = np.full(bad.shape, -30.0), np.full(bad.shape, 10.0)
    for _ in range(50):
        middle = (low + high) / 2.0
        rate = np.exp(middle)
        below = (1.0 - bad) * gammainc(kinds[0][0], rate * kinds[0][1]) + bad * gammainc(kinds[1][0], rate * kinds[1][1]) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    result: Vector = np.exp((low + high) / 2.0)
    return result
