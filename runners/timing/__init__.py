"""How well this machine tells two kernels apart, what disturbs it, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

LONGEST_S: Final = 20.0
"""Measuring of the longest series, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What to examine. longest_s: measuring of the longest series, starts of boxes not counted.

    neighbour: whether a second runner is tried too. state_dir: where the figures are left.
    """

    longest_s: float
    device: str
    evaluator_core: int | None
    box_core: int | None
    state_dir: Path
    neighbour: bool
    as_json: bool
