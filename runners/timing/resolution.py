"""How small a difference box pairs tell, from the spread of a kernel against its copy. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from judge.comparing import LOOKS
from judge.stats import Estimate, t_quantile

CONFIDENCE: Final = 0.95
WITHIN_S: Final = (20, 60)


@dataclass(frozen=True, slots=True)
class Series:
    """Box pairs of a kernel against its copy, all of one length.

    asked_s: measuring that was asked for, all pairs together. calls: timed calls of each box.
    pair_s: how long each pair took from two ready boxes on, its own loading, warm-up and checking
    included. values: log ratio of net medians of each pair.
    """

    asked_s: float
    calls: int
    pair_s: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def measured_s(self) -> float:
        return math.fsum(self.pair_s)

    @property
    def estimate(self) -> Estimate:
        """Raises ValueError for fewer than 2 pairs."""
        return Estimate.of(self.values)

    @property
    def spread(self) -> float:
        """Standard deviation between pairs: 0.01 is one per cent."""
        return math.sqrt(self.estimate.variance_of_mean * len(self.values))


def smallest_difference(series: Sequence[Series], seconds: float) -> float | None:
    """The log ratio that a ranked run of so many seconds of measuring tells from none, at 95 %.

    That is the half-width t * sd / sqrt(pairs) that the run's interval would have. Of the lengths of a
    pair the shortest counts whose pairs are no more than a ranked run has, else the longest; the
    choice looks at lengths alone, never at spreads. None where fewer than 2 pairs fit.
    """
    ordered = sorted(series, key=lambda each: each.measured_s / len(each.pair_s))
    fitting = [int(seconds * len(each.pair_s) / each.measured_s) for each in ordered]
    chosen = next((i for i, pairs in enumerate(fitting) if pairs <= LOOKS[-1]), len(ordered) - 1)
    pairs = min(fitting[chosen], LOOKS[-1])
    if pairs < 2:
        return None
    return t_quantile((1 + CONFIDENCE) / 2, pairs - 1) * ordered[chosen].spread / math.sqrt(pairs)


def smallest_differences(series: Sequence[Series]) -> Mapping[int, float]:
    """By seconds of measuring; those that hold no two pairs are left out."""
    found = {seconds: smallest_difference(series, seconds) for seconds in WITHIN_S}
    return {seconds: value for seconds, value in found.items() if value is not None}


def calls_for(pair_s: float, few: tuple[int, float], many: tuple[int, float]) -> int:
    """How many timed calls make a pair this long; never fewer than the few.

    few, many: calls and seconds of two pairs that were tried, the first with fewer calls.
    """
    per_call = max((many[1] - few[1]) / (many[0] - few[0]), 1e-6)
    return max(few[0], round(few[0] + (pair_s - few[1]) / per_call))


def quantile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share of them does not exceed.

    Raises ValueError for no samples.
    """
    if not samples:
        raise ValueError("the quantile of no samples is undefined")
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]
