"""Problem versions that are open, with their secret cases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import TypeAdapter
from sqlalchemy import Connection, insert, select

from judge.model import Case, Problem, Refusal
from judge.wire import CaseBody
from leaderboard.schema import problems, to_us
from leaderboard.store.history import note

_CASES = TypeAdapter(list[CaseBody])


def open_problem(
    connection: Connection, problem: Problem, secret: Sequence[Case], now: datetime
) -> tuple[Case, ...] | Refusal:
    row = connection.execute(
        select(problems).where(
            problems.c.problem_id == problem.id, problems.c.version == problem.version
        )
    ).first()
    if row is not None:
        if row.digest != problem.digest:
            return Refusal(
                "problem_changed",
                f"Problem {problem.id!r} version {problem.version} is open with other files; "
                "raise `version` in its problem.toml, or put the old files back.",
                409,
            )
        return _cases(row.secret_cases)
    connection.execute(
        insert(problems),
        {
            "problem_id": problem.id,
            "version": problem.version,
            "digest": problem.digest,
            "title": problem.title,
            "secret_cases": _CASES.dump_json([CaseBody.of(case) for case in secret]).decode(),
            "opened_us": to_us(now),
        },
    )
    # How many secret cases there are, but not which: organizers export the history.
    body = {
        "problem": problem.id,
        "version": problem.version,
        "digest": problem.digest,
        "secret_cases": len(secret),
    }
    note(connection, "problem.opened", {}, body, now)
    return tuple(secret)


def secret_cases(connection: Connection, problem_id: str, version: int) -> tuple[Case, ...]:
    stored = connection.execute(
        select(problems.c.secret_cases).where(
            problems.c.problem_id == problem_id, problems.c.version == version
        )
    ).scalar()
    return () if stored is None else _cases(stored)


def _cases(stored: str) -> tuple[Case, ...]:
    return tuple(body.to_model() for body in _CASES.validate_json(stored))
