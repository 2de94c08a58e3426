"""How small a difference box pairs tell, from the spread of a kernel against its copy. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from judge.comparing import LOOKS
from judge.model import Pair
from judge.pairs import pair_value
from judge.stats import Estimate, t_quantile

CONFIDENCE: Final = 0.95
WITHIN_S: Final = (20, 60)
FEW_CALLS: Final = 4
"""Of each box, in the shortest series: the middle half of fewer says nothing."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long box pairs take: loading, warm-up and the end, then every timed call of both boxes."""

    fixed_s: float
    call_s: float

    @classmethod
    def of(cls, few: tuple[int, float], many: tuple[int, float]) -> Pace:
        """From the calls and seconds of two pairs, the first with fewer calls."""
        call_s = max((many[1] - few[1]) / (many[0] - few[0]), 1e-6)
        return cls(max(few[1] - few[0] * call_s, 0.0), call_s)

    def calls_in(self, pair_s: float) -> int:
        """Timed calls of each box in a pair of this length: even, since calls take turns by twos."""
        return max(FEW_CALLS, int((pair_s - self.fixed_s) / self.call_s) // 2 * 2)


@dataclass(frozen=True, slots=True)
class Series:
    """Box pairs of a kernel against its copy, as they stood after so many calls.

    asked_s: measuring that was asked for, all pairs together; measured_s: what it took, from two
    ready boxes on: loading, warm-up and checking included. calls: timed calls of each box. values: of
    each pair, as `judge.pairs` defines it.
    """

    asked_s: float
    measured_s: float
    calls: int
    values: tuple[float, ...]

    @property
    def estimate(self) -> Estimate:
        """Raises ValueError for fewer than 2 pairs."""
        return Estimate.of(self.values)

    @property
    def spread(self) -> float:
        """Standard deviation between pairs: 0.01 is one per cent."""
        return math.sqrt(self.estimate.variance_of_mean * len(self.values))

    def fitting(self, seconds: float) -> int:
        """How many such pairs fit in so many seconds of measuring."""
        return int(seconds * len(self.values) / self.measured_s)


def series_after(pairs: Sequence[tuple[Pair, float]], asked_s: float, pace: Pace) -> Series:
    """What whole pairs, with their seconds, said when only the first of their calls were made.

    Every pair has a value, and made at least the calls that `asked_s` of all pairs holds.
    """
    calls = pace.calls_in(asked_s / len(pairs))
    values, measured_s = [], 0.0
    for pair, whole_s in pairs:
        value = pair_value(first_calls(pair, calls))
        if value is None:
            raise ValueError("a pair of the series holds a time that is none")
        values.append(value)
        made = len(pair.cases[0].baseline_ns)
        fixed_s = min(pace.fixed_s, whole_s)
        measured_s += fixed_s + (whole_s - fixed_s) * calls / made
    return Series(asked_s, measured_s, calls, tuple(values))


def first_calls(pair: Pair, calls: int) -> Pair:
    """The pair as it stood after so many timed calls of each box, and the null kernel's until then."""
    cases = tuple(
        replace(
            case,
            baseline_ns=case.baseline_ns[:calls],
            candidate_ns=case.candidate_ns[:calls],
            null_ns=case.null_ns[: calls * len(case.null_ns) // len(case.baseline_ns)],
        )
        for case in pair.cases
    )
    return replace(pair, cases=cases)


def smallest_difference(series: Sequence[Series], seconds: float) -> float | None:
    """The log ratio that a ranked run of so many seconds of measuring tells from none, at 95 %.

    That is the half-width t * sd / sqrt(pairs) that the run's interval would have. Of the lengths of a
    pair that one counts whose pairs come nearest to the most that a ranked run has; the choice looks
    at lengths alone, never at spreads. None where fewer than 2 pairs fit.
    """
    chosen = min(series, key=lambda each: abs(math.log(max(each.fitting(seconds), 1) / LOOKS[-1])))
    pairs = min(chosen.fitting(seconds), LOOKS[-1])
    if pairs < 2:
        return None
    return t_quantile((1 + CONFIDENCE) / 2, pairs - 1) * chosen.spread / math.sqrt(pairs)


def smallest_differences(series: Sequence[Series]) -> Mapping[int, float]:
    """By seconds of measuring; those that hold no two pairs are left out."""
    found = {seconds: smallest_difference(series, seconds) for seconds in WITHIN_S}
    return {seconds: value for seconds, value in found.items() if value is not None}


def quantile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share of them does not exceed.

    Raises ValueError for no samples.
    """
    if not samples:
        raise ValueError("the quantile of no samples is undefined")
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]
