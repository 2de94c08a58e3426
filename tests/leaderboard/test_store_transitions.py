"""Promises of the pure decisions about jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from judge.model import JobState, Mode, Outcome, Refusal, Ruling, Submission, Verdict
from judge.records import JobRecord
from leaderboard import transitions
from leaderboard.quotas import over_quota
from leaderboard.transitions import Change, Happened, Stand, stand_after

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=15)

QUEUED = JobRecord(
    submission=Submission(1, 2, 3, "topk", 1, "a.py", "ab" * 32, NOW),
    team="team",
    author="author",
    file_names=("a.py",),
    job_id=7,
    device="cpu",
    mode=Mode.TEST,
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
RUNNING = replace(QUEUED, state=JobState.RUNNING, attempt=1, runner="r1", lease_until=LATER)


def outcome(attempt: int, verdict: Verdict = Verdict.ACCEPTED) -> Outcome:
    return Outcome(7, attempt, verdict, "")


def kinds(change: Change | Refusal | None) -> list[str]:
    assert isinstance(change, Change)
    return [event.kind for event in change.happened]


@pytest.mark.parametrize(
    ("record", "team_busy", "code"),
    [
        (replace(QUEUED, state=JobState.DONE), False, "job_final"),
        (replace(QUEUED, state=JobState.CANCELLED), True, "job_final"),
        (RUNNING, False, "job_leased"),
        (RUNNING, True, "job_leased"),
        (QUEUED, True, "team_busy"),
    ],
)
def test_a_claim_is_refused_for_one_reason(record: JobRecord, team_busy: bool, code: str) -> None:
    answer = transitions.claim(record, "r2", NOW, LATER, team_busy)
    assert isinstance(answer, Refusal)
    assert answer.code == code


def test_taking_over_a_lost_job_tells_that_it_was_lost() -> None:
    assert kinds(transitions.claim(RUNNING, "r2", LATER, LATER, False)) == [
        "job.requeued",
        "job.claimed",
    ]


def test_the_third_loss_ends_the_job_and_refunds_only_what_was_charged() -> None:
    third = replace(RUNNING, attempt=3)
    assert kinds(transitions.release_lost(third, LATER)) == ["job.finished"]
    charged = replace(third, charged=True)
    assert kinds(transitions.release_lost(charged, LATER)) == ["quota.refunded", "job.finished"]
    assert transitions.release_lost(third, NOW) is None
    assert transitions.release_lost(QUEUED, LATER) is None


@pytest.mark.parametrize("attempt", [0, 2])
def test_only_the_current_attempt_counts(attempt: int) -> None:
    answer = transitions.finish(RUNNING, outcome(attempt), Ruling())
    assert isinstance(answer, Refusal)
    assert answer.code == "stale_attempt"
    assert transitions.heartbeat(RUNNING, attempt, True) is None


def test_a_job_is_charged_once() -> None:
    assert kinds(transitions.heartbeat(RUNNING, 1, False)) == []
    assert kinds(transitions.heartbeat(RUNNING, 1, True)) == ["quota.charged"]
    charged = replace(RUNNING, charged=True)
    assert kinds(transitions.heartbeat(charged, 1, True)) == []
    assert kinds(transitions.finish(charged, outcome(1), Ruling())) == ["job.finished"]


@pytest.mark.parametrize("verdict", [v for v in Verdict if not v.is_ours])
def test_any_verdict_on_the_authors_work_ends_the_job(verdict: Verdict) -> None:
    assert kinds(transitions.finish(RUNNING, outcome(1, verdict), Ruling()))[-1] == "job.finished"


@pytest.mark.parametrize(
    ("confirms", "attempt", "ended"),
    [(None, 2, False), (None, 3, True), (1, 3, False), (1, 4, True), (3, 5, False), (3, 6, True)],
)
def test_a_confirmation_has_attempts_of_its_own(
    confirms: int | None, attempt: int, ended: bool
) -> None:
    record = replace(RUNNING, confirms=confirms, attempt=attempt)
    kind = "job.finished" if ended else "job.requeued"
    assert kinds(transitions.release_lost(record, LATER)) == [kind]
    failed = outcome(attempt, Verdict.JUDGE_ERROR)
    assert kinds(transitions.finish(record, failed, Ruling())) == [kind]
    taken_over = transitions.claim(record, "r2", LATER, LATER, False)
    assert kinds(taken_over) == ([kind] if ended else [kind, "job.claimed"])


def test_what_a_confirmation_follows_stays_charged_when_it_is_lost() -> None:
    record = replace(RUNNING, charged=True)
    assert kinds(transitions.release_lost(record, LATER)) == ["quota.refunded", "job.requeued"]
    confirming = replace(record, attempt=2, confirms=1)
    assert kinds(transitions.release_lost(confirming, LATER)) == ["job.requeued"]


def test_events_of_the_version_before_ranked_runs_fold_still() -> None:
    ended = Happened("job.finished", {"attempt": 3, "verdict": "judge error", "held": True})
    stand = stand_after(Stand(JobState.RUNNING, 3), [ended], NOW)
    assert (stand.state, stand.held, stand.hold) == (JobState.DONE, True, "")


def test_the_fold_passes_over_what_says_nothing_of_the_job() -> None:
    stand = Stand(JobState.RUNNING, 2, charged=True, runner="r1")
    assert stand_after(stand, [Happened("job.outcome_refused", {"attempt": 1})], NOW) == stand


@pytest.mark.parametrize(
    ("per_s", "span"),
    [(1, "second"), (90, "90 seconds"), (60, "minute"), (7200, "2 hours"), (86_400, "day")],
)
def test_a_quota_refusal_says_the_limit_and_when_it_frees(per_s: int, span: str) -> None:
    refusal = over_quota(NOW, 5, per_s, Mode.BENCHMARK)
    assert refusal is not None
    frees = f"{NOW + timedelta(seconds=per_s):%Y-%m-%d %H:%M:%S} UTC"
    assert refusal.detail == (
        f"Your team has used its 5 benchmark submissions per {span}. "
        f"The next slot frees at {frees}."
    )


def test_a_quota_that_is_not_filled_refuses_nothing() -> None:
    assert over_quota(None, 5, 60, Mode.TEST) is None
