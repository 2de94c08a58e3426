"""One job, from a pre-started box to its outcome."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from judge.model import (
    Case,
    CaseResult,
    Job,
    Measurement,
    Outcome,
    Progress,
    Report,
    Stage,
    Verdict,
)
from judge.text import plain
from runners.endings import Ending, Failure
from runners.evaluator.arena import Layout
from runners.evaluator.burst import Source, draw_constants
from runners.evaluator.call import Start
from runners.evaluator.inputs import Draw
from runners.evaluator.null import NullArm
from runners.evaluator.pool import BoxPool, settle_down
from runners.evaluator.program import Built, NeedsBuild, program_of
from runners.evaluator.session import Budget, Session, Watch
from runners.evaluator.trial import Trial
from runners.ports import BoxEnd
from runners.problem import LoadedProblem

MAX_LOG_CHARS = 64 << 10
NEW_LINE = "\n"


def evaluate(
    job: Job,
    problem: LoadedProblem,
    boxes: BoxPool,
    watch: Watch,
    built: Built | None = None,
) -> Outcome | NeedsBuild:
    """Judge one attempt at a job in a fresh box.

    built: what the build stage left, for a submission that needs it. The first case that fails
    ends the job; cases that were not reached are not listed. Text that stems from a secret case
    stands in that case's result alone. Pins this process to the evaluator's core. Raises
    StoppedError where `watch` says so, SandboxError and ProblemError where the judge failed.
    """
    program = program_of(job, built)
    if isinstance(program, NeedsBuild):
        return program
    settle_down(boxes.device)
    limits = problem.problem.limits
    watch.progress(Progress("loading"), False)
    run = _Run(job, problem, boxes)
    run.measure_null_alone()
    box = boxes.take(limits, built.cache if built else None)
    # The author's time begins now: starting a box is ours.
    run.session = Session(box, boxes.conditions, Budget(limits, time.monotonic(), watch))
    try:
        watch.progress(Progress("loading"), True)
        failed = run.session.load(program) or run.judge_cases()
        if failed is not None and failed.ending is Ending.UNBUILT and built is None:
            return NeedsBuild(failed.detail)
        return run.outcome(failed, built)
    finally:
        run.end()


@dataclass(slots=True)
class _Run:
    """A job while it is judged. current: index of the case that is under way."""

    job: Job
    problem: LoadedProblem
    boxes: BoxPool
    session: Session = field(init=False)
    null: NullArm | None = None
    null_samples_ns: dict[int, tuple[int, ...]] = field(default_factory=dict)
    current: int | None = None
    results: dict[int, CaseResult] = field(default_factory=dict)
    measurements: dict[int, Measurement] = field(default_factory=dict)
    public_output: bytes | None = None

    def measure_null_alone(self) -> None:
        """Where boxes cannot be frozen only one may live: the null kernel's goes first."""
        timed = [i for i, case in enumerate(self.job.cases) if case.stage is Stage.TIMING]
        if not timed or self.boxes.conditions.freezer:
            return
        null = NullArm(self.boxes, self.problem.problem.limits)
        try:
            for index in timed:
                source = self._source(index)
                layout = _layout(source)
                null.lay_out(layout, Start.of(layout, source.case.cold))
                samples = [null.sample_ns() for _ in range(source.case.calls)]
                self.null_samples_ns[index] = tuple(samples)
        finally:
            null.end()

    def judge_cases(self) -> Failure | None:
        """Test cases before timing cases, until one fails.

        Every public case comes before the first secret one: what the box then knows of secret
        cases it could tell by the text, outputs and times of a public case.
        """
        cases = self.job.cases
        for secret, stage in itertools.product((False, True), Stage):
            order = [i for i, c in enumerate(cases) if c.secret is secret and c.stage is stage]
            # Counts of secret cases, told as they pass, would time each of them for the author.
            said = Progress(f"secret {stage.value}") if secret else Progress(stage.value)
            for done, index in enumerate(order):
                steps = said if secret else replace(said, done=done, total=len(order))
                self.session.budget.watch.progress(steps, True)
                self.current = index
                failed = self._judge_case(index)
                if failed is not None:
                    return failed
            if order and not secret:
                every = replace(said, done=len(order), total=len(order))
                self.session.budget.watch.progress(every, True)
        self.current = None
        return self.session.tear_down()

    def outcome(self, failure: Failure | None, built: Built | None) -> Outcome:
        """End the box and say what came of the job."""
        failure, end = self.session.end(failure)
        failure = failure or _hidden_failure(end)
        if failure is not None and self.current is not None:
            self.results[self.current] = failed_case(self.job.cases[self.current], failure)
        printed = end.output if self.public_output is None else self.public_output
        facts = dict(self.boxes.describe())
        # A kernel can choose its peak, and so tell of a secret case by it.
        if end.memory_peak_bytes is not None and not self._has_met_secrets:
            facts["memory peak"] = f"{end.memory_peak_bytes >> 20} MiB"
        return Outcome(
            job_id=self.job.id,
            attempt=self.job.attempt,
            verdict=Verdict.ACCEPTED if failure is None else failure.verdict,
            message=self._message(failure),
            results=tuple(self.results[i] for i in sorted(self.results)),
            measurements=tuple(self.measurements[i] for i in sorted(self.measurements)),
            log=_log(built, printed),
            environment=facts,
            isolation=self.boxes.sandbox.isolation().level,
        )

    def end(self) -> None:
        self.session.end()
        if self.null is not None:
            self.null.end()

    def _judge_case(self, index: int) -> Failure | None:
        source = self._source(index)
        case = source.case
        if case.secret and self.public_output is None:
            self.public_output = self.session.output_so_far()
        layout = _layout(source)
        trial = Trial(source, layout, Start.of(layout, case.cold), self.session)
        failed = trial.lay_out()
        if failed is None:
            failed = trial.test() if case.stage is Stage.TEST else self._time(trial)
        if failed is not None:
            return failed
        self.results[index] = passed_case(case, trial.reports)
        if case.stage is Stage.TIMING:
            self.measurements[index] = Measurement(
                case=case.name,
                secret=case.secret,
                chain=case.chain,
                samples_ns=tuple(trial.samples_ns),
                null_samples_ns=self.null_samples_ns.get(index, tuple(trial.null_samples_ns)),
            )
        return None

    def _time(self, trial: Trial) -> Failure | None:
        if self.null is None and self.boxes.conditions.freezer:
            self.null = NullArm(self.boxes, self.problem.problem.limits)
        return trial.time(self.null)

    def _source(self, index: int) -> Source:
        case, key = self.job.cases[index], self.job.key
        constants = draw_constants(self.problem, key, case, index)
        return Source(self.problem, key, case, index, constants)

    @property
    def _has_met_secrets(self) -> bool:
        return self.public_output is not None

    def _message(self, failure: Failure | None) -> str:
        if failure is None:
            return f"All {len(self.results)} cases passed."
        case = None if self.current is None else self.job.cases[self.current]
        return sentence_of(failure, case, self._has_met_secrets)


def sentence_of(failure: Failure, case: Case | None, met_secrets: bool) -> str:
    """An outcome's message for what failed, without a word that stems from a secret case.

    case: None outside of any case. met_secrets: whether the box had seen a secret case by then.
    """
    if case is None and met_secrets:
        return f"{failure.verdict.value.capitalize()} after the secret cases."
    if case is None:
        return failure.message
    if case.secret:
        return f"{failure.verdict.value.capitalize()} on a secret case."
    where = case.name if failure.call is None else f"{case.name}, call {failure.call + 1}"
    return f"{where}: {failure.message.partition(NEW_LINE)[0]}"


def _layout(source: Source) -> Layout:
    timed = source.case.stage is Stage.TIMING
    draw = Draw.WARM_UP if timed else Draw.TEST
    return source.layout(source.draw(draw, 0), source.case.chain if timed else 1)


def _hidden_failure(end: BoxEnd) -> Failure | None:
    """A limit that was passed without a call that failed."""
    if end.out_of_memory:
        return Failure(Ending.MEMORY)
    if end.output_exceeded:
        return Failure(Ending.OUTPUT)
    return None


def passed_case(case: Case, reports: Iterable[Report] = ()) -> CaseResult:
    """The row of a case that passed, with the largest errors of its reports."""
    reports = list(reports)
    return CaseResult(
        case=case.name,
        stage=case.stage,
        secret=case.secret,
        verdict=Verdict.ACCEPTED,
        values=case.values,
        max_abs_error=_largest(report.max_abs_error for report in reports),
        max_rel_error=_largest(report.max_rel_error for report in reports),
    )


def failed_case(case: Case, failure: Failure) -> CaseResult:
    """The row of a case that failed."""
    result = replace(
        passed_case(case), verdict=failure.verdict, message=failure.message, call=failure.call
    )
    report = failure.report
    if report is None:
        return result
    return replace(
        result,
        max_abs_error=report.max_abs_error,
        max_rel_error=report.max_rel_error,
        differences=report.differences,
    )


def _largest(errors: Iterable[float | None]) -> float | None:
    return max((error for error in errors if error is not None), default=None)


def _log(built: Built | None, printed: bytes) -> str:
    parts = [built.log if built else "", printed.decode(errors="replace")]
    text = plain("\n".join(part for part in parts if part), limit=1 << 30)
    if len(text) <= MAX_LOG_CHARS:
        return text
    half = MAX_LOG_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
