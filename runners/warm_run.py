"""One run of a submission in a build box, so that whatever it compiles lazily gets compiled."""

from __future__ import annotations

import os

from judge.model import Job, Stage
from runners.endings import Failure
from runners.evaluator.burst import Source, draw_constants
from runners.evaluator.call import Start
from runners.evaluator.inputs import KEY_BYTES, Draw
from runners.evaluator.pool import BoxPool, await_ready, confine
from runners.evaluator.program import Program
from runners.evaluator.session import Budget, Session
from runners.evaluator.trial import Trial
from runners.ports import BoxEnd, BoxSpec, Phase
from runners.problem import LoadedProblem


def warm_run(
    job: Job, problem: LoadedProblem, boxes: BoxPool, spec: BoxSpec, budget: Budget
) -> tuple[Failure | None, BoxEnd]:
    """Load the submission in a build box and make the calls of its first public test case.

    Contents are drawn from a key of their own. Returns what went wrong, if anything, and how the
    box ended; a wrong output is no failure here, since a box of the timed phase judges it.
    """
    box = boxes.sandbox.launch(spec)
    session = Session(box, boxes.conditions, budget)
    try:
        confine(box, Phase.BUILD)
        await_ready(box, spec.cores)
        failed = session.load(Program("python", job.main, job.files))
        if failed is None:
            failed = _call(job, problem, session)
        return session.end(failed)
    finally:
        session.end()


def _call(job: Job, problem: LoadedProblem, session: Session) -> Failure | None:
    case = next((c for c in job.cases if c.stage is Stage.TEST and not c.secret), None)
    if case is None:
        return None
    key = os.urandom(KEY_BYTES)
    source = Source(problem, key, case, 0, draw_constants(problem, key, case, 0))
    layout = source.layout(source.draw(Draw.REHEARSAL, 0), 1)
    trial = Trial(source, layout, Start.of(layout, case.cold), session)
    return trial.lay_out() or trial.test(Draw.REHEARSAL)
