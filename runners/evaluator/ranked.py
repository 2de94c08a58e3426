"""A ranked run: box pairs of baseline and copy, then of baseline and candidate, then the first again."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from judge.comparing import GUARD_PAIRS, LOOKS, next_look, void_before
from judge.model import Block, Comparison, Job, Outcome, Pair, Progress, Stage, Verdict
from judge.pairs import pair_value
from runners.endings import Ending
from runners.evaluator.job import evaluate, failed_case, passed_case, sentence_of
from runners.evaluator.pair import Duel, PairFailure, Side
from runners.evaluator.pool import BoxPool, settle_down
from runners.evaluator.program import Built, NeedsBuild, Program, program_of
from runners.evaluator.session import Budget, Watch
from runners.ports import SandboxError
from runners.problem import LoadedProblem, ProblemError

MOST_SERIES: Final = 3
"""How often the baseline is held against its copy before a run is given up as unstable."""

PLANNED_SHARE: Final = 0.9
"""Of the ceiling: the rest is for pairs that take longer than those before them."""

SLOW_VALUE: Final = -math.log(2)
"""A candidate that takes twice the baseline's time has itself to blame for the ceiling."""

UNTOLD: Final = (
    "This machine could not tell the baseline from its copy in {} tries, so nothing was measured and "
    "your kernel was not run. It costs no quota; hand in again."
)
TOO_SLOW: Final = (
    "This machine takes {:.1f} s for a box pair of the baseline alone, too long for the {:g} s of a ranked "
    "run, so nothing was measured and your kernel was not run. It costs no quota; hand in again later."
)


def evaluate_ranked(
    job: Job,
    problem: LoadedProblem,
    boxes: BoxPool,
    watch: Watch,
    built: Built | None = None,
) -> Outcome | NeedsBuild:
    """Judge one attempt at a ranked job: correctness as in any mode, times by box pairs.

    The candidate's first box exists only after the machine has shown that it can tell the baseline
    from its copy, and is fast enough for the problem's ceiling: else the verdict is unstable timing.
    Errors as for `evaluate`; ProblemError also where the baseline fails, SandboxError where the machine
    slows down in the middle.
    """
    program = program_of(job, built)
    if isinstance(program, NeedsBuild):
        return program
    if problem.baseline is None:
        raise ProblemError(f"{problem.problem.id}: has no [baseline] to rank against")
    settle_down(boxes.device)
    limits = replace(problem.problem.limits, job_s=problem.problem.limits.ranked_s)
    budget = Budget(limits, time.monotonic(), watch)
    timed = [(i, case) for i, case in enumerate(job.cases) if case.stage is Stage.TIMING]
    duel = Duel(problem, timed, job.key, boxes, budget)
    try:
        baseline = Side(Program("python", problem.baseline.name, (problem.baseline,)))
        candidate = Side(program, None if built is None else built.cache)
        return _Run(job, problem, boxes, duel, budget, baseline, candidate).judge(built)
    finally:
        duel.end()


@dataclass(slots=True)
class _Run:
    """A ranked job while it is judged."""

    job: Job
    problem: LoadedProblem
    boxes: BoxPool
    duel: Duel
    budget: Budget
    baseline: Side
    candidate: Side
    pairs: list[Pair] = field(default_factory=list)
    _pair_s: float = 0.0

    def judge(self, built: Built | None) -> Outcome | NeedsBuild:
        series = self._compare_baseline_with_itself()
        if series is None:
            return self._unstable(UNTOLD.format(MOST_SERIES))
        if self._fitting() < LOOKS[0]:
            return self._unstable(TOO_SLOW.format(self._pair_s, self.budget.limits.job_s))
        outcome = evaluate(self._correctness(), self.problem, self.boxes, self.budget.watch, built)
        if isinstance(outcome, NeedsBuild):
            return outcome
        if outcome.verdict is Verdict.ACCEPTED:
            failed = self._compare_candidate(series)
            self._series(Block.GUARD, series, loaded=True)
            outcome = self._with_times(outcome, failed)
        facts = {**outcome.environment, "box pairs": str(len(self.pairs))}
        return replace(outcome, environment=facts, comparison=self._comparison())

    def _compare_baseline_with_itself(self) -> int | None:
        """The number of the series that shows no difference, or None if none of them does."""
        for series in range(MOST_SERIES):
            if series and self._fitting() < GUARD_PAIRS + LOOKS[0]:
                break
            if not void_before(self._series(Block.BEFORE, series, loaded=False)):
                return series
        return None

    def _series(self, block: Block, series: int, loaded: bool) -> list[Pair]:
        pairs = []
        for done in range(GUARD_PAIRS):
            self.budget.watch.progress(Progress(f"{block.value} pairs", done, GUARD_PAIRS), loaded)
            pair = self._pair(block, series, (self.baseline, self.baseline))
            if isinstance(pair, PairFailure):
                raise SandboxError(f"the baseline met its ceiling: {pair.failure.message}")
            pairs.append(pair)
        return pairs

    def _compare_candidate(self, series: int) -> PairFailure | None:
        """Run pairs until a look says that they are enough, or the candidate fails."""
        values: list[float] = []
        wanted: int | None = LOOKS[0]
        while wanted is not None:
            self.budget.watch.progress(Progress("candidate pairs", len(values), wanted), True)
            pair = self._pair(Block.CANDIDATE, series, (self.baseline, self.candidate))
            if isinstance(pair, PairFailure):
                if pair.failure.ending is Ending.JOB_TIME and not _is_slow(values):
                    raise SandboxError(f"this machine slowed down: {pair.failure.message}")
                return pair
            value = pair_value(pair)
            if value is None:
                return None  # a time that is none: the comparison will say so
            values.append(value)
            # Without the first look there is nothing to tell: it is made unless the ceiling itself comes.
            wanted = next_look(values, max(LOOKS[0], len(values) + self._fitting()))
        return None

    def _pair(self, block: Block, series: int, sides: tuple[Side, Side]) -> Pair | PairFailure:
        began = time.monotonic()
        pair = self.duel.pair(block, series, sides)
        if isinstance(pair, Pair):
            self.pairs.append(pair)
        # The slowest of late: what is left must do even if the machine stays as slow.
        self._pair_s = max(time.monotonic() - began, 0.8 * self._pair_s)
        return pair

    def _fitting(self) -> int:
        """How many more candidate pairs fit before the ceiling, with the guard's after them."""
        planned_s = PLANNED_SHARE * self.budget.limits.job_s
        left_s = self.budget.started + planned_s - time.monotonic()
        return max(0, int(left_s / self._pair_s) - GUARD_PAIRS)

    def _correctness(self) -> Job:
        cases = tuple(case for case in self.job.cases if case.stage is Stage.TEST)
        return replace(self.job, cases=cases)

    def _with_times(self, outcome: Outcome, failed: PairFailure | None) -> Outcome:
        """The outcome with the timed cases in it: all passed, or the one that failed."""
        timed = dict(self.duel.cases)
        if failed is None:
            passed = tuple(passed_case(case) for case in timed.values())
            results = (*outcome.results, *passed)
            return replace(outcome, results=results, message=f"All {len(results)} cases passed.")
        case = None if failed.case is None else timed[failed.case]
        return replace(
            outcome,
            verdict=failed.failure.verdict,
            message=sentence_of(failed.failure, case, met_secrets=True),
            results=(*outcome.results, *(failed_case(c, failed.failure) for c in (case,) if c)),
        )

    def _comparison(self) -> Comparison:
        assert self.problem.problem.baseline is not None
        floors = {
            case.name: self.boxes.device.floor_ns(*self.problem.bytes_and_flops(case))
            for _, case in self.duel.cases
        }
        return Comparison(self.problem.problem.baseline.name, tuple(self.pairs), floors)

    def _unstable(self, why: str) -> Outcome:
        return Outcome(
            job_id=self.job.id,
            attempt=self.job.attempt,
            verdict=Verdict.UNSTABLE_TIMING,
            message=why,
            environment=dict(self.boxes.describe()),
            isolation=self.boxes.sandbox.isolation().level,
            comparison=self._comparison(),
        )


def _is_slow(values: Sequence[float]) -> bool:
    """Whether the candidate itself used up the time: its pairs say so, or it has not finished one."""
    return not values or sum(values) / len(values) < SLOW_VALUE
