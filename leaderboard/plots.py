"""Geometry of the small plots on pages: pure numbers in, SVG coordinates out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from judge.stats import median

WIDTH: Final = 240
HEIGHT: Final = 28
PAD: Final = 4
MAX_DOTS: Final = 200


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
