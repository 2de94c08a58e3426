"""A measured figure, its table and its JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. bound: what was asked for, with `<` or `>`; empty where nothing was.

    samples: in `unit`, in the order they were taken; the value shown is their median.
    """

    name: str
    unit: str
    samples: tuple[float, ...]
    bound: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest."""
        return min(self.samples), max(self.samples)


def table(rows: Sequence[Row]) -> str:
    """Plain text: name, n, median, smallest to largest, unit, bound."""
    lines = [f"{'figure':<58}{'n':>6}{'median':>12}   {'smallest - largest':<24}{'unit':<8}asked"]
    for row in rows:
        low, high = row.spread
        spread = f"{low:,.4g} - {high:,.4g}"
        lines.append(
            f"{row.name:<58}{len(row.samples):>6}{row.median:>12,.4g}   {spread:<24}"
            f"{row.unit:<8}{row.bound}"
        )
    return "\n".join(lines)


def as_json(rows: Sequence[Row]) -> str:
    """The same, with every sample."""
    return json.dumps([{**asdict(row), "median": row.median} for row in rows], indent=1)
