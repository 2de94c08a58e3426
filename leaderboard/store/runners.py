"""Runners: decided by `judge.enrolment`, written here with their events."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, func, insert, select, update

from judge import enrolment
from judge.enrolment import Hello, RunnerRecord, SelfTest
from judge.model import Refusal, RunnerState, Verdict
from leaderboard.schema import from_us, is_running, jobs, runners, submissions, to_us, tokens
from leaderboard.store.history import note
from leaderboard.store.rows import dump_json, optional_time, optional_us

_VALID: Select[Any] = select(runners).join(
    tokens, and_(tokens.c.id == runners.c.token_id, tokens.c.revoked_us.is_(None))
)
_OF_TOKEN = select(runners).where(runners.c.token_id == bindparam("token"))
_NAMED = _VALID.where(runners.c.name == bindparam("called"))
_ALL = _VALID.order_by(runners.c.device, runners.c.name)
_OF_JOB: Select[Any] = (
    select(runners, jobs.c.submission_id)
    .join(tokens, and_(tokens.c.id == runners.c.token_id, tokens.c.revoked_us.is_(None)))
    .join(jobs, and_(jobs.c.runner == runners.c.name, jobs.c.device == runners.c.device))
    .where(jobs.c.id == bindparam("job"), is_running)
)
_TEAMS: Select[Any] = select(func.count(submissions.c.team_id.distinct())).where(
    submissions.c.id.in_(bindparam("failed", expanding=True))
)
_BUSY: Select[Any] = select(jobs.c.runner).where(
    is_running, jobs.c.device == bindparam("device"), jobs.c.lease_us > bindparam("now_us")
)
_UPDATE = update(runners).where(runners.c.token_id == bindparam("token"))


def greet(
    connection: Connection, token_id: int, device: str, hello: Hello, now: datetime
) -> RunnerRecord | Refusal:
    old = runner(connection, token_id)
    if old is not None and old.name != hello.name:
        return enrolment.bound(old, hello.name)
    if old is not None:
        new = enrolment.greeted(old, hello, now)
        _write(connection, old, new, now)
        return new
    if _named(connection, hello.name) is not None:
        return Refusal(
            "runner_name_taken",
            f"A runner named {hello.name} has another token; choose another name with --name, or "
            "revoke that token (`judge admin tokens`, `judge admin revoke ID`).",
            409,
        )
    new = enrolment.enrolled(token_id, device, hello, now)
    connection.execute(insert(runners), {"token_id": token_id, **_row(new)})
    body = {"name": new.name, "device": device, "isolation": hello.isolation}
    note(connection, "runner.enrolled", {"token": token_id}, body, now)
    return new


def runner(connection: Connection, token_id: int) -> RunnerRecord | None:
    row = connection.execute(_OF_TOKEN, {"token": token_id}).first()
    return None if row is None else _record_of(row)


def everyone(connection: Connection) -> tuple[RunnerRecord, ...]:
    return tuple(_record_of(row) for row in connection.execute(_ALL))


def note_seen(connection: Connection, token_id: int, now: datetime) -> None:
    connection.execute(_UPDATE.values(last_seen_us=to_us(now)), {"token": token_id})


def quarantine(
    connection: Connection, name: str, why: str, by: int, now: datetime
) -> RunnerRecord | Refusal:
    return _set(connection, name, now, lambda old: enrolment.quarantined(old, why, by, now))


def reinstate(connection: Connection, name: str, by: int, now: datetime) -> RunnerRecord | Refusal:
    return _set(connection, name, now, lambda old: enrolment.reinstated(old, by, now))


def working_on(connection: Connection, job_id: int) -> tuple[RunnerRecord, int] | None:
    """The runner whose attempt at the job is under way, and the submission."""
    row = connection.execute(_OF_JOB, {"job": job_id}).first()
    return None if row is None else (_record_of(row), row.submission_id)


def note_verdict(
    connection: Connection, worked: tuple[RunnerRecord, int] | None, verdict: Verdict, now: datetime
) -> None:
    """Count the outcome for or against the runner that handed it in. worked: as it was before."""
    if worked is None:
        return
    old, submission_id = worked
    if verdict.is_ours:
        circumstances = _teams(connection, old, submission_id), _is_alone(connection, old, now)
        new = enrolment.after_failure(old, submission_id, now, *circumstances)
    else:
        new = enrolment.after_verdict(old)
    _write(connection, old, new, now)


def note_lost(connection: Connection, job_ids: Sequence[int], now: datetime) -> None:
    """Count leases that ran out against their runners. Call it before the jobs are released."""
    for job_id in job_ids:
        worked = working_on(connection, job_id)
        if worked is not None:
            old, submission_id = worked
            circumstances = _teams(connection, old, submission_id), _is_alone(connection, old, now)
            new = enrolment.after_loss(old, submission_id, now, *circumstances)
            _write(connection, old, new, now)


def _teams(connection: Connection, runner: RunnerRecord, submission_id: int) -> int:
    """How many teams' submissions it failed on in a row, with this one."""
    failed = {*runner.failures, submission_id} - {enrolment.SELF_TEST}
    count: int = connection.execute(_TEAMS, {"failed": sorted(failed)}).scalar_one()
    return count


def _is_alone(connection: Connection, runner: RunnerRecord, now: datetime) -> bool:
    """Whether no runner that covers it was heard lately or holds a job."""
    asked = {"device": runner.device, "now_us": to_us(now)}
    busy = set(connection.execute(_BUSY, asked).scalars())
    return not any(
        enrolment.covers(other, runner)
        and (other.name in busy or now - other.last_seen <= enrolment.LIVING)
        for other in everyone(connection)
    )


def _set(
    connection: Connection,
    name: str,
    now: datetime,
    change: Callable[[RunnerRecord], RunnerRecord],
) -> RunnerRecord | Refusal:
    old = _named(connection, name)
    if old is None:
        known = ", ".join(record.name for record in everyone(connection)) or "none yet"
        detail = f'There is no runner "{name}"; those that said hello: {known}.'
        return Refusal("runner_unknown", detail, 404)
    new = change(old)
    _write(connection, old, new, now)
    return new


def _named(connection: Connection, name: str) -> RunnerRecord | None:
    row = connection.execute(_NAMED, {"called": name}).first()
    return None if row is None else _record_of(row)


def _write(connection: Connection, old: RunnerRecord, new: RunnerRecord, now: datetime) -> None:
    """Set the row, and append the event of a change of state, or of a reason for one."""
    if new == old:
        return
    connection.execute(_UPDATE, {"token": old.token_id, **_row(new)})
    if new.state is not old.state:
        kind = f"runner.{'quarantined' if new.state is RunnerState.QUARANTINED else 'reinstated'}"
    elif new.state is RunnerState.ACTIVE and new.why and not old.why:
        kind = "runner.suspected"
    else:
        return
    body = {"name": new.name, "device": new.device, "why": new.why, "failures": list(old.failures)}
    subject = {"token": new.token_id} | ({} if new.by is None else {"by": new.by})
    note(connection, kind, subject, body, now)


def _row(record: RunnerRecord) -> dict[str, Any]:
    hello = record.hello
    test = hello.self_test
    facts = {
        "reasons": hello.reasons,
        "environment": hello.environment,
        "problems": hello.problems,
        "self_test": [test.passed, test.detail, to_us(test.began_at)],
        "lost_us": optional_us(record.lost_at),
    }
    return {
        "name": hello.name,
        "device": record.device,
        "first_seen_us": to_us(record.first_seen),
        "last_seen_us": to_us(record.last_seen),
        "isolation": hello.isolation,
        "facts": dump_json(facts),
        "doctor": None if hello.doctor is None else dump_json(hello.doctor),
        "state": str(record.state),
        "since_us": to_us(record.since),
        "why": record.why,
        "by_token": record.by,
        "returned_us": optional_us(record.returned_at),
        "failures": dump_json(record.failures),
    }


def _record_of(row: Row[Any]) -> RunnerRecord:
    facts = json.loads(row.facts)
    passed, detail, began_us = facts["self_test"]
    hello = Hello(
        name=row.name,
        isolation=row.isolation,
        self_test=SelfTest(passed, detail, from_us(began_us)),
        reasons=tuple(facts["reasons"]),
        environment=facts["environment"],
        problems=facts["problems"],
        doctor=None if row.doctor is None else json.loads(row.doctor),
    )
    return RunnerRecord(
        token_id=row.token_id,
        device=row.device,
        hello=hello,
        first_seen=from_us(row.first_seen_us),
        last_seen=from_us(row.last_seen_us),
        state=RunnerState(row.state),
        since=from_us(row.since_us),
        why=row.why,
        by=row.by_token,
        returned_at=optional_time(row.returned_us),
        failures=tuple(json.loads(row.failures)),
        lost_at=optional_time(facts.get("lost_us")),
    )
