"""Promises of intake: what is taken is stored and receipted, what is refused leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from judge.archive import digest_of_files
from judge.intake import HandedIn, Intake
from judge.model import (
    Baseline,
    Case,
    Contest,
    JobState,
    Limits,
    Mode,
    Problem,
    Quota,
    Refusal,
    Role,
    SourceFile,
    Stage,
)
from judge.notices import NoticeBoard
from judge.receipts import load_or_create_key, verify
from judge.records import Identity, JobRecord, OpenContest
from judge.wire import ReceiptBody
from leaderboard.store import SqlStore

OPENS = datetime(2026, 3, 1, tzinfo=UTC)
NOW = OPENS + timedelta(hours=1)
CLOSES = OPENS + timedelta(days=7)
KERNEL = b"def custom_kernel(data):\n    return data\n"
PROBLEM = Problem(
    id="topk",
    title="Top-K",
    version=4,
    digest="d" * 64,
    cases=(Case("t1", Stage.TEST, {"n": 1}), Case("t2", Stage.TIMING, {"n": 2})),
    secret_cases=(),
    tolerances={},
    limits=Limits(),
    devices=("cpu", "rocm"),
    languages=(".py",),
)
CONTEST = Contest(
    title="Autumn",
    problems=("topk",),
    devices=("cpu", "cuda"),
    opens=OPENS,
    freezes=None,
    closes=CLOSES,
    quotas={Mode.TEST: Quota(2, 3600)},
)
ORGANIZER = Identity(token_id=9, role=Role.ORGANIZER, label="o")
HANDED = HandedIn("topk", "cpu", "test", (("topk.py", KERNEL),), NOW)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    opened = SqlStore.open(f"sqlite:///{tmp_path}/judge.sqlite3")
    yield opened
    opened.close()


@pytest.fixture
def intake(store: SqlStore, tmp_path: Path) -> Intake:
    store.open_problem(PROBLEM, (), OPENS)
    opened = OpenContest(CONTEST, {"topk": PROBLEM, "hidden": replace(PROBLEM, id="hidden")})
    return Intake(opened, NoticeBoard(store), store, load_or_create_key(tmp_path / "key.pem"))


@pytest.fixture
def ada(store: SqlStore) -> Identity:
    identity = store.register("ada", None, b"a" * 32, OPENS)
    assert isinstance(identity, Identity)
    return identity


def receive(
    intake: Intake, handed: HandedIn, identity: Identity
) -> tuple[JobRecord, ReceiptBody] | Refusal:
    """Both halves of taking a submission, waiting for the disk in between."""
    storing = intake.start(handed, identity)
    return storing if isinstance(storing, Refusal) else intake.confirm(storing.result())


def refused(intake: Intake, identity: Identity, **changes: Any) -> Refusal:
    """The refusal of a submission that is good but for the changes; nothing may be stored."""
    before = len(intake.store.history(None, None, None, 100))
    refusal = receive(intake, replace(HANDED, **changes), identity)
    assert isinstance(refusal, Refusal)
    assert len(intake.store.history(None, None, None, 100)) == before
    return refusal


def test_taken_submission_is_stored_queued_and_receipted(intake: Intake, ada: Identity) -> None:
    taken = receive(intake, HANDED, ada)
    assert not isinstance(taken, Refusal)
    record, receipt = taken
    assert intake.store.record(record.submission.id) == record
    assert intake.store.files(record.submission.id) == (SourceFile("topk.py", KERNEL),)
    assert (record.state, record.mode, record.device) == (JobState.QUEUED, Mode.TEST, "cpu")
    assert (record.submission.team_id, record.submission.user_id) == (ada.team_id, ada.user_id)
    assert (record.submission.problem_id, record.submission.problem_version) == ("topk", 4)
    assert (record.submission.main, record.submission.received_at) == ("topk.py", NOW)
    assert verify(intake.key.public_pem, receipt)
    assert receipt.submission_id == record.submission.id
    assert receipt.sha256 == digest_of_files([SourceFile("topk.py", KERNEL)])


@pytest.mark.parametrize("role", [Role.ORGANIZER, Role.RUNNER])
def test_only_contestants_hand_in(intake: Intake, ada: Identity, role: Role) -> None:
    refusal = refused(intake, replace(ada, role=role))
    assert (refusal.code, refusal.status) == ("not_a_contestant", 403)
    assert role in refusal.detail


def test_paused_intake_refuses_with_the_organizers_reason(intake: Intake, ada: Identity) -> None:
    intake.notices.set_intake(False, "power cut", NOW, ORGANIZER)
    refusal = refused(intake, ada)
    assert (refusal.code, refusal.status) == ("intake_paused", 503)
    assert "power cut" in refusal.detail
    intake.notices.set_intake(True, "", NOW, ORGANIZER)
    assert not isinstance(receive(intake, HANDED, ada), Refusal)


def test_time_of_receipt_decides_between_opening_and_close(intake: Intake, ada: Identity) -> None:
    early = refused(intake, ada, received_at=OPENS - timedelta(hours=26))
    assert (early.code, early.status) == ("contest_not_open", 403)
    assert "2026-03-01 00:00:00 UTC, in 1 d 2 h" in early.detail
    late = refused(intake, ada, received_at=CLOSES)
    assert (late.code, late.status) == ("contest_over", 403)
    last = replace(HANDED, received_at=CLOSES - timedelta(microseconds=1))
    assert not isinstance(receive(intake, replace(HANDED, received_at=OPENS), ada), Refusal)
    assert not isinstance(receive(intake, last, ada), Refusal)


@pytest.mark.parametrize("name", ["topkk", "hidden", ""])
def test_unknown_problem_or_one_outside_the_contest_is_refused(
    intake: Intake, ada: Identity, name: str
) -> None:
    refusal = refused(intake, ada, problem=name)
    assert (refusal.code, refusal.status) == ("problem_unknown", 404)
    assert "topk" in refusal.detail


@pytest.mark.parametrize("device", ["rocm", "cuda", "gpu"])
def test_device_must_be_the_contests_and_the_problems(
    intake: Intake, ada: Identity, device: str
) -> None:
    refusal = refused(intake, ada, device=device)
    assert (refusal.code, refusal.status) == ("device_unknown", 404)
    assert "cpu" in refusal.detail


def test_unknown_mode_is_refused_with_those_there_are(intake: Intake, ada: Identity) -> None:
    refusal = refused(intake, ada, mode="fast")
    assert refusal.code == "mode_unknown"
    assert "test, benchmark, ranked" in refusal.detail


def test_ranked_is_refused_without_a_baseline_with_what_to_do_instead(
    intake: Intake, ada: Identity
) -> None:
    refusal = refused(intake, ada, mode="ranked")
    assert (refusal.code, refusal.status) == ("ranked_not_offered", 409)
    assert "--mode benchmark" in refusal.detail


@pytest.fixture
def ranking(intake: Intake) -> Intake:
    """An intake whose problem has a baseline."""
    problem = replace(PROBLEM, baseline=Baseline("plain torch", "submissions/plain.py", "b" * 64))
    return replace(intake, opened=replace(intake.opened, problems={"topk": problem}))


def test_a_ranked_submission_is_taken_where_there_is_a_baseline(
    ranking: Intake, ada: Identity
) -> None:
    taken = receive(ranking, replace(HANDED, mode="ranked"), ada)
    assert not isinstance(taken, Refusal)
    assert (taken[0].mode, taken[1].mode) == (Mode.RANKED, Mode.RANKED)
    assert ranking.store.record(taken[0].submission.id) == taken[0]


def test_ranked_submissions_of_one_kernel_have_one_sameness_and_others_none(
    ranking: Intake, ada: Identity
) -> None:
    def sameness(mode: str, content: bytes) -> str:
        handed = replace(HANDED, mode=mode, uploads=(("topk.py", content),))
        taken = receive(ranking, handed, ada)
        assert not isinstance(taken, Refusal)
        stored = ranking.store.record(taken[0].submission.id)
        assert stored is not None
        return stored.submission.sameness

    first = sameness("ranked", KERNEL)
    assert len(first) == 64
    assert sameness("ranked", b"# faster\n" + KERNEL) == first
    assert sameness("ranked", KERNEL + b"print()\n") != first
    assert sameness("test", KERNEL) == ""


def test_what_hinders_ranked_runs_of_a_device_refuses_them_and_nothing_else(
    ranking: Intake, ada: Identity
) -> None:
    asked = []

    def no_runner(device: str, mode: Mode) -> Refusal:
        asked.append((device, mode))
        return Refusal("no_runner", f"No runner of {device} may rank.", 503)

    hindered = replace(ranking, hindrance=no_runner)
    refusal = refused(hindered, ada, mode="ranked")
    assert (refusal.code, refusal.status) == ("no_runner", 503)
    assert asked == [("cpu", Mode.RANKED)]
    assert refused(hindered, ada, mode="ranked", uploads=()).code == "no_runner"
    assert not isinstance(receive(hindered, replace(HANDED, mode="benchmark"), ada), Refusal)
    assert len(asked) == 2


def test_that_a_problem_has_no_ranked_runs_comes_before_what_hinders_them(
    intake: Intake, ada: Identity
) -> None:
    hindered = replace(intake, hindrance=lambda device, mode: Refusal("no_runner", "None.", 503))
    assert refused(hindered, ada, mode="ranked").code == "ranked_not_offered"


def test_bad_files_are_refused_in_the_archives_words(intake: Intake, ada: Identity) -> None:
    assert refused(intake, ada, uploads=(("topk.cpp", b"x"),)).code == "language_not_taken"
    assert refused(intake, ada, uploads=()).code == "no_files"


def test_quota_of_the_mode_holds_and_other_modes_are_free(intake: Intake, ada: Identity) -> None:
    for _ in range(2):
        assert not isinstance(receive(intake, HANDED, ada), Refusal)
    refusal = refused(intake, ada)
    assert (refusal.code, refusal.status) == ("quota_exceeded", 429)
    for _ in range(4):
        assert not isinstance(receive(intake, replace(HANDED, mode="benchmark"), ada), Refusal)


def test_general_reasons_come_before_those_of_the_files(intake: Intake, ada: Identity) -> None:
    assert refused(intake, ada, uploads=(), problem="nothing").code == "problem_unknown"
    assert refused(intake, ada, mode="nothing", problem="nothing").code == "problem_unknown"
    assert refused(intake, ada, uploads=(), received_at=CLOSES).code == "contest_over"
