"""What happens to a job: decided by `leaderboard.transitions`, written here with its events.

Each operation gives its answer and the records that changed, as they now stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, bindparam, insert, select, update

from judge.model import JobState, Outcome, Progress, Refusal, Ruling
from judge.records import HeartbeatReply, JobRecord
from judge.wire import OutcomeBody
from leaderboard import transitions
from leaderboard.schema import is_running, jobs, outcomes, to_us
from leaderboard.store.history import note
from leaderboard.store.rows import job_row, outcome_of, outcome_row
from leaderboard.store.submissions import bounded, record, record_of_job
from leaderboard.transitions import Change

T = TypeVar("T")
Written = tuple[T, tuple[JobRecord, ...]]

UNCHANGED: tuple[JobRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class SignOfLife:
    """What a heartbeat says, when it came, and until when it renews the lease."""

    attempt: int
    progress: Progress
    loaded: bool
    now: datetime
    lease_until: datetime


_UPDATE_JOB = update(jobs).where(jobs.c.id == bindparam("job"))
_INSERT_OUTCOME = insert(outcomes)

_OTHERS_RUNNING: Select[Any] = select(jobs.c.id).where(
    is_running, jobs.c.team_id == bindparam("team"), jobs.c.id != bindparam("job")
)
_RUNS: Select[Any] = (
    select(outcomes.c.body, outcomes.c.log)
    .select_from(jobs.join(outcomes, outcomes.c.job_id == jobs.c.id))
    .where(jobs.c.submission_id == bindparam("sought"))
    .order_by(outcomes.c.attempt)
)
_LOST: Select[Any] = select(jobs.c.id).where(is_running, jobs.c.lease_us <= bindparam("now_us"))


def claim(
    connection: Connection, job_id: int, runner: str, now: datetime, lease_until: datetime
) -> Written[JobRecord | Refusal]:
    old = record_of_job(connection, job_id)
    if old is None:
        return _unknown(job_id), UNCHANGED
    asked = {"team": old.submission.team_id, "job": job_id}
    team_busy = connection.execute(_OTHERS_RUNNING, asked).first() is not None
    change = transitions.claim(old, runner, now, lease_until, team_busy)
    if isinstance(change, Refusal):
        return change, UNCHANGED
    new = _write(connection, old, change, now, lease_until)
    return change.refusal or new, (new,)


def heartbeat(connection: Connection, job_id: int, sign: SignOfLife) -> Written[HeartbeatReply]:
    old = record_of_job(connection, job_id)
    change = None if old is None else transitions.heartbeat(old, sign.attempt, sign.loaded)
    if old is None or change is None:
        return HeartbeatReply(stop=True), UNCHANGED
    new = _write(connection, old, change, sign.now, sign.lease_until, sign.progress)
    return HeartbeatReply(stop=False), (new,)


def finish(
    connection: Connection, outcome: Outcome, ruling: Ruling, now: datetime
) -> Written[JobRecord | Refusal]:
    old = record_of_job(connection, outcome.job_id)
    if old is None:
        refusal = _unknown(outcome.job_id)
        _keep_refused(connection, outcome, refusal, {"job": outcome.job_id}, now)
        return refusal, UNCHANGED
    change = transitions.finish(old, outcome, ruling)
    if isinstance(change, Refusal):
        _keep_refused(connection, outcome, change, _subject(old), now)
        return change, UNCHANGED
    new = _write(connection, old, change, now)
    return new, (new,)


def lost(connection: Connection, now: datetime) -> tuple[int, ...]:
    """Ids of the running jobs whose lease ran out."""
    # Sorted here: asked for this order, SQLite would walk all jobs rather than the partial index.
    return tuple(sorted(connection.execute(_LOST, {"now_us": to_us(now)}).scalars()))


def release_lost(connection: Connection, now: datetime) -> Written[tuple[int, ...]]:
    changed = []
    for job_id in lost(connection, now):
        old = record_of_job(connection, job_id)
        change = None if old is None else transitions.release_lost(old, now)
        if old is not None and change is not None:
            changed.append(_write(connection, old, change, now))
    return tuple(record.job_id for record in changed), tuple(changed)


def give_up(
    connection: Connection, job_id: int, why: str, now: datetime
) -> Written[JobRecord | Refusal]:
    old = record_of_job(connection, job_id)
    if old is None:
        return _unknown(job_id), UNCHANGED
    change = transitions.give_up(old, why, now)
    if isinstance(change, Refusal):
        return change, UNCHANGED
    new = _write(connection, old, change, now)
    return new, (new,)


def cancel(
    connection: Connection, submission_id: int, now: datetime, even_confirming: bool
) -> Written[JobRecord | Refusal]:
    old = record(connection, submission_id)
    if old is None:
        return _unknown_submission(submission_id), UNCHANGED
    change = transitions.cancel(old, even_confirming)
    if isinstance(change, Refusal):
        return change, UNCHANGED
    new = _write(connection, old, change, now)
    return new, (new,)


def moderate(
    connection: Connection,
    submission_id: int,
    hold: str,
    by: int,
    now: datetime,
    ruling: Ruling,
) -> Written[JobRecord | Refusal]:
    """by: the organizer's token id; the events keep it."""
    old = record(connection, submission_id)
    if old is None:
        return _unknown_submission(submission_id), UNCHANGED
    change = transitions.moderate(old, hold, by, ruling)
    if isinstance(change, Refusal):
        return change, UNCHANGED
    if not change.happened:
        return old, UNCHANGED
    new = _write(connection, old, change, now)
    return new, (new,)


def runs(connection: Connection, submission_id: int) -> tuple[Outcome, ...]:
    rows = connection.execute(_RUNS, {"sought": bounded(submission_id)})
    return tuple(outcome_of(row.body, bytes(row.log)) for row in rows)


def _write(
    connection: Connection,
    old: JobRecord,
    change: Change,
    now: datetime,
    lease_until: datetime | None = None,
    progress: Progress | None = None,
) -> JobRecord:
    """Append the events, keep the outcome, and set the row to what the events add up to.

    lease_until, progress: of the runner who asks; they end with the attempt.
    """
    stand = transitions.stand_after(transitions.stand_of(old), change.happened, now)
    running = stand.state is JobState.RUNNING
    new = replace(
        old,
        state=stand.state,
        attempt=stand.attempt,
        held=stand.held,
        charged=stand.charged,
        runner=stand.runner,
        finished_at=stand.finished_at,
        version=old.version + 1,
        lease_until=lease_until if running else None,
        last_heard_at=now if lease_until is not None and running else old.last_heard_at,
        progress=progress if running else None,
        # The outcome of a run that is yet to be confirmed is kept, but it is not the job's.
        outcome=(change.outcome or old.outcome) if stand.state is JobState.DONE else None,
        hold=stand.hold,
        confirms=stand.confirms,
    )
    for event in change.happened:
        note(connection, event.kind, {**_subject(old), **event.by}, event.body, now)
    if change.outcome is not None:
        connection.execute(_INSERT_OUTCOME, outcome_row(change.outcome, now))
    connection.execute(_UPDATE_JOB, {"job": old.job_id, **job_row(new)})
    return new


def _keep_refused(
    connection: Connection,
    outcome: Outcome,
    refusal: Refusal,
    subject: Mapping[str, int],
    now: datetime,
) -> None:
    body = {
        "attempt": outcome.attempt,
        "code": refusal.code,
        "outcome": OutcomeBody.of(outcome).model_dump(mode="json"),
    }
    note(connection, "job.outcome_refused", subject, body, now)


def _subject(record: JobRecord) -> dict[str, int]:
    return {
        "submission": record.submission.id,
        "job": record.job_id,
        "team": record.submission.team_id,
    }


def _unknown_submission(submission_id: int) -> Refusal:
    return Refusal("submission_unknown", f"There is no submission {submission_id}.", 404)


def _unknown(job_id: int) -> Refusal:
    return Refusal("job_unknown", f"There is no job {job_id}.", 404)
