"""Whatever happens in whatever order, the promises about jobs hold and rows equal their history."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from judge.model import JobState, Mode, Ruling, Verdict
from judge.records import JobRecord
from leaderboard import schema
from leaderboard.store import SqlStore
from leaderboard.store.engines import open_engines
from leaderboard.transitions import Happened, Stand, stand_after, stand_of

JOBS = 4  # of two teams
PLAIN, CONFIRM, HOLD = Ruling(), Ruling(confirm=True), Ruling(confirm=True, hold="odd times")
MODES = (Mode.TEST, Mode.RANKED, Mode.RANKED, Mode.BENCHMARK)
VERBS = ("claim", "claim", "beat", "loaded", "finish", "finish", "lost", "cancel", "wait")

Step = tuple[str, int, int, Verdict, Ruling]

steps = st.lists(
    st.tuples(
        st.sampled_from((*VERBS, "hold", "release")),
        st.integers(0, JOBS - 1),
        st.sampled_from([0, 0, 0, -1, 1]),  # how far the runner's attempt is from the current one
        st.sampled_from([Verdict.ACCEPTED, Verdict.JUDGE_ERROR, Verdict.JUDGE_ERROR]),
        st.sampled_from([PLAIN, CONFIRM, CONFIRM, HOLD]),
    ),
    min_size=5,
    max_size=40,
)


def take(desk: Any, record: JobRecord, step: Step) -> None:
    name, _, off, verdict, ruling = step
    attempt = max(0, record.attempt + off)
    match name:
        case "claim":
            desk.claim(record.job_id)
        case "beat":
            desk.beat(record.job_id, attempt)
        case "loaded":
            desk.beat(record.job_id, attempt, loaded=True)
        case "finish":
            desk.finish(record.job_id, attempt, verdict, ruling)
        case "lost":
            desk.store.release_lost(desk.now)
        case "cancel":
            desk.store.cancel(record.submission.id, desk.now)
        case "hold":
            desk.store.moderate(record.submission.id, "an organizer's reason", 7, desk.now)
        case "release":
            desk.store.moderate(record.submission.id, "", 7, desk.now, ruling)
        case "wait":
            desk.later(6)


def check(record: JobRecord, moderated: bool) -> None:
    confirms = record.confirms or 0
    assert confirms <= record.attempt <= confirms + 3
    assert confirms <= 3
    assert record.confirms is None or record.mode is Mode.RANKED
    assert record.held == bool(record.hold)
    assert record.state is JobState.DONE or not record.held
    assert (record.state is JobState.RUNNING) == (record.lease_until is not None)
    assert (record.state is JobState.DONE) == (record.outcome is not None)
    assert (record.finished_at is None) == (record.state in (JobState.QUEUED, JobState.RUNNING))
    if record.outcome is not None:
        ours = record.outcome.verdict.is_ours
        assert record.charged is not ours
        assert record.held is ours or moderated or record.hold == HOLD.hold
        assert record.outcome.attempt == record.attempt
        assert record.attempt == confirms + 3 or not ours
    elif record.confirms is not None:
        assert record.charged, "the run before a confirmation was whole"


def was_released(old: JobRecord, record: JobRecord, ruling: Ruling) -> bool:
    """Whether a held first run went back to the queue to be confirmed, since the ruling said so."""
    return (
        (old.state, old.held, old.confirms) == (JobState.DONE, True, None)
        and old.outcome is not None
        and old.outcome.verdict is Verdict.ACCEPTED
        and ruling == CONFIRM
        and (record.state, record.confirms) == (JobState.QUEUED, old.attempt)
    )


@pytest.mark.slow
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps)
def test_for_any_order_of_requests_the_promises_hold_and_rows_are_the_fold_of_events(
    store: SqlStore, desk: Any, database_url: str, steps: list[Step]
) -> None:
    desk.later(3600)
    start = store.append("test.began", {}, {}, desk.now).seq
    ada, bob = desk.person(), desk.person()
    who_and_mode = zip((ada, ada, bob, bob), MODES, strict=True)
    ids = [desk.submit(who, mode=mode).submission.id for who, mode in who_and_mode]
    moderated: set[int] = set()
    versions: dict[int, int] = defaultdict(int)
    seen: dict[int, JobRecord] = {}
    for step in steps:
        take(desk, desk.record(ids[step[1]]), step)
        organizers = step[0] in ("hold", "release")
        if organizers and desk.record(ids[step[1]]).state is JobState.DONE:
            moderated.add(ids[step[1]])
        records = [desk.record(number) for number in ids]
        running = [r.submission.team_id for r in records if r.state is JobState.RUNNING]
        assert len(running) == len(set(running)), "a team has one running job at most"
        for number, record in zip(ids, records, strict=True):
            check(record, number in moderated)
            old = seen.get(number)
            if old is not None and old.state in (JobState.DONE, JobState.CANCELLED):
                ended = replace(old, held=record.held, hold=record.hold, version=record.version)
                queued_again = step[0] == "release" and was_released(old, record, step[-1])
                assert record == ended or queued_again, "only an organizer's hold changes it"
                assert record == old or organizers
            assert record.version > versions[number] or record == old
            versions[number] = record.version
            seen[number] = record

    stands: dict[int, Stand] = {}
    attempts: dict[int, list[int]] = defaultdict(list)
    for event in store.events(None, start, 10_000):
        number = event.subject.get("submission")
        if number not in ids:  # left over from an earlier example
            continue
        if event.kind == "submission.received":
            stands[number] = Stand()
        if event.kind == "job.claimed":
            attempts[number].append(event.body["attempt"])
        stands[number] = stand_after(stands[number], [Happened(event.kind, event.body)], event.at)
    for number, record in seen.items():
        assert stand_of(record) == stands[number]
        assert attempts[number] == list(range(1, record.attempt + 1))

    engines = open_engines(database_url)
    with engines.reader.connect() as connection:
        job_ids = {record.job_id for record in seen.values()}
        kept = connection.execute(
            select(schema.outcomes.c.job_id, schema.outcomes.c.attempt).where(
                schema.outcomes.c.job_id.in_(job_ids)
            )
        ).all()
    engines.dispose()
    taken = [
        (event.subject["job"], event.body["attempt"])
        for event in store.events(["job.finished", "job.confirming", "job.requeued"], start, 10_000)
        if event.subject["job"] in job_ids
        and (event.kind != "job.requeued" or event.body["reason"] == "judge error")
    ]
    # A run that was held, released and then confirmed ended twice.
    assert sorted(map(tuple, kept)) == sorted(set(taken)), "the outcome of every attempt is kept"
    for number, record in seen.items():
        own = sorted({attempt for job_id, attempt in taken if job_id == record.job_id})
        assert [run.attempt for run in store.runs(number)] == own


def test_a_lease_lives_from_the_claim_until_its_end_and_no_longer(
    store: SqlStore, desk: Any
) -> None:
    record = desk.submit()
    until = desk.now + timedelta(seconds=15)
    store.claim(record.job_id, "r1", desk.now, until)
    assert store.release_lost(until - timedelta(microseconds=1)) == ()
    assert store.release_lost(until) == (record.job_id,)
