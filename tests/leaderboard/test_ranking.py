"""Promises of the standings: a pure fold that bad times, old versions and the future cannot enter."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.model import (
    Case,
    JobState,
    Limits,
    Measurement,
    Mode,
    Outcome,
    Problem,
    Stage,
    Submission,
    Verdict,
)
from leaderboard.ranking import standings

START = datetime(2026, 3, 1, tzinfo=UTC)
CASES = ("t16", "t64")
PROBLEM = Problem(
    id="topk",
    title="Top-K",
    version=2,
    digest="",
    cases=(
        Case("small", Stage.TEST, {"n": 1}),
        *(Case(name, Stage.TIMING, {"n": 1}) for name in CASES),
    ),
    secret_cases=(),
    tolerances={},
    limits=Limits(),
    devices=("cpu",),
    languages=(".py",),
)


@dataclass(frozen=True)
class Finished:
    """The part of a job's record that the ranking reads."""

    submission: Submission
    outcome: Outcome | None
    finished_at: datetime | None
    team: str = "team"
    device: str = "cpu"
    mode: Mode = Mode.BENCHMARK
    state: JobState = JobState.DONE
    held: bool = False
    hold: str = ""


def finished(number: int, team: int, times: Any, **changes: Any) -> Finished:
    """A done benchmark: one list of samples per timing case; seconds after start are its id."""
    verdict = changes.pop("verdict", Verdict.ACCEPTED)
    at = START + timedelta(seconds=changes.pop("seconds", number))
    submission = Submission(number, team, team, "topk", 2, "k.py", "", START)
    measurements = tuple(
        Measurement(case, False, 1, tuple(samples), (500,) * 9)
        for case, samples in zip(CASES, times, strict=False)
    )
    outcome = Outcome(number, 1, verdict, "", measurements=measurements)
    return replace(Finished(submission, outcome, at), **changes)


def board(jobs: list[Finished], until: datetime | None = None) -> Any:
    return standings(jobs, PROBLEM, "cpu", Mode.BENCHMARK, until)


def ranks(jobs: list[Finished]) -> dict[int, int | None]:
    return {entry.team_id: entry.rank for entry in board(jobs)}


SAMPLES = st.lists(st.integers(1, 10**7), min_size=1, max_size=5)
TIMES = st.tuples(SAMPLES, SAMPLES)
JOBS = st.lists(
    st.tuples(
        st.integers(1, 4),
        TIMES,
        st.sampled_from([Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.WRONG_ANSWER]),
        st.booleans(),
        st.integers(0, 100),
    ),
    max_size=10,
).map(
    lambda rows: [
        finished(i, team, times, verdict=verdict, held=held, seconds=seconds)
        for i, (team, times, verdict, held, seconds) in enumerate(rows, start=1)
    ]
)


def test_faster_team_ranks_first() -> None:
    jobs = [finished(1, 1, ([9_000], [9_000])), finished(2, 2, ([8_000], [8_000]))]
    assert ranks(jobs) == {2: 1, 1: 2}


def test_entry_shows_net_times_and_their_geometric_mean() -> None:
    (entry,) = board([finished(1, 1, ([1_500], [4_500]))])
    assert entry.times_ns == {"t16": 1_000, "t64": 4_000}
    assert entry.score_ns == pytest.approx(2_000)


def test_latest_submission_that_may_rank_stands_even_if_slower() -> None:
    jobs = [
        finished(1, 1, ([1_500], [1_500])),
        finished(2, 1, ([9_000], [9_000])),
        finished(3, 1, ([1_200], [1_200]), verdict=Verdict.WRONG_ANSWER),
        finished(4, 1, ([1_200], [1_200]), held=True),
    ]
    (entry,) = board(jobs)
    assert (entry.submission_id, entry.rank) == (2, 1)


@given(JOBS, st.data())
def test_lowering_any_one_time_never_worsens_a_rank(jobs: list[Finished], data: Any) -> None:
    before = ranks(jobs)
    if not jobs:
        return
    place = data.draw(st.integers(0, len(jobs) - 1))
    job = jobs[place]
    assert job.outcome is not None
    measurements = list(job.outcome.measurements)
    number = data.draw(st.integers(0, len(measurements) - 1))
    samples = list(measurements[number].samples_ns)
    sample = data.draw(st.integers(0, len(samples) - 1))
    samples[sample] = data.draw(st.integers(1, samples[sample]))
    measurements[number] = replace(measurements[number], samples_ns=tuple(samples))
    lowered = replace(job, outcome=replace(job.outcome, measurements=tuple(measurements)))
    after = ranks([*jobs[:place], lowered, *jobs[place + 1 :]])
    team = job.submission.team_id
    assert (before.get(team) is None) == (after.get(team) is None)
    if before.get(team) is not None:
        assert after[team] <= before[team]  # type: ignore[operator]


@given(JOBS, st.integers(0, 2**32))
def test_standings_are_equal_for_any_order_of_arrival(jobs: list[Finished], seed: int) -> None:
    shuffled = list(jobs)
    Random(seed).shuffle(shuffled)
    assert board(shuffled) == board(jobs)


@given(JOBS, st.integers(0, 100))
def test_view_at_a_time_is_the_fold_of_what_was_finished_by_then(
    jobs: list[Finished], seconds: int
) -> None:
    until = START + timedelta(seconds=seconds)
    past = [job for job in jobs if job.finished_at is not None and job.finished_at <= until]
    assert board(jobs, until) == board(past)


@given(
    st.sampled_from([0, -1, -(10**9), math.nan, math.inf, -math.inf]),
    st.integers(0, 1),
    st.sampled_from(["samples_ns", "null_samples_ns"]),
)
def test_bad_time_never_ranks(bad: float, number: int, arm: str) -> None:
    job = finished(1, 1, ([5_000] * 3, [5_000] * 3))
    assert job.outcome is not None
    measurements = list(job.outcome.measurements)
    measurements[number] = replace(measurements[number], **{arm: (5_000, bad, 5_000)})
    spoilt = replace(job, outcome=replace(job.outcome, measurements=tuple(measurements)))
    assert ranks([spoilt, finished(2, 2, ([9_000], [9_000]))]) == {2: 1, 1: None}


@given(JOBS)
def test_every_rank_is_held_once_and_by_an_accepted_job_that_is_not_held(
    jobs: list[Finished],
) -> None:
    entries = [entry for entry in board(jobs) if entry.rank is not None]
    by_id = {job.submission.id: job for job in jobs}
    assert [entry.rank for entry in entries] == list(range(1, len(entries) + 1))
    for entry in entries:
        job = by_id[entry.submission_id]
        assert job.outcome is not None
        assert job.outcome.verdict is Verdict.ACCEPTED
        assert not job.held


def test_missing_timing_case_never_ranks_and_says_why() -> None:
    (entry,) = board([finished(1, 1, ([5_000],))])
    assert (entry.rank, entry.score_ns) == (None, None)
    assert "timing case" in entry.note


def test_team_with_nothing_but_a_held_entry_is_shown_unranked_with_the_reason() -> None:
    jobs = [finished(1, 1, ([5_000], [5_000]), held=True), finished(2, 2, ([9_000], [9_000]))]
    assert [(e.team_id, e.rank) for e in board(jobs)] == [(2, 1), (1, None)]
    assert "held" in board(jobs)[1].note


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": Verdict.UNSTABLE_TIMING},
        {"device": "gpu"},
        {"mode": Mode.TEST},
        {"state": JobState.RUNNING},
        {"finished_at": None},
        {"outcome": None},
    ],
)
def test_job_of_another_board_or_not_accepted_is_not_shown(change: dict[str, Any]) -> None:
    assert board([finished(1, 1, ([5_000], [5_000]), **change)]) == ()


def test_job_of_an_older_version_of_the_problem_is_not_shown() -> None:
    job = finished(1, 1, ([5_000], [5_000]))
    assert board([replace(job, submission=replace(job.submission, problem_version=1))]) == ()


def test_equal_scores_rank_in_the_order_of_receipt() -> None:
    equal = ([5_000], [5_000])
    assert ranks([finished(2, 2, equal), finished(1, 1, equal, seconds=90)]) == {1: 1, 2: 2}
    # What counts is the receipt of the standing submission, not of an earlier one.
    assert ranks([finished(1, 1, equal), finished(2, 2, equal), finished(3, 1, equal)]) == {
        2: 1,
        1: 2,
    }


def test_time_below_the_noise_ranks_and_is_marked() -> None:
    (entry,) = board([finished(1, 1, ([400], [5_000]))])
    assert entry.rank == 1
    assert "t16" in entry.note


def test_reduced_isolation_is_marked() -> None:
    job = finished(1, 1, ([5_000], [5_000]))
    assert job.outcome is not None
    (entry,) = board([replace(job, outcome=replace(job.outcome, isolation="reduced"))])
    assert "reduced isolation" in entry.note
