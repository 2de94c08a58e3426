"""What the routes work with, gathered by whoever wires the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from judge.api.bell import Bell
from judge.api.changes import Changes
from judge.api.metrics import Metrics
from judge.intake import Intake
from judge.model import Outcome, Ruling
from judge.notices import NoticeBoard
from judge.pace import Pace
from judge.ports import Clock, Store
from judge.records import JobRecord, OpenContest
from judge.roll import Roll
from judge.views import Views


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one server.

    lease_s: how long a claim or heartbeat keeps a job. heartbeat_s: how often a runner should beat.
    depths: rings that wait, by queue; raises QueueError. trouble: what hinders judging, or None.
    rulings: what follows from the outcome of a ranked job, given its record before it ends.
    """

    store: Store
    opened: OpenContest
    views: Views
    pace: Pace
    roll: Roll
    bell: Bell
    changes: Changes
    metrics: Metrics
    intake: Intake
    notices: NoticeBoard
    clock: Clock
    lease_s: float
    heartbeat_s: float
    backups_dir: Path
    depths: Callable[[], Mapping[str, int]]
    trouble: Callable[[], str | None]
    rulings: Callable[[JobRecord, Outcome], Ruling]
