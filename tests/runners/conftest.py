"""Real boxes and tiny problems for tests of the evaluator."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.model import Case, Job, Limits, Mode, Outcome, Problem, SourceFile, Stage
from runners.devices.cpu import CpuDevice
from runners.evaluator.job import evaluate
from runners.evaluator.pool import BoxPool
from runners.evaluator.program import Built, NeedsBuild
from runners.evaluator.session import Watch
from runners.problem import LoadedProblem, load_problem
from runners.sandboxes.bubblewrap import BubblewrapSandbox, find_bubblewrap

FOLDER = Path(__file__).parent / "problems"
LIMITS = Limits(
    load_s=5, call_s=2, job_s=60, memory_bytes=512 << 20, output_bytes=1 << 16, processes=64
)


def tiny_problem(name: str, limits: Limits = LIMITS) -> LoadedProblem:
    problem = Problem(
        id=name,
        title=name,
        version=1,
        digest="0" * 64,
        cases=(),
        secret_cases=(),
        tolerances={},
        limits=limits,
        devices=("cpu",),
        languages=(".py", ".cpp"),
        output_in_data=name == "scale",
    )
    return load_problem(FOLDER / name, problem)


def tiny_case(name: str, n: int = 100, stage: Stage = Stage.TEST, **more: object) -> Case:
    return Case(name, stage, {"n": n, "factor": 2.5}, **more)  # type: ignore[arg-type]


def tiny_job(source: str, *cases: Case, main: str = "kernel.py") -> Job:
    return Job(
        id=7,
        submission_id=8,
        problem_id="tiny",
        problem_digest="0" * 64,
        device="cpu",
        mode=Mode.BENCHMARK,
        attempt=1,
        key=secrets.token_bytes(16),
        main=main,
        files=(SourceFile(main, source.encode()),),
        cases=cases or (tiny_case("first", calls=2), tiny_case("second", n=65, calls=2)),
    )


class Judge:
    """Evaluates jobs in real boxes, as a runner does."""

    def __init__(self, pool: BoxPool) -> None:
        self.pool = pool

    def __call__(
        self,
        source: str,
        *cases: Case,
        problem: str = "scale",
        main: str = "kernel.py",
        built: Built | None = None,
        watch: Watch | None = None,
    ) -> Outcome:
        outcome = self.raw(tiny_job(source, *cases, main=main), problem, built, watch)
        assert isinstance(outcome, Outcome)
        return outcome

    def raw(
        self,
        job: Job,
        problem: str = "scale",
        built: Built | None = None,
        watch: Watch | None = None,
    ) -> Outcome | NeedsBuild:
        self.pool.refill()
        return evaluate(job, tiny_problem(problem), self.pool, watch or Watch(), built)


@pytest.fixture(autouse=True)
def free_to_run_anywhere() -> Iterator[None]:
    """An evaluation pins its process; the next test starts unpinned."""
    usable = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, usable)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[BubblewrapSandbox]:
    if find_bubblewrap() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("bubblewrap is missing")
        pytest.skip("bubblewrap is missing: install the package bubblewrap")
    made = BubblewrapSandbox()
    yield made
    made.close()


@pytest.fixture(scope="session")
def box_pool(sandbox: BubblewrapSandbox) -> Iterator[BoxPool]:
    pool = BoxPool(sandbox, CpuDevice(), [LIMITS])
    yield pool
    pool.close()


@pytest.fixture
def judge_job(box_pool: BoxPool) -> Judge:
    return Judge(box_pool)
