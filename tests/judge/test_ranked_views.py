"""Promises of what is told of ranked runs, and of what follows from them, on a real store."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from judge import boards
from judge.catalog import draw_secret_cases, load_problem
from judge.model import (
    Contest,
    JobState,
    Mode,
    Problem,
    Refusal,
    Role,
    Ruling,
    SourceFile,
    Stage,
    Verdict,
)
from judge.notices import NoticeBoard
from judge.pace import Pace
from judge.records import Identity, JobRecord, NewSubmission, OpenContest
from judge.stats import geometric_mean
from judge.views import Views
from judge.wire import BoardBody, RankedBoardBody, RankedBody, SubmissionBody
from leaderboard.store import SqlStore
from tests.ranked_runs import Made, outcome

START = datetime(2026, 3, 1, tzinfo=UTC)
FREEZE = START + timedelta(hours=1)
CLOSE = START + timedelta(hours=2)
TOPK = Path(__file__).parents[2] / "problems" / "topk"
ORGANIZER = Identity(token_id=0, role=Role.ORGANIZER, label="o")


@dataclass
class Desk:
    """A store with one problem open and its views; ranked jobs are run as the server would."""

    store: SqlStore
    problem: Problem
    now: datetime = START

    def __post_init__(self) -> None:
        contest = Contest("Test", ("topk",), ("cpu",), START, FREEZE, CLOSE, {})
        opened = OpenContest(contest, {"topk": self.problem})
        self.store.open_problem(self.problem, draw_secret_cases(self.problem, b"k"), self.now)
        notices = NoticeBoard(self.store)
        self.views = Views(self.store, opened, notices, Pace(900), lambda: self.now)
        secret = self.store.secret_cases("topk", self.problem.version)
        self.cases = tuple(case.name for case in secret if case.stage is Stage.TIMING)
        self.runs = 0

    def person(self, name: str) -> Identity:
        made = self.store.register(name, None, os.urandom(32), self.now)
        assert isinstance(made, Identity)
        return made

    def submit(self, who: Identity, digest: str | None = None) -> JobRecord:
        assert who.user_id is not None
        assert who.team_id is not None
        self.now += timedelta(seconds=1)
        new = NewSubmission(
            user_id=who.user_id,
            team_id=who.team_id,
            problem_id="topk",
            problem_version=self.problem.version,
            device="cpu",
            mode=Mode.RANKED,
            main="k.py",
            digest=digest or os.urandom(32).hex(),
            files=(SourceFile("k.py", b"kernel"),),
            received_at=self.now,
        )
        record = self.store.add_submission(new, None).result()
        assert isinstance(record, JobRecord)
        return record

    def run(self, record: JobRecord, made: Made, **changes: Any) -> tuple[JobRecord, Ruling]:
        """One run of a job: claimed, ruled and ended at once."""
        self.runs += 1
        lease = self.now + timedelta(seconds=15)
        claimed = self.store.claim(record.job_id, "r1", self.now, lease)
        assert isinstance(claimed, JobRecord)
        said = outcome(
            record.job_id, replace(made, cases=self.cases, seed=self.runs), claimed.attempt
        )
        said = replace(said, **changes)
        ruling = self.views.ruling(claimed, said)
        ended = self.store.finish(record.job_id, claimed.attempt, said, self.now, ruling)
        assert isinstance(ended, JobRecord)
        return ended, ruling

    def judge(self, who: Identity, made: Made, digest: str | None = None) -> JobRecord:
        """A submission run until it is done, its confirmation included."""
        record = self.submit(who, digest)
        while not record.state.is_final:
            record, _ = self.run(record, made)
        return record

    def told(self, record: JobRecord, viewer: Identity) -> SubmissionBody:
        body = self.views.submission(record.submission.id, viewer)
        assert isinstance(body, SubmissionBody)
        return body

    def ranked(self, record: JobRecord, viewer: Identity) -> RankedBody:
        found = self.told(record, viewer).ranked
        assert found is not None
        return found

    def board(self, viewer: Identity | None = None) -> RankedBoardBody:
        board = self.views.ranked_board("topk", "cpu", viewer)
        assert isinstance(board, RankedBoardBody)
        return board


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = SqlStore.open(f"sqlite:///{tmp_path}/judge.sqlite3")
    yield Desk(store, load_problem(TOPK).problem)
    store.close()


# --- rulings


def test_a_first_entry_is_confirmed_and_a_confirmation_is_not_confirmed_again(desk):
    record = desk.submit(desk.person("Ada"))
    record, first = desk.run(record, Made(2.0))
    assert (first.confirm, record.state) == (True, JobState.QUEUED)
    record, second = desk.run(record, Made(2.0))
    assert (second.confirm, record.state) == (False, JobState.DONE)


def test_a_run_that_changes_no_band_needs_no_confirmation(desk):
    ada = desk.person("Ada")
    desk.judge(ada, Made(2.0))
    _, ruling = desk.run(desk.submit(ada), Made(2.0))
    assert ruling == Ruling()
    _, slower = desk.run(desk.submit(ada), Made(1.8))
    assert slower == Ruling(), "the older kernel stands, so nothing moves"


def test_a_run_that_moves_its_own_team_or_only_another_one_is_confirmed(desk):
    ada, bob = desk.person("Ada"), desk.person("Bob")
    desk.judge(ada, Made(2.0))
    desk.judge(bob, Made(2.2))
    _, own = desk.run(desk.submit(ada), Made(2.2))
    assert own.confirm, "from the second band to the first"
    desk.judge(bob, Made(2.4))
    _, others = desk.run(desk.submit(bob), Made(3.0))
    assert not others.confirm, "the first band stays the first, however far ahead"


def test_a_run_that_parts_two_teams_of_one_band_is_confirmed(desk):
    ada, bob = desk.person("Ada"), desk.person("Bob")
    desk.judge(ada, Made(2.0))
    desk.judge(bob, Made(2.0))
    assert [entry.band for entry in desk.board().entries] == [1, 1]
    _, ruling = desk.run(desk.submit(bob), Made(2.2))
    assert ruling.confirm


def test_a_run_that_slowed_its_baseline_is_held_and_told_why_without_a_rank(desk):
    ada = desk.person("Ada")
    record, ruling = desk.run(desk.submit(ada), Made(2.0, slowed=0.05))
    assert not ruling.confirm
    assert (record.state, record.held) == (JobState.DONE, True)
    assert desk.told(record, ada).hold == ruling.hold != ""
    (entry,) = desk.board().entries
    assert (entry.rank, entry.claim) == (None, None)


def test_a_wrong_answer_is_neither_held_nor_confirmed(desk):
    record, ruling = desk.run(
        desk.submit(desk.person("Ada")), Made(2.0, slowed=0.05), verdict=Verdict.WRONG_ANSWER
    )
    assert ruling == Ruling()
    assert record.state is JobState.DONE
    assert desk.told(record, ORGANIZER).ranked.claim is None


def test_an_unstable_run_that_would_not_rank_is_not_confirmed(desk):
    _, ruling = desk.run(desk.submit(desk.person("Ada")), Made(2.0, spread=0.08))
    assert ruling == Ruling()


# --- the board


def test_the_confirmation_alone_is_published(desk):
    record = desk.submit(desk.person("Ada"))
    desk.run(record, Made(3.0))
    assert desk.board().entries == []
    desk.run(record, Made(2.0))
    (entry,) = desk.board().entries
    assert entry.claim.speedup == pytest.approx(2.0, rel=0.01)
    assert entry.claim.pairs == 12


def test_the_heading_names_baseline_workload_axis_device_and_confidence(desk):
    heading = desk.board().heading
    for word in ("plain torch", "topk v1", "secret cases", "time per call", "cpu", "99 %"):
        assert word.lower() in heading.lower()
    assert "end to end" not in heading


def test_a_ranked_board_freezes_and_organizers_see_through_it(desk):
    desk.judge(desk.person("Ada"), Made(2.0))
    desk.now = FREEZE + timedelta(minutes=1)
    desk.judge(desk.person("Bob"), Made(3.0))
    assert desk.board().frozen
    assert [entry.team for entry in desk.board().entries] == ["Ada"]
    assert [entry.team for entry in desk.board(ORGANIZER).entries] == ["Bob", "Ada"]
    desk.now = CLOSE
    assert [entry.team for entry in desk.board().entries] == ["Bob", "Ada"]


def test_a_hold_by_an_organizer_takes_an_entry_off_its_rank_and_a_release_gives_it_back(desk):
    record = desk.judge(desk.person("Ada"), Made(2.0))
    assert desk.board().entries[0].rank == 1
    desk.store.moderate(record.submission.id, "looks odd", 0, desk.now)
    assert desk.board().entries[0].rank is None
    desk.store.moderate(record.submission.id, "", 0, desk.now)
    assert desk.board().entries[0].rank == 1


def test_boards_list_how_many_teams_are_ranked(desk):
    desk.judge(desk.person("Ada"), Made(2.0))
    desk.run(desk.submit(desk.person("Bob")), Made(2.0, slowed=0.05))
    (ref,) = desk.views.boards()
    assert (ref.ranked, ref.entries) == (1, 0)


def test_each_mode_has_its_own_board_and_tests_have_none(desk):
    desk.judge(desk.person("Ada"), Made(2.0))
    assert isinstance(desk.views.board_of_mode("topk", "cpu", Mode.RANKED), RankedBoardBody)
    practice = desk.views.board_of_mode("topk", "cpu", Mode.BENCHMARK)
    assert isinstance(practice, BoardBody)
    assert practice.entries == []
    assert isinstance(desk.views.board_of_mode("topk", "cpu", Mode.TEST), Refusal)
    assert isinstance(desk.views.ranked_board("topk", "abacus"), Refusal)
    assert isinstance(desk.views.ranked_board("none", "cpu"), Refusal)


def test_the_statistics_of_a_run_are_made_once_however_often_the_board_moves(desk, monkeypatch):
    made = []
    real = boards.run_numbers

    def counting(outcome, problem, device):
        made.append(outcome.job_id)
        return real(outcome, problem, device)

    monkeypatch.setattr(boards, "run_numbers", counting)
    first = desk.judge(desk.person("Ada"), Made(2.0))
    desk.board()
    before = made.count(first.job_id)
    for name in ("Bob", "Cleo"):
        desk.judge(desk.person(name), Made(2.0))
        desk.board()
    assert made.count(first.job_id) == before


# --- one submission


def test_nothing_of_a_first_run_is_told_while_it_is_being_confirmed(desk):
    ada = desk.person("Ada")
    record = desk.submit(ada)
    desk.run(record, Made(2.0), message="2.0 times", log="2.0 times")
    for viewer in (ada, ORGANIZER):
        body = desk.told(record, viewer)
        assert (body.confirming, body.state) == (True, JobState.QUEUED)
        assert (body.ranked, body.outcome, body.verdict, body.geomean_ns) == (None,) * 4
        assert desk.views.log(record.submission.id, viewer) == ""
    desk.store.claim(record.job_id, "r1", desk.now, desk.now + timedelta(seconds=15))
    assert desk.told(record, ada).confirming
    assert desk.told(record, ada).ranked is None


def test_both_runs_are_told_when_the_job_has_ended_and_one_of_them_as_published(desk):
    ada = desk.person("Ada")
    record = desk.submit(ada)
    desk.run(record, Made(3.0, void_series=1))
    desk.run(record, Made(2.0))
    assert not desk.told(record, ada).confirming
    found = desk.ranked(record, ada)
    first, second = found.runs
    assert [run.published for run in found.runs] == [False, True]
    assert found.claim == second.claim
    assert found.claim.speedup == pytest.approx(2.0, rel=0.01)
    assert first.claim.speedup == pytest.approx(3.0, rel=0.01)
    assert [(p.block, p.series) for p in first.pairs[3:6]] == [
        ("before", 0),
        ("before", 1),
        ("before", 1),
    ]
    assert len(second.pairs) == 4 + 12 + 4
    for pair in second.pairs:
        assert pair.speedup == pytest.approx(2.0 if pair.block == "candidate" else 1.0, rel=0.02)


def test_a_pairs_value_is_told_to_a_hundredth_of_a_per_cent(desk):
    ada = desk.person("Ada")
    record = desk.submit(ada)
    desk.run(record, Made(2.0))
    desk.run(record, Made(2.0))
    for run in desk.ranked(record, ada).runs:
        logs = [10_000 * math.log(pair.speedup) for pair in run.pairs]
        assert logs == pytest.approx([round(value) for value in logs], abs=1e-6)


def test_a_void_run_says_why(desk):
    ada = desk.person("Ada")
    record = desk.submit(ada)
    made = Made(2.0, pairs=0, void_series=1)
    said = outcome(record.job_id, replace(made, cases=desk.cases))
    only_void = tuple(pair for pair in said.comparison.pairs if pair.series == 0)[:4]
    comparison = replace(said.comparison, pairs=only_void)
    desk.run(record, made, comparison=comparison, verdict=Verdict.UNSTABLE_TIMING)
    (run,) = desk.ranked(record, ada).runs
    assert run.void
    assert run.claim is None
    assert desk.ranked(record, ada).claim is None


def raw_words(desk: Desk, body: SubmissionBody) -> list[str]:
    text = body.model_dump_json()
    return [name for name in desk.cases if name in text] + [
        word for word in ("baseline_ns", "candidate_ns") if f'"{word}":[' in text
    ]


def test_raw_times_and_secret_names_are_for_organizers_until_the_contest_is_over(desk):
    ada = desk.person("Ada")
    record = desk.judge(ada, Made(2.0))
    assert raw_words(desk, desk.told(record, ada)) == []
    assert desk.told(record, ada).outcome.comparison is None
    assert all(run.cases == [] for run in desk.ranked(record, ada).runs)
    for viewer, moment in ((ORGANIZER, desk.now), (ada, CLOSE)):
        desk.now = moment
        for run in desk.ranked(record, viewer).runs:
            assert tuple(arms.case for arms in run.cases) == desk.cases
            for arms in run.cases:
                assert arms.speedup == pytest.approx(2.0, rel=0.02)
                ratio_of_medians = arms.baseline_median_ns / arms.candidate_median_ns
                assert arms.speedup == pytest.approx(ratio_of_medians, rel=0.01)
                assert len(arms.baseline_ns) == len(arms.candidate_ns) == 12 * 6
            of_cases = geometric_mean([arms.speedup for arms in run.cases])
            assert run.claim.speedup == pytest.approx(of_cases)
        assert desk.told(record, viewer).outcome.comparison is not None


def test_lists_tell_the_claim_and_no_raw_times(desk):
    ada = desk.person("Ada")
    desk.judge(ada, Made(2.0))
    for viewer in (ada, ORGANIZER):
        (listed,) = desk.views.history(viewer)
        assert listed.ranked.claim.speedup == pytest.approx(2.0, rel=0.01)
        assert listed.ranked.runs == []
        assert raw_words(desk, listed) == []


def test_a_benchmark_or_a_cancelled_ranked_job_has_no_ranked_part(desk):
    ada = desk.person("Ada")
    record = desk.submit(ada)
    desk.run(record, Made(2.0))
    desk.store.cancel(record.submission.id, desk.now)
    body = desk.told(record, ada)
    assert (body.ranked, body.outcome, body.confirming) == (None, None, False)
