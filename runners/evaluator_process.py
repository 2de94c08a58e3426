"""The evaluator process: `python -m runners.evaluator_process`, fed by a worker over pipes.

It owns the sandbox, the warm boxes, the problems' code and the build stage, and holds no token. It
ends when the worker does, and takes its boxes with it.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from judge.catalog import load_problem as read_folder
from judge.model import Job, Mode, Outcome, Progress
from judge.wire import LeaseBody, OutcomeBody
from runners.build import BuildStage
from runners.conversation import ConversationEndedError, Message, MessagePipe
from runners.devices import open_device
from runners.evaluator.job import evaluate
from runners.evaluator.pool import BoxPool, settle_down
from runners.evaluator.program import NeedsBuild
from runners.evaluator.ranked import evaluate_ranked
from runners.evaluator.session import StoppedError, Watch
from runners.evaluator_link import judge_error
from runners.ports import SandboxError
from runners.problem import LoadedProblem, ProblemError, load_problem
from runners.problems import problem_folders
from runners.sandboxes.bubblewrap import BubblewrapSandbox
from runners.settings import EvaluatorSettings

log = logging.getLogger(__name__)

SEND_S = 60.0
IDLE_S = 3600.0
REFILL_AFTER_S = 0.05
"""The next job often comes on the heels of the last; boxes are started once none has."""

_PR_SET_PDEATHSIG = 1


class Evaluator:
    """Judges jobs one after the other with what it keeps warm between them."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        self._problems = problem_folders(settings.problems)
        self._loaded: dict[str, LoadedProblem] = {}
        device = open_device(settings.device, settings.evaluator_core, settings.box_core)
        self._sandbox = BubblewrapSandbox()
        limits = [folder.problem.limits for folder in self._problems.values()]
        self.boxes = BoxPool(self._sandbox, device, limits, settings.warm_boxes)
        self._build = BuildStage(self.boxes, settings.cache)
        self._device = device
        settle_down(device)

    def ready(self) -> Message:
        """What the worker is told once boxes can be had."""
        isolation = self._sandbox.isolation()
        return {
            "ready": {
                "isolation": isolation.level,
                "reasons": list(isolation.reasons),
                "environment": dict(self._device.describe()),
            }
        }

    def judge(self, job: Job, watch: Watch) -> Outcome:
        """Build where needed and evaluate. Raises StoppedError, SandboxError, ProblemError."""
        problem = self._problem(job)
        built = self._build.prepare(job, problem.problem.limits, watch)
        if isinstance(built, Outcome):
            return built
        judge = evaluate_ranked if job.mode is Mode.RANKED else evaluate
        outcome = judge(job, problem, self.boxes, watch, built)
        if isinstance(outcome, NeedsBuild):
            built = self._build.extensions(job, problem, watch)
            if isinstance(built, Outcome):
                return built
            outcome = judge(job, problem, self.boxes, watch, built)
        assert isinstance(outcome, Outcome)
        return outcome

    def close(self) -> None:
        self.boxes.close()
        self._sandbox.close()

    def _problem(self, job: Job) -> LoadedProblem:
        """The problem's code. The worker has compared digests; a folder changed since is read anew."""
        loaded = self._loaded.get(job.problem_id)
        if loaded is None or loaded.problem.digest != job.problem_digest:
            path = self._problems[job.problem_id].path
            folder = read_folder(path)
            if folder.problem.digest != job.problem_digest:
                raise ProblemError(f"{path}: is not the version of the lease; update it")
            loaded = load_problem(path, folder.problem)
            self._loaded[job.problem_id] = loaded
        return loaded


def serve(pipe: MessagePipe, evaluator: Evaluator) -> None:
    """Judge what comes until the worker closes the pipe. A sandbox that fails ends the process."""
    evaluator.boxes.refill()
    pipe.send(evaluator.ready(), SEND_S)
    is_full = True
    while True:
        message = pipe.receive(IDLE_S if is_full else REFILL_AFTER_S)
        if message is None:
            if not is_full:
                evaluator.boxes.refill()
                is_full = True
        elif "job" in message:
            is_full = False
            _judge(pipe, evaluator, LeaseBody.model_validate(message["job"]).to_model())


def _judge(pipe: MessagePipe, evaluator: Evaluator, job: Job) -> None:
    def progress(now: Progress, loaded: bool) -> None:
        told = {"stage": now.stage, "done": now.done, "total": now.total}
        pipe.send({"progress": told, "loaded": loaded}, SEND_S)

    def should_stop() -> bool:
        return pipe.receive(0) is not None  # while a job runs, only `stop` is sent

    def answer(outcome: Outcome) -> None:
        body = OutcomeBody.of(outcome).model_dump(mode="json")
        pipe.send({"outcome": body}, SEND_S)

    try:
        answer(evaluator.judge(job, Watch(progress, should_stop)))
    except StoppedError:
        answer(judge_error(job, "the job was stopped"))
    except ProblemError as fault:
        log.error("problem failed job=J%s fault=%s", job.id, fault)
        # What went wrong may name a secret case: that is for the runner's log.
        answer(judge_error(job, "the problem's own files are at fault; the runner's log says how"))
    except SandboxError as fault:
        log.error("sandbox failed job=J%s fault=%s", job.id, fault)
        answer(judge_error(job, f"its sandbox is at fault: {fault}"))
        raise


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    worker = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != worker:
        sys.exit(1)
    signal.signal(signal.SIGTERM, _leave)
    # Whatever prints to stdout by mistake must not end up between messages.
    out = os.dup(1)
    os.dup2(2, 1)
    pipe = MessagePipe(0, out)
    try:
        first = pipe.receive(SEND_S)
        if first is None:
            return
        evaluator = Evaluator(_settings(first["settings"]))
        try:
            serve(pipe, evaluator)
        finally:
            evaluator.close()
    except ConversationEndedError:
        return  # the worker has gone: so has the reason to be here


def _leave(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough; boxes are being killed
    sys.exit(0)


def _settings(told: dict[str, Any]) -> EvaluatorSettings:
    return EvaluatorSettings(
        problems=Path(told["problems"]),
        state_dir=Path(told["state_dir"]),
        device=told["device"],
        evaluator_core=told["evaluator_core"],
        box_core=told["box_core"],
        warm_boxes=told["warm_boxes"],
    )


if __name__ == "__main__":
    main()
