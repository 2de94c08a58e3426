"""What a store promises about runners, on every engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from judge.enrolment import Hello, RunnerRecord, SelfTest
from judge.model import Refusal, Role, RunnerState, Verdict
from leaderboard.store import SqlStore
from tests.contracts.conftest import NOW

WHOLE = Hello(
    name="host 1",
    isolation="reduced",
    self_test=SelfTest(True, "topk is accepted", NOW),
    reasons=("no freezer: mount cgroup2",),
    environment={"cpu": "Some CPU ™", "torch": "2"},
    problems={"topk": "ab" * 32},
    doctor={"at": "2026-11-30", "figures": {"round trip": [0.5, None, {"p99": 1e-3}]}},
)


def token(store: SqlStore, device: str = "cpu") -> int:
    made = store.add_token(os.urandom(32), Role.RUNNER, "runner", NOW, device=device)
    return made.id


def hello(name: str, at: datetime = NOW, passed: bool = True) -> Hello:
    return Hello(name, "full", SelfTest(passed, "as told", at))


@pytest.fixture
def enrol(store: SqlStore, desk: Any) -> Callable[..., RunnerRecord]:
    def made(name: str = "r1", isolation: str = "full", passed: bool = True) -> RunnerRecord:
        said = replace(hello(name, passed=passed), isolation=isolation)
        record = store.greet(token(store), "cpu", said, desk.now)
        assert isinstance(record, RunnerRecord)
        return record

    return made


def code_of(answer: object) -> str:
    assert isinstance(answer, Refusal)
    return answer.code


def again(store: SqlStore, runner: RunnerRecord) -> RunnerRecord:
    found = store.runner(runner.token_id)
    assert found is not None
    return found


def fail(desk: Any, submissions: int, name: str = "r1") -> None:
    """The runner hands in a judge error for as many submissions, of a team each, once each."""
    for _ in range(submissions):
        record = desk.submit()
        desk.claim(record.job_id, name)
        desk.finish(record.job_id, 1, Verdict.JUDGE_ERROR)


def test_what_a_runner_says_is_kept_whole(store: SqlStore) -> None:
    number = token(store)
    assert store.runner(number) is None
    said = store.greet(number, "cpu", WHOLE, NOW)
    assert store.runner(number) == said
    assert store.runners() == (said,)
    assert isinstance(said, RunnerRecord)
    assert (said.hello, said.first_seen, said.state) == (WHOLE, NOW, RunnerState.ACTIVE)
    (event,) = store.events(["runner.enrolled"], 0, 10)
    assert event.subject == {"token": number}
    assert event.body == {"name": "host 1", "device": "cpu", "isolation": "reduced"}


def test_a_restart_under_the_same_name_takes_its_new_facts_and_is_no_second_enrolment(
    store: SqlStore,
) -> None:
    number = token(store)
    store.greet(number, "cpu", WHOLE, NOW)
    later = NOW + timedelta(hours=1)
    store.greet(number, "cpu", replace(WHOLE, isolation="full", doctor=None), later)
    found = store.runner(number)
    assert found is not None
    assert (found.hello.isolation, found.hello.doctor) == ("full", None)
    assert (found.first_seen, found.last_seen) == (NOW, later)
    assert len(store.events(["runner.enrolled"], 0, 10)) == 1


def test_a_token_belongs_to_one_name_and_a_name_to_one_valid_token(store: SqlStore) -> None:
    first, second = token(store), token(store)
    store.greet(first, "cpu", hello("a"), NOW)
    assert code_of(store.greet(first, "cpu", hello("b"), NOW)) == "runner_bound"
    assert code_of(store.greet(second, "cpu", hello("a"), NOW)) == "runner_name_taken"
    store.revoke_token(first, NOW)
    taken = store.greet(second, "cpu", hello("a"), NOW)
    assert store.runners() == (taken,)


def test_runners_are_told_by_device_and_name(store: SqlStore) -> None:
    for device, name in (("cuda", "a"), ("cpu", "z"), ("cpu", "b")):
        store.greet(token(store, device), device, hello(name), NOW)
    assert [(r.device, r.name) for r in store.runners()] == [
        ("cpu", "b"),
        ("cpu", "z"),
        ("cuda", "a"),
    ]


def test_when_a_runner_was_seen_can_be_noted(store: SqlStore, enrol: Any) -> None:
    runner = enrol()
    store.note_seen(runner.token_id, NOW + timedelta(minutes=3))
    assert again(store, runner) == replace(runner, last_seen=NOW + timedelta(minutes=3))


def test_three_judge_errors_in_a_row_of_several_teams_are_a_quarantine(
    store: SqlStore, desk: Any, enrol: Any
) -> None:
    runner, other = enrol("r1"), enrol("r2")
    fail(desk, 2)
    assert again(store, runner).state is RunnerState.ACTIVE
    fail(desk, 1)
    found = again(store, runner)
    assert (found.state, found.since, found.by) == (RunnerState.QUARANTINED, desk.now, None)
    assert "3 jobs failed or lost" in found.why
    assert again(store, other) == other
    (event,) = store.events(["runner.quarantined"], 0, 10)
    assert (event.subject, event.body["name"]) == ({"token": runner.token_id}, "r1")


def test_one_team_sets_no_runner_aside_however_many_submissions_break_it(
    store: SqlStore, desk: Any, enrol: Any
) -> None:
    runner, _, team = enrol("r1"), enrol("r2"), desk.person()
    for _ in range(4):
        record = desk.submit(team)
        desk.claim(record.job_id, "r1")
        desk.finish(record.job_id, 1, Verdict.JUDGE_ERROR)
        store.cancel(record.submission.id, desk.now)
    assert again(store, runner).state is RunnerState.ACTIVE
    fail(desk, 1)
    assert again(store, runner).state is RunnerState.QUARANTINED


@pytest.mark.parametrize(
    ("other", "busy", "stays"),
    [
        (None, False, True),
        ({"passed": False}, False, True),
        ({"isolation": "reduced"}, False, True),
        ({}, False, True),
        ({}, True, False),
    ],
    ids=["none", "self-test failed", "cannot rank", "silent", "judging"],
)
def test_the_last_runner_that_could_take_its_jobs_is_told_of_and_stays(
    store: SqlStore, desk: Any, enrol: Any, other: Any, busy: bool, stays: bool
) -> None:
    runner = enrol("r1")
    second = None if other is None else enrol("r2", **other)
    desk.later(121)
    if second is not None and other:
        store.note_seen(second.token_id, desk.now)
    if busy:
        desk.claim(desk.submit().job_id, "r2")
    fail(desk, 4)
    found = again(store, runner)
    assert found.state is (RunnerState.ACTIVE if stays else RunnerState.QUARANTINED)
    assert len(store.events(["runner.quarantined"], 0, 10)) == (not stays)
    assert len(store.events(["runner.suspected"], 0, 10)) == stays
    assert ("no other runner" in found.why) is stays
    if stays:
        record = desk.submit()
        desk.claim(record.job_id, "r1")
        desk.finish(record.job_id, 1)
        assert (again(store, runner).why, again(store, runner).failures) == ("", ())


def test_a_failed_self_test_sets_even_the_last_runner_aside(
    store: SqlStore, desk: Any, enrol: Any
) -> None:
    runner = enrol("r1")
    fail(desk, 3)
    assert again(store, runner).state is RunnerState.ACTIVE
    store.greet(runner.token_id, "cpu", hello("r1", desk.later(60), False), desk.now)
    assert again(store, runner).state is RunnerState.QUARANTINED


def test_leases_lost_by_restarts_count_once_and_those_of_a_runner_that_ends_at_every_job_add_up(
    store: SqlStore, desk: Any, enrol: Any
) -> None:
    runner, other = enrol("r1"), enrol("r2")

    def lose() -> None:
        record = desk.submit()
        desk.claim(record.job_id, "r1")
        store.note_seen(other.token_id, desk.later(60))
        store.release_lost(desk.now)
        store.cancel(record.submission.id, desk.now)

    for _ in range(4):
        lose()
        store.greet(runner.token_id, "cpu", hello("r1", desk.now), desk.now)
    assert len(again(store, runner).failures) == 1
    for state in (RunnerState.ACTIVE, RunnerState.QUARANTINED):
        desk.later(600)
        lose()
        assert again(store, runner).state is state


def test_one_submission_that_fails_again_and_again_puts_no_runner_into_quarantine(
    store: SqlStore, desk: Any, enrol: Any
) -> None:
    runner = enrol()
    record = desk.submit()
    for attempt in (1, 2, 3):
        desk.claim(record.job_id)
        desk.finish(record.job_id, attempt, Verdict.JUDGE_ERROR)
    found = again(store, runner)
    assert (found.state, found.failures) == (RunnerState.ACTIVE, (record.submission.id,) * 3)


@pytest.mark.parametrize("verdict", [Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.TIME_LIMIT])
def test_an_honest_verdict_between_failures_clears_them(
    store: SqlStore, desk: Any, enrol: Any, verdict: Verdict
) -> None:
    runner = enrol()
    fail(desk, 2)
    record = desk.submit()
    desk.claim(record.job_id)
    desk.finish(record.job_id, 1, verdict)
    assert again(store, runner) == runner
    fail(desk, 2)
    assert again(store, runner).state is RunnerState.ACTIVE


@pytest.mark.parametrize("noticed", ["swept", "claimed again"])
def test_a_lost_lease_counts_against_its_runner_however_it_is_noticed(
    store: SqlStore, desk: Any, enrol: Any, noticed: str
) -> None:
    runner, other = enrol("r1"), enrol("r2")
    record = desk.submit()
    desk.claim(record.job_id, "r1")
    desk.later(60)
    if noticed == "swept":
        store.release_lost(desk.now)
    else:
        desk.claim(record.job_id, "r2")
    assert again(store, runner).failures == (record.submission.id,)
    assert again(store, other).failures == ()


def test_an_outcome_that_does_not_count_says_nothing_about_its_runner(
    store: SqlStore, desk: Any, enrol: Any
) -> None:
    runner = enrol()
    record = desk.submit()
    desk.claim(record.job_id)
    store.cancel(record.submission.id, desk.now)
    desk.finish(record.job_id, 1, Verdict.JUDGE_ERROR)
    assert again(store, runner) == runner


def test_failed_self_tests_count_and_a_passed_one_clears_them(store: SqlStore, desk: Any) -> None:
    number = token(store)
    for passed in (False, False, True, False, False):
        store.greet(number, "cpu", hello("r1", desk.later(60), passed), desk.now)
        found = store.runner(number)
        assert found is not None
        assert (found.state, found.may_judge) == (RunnerState.ACTIVE, passed)
    store.greet(number, "cpu", hello("r1", desk.later(60), False), desk.now)
    assert store.runner(number).state is RunnerState.QUARANTINED  # type: ignore[union-attr]


def test_an_organizer_puts_a_runner_into_quarantine_and_reinstates_it(
    store: SqlStore, desk: Any, enrol: Any
) -> None:
    runner = enrol()
    organizer = store.add_token(os.urandom(32), Role.ORGANIZER, "o", NOW).id
    held = store.quarantine("r1", "fan is broken", organizer, desk.later(5))
    assert isinstance(held, RunnerRecord)
    assert (held.state, held.why, held.by) == (
        RunnerState.QUARANTINED,
        "fan is broken",
        organizer,
    )
    assert store.runner(runner.token_id) == held
    back = store.reinstate("r1", organizer, desk.later(5))
    assert isinstance(back, RunnerRecord)
    assert (back.state, back.why, back.since) == (RunnerState.ACTIVE, "", desk.now)
    assert [e.kind for e in store.events(None, 0, 10) if e.kind.startswith("runner.")] == [
        "runner.enrolled",
        "runner.quarantined",
        "runner.reinstated",
    ]
    assert code_of(store.reinstate("nobody", organizer, desk.now)) == "runner_unknown"
    assert code_of(store.quarantine("nobody", "", organizer, desk.now)) == "runner_unknown"


def test_a_self_test_that_rested_ends_a_quarantine_of_the_servers_own(
    store: SqlStore, desk: Any, enrol: Any
) -> None:
    runner, _ = enrol(), enrol("r2")
    fail(desk, 3)
    store.greet(runner.token_id, "cpu", hello("r1", desk.later(59)), desk.now)
    assert again(store, runner).state is RunnerState.QUARANTINED
    store.greet(runner.token_id, "cpu", hello("r1", desk.later(1)), desk.now)
    back = again(store, runner)
    assert (back.state, back.returned_at, back.failures) == (RunnerState.ACTIVE, desk.now, ())
    assert len(store.events(["runner.reinstated"], 0, 10)) == 1
