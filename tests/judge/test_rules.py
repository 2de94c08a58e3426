"""Promises of the pure decisions: order, place, cases of a mode, disclosure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.model import (
    Case,
    CaseResult,
    Difference,
    JobState,
    Limits,
    Measurement,
    Mode,
    Outcome,
    Problem,
    Role,
    Stage,
    Submission,
    Verdict,
)
from judge.rules import (
    cases_of_mode,
    disclose,
    fault_of_invites,
    may_see,
    place_and_eta,
    ready_jobs,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Job:
    """The part of a job's record that the rules read."""

    job_id: int
    submission: Submission
    mode: Mode = Mode.TEST
    state: JobState = JobState.QUEUED
    device: str = "cpu"


def job(
    number: int,
    team: int,
    mode: Mode = Mode.TEST,
    state: JobState = JobState.QUEUED,
    device: str = "cpu",
) -> Job:
    submission = Submission(number, team, team, "topk", 1, "k.py", "", NOW)
    return Job(number, submission, mode, state, device)


def ids(jobs: tuple[Job, ...]) -> list[int]:
    return [job.job_id for job in jobs]


def test_tests_are_served_before_benchmarks_before_ranked_then_by_id() -> None:
    jobs = [job(1, 1, Mode.RANKED), job(2, 2, Mode.BENCHMARK), job(4, 4), job(3, 3)]
    assert ids(ready_jobs(jobs)) == [3, 4, 2, 1]


def test_team_with_a_running_job_waits() -> None:
    jobs = [job(1, 1, state=JobState.RUNNING, device="gpu"), job(2, 1), job(3, 2)]
    assert ids(ready_jobs(jobs)) == [3]


def test_a_device_without_a_runner_holds_up_no_job_of_the_team_elsewhere() -> None:
    jobs = [job(1, 1, device="gpu"), job(2, 1, device="gpu"), job(3, 1), job(4, 1)]
    assert ids(ready_jobs(jobs)) == [1, 3]


JOBS = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.sampled_from(Mode),
        st.sampled_from(JobState),
        st.sampled_from(["cpu", "gpu"]),
    ),
    max_size=12,
).map(lambda rows: [job(i, *row) for i, row in enumerate(rows, start=1)])


@given(JOBS, st.randoms(use_true_random=False))
def test_ready_jobs_are_one_per_team_and_device_and_equal_for_any_order_of_records(
    jobs: list[Job], shuffler: object
) -> None:
    ready = ready_jobs(jobs)
    teams = [(job.submission.team_id, job.device) for job in ready]
    shuffled = list(jobs)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert len(teams) == len(set(teams))
    assert all(job.state is JobState.QUEUED for job in ready)
    assert ready_jobs(shuffled) == ready


@given(JOBS)
def test_no_team_starves_while_it_has_a_queued_and_no_running_job(jobs: list[Job]) -> None:
    served = {job.submission.team_id for job in ready_jobs(jobs)}
    running = {job.submission.team_id for job in jobs if job.state is JobState.RUNNING}
    queued = {job.submission.team_id for job in jobs if job.state is JobState.QUEUED}
    assert served == queued - running


def test_place_counts_the_queued_jobs_before_it_on_its_device() -> None:
    jobs = [
        job(1, 1, state=JobState.RUNNING),
        job(2, 2, Mode.BENCHMARK),
        job(3, 3, device="gpu"),
        job(4, 4),
        job(5, 5, Mode.BENCHMARK),
    ]
    assert place_and_eta(jobs, jobs[4], {}, 1).place == 3
    assert place_and_eta(jobs, jobs[3], {}, 1).place == 1
    assert place_and_eta(jobs, jobs[0], {}, 1).place is None


def test_eta_shares_the_work_before_it_among_the_runners() -> None:
    jobs = [job(number, number) for number in range(1, 6)]
    recent = {Mode.TEST: [2.0, 2.0, 2.0]}
    assert place_and_eta(jobs, jobs[4], recent, 1).eta_s == pytest.approx(10)
    assert place_and_eta(jobs, jobs[4], recent, 4).eta_s == pytest.approx(4)


def test_eta_counts_the_teams_own_jobs_one_by_one() -> None:
    jobs = [job(1, 1), job(2, 1), job(3, 1)]
    assert place_and_eta(jobs, jobs[2], {Mode.TEST: [2.0]}, 8).eta_s == pytest.approx(6)


def test_eta_is_unknown_without_runners_or_history() -> None:
    jobs = [job(1, 1)]
    assert place_and_eta(jobs, jobs[0], {}, 1).eta_s is None
    assert place_and_eta(jobs, jobs[0], {Mode.TEST: [1.0]}, 0).eta_s is None
    assert place_and_eta(jobs, jobs[0], {Mode.BENCHMARK: [3.0]}, 1).eta_s == 3.0


def test_finished_job_has_neither_place_nor_eta() -> None:
    done = job(1, 1, state=JobState.DONE)
    place = place_and_eta([done], done, {Mode.TEST: [1.0]}, 1)
    assert (place.place, place.eta_s) == (None, None)


PUBLIC = (
    Case("p-time", Stage.TIMING, {"n": 1}),
    Case("p-test", Stage.TEST, {"n": 2}),
)
SECRET = (
    Case("s-test", Stage.TEST, {"n": 3}, secret=True),
    Case("s-time", Stage.TIMING, {"n": 4}, secret=True),
)
PROBLEM = Problem("topk", "Top", 1, "", PUBLIC, (), {}, Limits(), ("cpu",), (".py",))


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        (Mode.TEST, ["p-test"]),
        (Mode.BENCHMARK, ["p-test", "s-test", "p-time"]),
        (Mode.RANKED, ["p-test", "s-test", "s-time"]),
    ],
)
def test_each_mode_runs_its_cases_correctness_first(mode: Mode, names: list[str]) -> None:
    assert [case.name for case in cases_of_mode(PROBLEM, SECRET, mode)] == names


def result(case: str, secret: bool, verdict: Verdict, message: str = "") -> CaseResult:
    return CaseResult(
        case,
        Stage.TEST,
        secret,
        verdict,
        {"tokens": 4242},
        message,
        call=3,
        max_abs_error=0.123,
        max_rel_error=0.456,
        differences=(Difference("ids", (7, 7), "got-this", "expected-that"),),
    )


def outcome(*results: CaseResult, verdict: Verdict = Verdict.WRONG_ANSWER) -> Outcome:
    return Outcome(
        5,
        1,
        verdict,
        "The message.",
        results,
        (
            Measurement("t16", False, 1, (1_000,), (500,)),
            Measurement("secret-timing-1", True, 1, (7_777,), (500,)),
        ),
        log="built fine",
        environment={"cpu": "some"},
    )


FAILED_IN_SECRET = outcome(
    result("t33", False, Verdict.ACCEPTED),
    result("secret-test-1", True, Verdict.ACCEPTED),
    result("secret-test-2", True, Verdict.WRONG_ANSWER, "row 77 is wrong"),
)


def test_owner_learns_of_a_secret_case_its_verdict_word_alone() -> None:
    shown = disclose(FAILED_IN_SECRET, Role.CONTESTANT, True, False)
    assert sorted(r.verdict for r in shown.results if r.secret) == ["accepted", "wrong answer"]
    told = repr(replace(shown, results=tuple(r for r in shown.results if r.secret)))
    for secret in ("secret-test", "4242", "row 77", "0.123", "0.456", "got-this", "7777"):
        assert secret not in told
    assert all(r.call is None for r in shown.results if r.secret)


def test_owner_sees_all_of_the_public_cases_and_the_log() -> None:
    shown = disclose(FAILED_IN_SECRET, Role.CONTESTANT, True, False)
    assert shown.results[0] == FAILED_IN_SECRET.results[0]
    assert [m.case for m in shown.measurements] == ["t16"]
    assert (shown.log, shown.environment) == ("built fine", {"cpu": "some"})


def test_order_of_hidden_cases_tells_nothing() -> None:
    swapped = replace(
        FAILED_IN_SECRET,
        results=(
            FAILED_IN_SECRET.results[0],
            replace(FAILED_IN_SECRET.results[2], case="secret-test-1"),
            replace(FAILED_IN_SECRET.results[1], case="secret-test-2"),
        ),
    )
    assert disclose(swapped, Role.CONTESTANT, True, False) == disclose(
        FAILED_IN_SECRET, Role.CONTESTANT, True, False
    )


def test_message_is_withheld_where_secret_cases_alone_failed() -> None:
    loose = replace(FAILED_IN_SECRET, message="IndexError at tokens=4242")
    shown = disclose(loose, Role.CONTESTANT, True, False)
    assert "4242" not in shown.message
    assert "secret" in shown.message


def test_message_is_kept_where_a_public_case_failed() -> None:
    both = outcome(
        result("t33", False, Verdict.WRONG_ANSWER),
        result("secret-test-1", True, Verdict.WRONG_ANSWER),
    )
    assert disclose(both, Role.CONTESTANT, True, False).message == "The message."


def test_organizers_see_all_and_everybody_does_once_the_contest_is_over() -> None:
    assert disclose(FAILED_IN_SECRET, Role.ORGANIZER, False, False) == FAILED_IN_SECRET
    assert disclose(FAILED_IN_SECRET, Role.CONTESTANT, True, True) == FAILED_IN_SECRET


@pytest.mark.parametrize("role", [Role.CONTESTANT, Role.RUNNER, None])
def test_others_are_told_the_verdict_alone(role: Role | None) -> None:
    assert disclose(FAILED_IN_SECRET, role, False, False) == Outcome(5, 1, Verdict.WRONG_ANSWER, "")


def test_only_owner_and_organizers_may_open_a_submission() -> None:
    assert may_see(Role.CONTESTANT, True)
    assert may_see(Role.ORGANIZER, False)
    assert not any(may_see(role, False) for role in (Role.CONTESTANT, Role.RUNNER, None))


def test_codes_for_one_team_never_exceed_its_places() -> None:
    assert fault_of_invites(2, "Rockets", 2) is None
    assert fault_of_invites(50, None, 1) is None
    refusal = fault_of_invites(3, "Rockets", 2)
    assert refusal is not None
    assert (refusal.code, refusal.status) == ("team_too_small", 409)
    assert "A team holds 2 here" in refusal.detail
