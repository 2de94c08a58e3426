"""A line of a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from judge.model.comparison import Claim


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a benchmark board.

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


@dataclass(frozen=True, slots=True)
class RankedEntry:
    """One line of a ranked board: a team's standing kernel, with all runs of it pooled.

    submission_ids: those pooled, ascending. received_at: the earliest receipt that the team has in
    this band. claim: against the problem's baseline; None where the run is held. against_best: against
    the best kernel that ships; None until that has a ranked run of its own on the device.
    band: 1-based; entries of one band cannot be told from its best. rank: 1 + the teams in better
    bands. Both are None where the entry is shown but not ranked, with `note` saying why.
    """

    team_id: int
    team: str
    submission_ids: tuple[int, ...]
    received_at: datetime
    claim: Claim | None
    against_best: Claim | None
    band: int | None
    rank: int | None
    note: str = ""
