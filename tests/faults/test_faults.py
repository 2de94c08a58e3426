"""Every fault ends with its own verdict, and the next honest submission is judged normally.

Each file in `submissions/` goes through the runner's evaluator process and its real boxes.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.model import Job, Mode, Outcome, SourceFile, Verdict
from judge.rules import cases_of_mode
from runners.evaluator_link import EvaluatorLink
from runners.problems import problem_folders
from runners.sandboxes.bubblewrap import find_bubblewrap
from runners.settings import EvaluatorSettings
from runners.worker import ceiling_s

HERE = Path(__file__).parent
SUBMISSIONS = HERE / "submissions"
FOLDER = problem_folders(HERE / "problems")["double"]

pytestmark = [pytest.mark.box, pytest.mark.slow]


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvaluatorLink]:
    if find_bubblewrap() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("bubblewrap is missing")
        pytest.skip("bubblewrap is missing: install the package bubblewrap")
    state_dir = tmp_path_factory.mktemp("state")
    started = EvaluatorLink(EvaluatorSettings(HERE / "problems", state_dir))
    started.start()
    yield started
    started.kill()


def evaluate(link: EvaluatorLink, name: str) -> Outcome:
    problem = FOLDER.problem
    job = Job(
        id=1,
        submission_id=1,
        problem_id=problem.id,
        problem_digest=problem.digest,
        device="cpu",
        mode=Mode.TEST,
        attempt=1,
        key=os.urandom(16),
        main=name,
        files=(SourceFile(name, (SUBMISSIONS / name).read_bytes()),),
        cases=cases_of_mode(problem, (), Mode.TEST),
    )
    outcome = link.evaluate(
        job, ceiling_s(problem.limits, job.mode), lambda *_: None, lambda: False
    )
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("name", sorted(path.name for path in SUBMISSIONS.iterdir()))
def test_a_fault_gets_its_verdict_and_the_next_honest_file_is_accepted(
    link: EvaluatorLink, name: str
) -> None:
    head = (SUBMISSIONS / name).read_text().split("\n", 2)[:2]
    expected = re.search(r"expect: (.*)", head[0])
    assert expected is not None
    needs = re.search(r"needs: (\S+)", head[1])
    if needs and shutil.which(needs[1]) is None:
        pytest.skip(f"{needs[1]} is missing")
    outcome = evaluate(link, name)
    assert outcome.verdict == Verdict(expected[1]), outcome
    assert outcome.message
    honest = evaluate(link, "honest.py")
    assert honest.verdict is Verdict.ACCEPTED, honest
