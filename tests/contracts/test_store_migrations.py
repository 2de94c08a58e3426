"""Promise: a database of an older version opens with all that it holds, and works on."""

from __future__ import annotations

import hashlib
import json

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from judge.model import JobState, Mode, Outcome, Ruling, SourceFile, Verdict
from judge.records import JobRecord
from judge.wire import OutcomeBody
from leaderboard.store import SqlStore
from leaderboard.store.engines import MIGRATIONS
from tests.contracts.conftest import LEASE, NOW

NOW_US = 1_796_040_000_123_456
KERNEL = b"def custom_kernel(data): ..."
ENDED = Outcome(1, 3, Verdict.JUDGE_ERROR, "three times", environment={"cpu": "x"})

# A judge error that is held, and a queued job: as version 0001 stored them.
ROWS = {
    "teams": [{"id": 1, "name": "ada", "name_key": "ada", "created_us": NOW_US}],
    "users": [{"id": 1, "team_id": 1, "name": "ada", "name_key": "ada", "created_us": NOW_US}],
    "blobs": [{"digest": hashlib.sha256(KERNEL).digest(), "content": KERNEL}],
    "submissions": [
        {
            **{"id": number, "team_id": 1, "user_id": 1, "problem_id": "topk"},
            **{"problem_version": 1, "main": "kernel.py", "digest": "ab" * 32},
            "files": json.dumps([["kernel.py", hashlib.sha256(KERNEL).hexdigest()]]),
            "received_us": NOW_US,
        }
        for number in (1, 2)
    ],
    "jobs": [
        {
            **{"id": number, "submission_id": number, "team_id": 1, "problem_id": "topk"},
            **{"device": "cpu", "mode": "benchmark", "received_us": NOW_US, "version": 9},
            **{"state": state, "attempt": attempt, "held": held, "charged": False},
        }
        for number, state, attempt, held in ((1, "done", 3, True), (2, "queued", 0, False))
    ],
    "outcomes": [
        {
            **{"job_id": 1, "attempt": 3, "verdict": "judge error", "at_us": NOW_US},
            "body": OutcomeBody.of(ENDED).model_dump_json(exclude={"log", "comparison"}),
            "log": b"printed",
        }
    ],
}


@pytest.fixture
def old_database(database_url: str) -> str:
    """A database as the first version left it."""
    url = database_url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for table, rows in ROWS.items():
            names = list(rows[0])
            values = ", ".join(f":{name}" for name in names)
            connection.execute(
                text(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"), rows
            )
        if engine.dialect.name == "postgresql":
            for table in ("submissions", "jobs"):
                connection.execute(text(f"SELECT setval('{table}_id_seq', 2)"))
    engine.dispose()
    return database_url


def test_what_the_first_version_stored_is_all_there(old_database: str) -> None:
    store = SqlStore.open(old_database)
    ended, queued = store.record(1), store.record(2)
    assert ended is not None
    assert queued is not None
    assert (ended.state, ended.held, ended.hold, ended.confirms) == (JobState.DONE, True, "", None)
    assert (ended.submission.sameness, ended.version) == ("", 9)
    assert ended.outcome is not None
    assert (ended.outcome.message, ended.outcome.log) == ("three times", "printed")
    assert store.runs(1) == (ended.outcome,)
    assert store.files(1) == (SourceFile("kernel.py", KERNEL),)
    assert (queued.state, queued.hold, queued.confirms) == (JobState.QUEUED, "", None)
    assert [r.job_id for r in store.unfinished()] == [2]
    assert [r.job_id for r in store.finished("topk", "cpu", Mode.BENCHMARK)] == [1]
    store.close()


def test_what_the_first_version_stored_is_judged_and_moderated_on(old_database: str) -> None:
    store = SqlStore.open(old_database)
    released = store.moderate(1, "", 1, NOW)
    assert isinstance(released, JobRecord)
    assert not released.held
    store.claim(2, "r1", NOW, NOW + LEASE)
    outcome = Outcome(2, 1, Verdict.ACCEPTED, "")
    judged = store.finish(2, 1, outcome, NOW, Ruling(hold="odd"))
    assert isinstance(judged, JobRecord)
    assert (judged.state, judged.hold) == (JobState.DONE, "odd")
    store.close()
    again = SqlStore.open(old_database)
    assert (again.record(1), again.record(2)) == (released, judged)
    again.close()
