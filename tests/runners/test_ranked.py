"""A ranked run in real boxes: what a pair measures, in which order blocks come, who is to blame."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from judge.comparing import GUARD_PAIRS, LOOKS, pair_values, pairs_of
from judge.model import (
    Baseline,
    Block,
    Case,
    Job,
    Mode,
    Outcome,
    Pair,
    Progress,
    SourceFile,
    Stage,
    Verdict,
)
from runners.endings import Ending
from runners.evaluator.pair import Duel, PairFailure, Side
from runners.evaluator.pool import BoxPool
from runners.evaluator.program import Program
from runners.evaluator.ranked import evaluate_ranked
from runners.evaluator.session import Budget, Watch
from runners.evaluator.trial import WARM_UP_CALLS
from runners.problem import Inputs, LoadedProblem, ProblemError
from tests.runners.conftest import LIMITS, tiny_case, tiny_job, tiny_problem

pytestmark = [pytest.mark.box, pytest.mark.slow]


def kernel(work_ms: float = 0.0, act: str = "pass") -> str:
    """An honest kernel that spins for a while first. act: a statement that runs in every call."""
    return f"""
import time
import torch
calls = 0
def custom_kernel(data):
    global calls
    calls += 1
    x, factor, y, positive = data
    end = time.perf_counter() + {work_ms} / 1e3
    while time.perf_counter() < end:
        pass
    torch.mul(x, factor, out=y)
    positive[0] = (y > 0).sum()
    {act}
    return y, positive
"""


def side(source: str) -> Side:
    return Side(Program("python", "kernel.py", (SourceFile("kernel.py", source.encode()),)))


def timed_case(name: str, n: int, calls: int = 4) -> Case:
    return tiny_case(name, n, Stage.TIMING, calls=calls, secret=True)


CASES = [(3, timed_case("small", 100)), (4, timed_case("large", 50_000, calls=3))]


def duel_of(pool: BoxPool, problem: LoadedProblem | None = None) -> Duel:
    return Duel(problem or tiny_problem("scale"), CASES, secrets.token_bytes(16), pool, LIMITS)


def run_pair(
    duel: Duel, baseline: str, candidate: str, block: Block = Block.CANDIDATE
) -> Pair | PairFailure:
    budget = Budget(LIMITS, time.monotonic(), Watch())
    return duel.pair(block, 0, (side(baseline), side(candidate)), budget)


@pytest.fixture
def duel(box_pool: BoxPool) -> Iterator[Duel]:
    made = duel_of(box_pool)
    yield made
    made.end()


def test_a_pair_times_every_case_in_both_boxes_and_along_the_null_kernels_path(duel: Duel) -> None:
    pair = run_pair(duel, kernel(2.0), kernel(1.0))
    assert isinstance(pair, Pair)
    assert [times.case for times in pair.cases] == ["small", "large"]
    for times, (_, case) in zip(pair.cases, CASES, strict=True):
        assert len(times.baseline_ns) == len(times.candidate_ns) == case.calls
        assert len(times.null_ns) == 2 * case.calls
        assert min(times.baseline_ns) > 2_000_000
        assert min(times.candidate_ns) > 1_000_000
        assert min(times.null_ns) > 0


def test_both_boxes_of_a_pair_see_the_same_contents_and_no_two_calls_do(box_pool: BoxPool) -> None:
    drawn: list[bytes] = []
    problem = tiny_problem("scale")

    def generate(case: Case, rng: object) -> Inputs:
        inputs = problem.generate(case, rng)  # type: ignore[arg-type]
        drawn.append(inputs["x"].numpy().tobytes())  # type: ignore[union-attr]
        return inputs

    duel = duel_of(box_pool, replace(problem, generate=generate))
    try:
        for _ in range(2):
            assert isinstance(run_pair(duel, kernel(), kernel(), Block.BEFORE), Pair)
    finally:
        duel.end()
    shape_looks = len(CASES)  # the layout is taken from the first warm-up's contents
    calls = sum(WARM_UP_CALLS + case.calls for _, case in CASES)
    assert len(drawn) == 2 * (shape_looks + calls)
    assert len(set(drawn)) == 2 * calls


def test_a_candidate_that_is_wrong_in_one_call_ends_the_pair_with_its_case(duel: Duel) -> None:
    wrong = kernel(act=f"y[0] += len(y) == 50_000 and calls % 7 == {WARM_UP_CALLS - 1}")
    failed = run_pair(duel, kernel(), wrong)
    assert isinstance(failed, PairFailure)
    assert (failed.failure.ending, failed.case) == (Ending.WRONG, 4)


@pytest.mark.parametrize(
    "broken", ["import nothing_of_that_name", kernel(act="y[0] += 1"), kernel(act="1 / 0")]
)
def test_a_baseline_that_fails_is_the_problems_fault(duel: Duel, broken: str) -> None:
    with pytest.raises(ProblemError, match="its baseline failed"):
        run_pair(duel, broken, kernel())


def test_a_candidate_that_does_not_load_or_tear_down_fails_outside_any_case(duel: Duel) -> None:
    failed = run_pair(duel, kernel(), "1 / 0")
    assert isinstance(failed, PairFailure)
    assert (failed.failure.ending, failed.case) == (Ending.EXCEPTION, None)
    rude = kernel() + "\ndef teardown():\n    raise ValueError\n"
    failed = run_pair(duel, kernel(), rude)
    assert isinstance(failed, PairFailure)
    assert failed.case is None


# --- whole runs


def ranked_job(source: str) -> Job:
    cases = (tiny_case("public"), tiny_case("hidden", 65, secret=True), *(c for _, c in CASES))
    return replace(tiny_job(source, *cases), mode=Mode.RANKED)


def ranked_problem(ranked_s: float = 280.0, baseline: str = kernel(2.0)) -> LoadedProblem:
    problem = tiny_problem("scale", replace(LIMITS, ranked_s=ranked_s))
    declared = replace(problem.problem, baseline=Baseline("spinning", "baseline.py", "00"))
    file = SourceFile("baseline.py", baseline.encode())
    return replace(problem, problem=declared, baseline=file)


def ranked(pool: BoxPool, source: str, watch: Watch | None = None) -> Outcome:
    outcome = evaluate_ranked(ranked_job(source), ranked_problem(), pool, watch or Watch())
    assert isinstance(outcome, Outcome)
    assert outcome.comparison is not None
    return outcome


def test_a_ranked_run_holds_the_baseline_against_its_copy_before_and_after_the_candidate(
    box_pool: BoxPool,
) -> None:
    told: list[tuple[str, bool]] = []

    def progress(now: Progress, loaded: bool) -> None:
        told.append((now.stage, loaded))

    outcome = ranked(box_pool, kernel(1.0), Watch(progress=progress))
    assert outcome.verdict is Verdict.ACCEPTED
    assert [result.case for result in outcome.results] == ["public", "hidden", "small", "large"]
    comparison = outcome.comparison
    assert comparison is not None
    assert comparison.baseline == "spinning"
    assert set(comparison.floors_ns) == {"small", "large"}
    blocks = [pair.block for pair in comparison.pairs]
    tried = len(pairs_of(comparison, Block.CANDIDATE))
    assert tried in LOOKS
    assert blocks[-GUARD_PAIRS - tried :] == [Block.CANDIDATE] * tried + [Block.GUARD] * GUARD_PAIRS
    assert set(blocks[: -GUARD_PAIRS - tried]) == {Block.BEFORE}
    # Quota is charged by the first sign that a box was given the submission.
    first_loaded = next(i for i, (_, loaded) in enumerate(told) if loaded)
    assert {stage for stage, _ in told[:first_loaded]} <= {"before pairs", "loading"}
    values = pair_values(comparison)[
        Block.CANDIDATE, pairs_of(comparison, Block.CANDIDATE)[0].series
    ]
    assert sorted(values)[tried // 2] == pytest.approx(math.log(2), rel=0.2)  # type: ignore[type-var]


def test_a_kernel_that_is_wrong_on_a_correctness_case_is_never_timed(box_pool: BoxPool) -> None:
    outcome = ranked(box_pool, kernel(act="y[0] += 1"))
    assert outcome.verdict is Verdict.WRONG_ANSWER
    assert {pair.block for pair in outcome.comparison.pairs} == {Block.BEFORE}  # type: ignore[union-attr]


def test_a_kernel_that_fails_while_it_is_timed_is_told_the_verdict_word_alone(
    box_pool: BoxPool,
) -> None:
    outcome = ranked(box_pool, kernel(act="y[0] += len(y) == 50_000"))
    assert outcome.verdict is Verdict.WRONG_ANSWER
    assert outcome.message == "Wrong answer on a secret case."
    assert outcome.results[-1].case == "large"
    assert outcome.results[-1].secret


def test_on_a_machine_too_slow_for_the_ceiling_no_box_meets_the_submission(
    box_pool: BoxPool,
) -> None:
    loaded: list[bool] = []
    watch = Watch(progress=lambda now, is_loaded: loaded.append(is_loaded))
    problem = ranked_problem(_ceiling_s(box_pool, pairs=10))
    outcome = evaluate_ranked(ranked_job(kernel()), problem, box_pool, watch)
    assert isinstance(outcome, Outcome)
    assert outcome.verdict is Verdict.UNSTABLE_TIMING
    assert "too long for the" in outcome.message
    assert not any(loaded)


@pytest.mark.parametrize(
    "slow",
    [
        kernel(act="time.sleep(1.2) if len(y) == 50_000 else None"),  # in what is timed
        kernel(act="time.sleep(0.5) if len(y) == 65 else None"),  # in a correctness case
    ],
)
def test_a_candidate_that_uses_up_the_ceiling_is_over_its_time_limit(
    box_pool: BoxPool, slow: str
) -> None:
    """Not the judge's fault, which would be free and run again."""
    hidden = tiny_case("hidden", 65, secret=True, calls=120)
    job = ranked_job(slow)
    job = replace(job, cases=tuple(hidden if c.name == "hidden" else c for c in job.cases))
    outcome = evaluate_ranked(job, ranked_problem(_ceiling_s(box_pool)), box_pool, Watch())
    assert isinstance(outcome, Outcome)
    assert outcome.verdict is Verdict.TIME_LIMIT
    assert outcome.comparison is not None
    assert Block.GUARD not in {pair.block for pair in outcome.comparison.pairs}


def _ceiling_s(pool: BoxPool, pairs: int = 24) -> float:
    """The time of so many box pairs of the baseline on this machine, as it is now.

    24 are enough for a run of an honest kernel, and little more.
    """
    duel = duel_of(pool, ranked_problem())
    try:
        began = time.monotonic()
        assert isinstance(run_pair(duel, kernel(2.0), kernel(2.0)), Pair)
        return pairs * (time.monotonic() - began)
    finally:
        duel.end()


def test_without_a_baseline_nothing_can_be_ranked(box_pool: BoxPool) -> None:
    with pytest.raises(ProblemError, match=r"\[baseline\]"):
        evaluate_ranked(ranked_job(kernel()), tiny_problem("scale"), box_pool, Watch())
