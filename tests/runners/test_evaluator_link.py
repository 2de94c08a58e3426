"""What the worker's hold on its evaluator does after a fault of ours."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.model import Job, Mode, Outcome, SourceFile, Verdict
from judge.rules import cases_of_mode
from runners.evaluator_link import EvaluatorLink
from runners.problems import problem_folders
from runners.settings import EvaluatorSettings

FAULTS = Path(__file__).parents[1] / "faults"
PROBLEM = problem_folders(FAULTS / "problems")["double"].problem

pytestmark = [pytest.mark.box, pytest.mark.slow]


@pytest.fixture
def link(tmp_path: Path) -> Iterator[EvaluatorLink]:
    started = EvaluatorLink(EvaluatorSettings(FAULTS / "problems", tmp_path, warm_boxes=1))
    started.start()
    yield started
    started.kill()


def honest_job(digest: str) -> Job:
    name = "honest.py"
    return Job(
        id=1,
        submission_id=1,
        problem_id=PROBLEM.id,
        problem_digest=digest,
        device="cpu",
        mode=Mode.TEST,
        attempt=1,
        key=os.urandom(16),
        main=name,
        files=(SourceFile(name, (FAULTS / "submissions" / name).read_bytes()),),
        cases=cases_of_mode(PROBLEM, (), Mode.TEST),
    )


def evaluate(link: EvaluatorLink, digest: str) -> Outcome:
    outcome = link.evaluate(honest_job(digest), 120, lambda *_: None, lambda: False)
    assert outcome is not None
    return outcome


def test_an_evaluator_that_told_a_judge_error_gets_no_other_job(link: EvaluatorLink) -> None:
    link.ready()
    failed = evaluate(link, digest="0" * 64)
    assert failed.verdict is Verdict.JUDGE_ERROR
    assert link.pid is None
    honest = evaluate(link, PROBLEM.digest)
    assert honest.verdict is Verdict.ACCEPTED, honest


def test_a_stopped_job_costs_no_attempt_even_if_its_evaluator_ends_meanwhile(
    link: EvaluatorLink,
) -> None:
    def stop() -> bool:
        assert link.pid is not None
        os.kill(link.pid, signal.SIGKILL)
        return True

    link.ready()
    assert link.evaluate(honest_job(PROBLEM.digest), 120, lambda *_: None, stop) is None
    assert link.pid is None
