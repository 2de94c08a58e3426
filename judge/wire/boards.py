"""Bodies about boards."""

from __future__ import annotations

from datetime import datetime

from judge.model import Mode
from judge.wire.base import Body
from judge.wire.ranked import SpeedupBody


class EntryBody(Body):
    rank: int | None
    team_id: int
    team: str
    submission_id: int
    received_at: datetime
    score_ns: float | None
    times_ns: dict[str, float]
    note: str


class BoardBody(Body):
    """A board. heading says what it is worth: benchmark boards are practice, not ranked."""

    problem: str
    problem_version: int
    device: str
    mode: Mode
    heading: str
    as_of: datetime
    frozen: bool
    cases: list[str]
    entries: list[EntryBody]


class RankedEntryBody(Body):
    """A line of a ranked board: see `judge.model.RankedEntry`."""

    rank: int | None
    band: int | None
    team_id: int
    team: str
    submission_ids: list[int]
    received_at: datetime
    claim: SpeedupBody | None
    against_best: SpeedupBody | None
    note: str


class RankedBoardBody(Body):
    """A ranked board, best first, then those without a rank.

    heading names baseline, workload, axis, device and confidence, which every claim holds too.
    baseline, best: names of the kernels that the claims are against; None where there is none.
    """

    problem: str
    problem_version: int
    device: str
    mode: Mode
    heading: str
    baseline: str | None
    best: str | None
    as_of: datetime
    frozen: bool
    entries: list[RankedEntryBody]


class BoardRefBody(Body):
    """A board that there is. ranked: teams with a rank. entries: lines of the practice table."""

    problem: str
    title: str
    device: str
    ranked: int
    entries: int
