"""Submissions and their files: taken in, and read back as records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, insert, select, text

from judge.model import JobState, Mode, Outcome, Refusal, SourceFile, Submission
from judge.ports import StoreError
from judge.records import JobRecord, NewSubmission
from leaderboard.quotas import over_quota
from leaderboard.schema import (
    blobs,
    counts_for_quota,
    from_us,
    is_done,
    is_unfinished,
    jobs,
    outcomes,
    submissions,
    teams,
    to_us,
    users,
)
from leaderboard.store.history import note
from leaderboard.store.prepared import Prepared
from leaderboard.store.rows import (
    MAX_ID,
    bare_records,
    dump_json,
    outcome_of,
    record_of,
    records,
    records_with_log,
)

BATCH = 500
"""Outcomes asked for in one query: a database takes so many parameters and no more."""

# Columns of a job that differ from one new job to the next; the others start as told here.
_NEW_JOB = {
    "state": str(JobState.QUEUED),
    "attempt": 0,
    "version": 1,
    "held": False,
    "charged": False,
}

_INSERT_BLOB = Prepared(
    text("INSERT INTO blobs (digest, content) VALUES (:digest, :content) ON CONFLICT DO NOTHING")
)
_INSERT_SUBMISSION = Prepared(
    insert(submissions).returning(submissions.c.id),
    [column.name for column in submissions.c if column.name != "id"],
)
_INSERT_JOB = Prepared(
    insert(jobs).returning(jobs.c.id),
    ["submission_id", "team_id", "problem_id", "device", "mode", "received_us", *_NEW_JOB],
)
_COUNTED = Prepared(
    select(jobs.c.received_us)
    .where(
        jobs.c.team_id == bindparam("team"),
        jobs.c.mode == bindparam("asked_mode"),
        jobs.c.received_us > bindparam("since"),
        counts_for_quota,
    )
    .order_by(jobs.c.received_us.desc())
    .limit(1)
    .offset(bindparam("newer"))
)

_NAMES: Select[Any] = (
    select(users.c.name.label("author"), teams.c.name.label("team"))
    .select_from(users.join(teams, users.c.team_id == teams.c.id))
    .where(users.c.id == bindparam("user_id"), teams.c.id == bindparam("team_id"))
)
_BY_ID: Select[Any] = records_with_log.where(submissions.c.id == bindparam("sought"))
_BY_JOB: Select[Any] = records_with_log.where(jobs.c.id == bindparam("sought"))
_FILES: Select[Any] = select(submissions.c.files).where(submissions.c.id == bindparam("sought"))
_FRONT = (
    select(func.min(jobs.c.id))
    .where(is_unfinished)
    .group_by(jobs.c.team_id, jobs.c.device, jobs.c.state, jobs.c.mode)
)


@dataclass(frozen=True, slots=True)
class Names:
    """What a user and their team are called, for good."""

    author: str
    team: str


def names(connection: Connection, user_id: int, team_id: int) -> Names:
    """Raises StoreError where the user is not of the team."""
    row = connection.execute(_NAMES, {"user_id": user_id, "team_id": team_id}).first()
    if row is None:
        raise StoreError(f"There is no user {user_id} in team {team_id}.")
    return Names(row.author, row.team)


def add(
    connection: Connection, new: NewSubmission, names: Names, quota: tuple[int, int] | None
) -> JobRecord | Refusal:
    if quota is not None:
        refusal = _over_quota(connection, new, *quota)
        if refusal is not None:
            return refusal
    shared = {
        "team_id": new.team_id,
        "problem_id": new.problem_id,
        "received_us": to_us(new.received_at),
    }
    submission = {
        **shared,
        "user_id": new.user_id,
        "problem_version": new.problem_version,
        "main": new.main,
        "digest": new.digest,
        "sameness": new.sameness,
        "files": _keep_files(connection, new.files),
    }
    submission_id = _INSERT_SUBMISSION.run(connection, submission)
    job = {
        **shared,
        **_NEW_JOB,
        "submission_id": submission_id,
        "device": new.device,
        "mode": str(new.mode),
    }
    job_id = _INSERT_JOB.run(connection, job)
    subject = {
        "submission": submission_id,
        "job": job_id,
        "team": new.team_id,
        "user": new.user_id,
    }
    body = {
        "problem": new.problem_id,
        "problem_version": new.problem_version,
        "device": new.device,
        "mode": str(new.mode),
        "sha256": new.digest,
    }
    note(connection, "submission.received", subject, body, new.received_at)
    return _fresh(new, submission_id, job_id, names)


def record(connection: Connection, submission_id: int) -> JobRecord | None:
    return _one(connection, _BY_ID, submission_id)


def record_of_job(connection: Connection, job_id: int) -> JobRecord | None:
    return _one(connection, _BY_JOB, job_id)


def files(connection: Connection, submission_id: int) -> tuple[SourceFile, ...]:
    """In the order they were handed in; none for an unknown submission."""
    stored = connection.execute(_FILES, {"sought": bounded(submission_id)}).scalar()
    manifest = [] if stored is None else json.loads(stored)
    wanted = {bytes.fromhex(digest) for _, digest in manifest}
    found = select(blobs).where(blobs.c.digest.in_(wanted))
    contents = {bytes(row.digest): bytes(row.content) for row in connection.execute(found)}
    return tuple(SourceFile(name, contents[bytes.fromhex(digest)]) for name, digest in manifest)


def history(
    connection: Connection,
    team_id: int | None,
    problem_id: str | None,
    before: int | None,
    limit: int,
) -> tuple[JobRecord, ...]:
    query = records
    if team_id is not None:
        query = query.where(submissions.c.team_id == team_id)
    if problem_id is not None:
        query = query.where(submissions.c.problem_id == problem_id)
    if before is not None:
        query = query.where(submissions.c.id < bounded(before))
    query = query.order_by(submissions.c.id.desc()).limit(bounded(limit))
    return tuple(record_of(row) for row in connection.execute(query))


def unfinished(connection: Connection, device: str | None) -> tuple[JobRecord, ...]:
    query = records.where(is_unfinished)
    if device is not None:
        query = query.where(jobs.c.device == device)
    # Sorted here: asked for this order, SQLite would walk all jobs rather than the partial index.
    rows = sorted(connection.execute(query), key=lambda row: row.job_id)
    return tuple(record_of(row) for row in rows)


def front(connection: Connection) -> tuple[JobRecord, ...]:
    query = records.where(jobs.c.id.in_(_FRONT)).order_by(jobs.c.id)
    return tuple(record_of(row) for row in connection.execute(query))


def finished(
    connection: Connection,
    problem_id: str,
    device: str,
    mode: Mode,
    known: Mapping[tuple[int, int], Outcome],
) -> tuple[JobRecord, ...]:
    query = bare_records.where(
        is_done,
        jobs.c.problem_id == problem_id,
        jobs.c.device == device,
        jobs.c.mode == str(mode),
    ).order_by(jobs.c.submission_id)
    found = [record_of(row) for row in connection.execute(query)]
    unknown = [key for key in map(_attempt, found) if key not in known]
    read = _outcomes(connection, unknown)
    return tuple(
        replace(record, outcome=known.get(_attempt(record)) or read.get(_attempt(record)))
        for record in found
    )


def _attempt(record: JobRecord) -> tuple[int, int]:
    return record.job_id, record.attempt


def _outcomes(
    connection: Connection, wanted: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Outcome]:
    """The outcomes of some jobs' attempts, logs left out."""
    read = {}
    for start in range(0, len(wanted), BATCH):
        batch = set(wanted[start : start + BATCH])
        jobs_of_batch = [job_id for job_id, _ in batch]
        query = select(outcomes.c.job_id, outcomes.c.attempt, outcomes.c.body)
        for row in connection.execute(query.where(outcomes.c.job_id.in_(jobs_of_batch))):
            if (row.job_id, row.attempt) in batch:
                read[row.job_id, row.attempt] = outcome_of(row.body, b"")
    return read


def _over_quota(
    connection: Connection, new: NewSubmission, count: int, per_s: int
) -> Refusal | None:
    since = to_us(new.received_at - timedelta(seconds=per_s))
    asked = {"team": new.team_id, "asked_mode": str(new.mode), "since": since}
    filler_us = _COUNTED.run(connection, {**asked, "newer": max(0, count - 1)})
    filler = None if filler_us is None else from_us(filler_us)
    return over_quota(filler, count, per_s, new.mode)


def _keep_files(connection: Connection, kept: tuple[SourceFile, ...]) -> str:
    """Store the contents, each once, and give the manifest: names and digests in order."""
    manifest = []
    for file in kept:
        digest = hashlib.sha256(file.content)
        _INSERT_BLOB.run(connection, {"digest": digest.digest(), "content": file.content})
        manifest.append((file.name, digest.hexdigest()))
    return dump_json(manifest)


def _fresh(new: NewSubmission, submission_id: int, job_id: int, names: Names) -> JobRecord:
    return JobRecord(
        submission=Submission(
            id=submission_id,
            team_id=new.team_id,
            user_id=new.user_id,
            problem_id=new.problem_id,
            problem_version=new.problem_version,
            main=new.main,
            digest=new.digest,
            received_at=new.received_at,
            sameness=new.sameness,
        ),
        team=names.team,
        author=names.author,
        file_names=tuple(file.name for file in new.files),
        job_id=job_id,
        device=new.device,
        mode=new.mode,
        state=JobState.QUEUED,
        attempt=0,
        version=1,
        held=False,
        charged=False,
        progress=None,
        runner=None,
        lease_until=None,
        last_heard_at=None,
        finished_at=None,
        outcome=None,
    )


def _one(connection: Connection, query: Select[Any], sought: int) -> JobRecord | None:
    row = connection.execute(query, {"sought": bounded(sought)}).first()
    return None if row is None else record_of(row)


def bounded(number: int) -> int:
    """Ids and limits come from URLs, where a number may be larger than a database can hold."""
    return max(-1, min(number, MAX_ID))
