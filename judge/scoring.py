"""From raw times to one number: net times per case and their geometric mean. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from judge.model import Measurement
from judge.stats import geometric_mean, median, median_interval

LONGEST_NS = 2**62
"""Raw times at or above this (146 years) are no times."""

CLOCK_STEP_NS = 1.0
"""The clock counts whole nanoseconds; no net time of a chain is known better than that."""


@dataclass(frozen=True, slots=True)
class NetTime:
    """The time of one call of a case, the judge's own path subtracted.

    ns: positive and finite. below_noise: the true time is at most `ns`, so that a speedup made from
    it is "at least" what it shows: the difference was smaller than the null kernel's uncertainty.
    """

    ns: float
    below_noise: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """The net time of every timing case, and their geometric mean. Lower is better."""

    times: Mapping[str, NetTime]
    geomean_ns: float

    @property
    def below_noise(self) -> tuple[str, ...]:
        """The cases whose time is only known to be at most what is shown."""
        return tuple(case for case, time in self.times.items() if time.below_noise)


def net_time(measurement: Measurement) -> NetTime | None:
    """Median time of a call of a timing case, minus that of the null kernel on the same path."""
    return net_of(measurement.samples_ns, measurement.null_samples_ns, measurement.chain)


def net_of(
    samples_ns: Sequence[float],
    null_ns: Sequence[float],
    chain: int,
    centre: Callable[[Sequence[float]], float] = median,
) -> NetTime | None:
    """The centre of the samples minus that of the null kernel's on the same path, for one call.

    Both centres are divided by the chain's length. A difference below the 99 % half-width of the
    null's median (never less than one step of the clock) counts as that half-width. None where a
    raw time is zero, negative or not finite, or where either arm has no samples: such a measurement
    is an error and never a score.
    """
    if not samples_ns or not null_ns or chain < 1:
        return None
    # Written so that NaN, which compares false with everything, fails too.
    if not all(0 < sample < LONGEST_NS for sample in (*samples_ns, *null_ns)):
        return None
    least = least_net_ns(null_ns, chain)
    net = centre(samples_ns) / chain - centre(null_ns) / chain
    return NetTime(least, below_noise=True) if net < least else NetTime(net)


def least_net_ns(null_ns: Sequence[float], chain: int) -> float:
    """The 99 % half-width of the null kernel's median, for one call: no net time is known better.

    Never less than one step of the clock. Raises ValueError for no samples.
    """
    low, high = median_interval(null_ns)
    return max((high - low) / 2, CLOCK_STEP_NS) / chain


def score(measurements: Sequence[Measurement], cases: Sequence[str]) -> Score | None:
    """The score of a job over the named timing cases, in their order.

    None where there are no cases, where a case is missing, measured twice or has no net time: a
    score over fewer cases than the others' would compare unlike things. Measurements of further
    cases are left out.
    """
    by_case: dict[str, Measurement] = {}
    for measurement in measurements:
        if measurement.case in by_case:
            return None
        by_case[measurement.case] = measurement
    times: dict[str, NetTime] = {}
    for case in cases:
        found = by_case.get(case)
        time = net_time(found) if found else None
        if time is None:
            return None
        times[case] = time
    if not times:
        return None
    return Score(times, geometric_mean([time.ns for time in times.values()]))
