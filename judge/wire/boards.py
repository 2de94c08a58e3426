"""Bodies about boards."""

from __future__ import annotations

from datetime import datetime

from judge.model import Mode
from judge.wire.base import Body


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


class BoardRefBody(Body):
    problem: str
    title: str
    device: str
    entries: int
