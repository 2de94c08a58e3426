"""Promises of holds on a real store: they stick to a kernel, and a release publishes nothing unconfirmed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from judge.catalog import load_problem
from judge.model import JobState, Outcome, Refusal
from judge.records import JobRecord
from judge.release import release
from leaderboard.store import SqlStore, submissions
from tests.judge.test_ranked_views import FREEZE, ORGANIZER, TOPK, Desk
from tests.ranked_runs import Made

ONE, SLOWED = "1" * 64, Made(2.0, slowed=0.05)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = SqlStore.open(f"sqlite:///{tmp_path}/judge.sqlite3")
    yield Desk(store, load_problem(TOPK).problem)
    store.close()


def let_go(desk: Desk, record: JobRecord) -> JobRecord:
    released = release(desk.store, desk.views, record.submission.id, 7, desk.now)
    assert isinstance(released, JobRecord)
    return released


def now(desk: Desk, record: JobRecord) -> JobRecord:
    found = desk.store.record(record.submission.id)
    assert found is not None
    return found


def ranks(desk: Desk) -> list[int | None]:
    return [entry.rank for entry in desk.board().entries]


def test_the_raw_times_of_a_run_are_read_once_however_often_its_board_moves(desk, monkeypatch):
    read = []
    real = submissions.outcome_of

    def counting(body: str, log: bytes) -> Outcome:
        found = real(body, log)
        read.append(found.job_id)
        return found

    monkeypatch.setattr(submissions, "outcome_of", counting)
    for name in ("Ada", "Bob", "Cleo", "Dan"):
        desk.judge(desk.person(name), Made(2.0))
        desk.board()
    assert sorted(read) == [1, 2, 3, 4]
    assert ranks(desk) == [1, 1, 1, 1]


# --- a hold sticks to its kernel


def test_a_held_kernel_that_is_handed_in_again_is_held_however_good_its_run(desk):
    ada = desk.person("Ada")
    first, _ = desk.run(desk.submit(ada, ONE), SLOWED)
    again, ruling = desk.run(desk.submit(ada, ONE), Made(2.0))
    assert (again.state, again.held, ruling.confirm) == (JobState.DONE, True, False)
    assert f"submission {first.submission.id}," in desk.told(again, ada).hold
    third, _ = desk.run(desk.submit(ada, ONE), SLOWED)
    for reason in ("baseline", f"submission {first.submission.id},"):
        assert reason in third.hold
    assert ranks(desk) == [None]


def test_a_confirmation_is_held_where_another_run_of_the_kernel_was_held_meanwhile(desk):
    ada = desk.person("Ada")
    waiting = desk.submit(ada, ONE)
    waiting, _ = desk.run(waiting, Made(2.0))
    held, _ = desk.run(desk.submit(ada, ONE), SLOWED)
    ended, _ = desk.run(waiting, Made(2.0))
    assert (ended.held, f"submission {held.submission.id}," in ended.hold) == (True, True)


def test_a_held_kernel_holds_neither_another_kernel_nor_another_team(desk):
    ada, bob = desk.person("Ada"), desk.person("Bob")
    desk.run(desk.submit(ada, ONE), SLOWED)
    for who, digest in ((ada, None), (bob, ONE)):
        assert not desk.judge(who, Made(2.0), digest).held


def test_once_the_earlier_run_is_released_later_ones_are_not_held_for_it(desk):
    ada = desk.person("Ada")
    first, _ = desk.run(desk.submit(ada, ONE), SLOWED)
    again, _ = desk.run(desk.submit(ada, ONE), Made(2.0))
    let_go(desk, first)
    assert not now(desk, again).held, "it was held for that one alone"
    assert not desk.judge(ada, Made(2.0), ONE).held


def test_a_run_that_is_held_for_another_is_released_with_that_alone(desk):
    ada = desk.person("Ada")
    first, _ = desk.run(desk.submit(ada, ONE), SLOWED)
    again, _ = desk.run(desk.submit(ada, ONE), Made(2.0))
    refused = release(desk.store, desk.views, again.submission.id, 7, desk.now)
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.status) == ("kernel_held", 409)
    assert f"submission {first.submission.id}," in refused.detail
    assert now(desk, again) == again


def test_two_runs_that_are_each_held_for_themselves_are_released_in_any_order(desk):
    ada = desk.person("Ada")
    first, _ = desk.run(desk.submit(ada, ONE), SLOWED)
    second, _ = desk.run(desk.submit(ada, ONE), SLOWED)
    still = let_go(desk, second)
    assert (still.held, f"submission {first.submission.id}," in still.hold) == (True, True)
    let_go(desk, first)
    assert not now(desk, first).held
    assert not now(desk, second).held


# --- a release publishes nothing unconfirmed


def test_a_held_first_run_that_would_move_a_band_is_confirmed_at_its_release(desk):
    ada = desk.person("Ada")
    record, _ = desk.run(desk.submit(ada), SLOWED)
    assert ranks(desk) == [None]
    waiting = let_go(desk, record)
    assert (waiting.state, waiting.confirms, waiting.held) == (JobState.QUEUED, 1, False)
    assert desk.told(waiting, ada).confirming
    assert ranks(desk) == []
    ended, _ = desk.run(waiting, Made(3.0))
    assert ended.state is JobState.DONE
    (entry,) = desk.board().entries
    assert entry.claim.speedup == pytest.approx(3.0, rel=0.01), "the confirmation alone counts"


def test_a_held_run_that_moves_no_band_or_was_confirmed_is_published_at_its_release(desk):
    ada = desk.person("Ada")
    desk.judge(ada, Made(2.0))
    slower, _ = desk.run(desk.submit(ada), Made(1.8, slowed=0.05))
    assert let_go(desk, slower).state is JobState.DONE
    bob = desk.person("Bob")
    confirmed, _ = desk.run(desk.submit(bob), Made(1.8))
    confirmed, _ = desk.run(confirmed, Made(1.8, slowed=0.05))
    assert (confirmed.held, confirmed.confirms) == (True, 1)
    assert let_go(desk, confirmed).state is JobState.DONE
    assert ranks(desk) == [1, 2]


def test_an_entry_that_was_confirmed_and_held_by_an_organizer_comes_back_as_it_was(desk):
    record = desk.judge(desk.person("Ada"), Made(2.0))
    before = desk.board(ORGANIZER).entries
    desk.store.moderate(record.submission.id, "looks odd", 0, desk.now)
    let_go(desk, record)
    assert desk.board(ORGANIZER).entries == before


# --- a frozen board


def test_what_organizers_hold_and_release_after_the_freeze_leaves_the_frozen_board_as_it_was(desk):
    ada, bob, cleo = desk.person("Ada"), desk.person("Bob"), desk.person("Cleo")
    shown = desk.judge(ada, Made(2.0))
    released_before, _ = desk.run(desk.submit(cleo), Made(2.0))
    released_before, _ = desk.run(released_before, SLOWED)
    let_go(desk, released_before)
    held, _ = desk.run(desk.submit(bob), Made(3.0, slowed=0.05))
    desk.now = FREEZE
    before = desk.board().entries
    assert {entry.team: entry.rank for entry in before} == {"Cleo": 1, "Ada": 2, "Bob": None}
    desk.now += timedelta(minutes=1)
    desk.store.moderate(shown.submission.id, "looks odd", 0, desk.now)
    desk.store.moderate(released_before.submission.id, "looks odd", 0, desk.now)
    assert desk.board().entries == before
    waiting = let_go(desk, held)
    assert waiting.state is JobState.QUEUED
    assert desk.board().entries == before
    desk.run(waiting, Made(3.0))
    assert desk.board().entries == before
    assert [(e.team, e.rank) for e in desk.board(ORGANIZER).entries] == [
        *(("Bob", 1), ("Ada", None), ("Cleo", None)),
    ]
    desk.views = type(desk)(desk.store, desk.problem, desk.now).views
    assert desk.board().entries == before, "a server that starts again tells the same"
