"""Promises about jobs: leases, attempts, outcomes, and who is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest

from judge.model import (
    Block,
    CaseResult,
    CaseTimes,
    Comparison,
    Difference,
    JobState,
    Measurement,
    Mode,
    Outcome,
    Pair,
    Progress,
    Refusal,
    Stage,
    Verdict,
)
from judge.records import JobRecord
from leaderboard.store import SqlStore


def code_of(answer: object) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.code


def test_a_claim_gives_the_job_to_the_runner_until_the_lease_ends(
    store: SqlStore, desk: Any
) -> None:
    queued = desk.submit()
    claimed = store.claim(queued.job_id, "r1", desk.now, desk.now + timedelta(seconds=15))
    assert isinstance(claimed, JobRecord)
    assert (claimed.state, claimed.attempt, claimed.runner) == (JobState.RUNNING, 1, "r1")
    assert claimed.lease_until == desk.now + timedelta(seconds=15)
    assert claimed.version > queued.version
    assert store.record(queued.submission.id) == claimed


def test_of_claims_that_race_for_one_job_one_wins(store: SqlStore, desk: Any) -> None:
    job_id = desk.submit().job_id
    start = Barrier(16)

    def race(n: int) -> JobRecord | Refusal:
        start.wait()
        answer: JobRecord | Refusal = desk.claim(job_id, f"r{n}")
        return answer

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(race, range(16)))
    assert [a.code for a in answers if isinstance(a, Refusal)] == ["job_leased"] * 15
    assert desk.record(1).attempt == 1


def test_of_claims_that_race_for_two_jobs_of_a_team_one_wins(store: SqlStore, desk: Any) -> None:
    who = desk.person()
    job_ids = [desk.submit(who).job_id for _ in range(8)]
    start = Barrier(8)

    def race(job_id: int) -> JobRecord | Refusal:
        start.wait()
        answer: JobRecord | Refusal = desk.claim(job_id)
        return answer

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(race, job_ids))
    assert [a.code for a in answers if isinstance(a, Refusal)] == ["team_busy"] * 7


def test_a_claim_is_refused_for_what_cannot_be_judged_now(store: SqlStore, desk: Any) -> None:
    done = desk.submit()
    desk.claim(done.job_id)
    desk.finish(done.job_id, 1)
    assert code_of(desk.claim(done.job_id)) == "job_final"
    assert code_of(desk.claim(10**6)) == "job_unknown"
    assert code_of(desk.claim(10**30)) == "job_unknown"


def test_a_job_whose_lease_ran_out_can_be_claimed_anew(store: SqlStore, desk: Any) -> None:
    record = desk.submit()
    desk.claim(record.job_id, "r1")
    desk.later(14.9)
    assert code_of(desk.claim(record.job_id, "r2")) == "job_leased"
    desk.later(0.1)
    claimed = desk.claim(record.job_id, "r2")
    assert (claimed.attempt, claimed.runner) == (2, "r2")
    assert desk.beat(record.job_id, 1).stop


def test_a_job_out_of_attempts_is_ended_by_the_claim_that_finds_it(
    store: SqlStore, desk: Any
) -> None:
    record = desk.submit()
    for _ in range(3):
        desk.claim(record.job_id)
        desk.later(60)
    assert code_of(desk.claim(record.job_id)) == "attempts_used_up"
    ended = desk.record(record.submission.id)
    assert (ended.state, ended.held, ended.attempt) == (JobState.DONE, True, 3)
    assert ended.outcome is not None
    assert ended.outcome.verdict is Verdict.JUDGE_ERROR


def test_a_heartbeat_renews_the_lease_and_tells_how_far_the_job_is(
    store: SqlStore, desk: Any
) -> None:
    record = desk.submit()
    desk.claim(record.job_id)
    desk.later(14)
    assert not desk.beat(record.job_id, 1, stage="timing").stop
    beaten = desk.record(record.submission.id)
    assert beaten.progress == Progress("timing", 1, 2)
    assert beaten.last_heard_at == desk.now
    desk.later(14)
    assert store.release_lost(desk.now) == ()


@pytest.mark.parametrize("ending", ["cancelled", "finished", "released", "never claimed"])
def test_a_heartbeat_for_a_job_that_is_not_the_runners_any_more_says_stop(
    store: SqlStore, desk: Any, ending: str
) -> None:
    record = desk.submit()
    if ending != "never claimed":
        desk.claim(record.job_id)
    if ending == "cancelled":
        store.cancel(record.submission.id, desk.now)
    if ending == "finished":
        desk.finish(record.job_id, 1)
    if ending == "released":
        store.release_lost(desk.later(60))
    before = store.record(record.submission.id)
    assert desk.beat(record.job_id, before.attempt if before else 0, loaded=True).stop
    assert store.record(record.submission.id) == before
    assert desk.beat(10**6, 1).stop


def whole_outcome(job_id: int, attempt: int) -> Outcome:
    return Outcome(
        job_id=job_id,
        attempt=attempt,
        verdict=Verdict.WRONG_ANSWER,
        message="case t33: element [0, 1] differs — ∞",
        results=(
            CaseResult(
                case="t33",
                stage=Stage.TEST,
                secret=True,
                verdict=Verdict.WRONG_ANSWER,
                values={"tokens": 33, "scale": 0.5, "cold": False, "form": "plain"},
                message="differs",
                call=2,
                max_abs_error=math.inf,
                max_rel_error=1e-300,
                differences=(Difference("choice", (0, 1), "nan", "7"),),
            ),
        ),
        measurements=(Measurement("t33", True, 1, (1, 2, 2**60), (-3, 4)),),
        log="line\n\x00\x1b[31m 中文",
        environment={"cpu": "Some CPU", "torch": "2"},
        isolation="reduced",
        comparison=Comparison(
            baseline="plain torch — ∞",
            pairs=(
                Pair(Block.BEFORE, 1, (CaseTimes("t33", 4, (1, 2**60), (3, 4), (-5,)),)),
                Pair(Block.CANDIDATE, 0, ()),
            ),
            floors_ns={"t33": 1.5e-3},
        ),
    )


def test_an_outcome_is_kept_whole(store: SqlStore, desk: Any) -> None:
    record = desk.submit()
    desk.claim(record.job_id)
    outcome = whole_outcome(record.job_id, 1)
    answer = store.finish(record.job_id, 1, outcome, desk.later(1))
    kept = desk.record(record.submission.id)
    assert kept == answer
    assert kept.outcome == outcome
    assert (kept.state, kept.finished_at) == (JobState.DONE, desk.now)
    assert kept.lease_until is None


def test_lists_leave_the_raw_log_out_and_nothing_else(store: SqlStore, desk: Any) -> None:
    record = desk.submit()
    desk.claim(record.job_id)
    store.finish(record.job_id, 1, whole_outcome(record.job_id, 1), desk.now)
    (listed,) = store.history(None, None, None, 10)
    assert listed.outcome is not None
    assert listed.outcome.log == ""
    assert listed.outcome.results == whole_outcome(record.job_id, 1).results
    assert store.finished("topk", "cpu", Mode.TEST) == (listed,)


def test_a_second_or_late_outcome_is_refused_and_kept_as_an_event(
    store: SqlStore, desk: Any
) -> None:
    record = desk.submit()
    desk.claim(record.job_id)
    store.release_lost(desk.later(60))
    assert code_of(desk.finish(record.job_id, 1)) == "stale_attempt"
    desk.claim(record.job_id)
    assert code_of(desk.finish(record.job_id, 1)) == "stale_attempt"
    standing = desk.finish(record.job_id, 2, Verdict.WRONG_ANSWER)
    assert code_of(desk.finish(record.job_id, 2)) == "job_final"
    assert code_of(desk.finish(10**6, 1)) == "job_unknown"
    assert store.record(record.submission.id) == standing
    refused = store.events(["job.outcome_refused"], 0, 10)
    assert [event.body["code"] for event in refused] == [
        "stale_attempt",
        "stale_attempt",
        "job_final",
        "job_unknown",
    ]
    assert refused[0].body["outcome"]["verdict"] == "accepted"


def test_an_outcome_that_comes_after_the_lease_but_before_anyone_noticed_still_counts(
    store: SqlStore, desk: Any
) -> None:
    record = desk.submit()
    desk.claim(record.job_id)
    desk.later(60)
    assert desk.finish(record.job_id, 1).state is JobState.DONE


def test_an_outcome_of_another_job_is_a_bug_and_changes_nothing(store: SqlStore, desk: Any) -> None:
    record = desk.submit()
    desk.claim(record.job_id)
    with pytest.raises(ValueError, match="outcome of job"):
        store.finish(record.job_id, 1, whole_outcome(record.job_id + 1, 1), desk.now)
    assert desk.record(record.submission.id).state is JobState.RUNNING


def test_a_judge_error_is_tried_again_and_the_third_ends_the_job_held(
    store: SqlStore, desk: Any
) -> None:
    record = desk.submit()
    for number in (1, 2):
        desk.claim(record.job_id)
        desk.beat(record.job_id, number, loaded=True)
        again = desk.finish(record.job_id, number, Verdict.JUDGE_ERROR)
        assert (again.state, again.held, again.outcome) == (JobState.QUEUED, False, None)
        assert (again.progress, again.runner, again.lease_until) == (None, None, None)
    desk.claim(record.job_id)
    ended = desk.finish(record.job_id, 3, Verdict.JUDGE_ERROR)
    assert (ended.state, ended.held, ended.charged) == (JobState.DONE, True, False)
    assert ended.outcome.message == "attempt 3: judge error"
    assert "failed 3 times" in ended.hold
    assert desk.kinds(record) == [
        "submission.received",
        "job.claimed",
        *("quota.charged", "quota.refunded", "job.requeued", "job.claimed") * 2,
        "job.finished",
    ]


def test_lost_jobs_are_queued_again_and_ended_when_their_attempts_are_used_up(
    store: SqlStore, desk: Any
) -> None:
    lost, alive = desk.submit(), desk.submit()
    for number in (1, 2, 3):
        desk.claim(lost.job_id)
        desk.later(14)
        desk.claim(alive.job_id) if number == 1 else desk.beat(alive.job_id, 1)
        desk.later(1)
        assert store.release_lost(desk.now) == (lost.job_id,)
    ended = desk.record(lost.submission.id)
    assert (ended.state, ended.held) == (JobState.DONE, True)
    assert "lost 3 times" in ended.hold
    assert ended.outcome is not None
    assert ended.outcome.verdict is Verdict.JUDGE_ERROR
    assert desk.record(alive.submission.id).attempt == 1
    assert store.release_lost(desk.now) == ()


def test_a_cancelled_job_is_final_and_tells_its_runner_to_stop(store: SqlStore, desk: Any) -> None:
    record = desk.submit()
    desk.claim(record.job_id)
    cancelled = store.cancel(record.submission.id, desk.now)
    assert isinstance(cancelled, JobRecord)
    assert (cancelled.state, cancelled.outcome) == (JobState.CANCELLED, None)
    assert desk.beat(record.job_id, 1).stop
    assert code_of(desk.finish(record.job_id, 1)) == "job_final"
    assert code_of(store.cancel(record.submission.id, desk.now)) == "job_final"
    assert code_of(store.cancel(10**6, desk.now)) == "submission_unknown"
    assert store.finished("topk", "cpu", Mode.TEST) == ()


def test_a_job_given_up_is_the_judges_fault_and_held(store: SqlStore, desk: Any) -> None:
    record = desk.submit()
    desk.claim(record.job_id)
    assert code_of(store.give_up(record.job_id, "no more", desk.now)) == "job_leased"
    desk.beat(record.job_id, 1)
    desk.finish(record.job_id, 1, Verdict.JUDGE_ERROR)
    ended = store.give_up(record.job_id, "Version 1 is not open any more.", desk.now)
    assert isinstance(ended, JobRecord)
    assert (ended.state, ended.held, ended.charged) == (JobState.DONE, True, False)
    assert ended.hold == "Version 1 is not open any more."
    kept = desk.record(record.submission.id).outcome
    assert (kept.verdict, kept.message) == (
        Verdict.JUDGE_ERROR,
        "Version 1 is not open any more.",
    )
    assert code_of(store.give_up(record.job_id, "again", desk.now)) == "job_final"
    assert code_of(store.give_up(10**6, "unknown", desk.now)) == "job_unknown"


def test_the_outcome_of_an_attempt_that_was_tried_again_is_not_the_jobs(
    store: SqlStore, desk: Any
) -> None:
    record = desk.submit()
    desk.claim(record.job_id)
    desk.finish(record.job_id, 1, Verdict.JUDGE_ERROR)
    store.cancel(record.submission.id, desk.now)
    assert desk.record(record.submission.id).outcome is None


def test_finished_are_the_done_jobs_of_one_board_by_submission(store: SqlStore, desk: Any) -> None:
    wanted: list[dict[str, Any]] = [
        {},
        {"problem_id": "gemm"},
        {"device": "cuda"},
        {"mode": Mode.BENCHMARK},
        {},
    ]
    records = [desk.submit(**changes) for changes in wanted]
    for record in reversed(records):
        desk.claim(record.job_id)
        desk.finish(record.job_id, 1)
    board = store.finished("topk", "cpu", Mode.TEST)
    assert [r.job_id for r in board] == [records[0].job_id, records[4].job_id]


def test_who_waits_is_told_of_every_change_once_it_can_be_read(store: SqlStore, desk: Any) -> None:
    told: list[tuple[int, int]] = []
    store.on_change(lambda number: told.append((number, desk.record(number).version)))
    record = desk.submit()
    steps: list[Callable[[], object]] = [
        lambda: desk.claim(record.job_id),
        lambda: desk.beat(record.job_id, 1),
        lambda: store.release_lost(desk.later(60)),
        lambda: desk.claim(record.job_id),
        lambda: desk.finish(record.job_id, 2),
    ]
    for step in steps:
        step()
    assert told == [(record.submission.id, version) for version in range(1, 7)]
    desk.finish(record.job_id, 2)
    desk.claim(record.job_id)
    desk.beat(record.job_id, 2)
    assert len(told) == 6


def test_who_keeps_results_is_told_of_each_end_once_and_before_those_who_wait(
    store: SqlStore, desk: Any
) -> None:
    told: list[tuple[str, object]] = []
    store.on_change(lambda number: told.append(("change", number)))
    store.on_end(lambda record: told.append(("end", record)))
    judged, cancelled, lost = desk.submit(), desk.submit(), desk.submit()
    desk.claim(judged.job_id)
    desk.beat(judged.job_id, 1)
    desk.finish(judged.job_id, 1, Verdict.JUDGE_ERROR)
    desk.claim(judged.job_id)
    assert [kind for kind, _ in told] == ["change"] * 7
    told.clear()
    ends = [desk.finish(judged.job_id, 2), store.cancel(cancelled.submission.id, desk.now)]
    for _ in range(3):
        desk.claim(lost.job_id)
        store.release_lost(desk.later(60))
    ends.append(desk.record(lost.submission.id))
    assert [subject for kind, subject in told if kind == "end"] == ends
    assert [kind for kind, _ in told[:4]] == ["end", "change"] * 2
