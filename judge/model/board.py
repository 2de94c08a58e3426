"""A line of a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a board.

    times_ns: net median of each timing case. score_ns: their geometric mean.
    rank: 1-based; None where the entry is shown but not ranked, with `note` saying why.
    """

    team_id: int
    team: str
    submission_id: int
    received_at: datetime
    score_ns: float | None
    times_ns: Mapping[str, float]
    rank: int | None
    note: str = ""
