"""Every shipped kernel gets the verdict its first line states, through the real evaluator and boxes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.archive import Unpacked
from judge.model import Mode, Outcome, SourceFile, Stage, Verdict
from runners.check import LocalSubmission, local_job
from runners.evaluator_link import EvaluatorLink
from runners.gate import Label, read_label, shipped
from runners.problems import problem_folders
from runners.sandboxes.bubblewrap import find_bubblewrap
from runners.settings import EvaluatorSettings
from runners.worker import ceiling_s

PROBLEMS = Path(__file__).parents[2] / "problems"
FOLDERS = problem_folders(PROBLEMS)
SHIPPED = [path for folder in FOLDERS.values() for path in shipped(folder.path)]
STARTERS = [folder.path / "starter.py" for folder in FOLDERS.values()]
VARIANT = "variant_"

pytestmark = [pytest.mark.box, pytest.mark.slow]


def label_of(path: Path) -> Label:
    label = read_label(path)
    assert isinstance(label, Label), label
    return label


def name_of(path: Path) -> str:
    return path.relative_to(PROBLEMS).as_posix()


def missing(what: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing: install it")


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvaluatorLink]:
    if find_bubblewrap() is None:
        missing("bubblewrap")
    started = EvaluatorLink(EvaluatorSettings(PROBLEMS, tmp_path_factory.mktemp("state")))
    started.start()
    yield started
    started.kill()


def judged(link: EvaluatorLink, path: Path, mode: Mode) -> Outcome:
    if path.parent.name == "submissions":
        for need in label_of(path).needs:
            if shutil.which(need) is None:
                missing(need)
    folder = FOLDERS[path.relative_to(PROBLEMS).parts[0]]
    files = Unpacked((SourceFile(path.name, path.read_bytes()),), main=path.name)
    job = local_job(LocalSubmission(folder, files, mode, folder.problem.devices[0]))
    ceiling = ceiling_s(folder.problem.limits, job.mode)
    outcome = link.evaluate(job, ceiling, lambda *_: None, lambda: False)
    assert outcome is not None
    return outcome


# A benchmark runs the test cases first: what people start from needs no run of its own for them.
BENCHMARKED = [
    path
    for path in SHIPPED
    if label_of(path).expect is Verdict.ACCEPTED and VARIANT not in path.name
]


@pytest.mark.parametrize("path", [p for p in SHIPPED if p not in BENCHMARKED], ids=name_of)
def test_a_shipped_kernel_gets_the_verdict_of_its_first_line(
    link: EvaluatorLink, path: Path
) -> None:
    outcome = judged(link, path, Mode.TEST)
    assert outcome.verdict is label_of(path).expect, outcome.message
    assert outcome.message


@pytest.mark.parametrize("path", BENCHMARKED + STARTERS, ids=name_of)
def test_a_kernel_people_start_from_passes_secret_cases_and_is_timed(
    link: EvaluatorLink, path: Path
) -> None:
    outcome = judged(link, path, Mode.BENCHMARK)
    assert outcome.verdict is Verdict.ACCEPTED, outcome.message
    cases = FOLDERS[path.relative_to(PROBLEMS).parts[0]].problem.cases
    timed = {case.name for case in cases if case.stage is Stage.TIMING}
    assert {measurement.case for measurement in outcome.measurements} == timed
