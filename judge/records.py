"""What the server's parts hand each other beside the nouns: records of the store, and what is open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from judge.model import (
    Case,
    Contest,
    Job,
    JobState,
    Mode,
    Outcome,
    Problem,
    Progress,
    Role,
    SourceFile,
    Submission,
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a token speaks for. Runner tokens have a device and no user."""

    token_id: int
    role: Role
    label: str
    user_id: int | None = None
    user: str = ""
    team_id: int | None = None
    team: str = ""
    device: str | None = None


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token without its secret."""

    id: int
    role: Role
    label: str
    device: str | None
    user_id: int | None
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewSubmission:
    """A checked submission on its way into the store, with its one job.

    sameness: as in `Submission`.
    """

    user_id: int
    team_id: int
    problem_id: str
    problem_version: int
    device: str
    mode: Mode
    main: str
    digest: str
    files: tuple[SourceFile, ...]
    received_at: datetime
    sameness: str = ""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A submission with the state of its job: one row of history, status and queue views.

    version: grows by at least one with every change of this record. held, hold: an organizer must look
    at it before it may rank, and why. confirms: the attempt that the one under way, or yet to come,
    confirms; None where no ranked run of this job has ended yet, or none needs it.
    """

    submission: Submission
    team: str
    author: str
    file_names: tuple[str, ...]
    job_id: int
    device: str
    mode: Mode
    state: JobState
    attempt: int
    version: int
    held: bool
    charged: bool
    progress: Progress | None
    runner: str | None
    lease_until: datetime | None
    last_heard_at: datetime | None
    finished_at: datetime | None
    outcome: Outcome | None
    hold: str = ""
    confirms: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One appended line of the history. subject: ids by noun, such as {"submission": 7, "job": 7}."""

    seq: int
    at: datetime
    kind: str
    subject: Mapping[str, int]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """stop: this attempt is no longer the runner's."""

    stop: bool


@dataclass(frozen=True, slots=True)
class OpenContest:
    """What the server knows beside the store: the contest, its problems and their public files.

    files: for each problem's id the content of its public files by name, such as `statement.md`.
    """

    contest: Contest
    problems: Mapping[str, Problem]
    files: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)


def job_of(
    record: JobRecord,
    problem: Problem,
    key: bytes,
    files: tuple[SourceFile, ...],
    cases: tuple[Case, ...],
) -> Job:
    """The job a runner is handed for the record's current attempt."""
    return Job(
        id=record.job_id,
        submission_id=record.submission.id,
        problem_id=problem.id,
        problem_digest=problem.digest,
        device=record.device,
        mode=record.mode,
        attempt=record.attempt,
        key=key,
        main=record.submission.main,
        files=files,
        cases=cases,
    )
