"""Promise: what is asked often is answered from an index, however many submissions there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from judge.model import Mode, Outcome, Progress, SourceFile, Verdict
from judge.records import Identity, JobRecord, NewSubmission
from leaderboard.store import SqlStore
from leaderboard.store.engines import open_engines

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def new(who: Identity) -> NewSubmission:
    assert who.user_id is not None
    assert who.team_id is not None
    files = (SourceFile("a.py", b"pass"),)
    return NewSubmission(
        who.user_id, who.team_id, "topk", 1, "cpu", Mode.TEST, "a.py", "ab" * 32, files, NOW
    )


Ask = Callable[[SqlStore, Identity, JobRecord], object]

QUESTIONS: dict[str, Ask] = {
    "identify": lambda s, who, r: s.identify(os.urandom(32)),
    "add": lambda s, who, r: s.add_submission(new(who), (5, 3600)).result(),
    "record": lambda s, who, r: s.record(r.submission.id),
    "record of job": lambda s, who, r: s.record_of_job(r.job_id),
    "files": lambda s, who, r: s.files(r.submission.id),
    "history of a team": lambda s, who, r: s.history(who.team_id, None, 99, 50),
    "history of a team's problem": lambda s, who, r: s.history(who.team_id, "topk", None, 50),
    "history of a problem": lambda s, who, r: s.history(None, "topk", None, 50),
    "history page": lambda s, who, r: s.history(None, None, 99, 50),
    "unfinished": lambda s, who, r: s.unfinished(),
    "unfinished of a device": lambda s, who, r: s.unfinished("cpu"),
    "front": lambda s, who, r: s.front(),
    "claim": lambda s, who, r: s.claim(r.job_id, "r1", NOW, NOW),
    "heartbeat": lambda s, who, r: s.heartbeat(r.job_id, 0, Progress("test"), True, NOW, NOW),
    "finish": lambda s, who, r: s.finish(
        r.job_id, 0, Outcome(r.job_id, 0, Verdict.ACCEPTED, ""), NOW
    ),
    "release": lambda s, who, r: s.release_lost(NOW + timedelta(days=1)),
    "moderate": lambda s, who, r: s.moderate(r.submission.id, "odd", 1, NOW),
    "runs": lambda s, who, r: s.runs(r.submission.id),
    "cancel": lambda s, who, r: s.cancel(r.submission.id, NOW),
    "events": lambda s, who, r: s.events(None, 5, 50),
    "events of a kind": lambda s, who, r: s.events(["intake.paused"], 5, 50),
    "finished": lambda s, who, r: s.finished("topk", "cpu", Mode.TEST),
    "tokens": lambda s, who, r: s.tokens(who.user_id),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_walks_a_whole_table(tmp_path: Path, question: str) -> None:
    engines = open_engines(f"sqlite:///{tmp_path}/judge.sqlite3")
    store = SqlStore(engines)
    who = store.register("ada", None, os.urandom(32), NOW)
    assert isinstance(who, Identity)
    record = store.add_submission(new(who), None).result()
    assert isinstance(record, JobRecord)

    asked: list[str] = []

    def listen(driver: Any, *_: object) -> None:
        driver.set_trace_callback(asked.append)

    for engine in (engines.reader, engines.writer):
        event.listen(engine, "checkout", listen)
    QUESTIONS[question](store, who, record)
    for engine in (engines.reader, engines.writer):
        event.remove(engine, "checkout", listen)

    questions = [sql for sql in asked if sql.split()[0] in ("SELECT", "UPDATE")]
    assert questions
    with engines.reader.connect() as connection:
        for sql in questions:
            steps = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}")]
            walks = [step for step in steps if step.startswith("SCAN") and "INDEX" not in step]
            assert not walks, (sql, steps)
    store.close()
