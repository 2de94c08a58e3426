"""Promises about ranked jobs: confirmation runs, held runs, void ones, and what organizers do."""

from __future__ import annotations

from typing import Any

import pytest

from judge.model import (
    Block,
    Comparison,
    JobState,
    Mode,
    Outcome,
    Pair,
    Refusal,
    Ruling,
    Verdict,
)
from judge.records import JobRecord
from leaderboard.store import SqlStore

CONFIRM = Ruling(confirm=True)
HOLD = Ruling(hold="The baseline itself ran 1.4 % slower than in the guard pairs.")


def code_of(answer: object) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.code


def compared(*blocks: Block) -> Comparison:
    return Comparison("plain torch", tuple(Pair(block, 0, ()) for block in blocks), {})


@pytest.fixture
def ranked(desk: Any) -> JobRecord:
    record: JobRecord = desk.submit(mode=Mode.RANKED)
    return record


def confirming(desk: Any, record: JobRecord) -> JobRecord:
    """A job whose next attempt was accepted and waits for its confirmation."""
    attempt = desk.claim(record.job_id).attempt
    desk.beat(record.job_id, attempt, loaded=True)
    waiting = desk.finish(record.job_id, attempt, ruling=CONFIRM)
    assert isinstance(waiting, JobRecord)
    return waiting


def test_a_run_to_be_confirmed_is_queued_once_more_charged_and_without_an_outcome(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    waiting = confirming(desk, ranked)
    assert (waiting.state, waiting.attempt, waiting.confirms) == (JobState.QUEUED, 1, 1)
    assert (waiting.outcome, waiting.held, waiting.charged) == (None, False, True)
    assert (waiting.runner, waiting.lease_until, waiting.finished_at) == (None, None, None)
    assert store.record(ranked.submission.id) == waiting
    assert store.unfinished() == store.front() == (waiting,)
    assert store.finished("topk", "cpu", Mode.RANKED) == ()
    assert desk.kinds(ranked) == [
        *("submission.received", "job.claimed", "quota.charged", "job.confirming")
    ]


def test_outcomes_that_the_asker_knows_are_not_read_again(store: SqlStore, desk: Any) -> None:
    confirmed, other = desk.submit(mode=Mode.RANKED), desk.submit(mode=Mode.RANKED)
    confirming(desk, confirmed)
    desk.claim(confirmed.job_id)
    ended = [desk.finish(confirmed.job_id, 2)]
    desk.claim(other.job_id)
    ended.append(desk.finish(other.job_id, 1))
    assert store.finished("topk", "cpu", Mode.RANKED) == tuple(ended)
    kept = Outcome(confirmed.job_id, 2, Verdict.ACCEPTED, "kept")
    first, second = store.finished("topk", "cpu", Mode.RANKED, {(confirmed.job_id, 2): kept})
    assert first.outcome is kept
    assert second == ended[1]
    stale = {(confirmed.job_id, 1): kept}
    assert store.finished("topk", "cpu", Mode.RANKED, stale) == tuple(ended)


def test_a_run_that_nothing_was_charged_for_yet_is_charged_before_its_confirmation(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    desk.claim(ranked.job_id)
    assert desk.finish(ranked.job_id, 1, ruling=CONFIRM).charged


def test_a_team_is_free_while_its_run_waits_for_confirmation(store: SqlStore, desk: Any) -> None:
    who = desk.person()
    first = desk.submit(who, mode=Mode.RANKED)
    second = desk.submit(who)
    confirming(desk, first)
    assert desk.claim(second.job_id).state is JobState.RUNNING
    assert code_of(desk.claim(first.job_id)) == "team_busy"


@pytest.mark.parametrize("verdict", [Verdict.ACCEPTED, Verdict.WRONG_ANSWER])
@pytest.mark.parametrize("ruling", [Ruling(), CONFIRM])
def test_the_next_outcome_ends_the_job_whatever_its_ruling_says_of_confirming(
    store: SqlStore, desk: Any, ranked: JobRecord, verdict: Verdict, ruling: Ruling
) -> None:
    confirming(desk, ranked)
    desk.claim(ranked.job_id)
    ended = desk.finish(ranked.job_id, 2, verdict, ruling)
    assert (ended.state, ended.attempt, ended.confirms) == (JobState.DONE, 2, 1)
    assert ended.outcome.message == f"attempt 2: {verdict}"
    assert store.finished("topk", "cpu", Mode.RANKED) == (ended,)
    assert desk.kinds(ranked).count("quota.charged") == 1


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [
        (Mode.BENCHMARK, Verdict.ACCEPTED),
        (Mode.TEST, Verdict.ACCEPTED),
        (Mode.RANKED, Verdict.WRONG_ANSWER),
        (Mode.RANKED, Verdict.UNSTABLE_TIMING),
    ],
)
def test_only_accepted_ranked_runs_are_confirmed(
    store: SqlStore, desk: Any, mode: Mode, verdict: Verdict
) -> None:
    record = desk.submit(mode=mode)
    desk.claim(record.job_id)
    ended = desk.finish(record.job_id, 1, verdict, CONFIRM)
    assert (ended.state, ended.confirms) == (JobState.DONE, None)


def test_a_run_to_be_held_ends_held_with_the_sentence_and_is_never_confirmed(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    desk.claim(ranked.job_id)
    ended = desk.finish(ranked.job_id, 1, ruling=Ruling(confirm=True, hold=HOLD.hold))
    assert (ended.state, ended.held, ended.hold) == (JobState.DONE, True, HOLD.hold)
    assert (ended.charged, ended.confirms) == (True, None)
    assert store.record(ranked.submission.id) == ended
    (event,) = store.events(["job.finished"], 0, 10)
    assert (event.body["held"], event.body["hold"]) == (True, HOLD.hold)


def test_a_confirmation_may_be_held_too(store: SqlStore, desk: Any, ranked: JobRecord) -> None:
    confirming(desk, ranked)
    desk.claim(ranked.job_id)
    ended = desk.finish(ranked.job_id, 2, ruling=HOLD)
    assert (ended.state, ended.hold, ended.confirms) == (JobState.DONE, HOLD.hold, 1)


def test_a_confirmation_has_three_attempts_of_its_own(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    for _ in range(2):
        desk.claim(ranked.job_id)
        store.release_lost(desk.later(60))
    assert confirming(desk, ranked).confirms == 3
    desk.claim(ranked.job_id)
    assert desk.finish(ranked.job_id, 4, Verdict.JUDGE_ERROR).state is JobState.QUEUED
    desk.claim(ranked.job_id)
    assert store.release_lost(desk.later(60)) == (ranked.job_id,)
    assert desk.record(ranked.submission.id).state is JobState.QUEUED
    desk.claim(ranked.job_id)
    ended = desk.finish(ranked.job_id, 6)
    assert (ended.state, ended.held, ended.attempt) == (JobState.DONE, False, 6)
    assert ended.outcome.verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("ending", ["judge errors", "releases", "claims"])
def test_a_confirmation_that_is_lost_three_times_ends_the_job_held_at_no_cost(
    store: SqlStore, desk: Any, ranked: JobRecord, ending: str
) -> None:
    confirming(desk, ranked)
    for number in (2, 3, 4):
        desk.claim(ranked.job_id)
        if ending == "judge errors":
            desk.finish(ranked.job_id, number, Verdict.JUDGE_ERROR)
        desk.later(60)
        if ending == "releases":
            store.release_lost(desk.now)
        # What waits for its confirmation was a whole run: it stays paid for until all fails.
        lost = desk.record(ranked.submission.id)
        assert lost.charged is (lost.state is not JobState.DONE)
    if ending == "claims":
        assert code_of(desk.claim(ranked.job_id)) == "attempts_used_up"
    ended = desk.record(ranked.submission.id)
    assert (ended.state, ended.held, ended.charged) == (JobState.DONE, True, False)
    assert ended.outcome is not None
    assert ended.outcome.verdict is Verdict.JUDGE_ERROR


def test_a_run_cancelled_before_its_confirmation_shows_nothing_and_stays_charged(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    confirming(desk, ranked)
    cancelled = store.cancel(ranked.submission.id, desk.now)
    assert isinstance(cancelled, JobRecord)
    assert (cancelled.state, cancelled.outcome) == (JobState.CANCELLED, None)
    assert cancelled.charged
    assert store.record(ranked.submission.id) == cancelled


def test_a_run_that_waits_for_its_confirmation_can_be_given_up(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    confirming(desk, ranked)
    ended = store.give_up(ranked.job_id, "Version 1 is not open any more.", desk.now)
    assert isinstance(ended, JobRecord)
    assert (ended.state, ended.attempt, ended.held) == (JobState.DONE, 2, True)
    assert not ended.charged


@pytest.mark.parametrize("loaded", [True, False])
def test_unstable_timing_before_the_candidate_started_costs_nothing(
    store: SqlStore, desk: Any, ranked: JobRecord, loaded: bool
) -> None:
    desk.claim(ranked.job_id)
    desk.beat(ranked.job_id, 1, loaded=loaded)
    unstable, void = Verdict.UNSTABLE_TIMING, compared(Block.BEFORE, Block.BEFORE)
    ended = desk.finish(ranked.job_id, 1, unstable, comparison=void)
    assert (ended.state, ended.held, ended.charged) == (JobState.DONE, False, False)
    assert ("quota.refunded" in desk.kinds(ranked)) is loaded


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize(
    ("verdict", "comparison"),
    [
        (Verdict.UNSTABLE_TIMING, compared(Block.BEFORE, Block.CANDIDATE)),
        (Verdict.UNSTABLE_TIMING, None),
        (Verdict.WRONG_ANSWER, compared(Block.BEFORE)),
    ],
)
def test_any_other_run_costs_what_it_costs(
    store: SqlStore,
    desk: Any,
    ranked: JobRecord,
    loaded: bool,
    verdict: Verdict,
    comparison: Comparison | None,
) -> None:
    desk.claim(ranked.job_id)
    desk.beat(ranked.job_id, 1, loaded=loaded)
    assert desk.finish(ranked.job_id, 1, verdict, comparison=comparison).charged


def test_the_runs_of_a_submission_are_all_kept_in_order(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    assert store.runs(ranked.submission.id) == ()
    desk.claim(ranked.job_id)
    desk.finish(ranked.job_id, 1, Verdict.JUDGE_ERROR)
    desk.claim(ranked.job_id)
    store.release_lost(desk.later(60))
    desk.claim(ranked.job_id)
    first = compared(Block.BEFORE, Block.CANDIDATE)
    desk.finish(ranked.job_id, 3, ruling=CONFIRM, comparison=first, log="built\nwarm")
    desk.claim(ranked.job_id)
    ended = desk.finish(ranked.job_id, 4, log="again")
    other = desk.submit()
    desk.claim(other.job_id)
    desk.finish(other.job_id, 1)
    runs: tuple[Outcome, ...] = store.runs(ranked.submission.id)
    assert [(run.attempt, run.verdict, run.log) for run in runs] == [
        (1, Verdict.JUDGE_ERROR, ""),
        (3, Verdict.ACCEPTED, "built\nwarm"),
        (4, Verdict.ACCEPTED, "again"),
    ]
    assert runs[1].comparison == first
    assert runs[-1] == ended.outcome
    assert store.runs(10**6) == store.runs(10**30) == ()


def test_sameness_is_kept_with_the_submission(store: SqlStore, desk: Any) -> None:
    record = desk.submit(mode=Mode.RANKED, sameness="cd" * 32)
    assert record.submission.sameness == "cd" * 32
    assert store.record(record.submission.id) == record
    assert store.history(None, None, None, 9) == (record,)
    assert desk.submit().submission.sameness == ""


def judged(desk: Any, **changes: Any) -> JobRecord:
    record = desk.submit(**changes)
    desk.claim(record.job_id)
    ended: JobRecord = desk.finish(record.job_id, 1, log="printed")
    return ended


def test_an_organizer_holds_and_releases_a_judged_submission(store: SqlStore, desk: Any) -> None:
    ended = judged(desk)
    held = store.moderate(ended.submission.id, "It times nothing.", 7, desk.later(1))
    assert isinstance(held, JobRecord)
    assert (held.state, held.held, held.hold) == (JobState.DONE, True, "It times nothing.")
    assert (held.outcome, held.finished_at) == (ended.outcome, ended.finished_at)
    assert held.charged == ended.charged
    assert held.version > ended.version
    assert store.record(ended.submission.id) == held
    released = store.moderate(ended.submission.id, "", 8, desk.later(1))
    assert isinstance(released, JobRecord)
    assert (released.held, released.hold) == (False, "")
    assert released.outcome == ended.outcome
    assert store.record(ended.submission.id) == released
    told = store.events(["entry.held", "entry.released"], 0, 10)
    assert [(e.kind, e.body, e.subject["token"], e.subject["submission"]) for e in told] == [
        ("entry.held", {"reason": "It times nothing."}, 7, ended.submission.id),
        ("entry.released", {"reason": "It times nothing."}, 8, ended.submission.id),
    ]


def test_what_a_ruling_holds_an_organizer_releases(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    desk.claim(ranked.job_id)
    desk.finish(ranked.job_id, 1, ruling=HOLD)
    released = store.moderate(ranked.submission.id, "", 7, desk.now)
    assert isinstance(released, JobRecord)
    assert (released.held, released.hold) == (False, "")


def test_a_held_first_run_that_is_released_to_be_confirmed_is_queued_and_not_published(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    desk.claim(ranked.job_id)
    desk.finish(ranked.job_id, 1, ruling=HOLD)
    told: list[JobRecord] = []
    store.on_end(told.append)
    waiting = store.moderate(ranked.submission.id, "", 7, desk.later(1), CONFIRM)
    assert isinstance(waiting, JobRecord)
    assert (waiting.state, waiting.attempt, waiting.confirms) == (JobState.QUEUED, 1, 1)
    assert (waiting.held, waiting.hold, waiting.charged) == (False, "", True)
    assert (waiting.outcome, waiting.finished_at, waiting.runner) == (None, None, None)
    assert store.record(ranked.submission.id) == waiting
    assert store.finished("topk", "cpu", Mode.RANKED) == ()
    assert told == [waiting], "who keeps the board is told that one left it"
    assert desk.kinds(ranked)[-2:] == ["entry.released", "job.confirming"]
    desk.claim(ranked.job_id)
    ended = desk.finish(ranked.job_id, 2, ruling=CONFIRM)
    assert (ended.state, ended.held, ended.outcome.attempt) == (JobState.DONE, False, 2)
    assert desk.kinds(ranked).count("quota.charged") == 1
    assert [run.attempt for run in store.runs(ranked.submission.id)] == [1, 2]


def test_only_an_accepted_ranked_run_that_nobody_confirmed_is_confirmed_at_its_release(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    confirming(desk, ranked)
    desk.claim(ranked.job_id)
    confirmed = desk.finish(ranked.job_id, 2, ruling=HOLD)
    practice, wrong = desk.submit(mode=Mode.BENCHMARK), desk.submit(mode=Mode.RANKED)
    for record, verdict in ((practice, Verdict.ACCEPTED), (wrong, Verdict.WRONG_ANSWER)):
        desk.claim(record.job_id)
        desk.finish(record.job_id, 1, verdict, HOLD)
    for record in (confirmed, practice, wrong):
        released = store.moderate(record.submission.id, "", 7, desk.now, CONFIRM)
        assert isinstance(released, JobRecord)
        assert (released.state, released.held) == (JobState.DONE, False)


def test_a_release_that_finds_another_reason_holds_for_that(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    desk.claim(ranked.job_id)
    desk.finish(ranked.job_id, 1, ruling=HOLD)
    other = Ruling(confirm=True, hold="Another run of it is held.")
    still = store.moderate(ranked.submission.id, "", 7, desk.now, other)
    assert isinstance(still, JobRecord)
    assert (still.state, still.held, still.hold) == (JobState.DONE, True, other.hold)
    assert desk.kinds(ranked)[-2:] == ["entry.released", "entry.held"]


def test_what_stands_so_already_changes_nothing(store: SqlStore, desk: Any) -> None:
    ended = judged(desk)
    told: list[int] = []
    store.on_change(told.append)
    assert store.moderate(ended.submission.id, "", 7, desk.now) == ended
    held = store.moderate(ended.submission.id, "odd", 7, desk.now)
    assert store.moderate(ended.submission.id, "odd", 7, desk.now) == held
    assert told == [ended.submission.id]
    assert len(store.events(["entry.held", "entry.released"], 0, 10)) == 1
    again = store.moderate(ended.submission.id, "odder", 7, desk.now)
    assert isinstance(again, JobRecord)
    assert again.hold == "odder"


def test_only_what_was_judged_can_be_held(store: SqlStore, desk: Any) -> None:
    queued, running, cancelled = desk.submit(), desk.submit(), desk.submit()
    desk.claim(running.job_id)
    store.cancel(cancelled.submission.id, desk.now)
    for record in (queued, running, cancelled):
        for hold in ("odd", ""):
            answer = store.moderate(record.submission.id, hold, 7, desk.now)
            assert code_of(answer) == "job_unfinished"
    assert code_of(store.moderate(10**6, "odd", 7, desk.now)) == "submission_unknown"
    assert code_of(store.moderate(10**30, "odd", 7, desk.now)) == "submission_unknown"
    assert store.events(["entry.held", "entry.released"], 0, 10) == ()


def test_who_keeps_results_is_told_of_a_hold_and_a_release_before_those_who_wait(
    store: SqlStore, desk: Any
) -> None:
    ended = judged(desk)
    told: list[tuple[str, object]] = []
    store.on_change(lambda number: told.append(("change", number)))
    store.on_end(lambda record: told.append(("end", record)))
    held = store.moderate(ended.submission.id, "odd", 7, desk.now)
    released = store.moderate(ended.submission.id, "", 7, desk.now)
    number = ended.submission.id
    assert told == [("end", held), ("change", number), ("end", released), ("change", number)]


def test_nobody_who_keeps_results_is_told_of_a_run_that_waits_for_confirmation(
    store: SqlStore, desk: Any, ranked: JobRecord
) -> None:
    told: list[JobRecord] = []
    store.on_end(told.append)
    confirming(desk, ranked)
    assert told == []
    desk.claim(ranked.job_id)
    ended = desk.finish(ranked.job_id, 2)
    assert told == [ended]
