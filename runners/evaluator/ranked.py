"""A ranked run: box pairs of baseline and copy, then of baseline and candidate, then the first again."""

from __future__ import annotations

import time
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

SLOW_SHARE: Final = 0.1
"""Of the ceiling: a candidate that took so much longer than the baseline has itself to blame for it."""

UNTOLD: Final = (
    "This machine could not tell the baseline from its copy in {} series of box pairs, so nothing was "
    "measured and your kernel was not run. It costs no quota; hand in again."
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
    began = time.monotonic()
    limits = problem.problem.limits
    timed = [(i, case) for i, case in enumerate(job.cases) if case.stage is Stage.TIMING]
    duel = Duel(problem, timed, job.key, boxes, limits)
    try:
        baseline = Side(Program("python", problem.baseline.name, (problem.baseline,)))
        candidate = Side(program, None if built is None else built.cache)
        run = _Run(job, problem, boxes, watch, duel, baseline, candidate, began)
        return run.judge(built)
    finally:
        duel.end()


@dataclass(slots=True)
class _Run:
    """A ranked job while it is judged. began: `time.monotonic` at its start."""

    job: Job
    problem: LoadedProblem
    boxes: BoxPool
    watch: Watch
    duel: Duel
    baseline: Side
    candidate: Side
    began: float
    pairs: list[Pair] = field(default_factory=list)
    _pair_s: float = 0.0
    _took_s: list[float] = field(default_factory=list)

    def judge(self, built: Built | None) -> Outcome | NeedsBuild:
        unstable = self._compare_baseline_with_itself()
        if unstable:
            return self._unstable(unstable)
        # What the guard's pairs need is set aside: the candidate cannot use it up.
        candidates_s = PLANNED_SHARE * self._ceiling_s - GUARD_PAIRS * self._pair_s
        left_s = self.began + candidates_s - time.monotonic()
        outcome = evaluate(
            self._correctness(), self._with_limit(left_s), self.boxes, self.watch, built
        )
        if isinstance(outcome, NeedsBuild):
            return outcome
        if outcome.verdict is Verdict.ACCEPTED:
            failed = self._compare_candidate(self._budget(candidates_s))
            if failed is None:
                self._series(Block.GUARD, self.pairs[-1].series, loaded=True)
            outcome = self._with_times(outcome, failed)
        facts = {**outcome.environment, "box pairs": str(len(self.pairs))}
        return replace(outcome, environment=facts, comparison=self._comparison())

    @property
    def _ceiling_s(self) -> float:
        return self.problem.problem.limits.ranked_s

    def _budget(self, seconds: float) -> Budget:
        """A budget that ends so many seconds after the run began."""
        limits = replace(self.problem.problem.limits, job_s=seconds)
        return Budget(limits, self.began, self.watch)

    def _with_limit(self, seconds: float) -> LoadedProblem:
        limits = replace(self.problem.problem.limits, job_s=max(0.0, seconds))
        return replace(self.problem, problem=replace(self.problem.problem, limits=limits))

    def _compare_baseline_with_itself(self) -> str:
        """Empty once a series shows no difference; else why nothing can be measured here and now."""
        for series in range(MOST_SERIES):
            if series and self._fitting() < GUARD_PAIRS + LOOKS[0]:
                return UNTOLD.format(series)
            if not void_before(self._series(Block.BEFORE, series, loaded=False)):
                enough = self._fitting() >= LOOKS[0]
                return "" if enough else TOO_SLOW.format(self._pair_s, self._ceiling_s)
        return UNTOLD.format(MOST_SERIES)

    def _series(self, block: Block, series: int, loaded: bool) -> list[Pair]:
        pairs = []
        sides, budget = (self.baseline, self.baseline), self._budget(self._ceiling_s)
        for done in range(GUARD_PAIRS):
            self.watch.progress(Progress(f"{block.value} pairs", done, GUARD_PAIRS), loaded)
            pair = self._pair(block, series, sides, budget)
            if isinstance(pair, PairFailure):
                raise SandboxError(f"the baseline met its ceiling: {pair.failure.message}")
            pairs.append(pair)
        return pairs

    def _compare_candidate(self, budget: Budget) -> PairFailure | None:
        """Run pairs until a look says that they are enough, or the candidate fails."""
        values: list[float] = []
        series, sides = self.pairs[-1].series, (self.baseline, self.candidate)
        checked_s = time.monotonic() - self.began - sum(self._took_s)
        wanted: int | None = LOOKS[0]
        while wanted is not None:
            self.watch.progress(Progress("candidate pairs", len(values), wanted), True)
            pair = self._pair(Block.CANDIDATE, series, sides, budget)
            if isinstance(pair, PairFailure):
                if pair.failure.ending is not Ending.JOB_TIME:
                    return pair
                if len(values) >= LOOKS[0]:
                    return None  # the last completed look counts
                if self._candidate_is_slow(checked_s):
                    return pair
                raise SandboxError(f"this machine slowed down: {pair.failure.message}")
            value = pair_value(pair)
            if value is None:
                return None  # a time that is none: the comparison will say so
            values.append(value)
            # Without the first look there is nothing to tell: it is made unless the ceiling itself comes.
            wanted = next_look(values, max(LOOKS[0], len(values) + self._fitting()))
        return None

    def _candidate_is_slow(self, checked_s: float) -> bool:
        """Whether the candidate used up the time, not this machine: by what it took over the baseline.

        checked_s: what its correctness cases took, for which the baseline has no like.
        """
        baseline_s, candidate_s = self.duel.spent_s
        return checked_s + candidate_s - baseline_s > SLOW_SHARE * self._ceiling_s

    def _pair(
        self, block: Block, series: int, sides: tuple[Side, Side], budget: Budget
    ) -> Pair | PairFailure:
        began = time.monotonic()
        pair = self.duel.pair(block, series, sides, budget)
        took_s = time.monotonic() - began
        self._took_s.append(took_s)
        if isinstance(pair, Pair):
            self.pairs.append(pair)
        # The slowest of late: what is left must do even if the machine stays as slow.
        self._pair_s = max(took_s, 0.8 * self._pair_s)
        return pair

    def _fitting(self) -> int:
        """How many more candidate pairs fit before the ceiling, with the guard's after them."""
        left_s = self.began + PLANNED_SHARE * self._ceiling_s - time.monotonic()
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
        row = () if case is None else (failed_case(case, failed.failure),)
        return replace(
            outcome,
            verdict=failed.failure.verdict,
            message=sentence_of(failed.failure, case, met_secrets=True),
            results=(*outcome.results, *row),
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
