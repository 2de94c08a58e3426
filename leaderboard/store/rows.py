"""Rows to nouns and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Row, RowMapping, Select, and_, select

from judge.model import JobState, Mode, Outcome, Progress, Submission
from judge.records import Event, JobRecord
from judge.wire import OutcomeBody
from leaderboard.schema import from_us, is_done, jobs, outcomes, submissions, teams, to_us, users

MAX_ID = 2**63 - 1
"""The largest number both databases can hold as an id."""


def optional_us(at: datetime | None) -> int | None:
    return None if at is None else to_us(at)


def optional_time(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)


def dump_json(value: Any) -> str:
    """Compact JSON of plain values."""
    return to_json(value).decode()


def outcome_row(outcome: Outcome, now: datetime) -> dict[str, Any]:
    """The row that keeps an attempt's outcome whole."""
    body = OutcomeBody.of(outcome).model_dump_json(exclude={"log"})
    return {
        "job_id": outcome.job_id,
        "attempt": outcome.attempt,
        "verdict": str(outcome.verdict),
        "at_us": to_us(now),
        "body": body,
        "log": outcome.log.encode(),
    }


def outcome_of(body: str, log: bytes) -> Outcome:
    outcome = OutcomeBody.model_validate_json(body).to_model()
    return replace(outcome, log=log.decode()) if log else outcome


_FACTS = (
    submissions.c.id.label("submission_id"),
    submissions.c.team_id,
    submissions.c.user_id,
    submissions.c.problem_id,
    submissions.c.problem_version,
    submissions.c.main,
    submissions.c.digest,
    submissions.c.files,
    submissions.c.received_us,
    submissions.c.sameness,
    teams.c.name.label("team"),
    users.c.name.label("author"),
    jobs.c.id.label("job_id"),
    *(
        column
        for column in jobs.c
        if column.name not in ("id", "submission_id", "team_id", "problem_id", "received_us")
    ),
)

_JOBS = (
    jobs.join(submissions, jobs.c.submission_id == submissions.c.id)
    .join(teams, submissions.c.team_id == teams.c.id)
    .join(users, submissions.c.user_id == users.c.id)
)
_FROM = _JOBS.outerjoin(
    outcomes,
    # An attempt that was queued again has an outcome too, but it is not the job's.
    and_(outcomes.c.job_id == jobs.c.id, outcomes.c.attempt == jobs.c.attempt, is_done),
)

bare_records: Select[Any] = select(*_FACTS).select_from(_JOBS)
"""Job records without their outcome."""

records: Select[Any] = select(*_FACTS, outcomes.c.body.label("outcome_body")).select_from(_FROM)
"""Job records without the raw log of their outcome."""

records_with_log: Select[Any] = records.add_columns(outcomes.c.log.label("outcome_log"))


def record_of(row: Row[Any]) -> JobRecord:
    """The record in a row of `bare_records`, `records` or `records_with_log`."""
    facts = row._mapping
    body = facts.get("outcome_body")
    return JobRecord(
        submission=Submission(
            id=facts["submission_id"],
            team_id=facts["team_id"],
            user_id=facts["user_id"],
            problem_id=facts["problem_id"],
            problem_version=facts["problem_version"],
            main=facts["main"],
            digest=facts["digest"],
            received_at=from_us(facts["received_us"]),
            sameness=facts["sameness"],
        ),
        team=facts["team"],
        author=facts["author"],
        file_names=tuple(name for name, _ in json.loads(facts["files"])),
        job_id=facts["job_id"],
        device=facts["device"],
        mode=Mode(facts["mode"]),
        state=JobState(facts["state"]),
        attempt=facts["attempt"],
        version=facts["version"],
        held=facts["held"],
        charged=facts["charged"],
        progress=_progress(facts),
        runner=facts["runner"],
        lease_until=optional_time(facts["lease_us"]),
        last_heard_at=optional_time(facts["heard_us"]),
        finished_at=optional_time(facts["finished_us"]),
        outcome=None if body is None else outcome_of(body, facts.get("outcome_log", b"")),
        hold=facts["hold"],
        confirms=facts["confirms"],
    )


def job_row(record: JobRecord) -> dict[str, Any]:
    """The columns of a job that change, from the record as it now stands."""
    progress = record.progress
    return {
        "state": str(record.state),
        "attempt": record.attempt,
        "version": record.version,
        "held": record.held,
        "charged": record.charged,
        "runner": record.runner,
        "lease_us": optional_us(record.lease_until),
        "heard_us": optional_us(record.last_heard_at),
        "finished_us": optional_us(record.finished_at),
        "stage": progress.stage if progress else None,
        "stage_done": progress.done if progress else None,
        "stage_total": progress.total if progress else None,
        "hold": record.hold,
        "confirms": record.confirms,
    }


def event_row(
    kind: str, subject: Mapping[str, int], body: Mapping[str, Any], at: datetime
) -> dict[str, Any]:
    return {
        "at_us": to_us(at),
        "kind": kind,
        "subject": dump_json(dict(subject)),
        "body": dump_json(dict(body)),
    }


def event_of(row: Row[Any]) -> Event:
    return Event(
        seq=row.seq,
        at=from_us(row.at_us),
        kind=row.kind,
        subject=json.loads(row.subject),
        body=json.loads(row.body),
    )


def _progress(facts: RowMapping) -> Progress | None:
    if facts["stage"] is None:
        return None
    return Progress(facts["stage"], facts["stage_done"], facts["stage_total"])
