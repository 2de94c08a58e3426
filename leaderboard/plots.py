"""Geometry of the small plots on pages: pure numbers in, SVG coordinates out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from judge.stats import geometric_mean, median

WIDTH: Final = 240
HEIGHT: Final = 28
PAD: Final = 4
MAX_DOTS: Final = 200
TICK_PX: Final = 36
"""The least distance between two labels of an axis."""
WIDE: Final = 4.0
"""An axis whose ends are this far apart, as a ratio, is labelled at 1, 2, 5, 10, ..."""
LEAST_REACH: Final = 0.01
"""Box pairs are drawn on a scale that ends at one per cent at least, so that quiet looks quiet."""


@dataclass(frozen=True, slots=True)
class Strip:
    """A strip plot of samples on one axis that starts at zero, so that spread is seen to scale.

    dots: (x, y) in the box of `WIDTH` x `HEIGHT`; y spreads the order of the samples, so that a drift
    shows as a slope. median_x: where the median lies.
    """

    dots: tuple[tuple[float, float], ...]
    median_x: float
    low_ns: int
    high_ns: int


def strip(samples_ns: Sequence[int], axis_ns: float | None = None) -> Strip | None:
    """Place samples on a strip; None without samples.

    axis_ns: value at the right edge, by default the largest sample. At most `MAX_DOTS` dots are kept,
    evenly chosen, so that a page stays small; smallest, largest and median are always of all samples.
    """
    if not samples_ns:
        return None
    top = max(axis_ns or 0.0, float(max(samples_ns)), 1.0)
    step = max(1, -(-len(samples_ns) // MAX_DOTS))
    kept = list(enumerate(samples_ns))[::step]
    span = max(1, len(samples_ns) - 1)

    def x(value: float) -> float:
        return round(PAD + (WIDTH - 2 * PAD) * max(0.0, value) / top, 1)

    dots = tuple((x(v), round(PAD + (HEIGHT - 2 * PAD) * i / span, 1)) for i, v in kept)
    return Strip(dots, x(median(samples_ns)), min(samples_ns), max(samples_ns))


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis of speedups over `WIDTH`. ticks: x and label of each."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def x(self, ratio: float) -> float:
        """Where a speedup lies; one beyond an end lies at that end."""
        share = math.log(ratio / self.low) / math.log(self.high / self.low)
        return round(PAD + (WIDTH - 2 * PAD) * min(max(share, 0.0), 1.0), 1)


def speedup_axis(intervals: Sequence[tuple[float, float]]) -> Axis | None:
    """An axis that holds every interval, with labels at round numbers; None without any.

    intervals: lower and upper bounds, positive and finite. The axis spans two per cent at least.
    """
    if not intervals:
        return None
    low, high = min(i[0] for i in intervals), max(i[1] for i in intervals)
    room = max(1.01, (high / low) ** 0.03)
    bare = Axis(low / room, high * room, ())
    if high / low >= WIDE:
        return Axis(bare.low, bare.high, _labels(bare, _decades(bare)))
    # The widest steps that still leave three labels; the narrowest where none do.
    largest, smallest = math.floor(math.log10(bare.high)), math.floor(math.log10(bare.low)) - 3
    for exponent in range(largest, smallest - 1, -1):
        for digits in (5, 2, 1):
            ticks = _labels(bare, _multiples(bare, digits, exponent))
            if len(ticks) >= 3:
                return Axis(bare.low, bare.high, ticks)
    return bare


def _decades(axis: Axis) -> list[Decimal]:
    """1, 2 and 5 times the powers of ten along the axis."""
    first, last = math.floor(math.log10(axis.low)), math.floor(math.log10(axis.high))
    return [
        Decimal(digits).scaleb(exponent)
        for exponent in range(first, last + 1)
        for digits in (1, 2, 5)
    ]


def _multiples(axis: Axis, digits: int, exponent: int) -> list[Decimal]:
    step = Decimal(digits).scaleb(exponent)
    first, last = math.ceil(axis.low / float(step)), math.floor(axis.high / float(step))
    return [step * number for number in range(first, last + 1)]


def _labels(axis: Axis, values: Sequence[Decimal]) -> tuple[tuple[float, str], ...]:
    """The values on the axis with their places, without those too near to the one before."""
    ticks: list[tuple[float, str]] = []
    for value in values:
        x = axis.x(float(value)) if axis.low <= value <= axis.high else -1.0
        if x >= 0 and (not ticks or x - ticks[-1][0] >= TICK_PX):
            ticks.append((x, f"{value:f}x"))
    return tuple(ticks)


@dataclass(frozen=True, slots=True)
class Dots:
    """Speedups of box pairs around `middle`, which lies at half of `WIDTH`; `low`, `high` at its ends.

    y: the order of the pairs, the first at the top. mean_x: where their geometric mean lies.
    """

    dots: tuple[tuple[float, float], ...]
    mean: float
    mean_x: float
    low: float
    middle: float
    high: float


def scatters(groups: Sequence[tuple[Sequence[float], float | None]]) -> list[Dots | None]:
    """Place groups of speedups on one scale, so that their scatter compares by eye; None for none.

    groups: speedups of box pairs, with what lies in the middle: their geometric mean for None.
    """
    means = [geometric_mean(ratios) if ratios else 1.0 for ratios, _ in groups]
    middles = [
        mean if middle is None else middle for mean, (_, middle) in zip(means, groups, strict=True)
    ]
    placed = list(zip(groups, means, middles, strict=True))
    far = [abs(math.log(ratio / middle)) for (ratios, _), _, middle in placed for ratio in ratios]
    far_log = max(math.log1p(LEAST_REACH), max(far, default=0.0))
    return [
        _scatter(ratios, mean, middle, far_log) if ratios else None
        for (ratios, _), mean, middle in placed
    ]


def _scatter(ratios: Sequence[float], mean: float, middle: float, far_log: float) -> Dots:
    span = max(1, len(ratios) - 1)

    def x(ratio: float) -> float:
        return round(WIDTH / 2 + (WIDTH / 2 - PAD) * math.log(ratio / middle) / far_log, 1)

    dots = tuple(
        (x(ratio), round(PAD + (HEIGHT - 2 * PAD) * number / span, 1))
        for number, ratio in enumerate(ratios)
    )
    reach = math.exp(far_log)
    return Dots(dots, mean, x(mean), middle / reach, middle, middle * reach)
