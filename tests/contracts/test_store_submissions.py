"""Promises about what is handed in: kept whole, counted right, read back as it was."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from judge.model import Case, JobState, Limits, Mode, Problem, Refusal, SourceFile, Stage, Verdict
from judge.ports import StoreError
from judge.records import JobRecord
from judge.rules import ready_jobs
from leaderboard.store import SqlStore

HOUR = 3600


def problem(digest: str = "d1", version: int = 1) -> Problem:
    return Problem(
        id="topk",
        title="Top-K router",
        version=version,
        digest=digest,
        cases=(),
        secret_cases=(),
        tolerances={},
        limits=Limits(),
        devices=("cpu",),
        languages=(".py",),
    )


def secret_case(name: str) -> Case:
    values = {"tokens": 33, "scale": 1.0, "bias": True, "form": "grouped"}
    return Case(name, Stage.TIMING, values, secret=True, calls=5, chain=2, cold=True)


def test_the_secret_cases_that_stand_are_those_stored_first(store: SqlStore, desk: Any) -> None:
    first = (secret_case("a"), secret_case("b"))
    assert store.open_problem(problem(), first, desk.now) == first
    assert store.open_problem(problem(), (secret_case("c"),), desk.now) == first
    assert store.secret_cases("topk", 1) == first
    kept = store.secret_cases("topk", 1)[0].values
    assert [type(value) for value in kept.values()] == [int, float, bool, str]
    assert store.secret_cases("topk", 2) == ()


def test_an_open_problem_version_cannot_change_but_a_new_version_can_open(
    store: SqlStore, desk: Any
) -> None:
    store.open_problem(problem(), (), desk.now)
    refusal = store.open_problem(problem("d2"), (), desk.now)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "problem_changed"
    assert store.open_problem(problem("d2", version=2), (), desk.now) == ()


def test_no_secret_case_stands_in_the_history(store: SqlStore, desk: Any) -> None:
    store.open_problem(problem(), (secret_case("shape-that-none-may-know"),), desk.now)
    assert "shape-that-none-may-know" not in str(store.events(None, 0, 100))


FILES = (
    SourceFile("kernel.py", "é\r\n\tx = 1\n".encode()),
    SourceFile("lib/ünï.cu", b"\x00\xff\xfe not text \x80" * 1000),
    SourceFile("empty.h", b""),
    SourceFile("again.py", "é\r\n\tx = 1\n".encode()),
    SourceFile("big.bin", bytes(range(256)) * 8192),
)


def test_files_come_back_byte_for_byte_and_in_order(store: SqlStore, desk: Any) -> None:
    record = desk.submit(files=FILES)
    assert store.files(record.submission.id) == FILES
    assert record.file_names == tuple(file.name for file in FILES)
    assert store.files(record.submission.id + 1) == ()


def test_a_record_reads_back_as_it_was_answered(store: SqlStore, desk: Any) -> None:
    who = desk.person()
    record = desk.submit(who, mode=Mode.BENCHMARK, files=FILES)
    assert record.state is JobState.QUEUED
    assert (record.attempt, record.version, record.charged, record.held) == (0, 1, False, False)
    assert (record.author, record.team) == (who.user, who.team)
    assert record.submission.received_at == desk.now
    assert store.record(record.submission.id) == record
    assert store.record_of_job(record.job_id) == record
    assert store.unfinished() == (record,)


@pytest.mark.parametrize("absurd", [0, -1, 10**12, 2**63, 10**40, -(10**40)])
def test_an_absurd_number_finds_nothing(store: SqlStore, desk: Any, absurd: int) -> None:
    desk.submit()
    assert store.record(absurd) is None
    assert store.record_of_job(absurd) is None
    assert store.files(absurd) == ()
    assert len(store.history(None, None, absurd, 10)) == (1 if absurd > 10 else 0)
    assert store.events(None, max(absurd, 10), 10) == ()


def test_nobody_can_hand_in_for_a_team_that_is_not_theirs(store: SqlStore, desk: Any) -> None:
    ada, bob = desk.person(), desk.person()
    with pytest.raises(StoreError):
        store.add_submission(desk.new(ada, team_id=bob.team_id), None).result()
    assert store.history(None, None, None, 10) == ()


def test_history_is_newest_first_and_can_be_paged_and_filtered(store: SqlStore, desk: Any) -> None:
    ada, bob = desk.person(), desk.person()
    wanted = [("topk", ada), ("gemm", ada), ("topk", bob), ("topk", ada)]
    records = [desk.submit(who, problem_id=name) for name, who in wanted]

    def ids(*asked: Any) -> list[int]:
        return [record.submission.id for record in store.history(*asked)]

    a, b, c, d = (record.submission.id for record in records)
    assert ids(None, None, None, 10) == [d, c, b, a]
    assert ids(None, None, None, 2) == [d, c]
    assert ids(None, None, c, 2) == [b, a]
    assert ids(ada.team_id, None, None, 10) == [d, b, a]
    assert ids(ada.team_id, "topk", None, 10) == [d, a]
    assert ids(None, "gemm", None, 10) == [b]


def test_unfinished_are_queued_and_running_jobs_of_the_device(store: SqlStore, desk: Any) -> None:
    queued, running, done, cancelled = (desk.submit() for _ in range(4))
    elsewhere = desk.submit(device="cuda")
    desk.claim(running.job_id)
    desk.claim(done.job_id)
    desk.finish(done.job_id, 1)
    store.cancel(cancelled.submission.id, desk.now)
    assert [r.job_id for r in store.unfinished()] == [
        queued.job_id,
        running.job_id,
        elsewhere.job_id,
    ]
    assert [r.job_id for r in store.unfinished("cpu")] == [queued.job_id, running.job_id]


def test_the_front_names_the_same_ready_jobs_as_all_the_unfinished_ones(
    store: SqlStore, desk: Any
) -> None:
    ada, bob = desk.person(), desk.person()
    modes = [Mode.BENCHMARK, Mode.TEST, Mode.BENCHMARK, Mode.TEST]
    for who, device in product((ada, bob), ("cpu", "cuda")):
        for mode in modes:
            desk.submit(who, device=device, mode=mode)
    front = store.front()
    assert len(front) == 2 * 2 * 2
    assert ready_jobs(front) == ready_jobs(store.unfinished())
    desk.claim(front[0].job_id)
    assert ready_jobs(store.front()) == ready_jobs(store.unfinished())
    assert {record.submission.team_id for record in ready_jobs(store.front())} == {bob.team_id}


# --- quotas


def attempt(store: SqlStore, new: Any, count: int = 2) -> str | JobRecord:
    answer = store.add_submission(new, (count, HOUR)).result()
    return answer.code if isinstance(answer, Refusal) else answer


def test_a_quota_is_never_exceeded_however_many_hand_in_at_once(store: SqlStore, desk: Any) -> None:
    people = [desk.person() for _ in range(4)]

    def hand_in(n: int) -> str | JobRecord:
        return attempt(store, desk.new(people[n % 4]), count=3)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(hand_in, range(64)))
    taken = [answer.submission.team_id for answer in answers if isinstance(answer, JobRecord)]
    assert sorted(taken) == sorted(3 * [who.team_id for who in people])
    assert answers.count("quota_exceeded") == 64 - 12
    assert len(store.history(None, None, None, 100)) == 12


def test_the_refusal_names_the_first_second_at_which_the_next_one_is_taken(
    store: SqlStore, desk: Any
) -> None:
    who = desk.person()
    attempt(store, desk.new(who))
    desk.later(60)
    attempt(store, desk.new(who))
    desk.later(60)
    refusal = store.add_submission(desk.new(who), (2, HOUR)).result()
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.status) == ("quota_exceeded", 429)
    named = datetime.fromisoformat(refusal.detail.partition("frees at ")[2].replace(" UTC.", "Z"))
    early = desk.new(who, received_at=named - timedelta(seconds=1))
    assert attempt(store, early) == "quota_exceeded"
    assert isinstance(attempt(store, desk.new(who, received_at=named)), JobRecord)


def test_a_job_leaves_the_window_when_the_windows_length_has_passed(
    store: SqlStore, desk: Any
) -> None:
    who = desk.person()
    attempt(store, desk.new(who), 1)
    desk.later(HOUR - 0.000001)
    assert attempt(store, desk.new(who), 1) == "quota_exceeded"
    desk.later(0.000001)
    assert isinstance(attempt(store, desk.new(who), 1), JobRecord)


def test_each_mode_and_each_team_has_a_quota_of_its_own(store: SqlStore, desk: Any) -> None:
    ada, bob = desk.person(), desk.person()
    assert isinstance(attempt(store, desk.new(ada), 1), JobRecord)
    assert attempt(store, desk.new(ada), 1) == "quota_exceeded"
    assert isinstance(attempt(store, desk.new(ada, mode=Mode.BENCHMARK), 1), JobRecord)
    assert isinstance(attempt(store, desk.new(bob), 1), JobRecord)


def test_a_quota_of_none_takes_none(store: SqlStore, desk: Any) -> None:
    assert attempt(store, desk.new(desk.person()), 0) == "quota_exceeded"


def room_after(store: SqlStore, desk: Any, ending: Any) -> bool:
    """Whether a quota of one has room again after its job came to the ending."""
    who = desk.person()
    record = attempt(store, desk.new(who), 1)
    assert isinstance(record, JobRecord)
    ending(record)
    return attempt(store, desk.new(who), 1) != "quota_exceeded"


def test_a_cancel_before_any_box_loaded_the_file_is_free_and_a_later_one_is_not(
    store: SqlStore, desk: Any
) -> None:
    def cancel(record: JobRecord) -> None:
        store.cancel(record.submission.id, desk.now)

    def claim_and_cancel(record: JobRecord) -> None:
        desk.claim(record.job_id)
        desk.beat(record.job_id, 1, stage="building")
        cancel(record)

    def load_and_cancel(record: JobRecord) -> None:
        desk.claim(record.job_id)
        desk.beat(record.job_id, 1, loaded=True)
        cancel(record)

    assert room_after(store, desk, cancel)
    assert room_after(store, desk, claim_and_cancel)
    assert not room_after(store, desk, load_and_cancel)


@pytest.mark.parametrize("loaded", [True, False])
def test_a_verdict_costs_quota_whether_or_not_a_heartbeat_told_of_the_load(
    store: SqlStore, desk: Any, loaded: bool
) -> None:
    def judged(record: JobRecord) -> None:
        desk.claim(record.job_id)
        if loaded:
            desk.beat(record.job_id, 1, loaded=True)
        desk.finish(record.job_id, 1, Verdict.WRONG_ANSWER)

    assert not room_after(store, desk, judged)


def test_a_job_that_ends_as_judge_error_gives_its_quota_back(store: SqlStore, desk: Any) -> None:
    def fail_three_times(record: JobRecord) -> None:
        for number in (1, 2, 3):
            desk.claim(record.job_id)
            desk.beat(record.job_id, number, loaded=True)
            desk.finish(record.job_id, number, Verdict.JUDGE_ERROR)

    def lose_three_times(record: JobRecord) -> None:
        for number in (1, 2, 3):
            desk.claim(record.job_id)
            desk.beat(record.job_id, number, loaded=True)
            store.release_lost(desk.later(60))

    assert room_after(store, desk, fail_three_times)
    assert room_after(store, desk, lose_three_times)


def test_a_cancel_is_free_while_it_waits_for_a_retry_that_is_our_fault(
    store: SqlStore, desk: Any
) -> None:
    def fail_then_cancel(record: JobRecord) -> None:
        desk.claim(record.job_id)
        desk.beat(record.job_id, 1, loaded=True)
        desk.finish(record.job_id, 1, Verdict.JUDGE_ERROR)
        store.cancel(record.submission.id, desk.now)

    def lose_then_cancel(record: JobRecord) -> None:
        desk.claim(record.job_id)
        desk.beat(record.job_id, 1, loaded=True)
        store.release_lost(desk.later(60))
        store.cancel(record.submission.id, desk.now)

    def cancel_the_retry(record: JobRecord) -> None:
        desk.claim(record.job_id)
        desk.beat(record.job_id, 1, loaded=True)
        desk.finish(record.job_id, 1, Verdict.JUDGE_ERROR)
        desk.claim(record.job_id)
        desk.beat(record.job_id, 2, loaded=True)
        store.cancel(record.submission.id, desk.now)

    assert room_after(store, desk, fail_then_cancel)
    assert room_after(store, desk, lose_then_cancel)
    assert not room_after(store, desk, cancel_the_retry)


def test_a_retry_charges_nothing_more(store: SqlStore, desk: Any) -> None:
    record = desk.submit()
    for number in (1, 2):
        desk.claim(record.job_id)
        desk.beat(record.job_id, number, loaded=True)
        desk.beat(record.job_id, number, loaded=True)
        desk.finish(record.job_id, number, [Verdict.JUDGE_ERROR, Verdict.ACCEPTED][number - 1])
    kinds = desk.kinds(record)
    assert kinds.count("quota.charged") - kinds.count("quota.refunded") == 1
    assert desk.record(record.submission.id).charged
