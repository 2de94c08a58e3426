"""A runner's test of itself: the judge's own baseline, judged as anybody's submission would be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from judge.catalog import ProblemFolder
from judge.model import Job, Mode, SourceFile, Verdict
from judge.rules import cases_of_mode
from judge.wire import SelfTestBody
from runners.evaluator_link import EvaluatorLink

CEILING_S = 120.0
"""After which the evaluator is held to hang; it takes some seconds in truth."""

KEY_BYTES = 16
NOBODYS = 0
"""The id of the job: no job of a server has it."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """How it went. began: on `time.monotonic`."""

    passed: bool
    detail: str
    began: float

    def body(self) -> SelfTestBody:
        """What the server is told of it now: its clock is another one."""
        age_s = max(0.0, time.monotonic() - self.began)
        return SelfTestBody(passed=self.passed, detail=self.detail[:2_000], age_s=age_s)


def self_test(
    evaluator: EvaluatorLink,
    folders: Iterable[ProblemFolder],
    device: str,
    should_stop: Callable[[], bool],
) -> SelfTest | None:
    """Have the first baseline there is judged on its public test cases; None if told to stop.

    Without a baseline in any folder there is nothing to judge, and nothing is held against the runner.
    Raises OSError where its file cannot be read.
    """
    began = time.monotonic()
    folder = next((each for each in folders if _testable(each, device)), None)
    if folder is None:
        return SelfTest(True, "no problem here declares a baseline to test with", began)
    job = _job(folder, device)
    outcome = evaluator.evaluate(job, CEILING_S, lambda progress, loaded: None, should_stop)
    if outcome is None:
        return None
    detail = f"{job.main} of {job.problem_id}: {outcome.verdict.value}"
    if outcome.message:
        detail += f" ({outcome.message})"
    return SelfTest(outcome.verdict is Verdict.ACCEPTED, detail, began)


def _testable(folder: ProblemFolder, device: str) -> bool:
    return folder.problem.baseline is not None and device in folder.problem.devices


def _job(folder: ProblemFolder, device: str) -> Job:
    problem = folder.problem
    assert problem.baseline is not None
    file = folder.path / problem.baseline.file
    return Job(
        id=NOBODYS,
        submission_id=NOBODYS,
        problem_id=problem.id,
        problem_digest=problem.digest,
        device=device,
        mode=Mode.TEST,
        attempt=1,
        key=os.urandom(KEY_BYTES),
        main=file.name,
        files=(SourceFile(file.name, file.read_bytes()),),
        cases=cases_of_mode(problem, (), Mode.TEST),
    )
