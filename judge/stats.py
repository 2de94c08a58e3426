"""Pure numbers over samples: medians, spreads, means, and how well they are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_TINY: Final = 1e-300
"""Stands for zero where a continued fraction divides by it."""


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two middle ones.

    Raises ValueError for no samples.
    """
    if not samples:
        raise ValueError("the median of no samples is undefined")
    ordered = sorted(samples)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return float(ordered[middle])
    return (ordered[middle - 1] + ordered[middle]) / 2


def trimmed_mean(samples: Sequence[float], share: float = 0.1) -> float:
    """The mean without the lowest and the highest `share` of the samples, each rounded down.

    share: from 0 to below 0.5. Raises ValueError for no samples, or another share.
    """
    if not samples or not 0 <= share < 0.5:
        raise ValueError("a trimmed mean needs samples, and a share from 0 to below 0.5")
    cut = math.floor(share * len(samples))
    kept = sorted(samples)[cut : len(samples) - cut]
    return math.fsum(kept) / len(kept)


def relative_spread(samples: Sequence[float]) -> float:
    """Half the middle 50 % of the samples, as a share of their median.

    samples: one entry per kept call, at least 4, with a median that is not zero.
    Returns a ratio without unit: 0.01 means about 1 % of noise.
    Raises ValueError for fewer than 4 samples: quartiles of less say nothing.
    """
    if len(samples) < 4:
        raise ValueError(f"a spread needs at least 4 samples, got {len(samples)}")
    ordered = sorted(samples)
    return (_quantile(ordered, 0.75) - _quantile(ordered, 0.25)) / 2 / median(ordered)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile by linear interpolation between neighbours (type 7 of Hyndman and Fan)."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def median_interval(samples: Sequence[float], confidence: float = 0.99) -> tuple[float, float]:
    """Two samples that hold the true median between them with the given confidence.

    Distribution-free: the k-th smallest and the k-th largest sample, with the largest k whose
    coverage 1 - 2 P(Binomial(n, 1/2) < k) reaches `confidence` (David and Nagaraja, Order
    Statistics, 7.1). Where even the whole range does not (n < 8 at 99 %), the whole range.
    Raises ValueError for no samples.
    """
    if not samples:
        raise ValueError("the interval of no samples is undefined")
    ordered = sorted(samples)
    n = len(ordered)
    allowed = (1 - confidence) / 2
    tail, k = 0.0, 0
    while k < n // 2:
        tail += math.exp(_log_choose(n, k) - n * math.log(2))
        if tail > allowed:
            break
        k += 1
    rank = max(k, 1)
    return float(ordered[rank - 1]), float(ordered[n - rank])


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean, by the mean of logarithms, so that no product under- or overflows.

    values: positive and finite. Raises ValueError for no values, or for one that is not.
    """
    if not values:
        raise ValueError("the geometric mean of no values is undefined")
    if not all(0 < value < math.inf for value in values):
        raise ValueError("a geometric mean needs positive finite values")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


@lru_cache(maxsize=256)
def t_quantile(p: float, dof: float) -> float:
    """The value that a variable of Student's t distribution is under with probability `p`.

    p: from 1e-9 to 1 - 1e-9. dof: degrees of freedom, any real number from 0.5 to 1e5. Exact to 1e-9
    of its value. Newton's method on the upper tail, which falls and is convex above 0, so that every
    step from 0 stays below the root. Raises ValueError for another `p` or `dof`.
    """
    if not 1e-9 <= p <= 1 - 1e-9 or not 0.5 <= dof <= 1e5:
        raise ValueError(f"no quantile of t for p = {p} and {dof} degrees of freedom")
    beyond = min(p, 1 - p)
    log_scale = _log_beta(dof / 2, 0.5) + math.log(dof) / 2
    t, step = 0.0, math.inf
    while step > 1e-12 * t:
        density = math.exp(-(dof + 1) / 2 * math.log1p(t * t / dof) - log_scale)
        step = (_upper_tail(t, dof) - beyond) / density
        t += step
    return t if p >= 0.5 else -t


def _upper_tail(t: float, dof: float) -> float:
    """The probability that a t variable exceeds `t` >= 0 (NIST DLMF 8.17.1 and 8.17.4)."""
    outside = t * t / (dof + t * t)
    inside = dof / (dof + t * t)
    if inside < (dof / 2 + 1) / (dof / 2 + 2.5):
        return _incomplete_beta(inside, outside, dof / 2, 0.5) / 2
    return (1 - _incomplete_beta(outside, inside, 0.5, dof / 2)) / 2


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), for x below (a + 1) / (a + b + 2).

    rest: 1 - x, given for its digits. By the continued fraction of NIST DLMF 8.17.22, evaluated from
    the front (Lentz's method, DLMF 3.10).
    """
    if x <= 0:
        return 0.0
    value, front, back = 1.0, 1.0, 0.0
    for term in range(1, 10_000):
        m = term // 2
        if term % 2:
            factor = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            factor = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        back = 1 / ((1 + factor * back) or _TINY)
        front = (1 + factor / front) or _TINY
        value *= front * back
        if abs(front * back - 1) < 1e-15:
            break
    log_power = a * math.log(x) + b * math.log(rest) - _log_beta(a, b)
    return math.exp(log_power) / (a * value)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and how well it is known: the variance of the mean itself, and its degrees of freedom.

    A variance of 0 is taken at its word: every interval is then the mean alone.
    """

    mean: float
    variance_of_mean: float
    dof: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """The estimate of the mean that independent values come from.

        Raises ValueError for fewer than 2: one value says nothing of its own spread.
        """
        n = len(values)
        if n < 2:
            raise ValueError(f"an estimate needs at least 2 values, got {n}")
        # From the first value on, so that equal values have exactly themselves as their mean.
        mean = values[0] + math.fsum(value - values[0] for value in values) / n
        squares = math.fsum((value - mean) ** 2 for value in values)
        return cls(mean, squares / (n - 1) / n, n - 1)

    def half_width(self, confidence: float) -> float:
        """Half of the t-interval at this confidence (0.99 is 99 %), in the unit of the mean."""
        return t_quantile((1 + confidence) / 2, self.dof) * math.sqrt(self.variance_of_mean)

    def interval(self, confidence: float) -> tuple[float, float]:
        """The t-interval around the mean at this confidence."""
        half = self.half_width(confidence)
        return self.mean - half, self.mean + half

    def may_be(self, value: float, confidence: float) -> bool:
        """Whether the interval at this confidence contains `value`."""
        low, high = self.interval(confidence)
        return low <= value <= high

    def minus(self, other: Estimate) -> Estimate:
        """This mean minus another one that is independent of it.

        Degrees of freedom after Welch (1947) and Satterthwaite (1946).
        """
        variance = self.variance_of_mean + other.variance_of_mean
        if variance == 0:
            return Estimate(self.mean - other.mean, 0.0, self.dof + other.dof)
        share = self.variance_of_mean / variance
        dof = 1 / (share**2 / self.dof + (1 - share) ** 2 / other.dof)
        return Estimate(self.mean - other.mean, variance, dof)
