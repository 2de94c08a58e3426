"""Pure numbers over samples: medians, spreads, intervals, geometric means."""

from __future__ import annotations

import math
from collections.abc import Sequence


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
