"""Promises of what each viewer is told, on a real store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from judge.catalog import draw_secret_cases, load_problem
from judge.model import (
    CaseResult,
    Contest,
    Measurement,
    Mode,
    Outcome,
    Problem,
    Progress,
    Refusal,
    Role,
    SourceFile,
    Stage,
    Verdict,
)
from judge.notices import NoticeBoard
from judge.pace import Pace
from judge.records import Identity, JobRecord, NewSubmission, OpenContest
from judge.rules import cases_of_mode
from judge.views import Views
from judge.wire import BoardBody, SubmissionBody
from leaderboard.store import SqlStore

START = datetime(2026, 3, 1, tzinfo=UTC)
FREEZE = START + timedelta(hours=1)
CLOSE = START + timedelta(hours=2)
TOPK = Path(__file__).parents[2] / "problems" / "topk"
ORGANIZER = Identity(token_id=0, role=Role.ORGANIZER, label="o")
RUNNER = Identity(token_id=0, role=Role.RUNNER, label="r", device="cpu")


@dataclass
class Desk:
    """A store with one problem open, its views, and a clock that only the test moves."""

    store: SqlStore
    problem: Problem
    now: datetime = START

    def __post_init__(self) -> None:
        contest = Contest("Test", ("topk",), ("cpu",), START, FREEZE, CLOSE, {})
        opened = OpenContest(contest, {"topk": self.problem}, {"topk": {"statement.md": b"# Top"}})
        self.store.open_problem(self.problem, draw_secret_cases(self.problem, b"k"), self.now)
        self.pace = Pace(900)
        notices = NoticeBoard(self.store)
        self.views = Views(self.store, opened, notices, self.pace, lambda: self.now)

    def person(self, name: str) -> Identity:
        made = self.store.register(name, None, os.urandom(32), self.now)
        assert isinstance(made, Identity)
        return made

    def submit(self, who: Identity, mode: Mode = Mode.BENCHMARK) -> JobRecord:
        assert who.user_id is not None
        assert who.team_id is not None
        new = NewSubmission(
            user_id=who.user_id,
            team_id=who.team_id,
            problem_id="topk",
            problem_version=self.problem.version,
            device="cpu",
            mode=mode,
            main="k.py",
            digest="ab" * 32,
            files=(SourceFile("k.py", b"kernel"),),
            received_at=self.now,
        )
        record = self.store.add_submission(new, None).result()
        assert isinstance(record, JobRecord)
        return record

    def judge(self, record: JobRecord, secret_ns: int = 5_000, **changes: Any) -> JobRecord:
        """Judge it: each case accepted, public ones at 10 us, secret ones at `secret_ns`."""
        lease = self.now + timedelta(seconds=15)
        claimed = self.store.claim(record.job_id, "r1", self.now, lease)
        assert isinstance(claimed, JobRecord)
        secret = self.store.secret_cases("topk", self.problem.version)
        both = (cases_of_mode(self.problem, secret, m) for m in (Mode.BENCHMARK, Mode.RANKED))
        cases = {case.name: case for found in both for case in found}.values()
        outcome = Outcome(
            job_id=record.job_id,
            attempt=1,
            verdict=Verdict.ACCEPTED,
            message="",
            results=tuple(
                CaseResult(c.name, c.stage, c.secret, Verdict.ACCEPTED, c.values) for c in cases
            ),
            measurements=tuple(
                Measurement(c.name, c.secret, 1, (secret_ns if c.secret else 10_000,) * 9, (1,) * 9)
                for c in cases
                if c.stage is Stage.TIMING
            ),
        )
        ended = self.store.finish(record.job_id, 1, replace(outcome, **changes), self.now)
        assert isinstance(ended, JobRecord)
        return ended

    def told(self, record: JobRecord, viewer: Identity) -> SubmissionBody:
        body = self.views.submission(record.submission.id, viewer)
        assert isinstance(body, SubmissionBody)
        return body

    def board(self, viewer: Identity | None = None) -> BoardBody:
        board = self.views.board("topk", "cpu", viewer=viewer)
        assert isinstance(board, BoardBody)
        return board


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = SqlStore.open(f"sqlite:///{tmp_path}/judge.sqlite3")
    yield Desk(store, load_problem(TOPK).problem)
    store.close()


def test_the_geometric_mean_counts_secret_cases_whose_times_are_not_shown(desk):
    ada = desk.person("Ada")
    record = desk.judge(desk.submit(ada), secret_ns=90_000)
    body = desk.told(record, ada)
    public = {c.name for c in desk.problem.cases if c.stage is Stage.TIMING}
    assert set(body.medians_ns) == public
    assert body.geomean_ns is not None
    if any(group.stage is Stage.TIMING for group in desk.problem.secret_cases):
        assert body.geomean_ns > 10_001
    assert set(desk.told(record, ORGANIZER).medians_ns) >= public


def test_somebody_elses_submission_does_not_exist(desk):
    record = desk.submit(desk.person("Ada"))
    for viewer in (desk.person("Bob"), RUNNER):
        refusal = desk.views.submission(record.submission.id, viewer)
        assert isinstance(refusal, Refusal)
        assert refusal.status == 404
        assert isinstance(desk.views.source(record.submission.id, "k.py", viewer), Refusal)
        assert isinstance(desk.views.log(record.submission.id, viewer), Refusal)


@pytest.mark.parametrize("number", [0, -1, 2**63, 10**400])
def test_a_number_no_database_can_hold_is_an_unknown_submission(desk, number):
    refusal = desk.views.submission(number, ORGANIZER)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "submission_unknown"


def test_a_place_counts_those_before_and_is_gone_once_it_runs(desk):
    ada, bob = desk.person("Ada"), desk.person("Bob")
    first, second = desk.submit(ada), desk.submit(bob)
    assert [desk.told(r, ORGANIZER).place for r in (first, second)] == [1, 2]
    desk.store.claim(first.job_id, "r1", desk.now, desk.now + timedelta(seconds=15))
    assert [desk.told(r, ORGANIZER).place for r in (first, second)] == [None, 1]


def test_no_time_is_promised_before_anything_is_known(desk):
    record = desk.submit(desk.person("Ada"))
    assert desk.told(record, ORGANIZER).eta_s is None
    desk.pace.claimed(99, "cpu", "r1", desk.now)
    desk.pace.ended(99, "cpu", Mode.BENCHMARK, desk.now + timedelta(seconds=8))
    assert desk.told(record, ORGANIZER).eta_s == pytest.approx(8)
    desk.now += timedelta(seconds=901)
    assert desk.told(record, ORGANIZER).eta_s is None, "the runner fell silent"


def test_a_board_moves_with_each_verdict_until_the_freeze_and_again_after_the_end(desk):
    ada, bob = desk.person("Ada"), desk.person("Bob")
    assert desk.board().entries == []
    desk.judge(desk.submit(ada))
    assert [e.team for e in desk.board().entries] == ["Ada"]
    desk.now = FREEZE + timedelta(minutes=1)
    desk.judge(desk.submit(bob))
    assert desk.board().frozen
    assert desk.board().as_of == FREEZE
    assert [e.team for e in desk.board().entries] == ["Ada"]
    assert [e.team for e in desk.board(ORGANIZER).entries] == ["Ada", "Bob"]
    desk.now = CLOSE
    assert [e.team for e in desk.board().entries] == ["Ada", "Bob"]


def test_a_board_is_read_again_only_when_one_of_its_jobs_has_ended(tmp_path):
    class CountingStore(SqlStore):
        asked = 0

        def finished(self, problem_id: str, device: str, mode: Mode) -> tuple[JobRecord, ...]:
            self.asked += 1
            return super().finished(problem_id, device, mode)

    store = CountingStore.open(f"sqlite:///{tmp_path}/judge.sqlite3")
    desk = Desk(store, load_problem(TOPK).problem)
    ada = desk.person("Ada")
    desk.judge(desk.submit(ada))
    desk.board()
    running, until = desk.submit(ada), desk.now + timedelta(seconds=15)
    desk.store.claim(running.job_id, "r1", desk.now, until)
    desk.store.heartbeat(running.job_id, 1, Progress("timing", 1, 2), True, desk.now, until)
    desk.judge(desk.submit(desk.person("Bob"), Mode.TEST))
    desk.board()
    assert store.asked == 1
    desk.judge(desk.submit(desk.person("Cleo")))
    assert [e.team for e in desk.board().entries] == ["Ada", "Cleo"]
    assert store.asked == 2
    store.close()


def test_before_the_start_nothing_of_a_problem_is_shown(desk):
    desk.now = START - timedelta(seconds=1)
    assert desk.views.problems() == []
    assert desk.views.boards() == []
    assert desk.views.statement("topk") == ""
    assert isinstance(desk.views.board("topk", "cpu"), Refusal)
    assert [p.id for p in desk.views.problems(ORGANIZER)] == ["topk"]
    desk.now = START
    assert desk.views.statement("topk") == "# Top"


def test_history_hides_other_teams_and_runners_have_none(desk):
    ada, bob = desk.person("Ada"), desk.person("Bob")
    desk.submit(ada)
    mine = desk.submit(bob)
    assert [s.id for s in desk.views.history(bob)] == [mine.submission.id]
    assert len(desk.views.history(ORGANIZER)) == 2
    assert desk.views.history(RUNNER) == []


def test_no_word_of_the_organizers_is_lost_however_many_speak_at_once(desk):
    notices = NoticeBoard(desk.store)

    def speak(number: int) -> None:
        notices.announce(f"word {number}", desk.now, ORGANIZER)
        notices.set_intake(number % 2 == 0, "", desk.now, ORGANIZER)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(speak, range(40)))
    assert len(notices.now.announcements) == 40
    assert NoticeBoard(desk.store).now == notices.now


def test_announcements_come_newest_first(desk):
    notices = NoticeBoard(desk.store)
    notices.announce("one", desk.now, ORGANIZER)
    notices.announce("two", desk.now + timedelta(seconds=1), ORGANIZER)
    assert [text for _, text in notices.now.announcements] == ["two", "one"]
    assert NoticeBoard(desk.store).now == notices.now
