"""The worker's hold on its evaluator: a long-lived process that judges one job after the other."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from judge.model import Job, Outcome, Progress, Verdict
from judge.wire import LeaseBody, OutcomeBody
from runners.conversation import ConversationEndedError, MessagePipe
from runners.settings import EvaluatorSettings

log = logging.getLogger(__name__)

READY_S = 120.0
TAKE_S = 60.0
POLL_S = 0.1
STOP_S = 3.0

KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "USER")
"""What the evaluator inherits. The worker's environment may hold tokens: the rest stays behind."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What the evaluator says of itself at its start.

    isolation: `full` or `reduced`. reasons: what is missing and its remedy, a sentence each.
    environment: what it judges on, as plain strings.
    """

    isolation: str
    reasons: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Process:
    popen: subprocess.Popen[bytes]
    pipe: MessagePipe
    ready: Ready | None = None


class EvaluatorLink:
    """Starts, feeds, watches and ends the evaluator process. Used from one thread."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        self._settings = settings
        self._process: _Process | None = None

    def start(self) -> None:
        """Start the process unless it lives; does not wait for it to be ready."""
        if self._process is not None and self._process.popen.poll() is None:
            return
        self.kill()
        environment = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        popen = subprocess.Popen(
            [sys.executable, "-m", "runners.evaluator_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is the worker's to handle
        )
        assert popen.stdin is not None
        assert popen.stdout is not None
        pipe = MessagePipe(popen.stdout.fileno(), popen.stdin.fileno())
        self._process = _Process(popen, pipe)
        pipe.send({"settings": _settings_message(self._settings)}, TAKE_S)

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return None if self._process is None else self._process.popen.pid

    def ready(self) -> Ready:
        """Wait until the process can judge. Raises ConversationEndedError if it ended or hangs."""
        process = self._living()
        deadline = time.monotonic() + READY_S
        while process.ready is None:
            message = process.pipe.receive(max(0.0, deadline - time.monotonic()))
            if message is None:
                raise ConversationEndedError(f"the evaluator was not ready after {READY_S:g} s")
            told = message["ready"]
            process.ready = Ready(
                told["isolation"], tuple(told["reasons"]), dict(told["environment"])
            )
        return process.ready

    def evaluate(
        self,
        job: Job,
        ceiling_s: float,
        on_progress: Callable[[Progress, bool], None],
        should_stop: Callable[[], bool],
    ) -> Outcome | None:
        """Have the job judged.

        ceiling_s: after which the process is held to hang. on_progress: gets the progress and
        whether a box was given the submission. Returns None where `should_stop` became true. A
        process that ends, hangs or tells a judge error is replaced at the next `start`.
        """
        try:
            self.start()
            self.ready()
            pipe = self._living().pipe
            pipe.send({"job": LeaseBody.of(job, 0, 0).model_dump(mode="json")}, TAKE_S)
            deadline = time.monotonic() + ceiling_s
            while time.monotonic() < deadline:
                if should_stop():
                    self._stop_job()
                    return None
                message = pipe.receive(POLL_S)
                if message is None:
                    continue
                if "outcome" in message:
                    outcome = OutcomeBody.model_validate(message["outcome"]).to_model()
                    if outcome.verdict is Verdict.JUDGE_ERROR:
                        # It may be ending, slowly: the next job is not given to it.
                        self.kill()
                    return outcome
                told = message["progress"]
                on_progress(Progress(told["stage"], told["done"], told["total"]), message["loaded"])
            fault = f"the evaluator did not end within {ceiling_s:.0f} s"
        except ConversationEndedError as ended:
            fault = f"the evaluator failed: {ended}"
        exit_code = self.kill()
        log.error("evaluator lost job=J%s fault=%r exit=%s", job.id, fault, exit_code)
        return judge_error(job, fault)

    def kill(self) -> int | None:
        """End the process and its boxes; its exit code, or None if there was none."""
        process, self._process = self._process, None
        if process is None:
            return None
        popen = process.popen
        popen.terminate()  # lets it kill its boxes and remove their cgroups
        try:
            popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(popen.pid, signal.SIGKILL)  # the boxes die with it
            popen.wait()
        for stream in (popen.stdin, popen.stdout):
            assert stream is not None
            stream.close()
        return popen.returncode

    def _stop_job(self) -> None:
        # A process that ends meanwhile has stopped as well: nobody's attempt is lost by it.
        with contextlib.suppress(ConversationEndedError):
            pipe = self._living().pipe
            pipe.send({"stop": True}, STOP_S)
            deadline = time.monotonic() + STOP_S
            while time.monotonic() < deadline:
                message = pipe.receive(POLL_S)
                if message is not None and "outcome" in message:
                    return
        self.kill()

    def _living(self) -> _Process:
        if self._process is None:
            raise ConversationEndedError("the evaluator is not running")
        return self._process


def judge_error(job: Job, fault: str) -> Outcome:
    """Our fault, told to the author: it costs them nothing."""
    return Outcome(
        job_id=job.id,
        attempt=job.attempt,
        verdict=Verdict.JUDGE_ERROR,
        message=f"The judge failed, not your kernel: {fault}. It costs you no quota.",
    )


def _settings_message(settings: EvaluatorSettings) -> dict[str, Any]:
    return {
        "problems": str(settings.problems.absolute()),
        "state_dir": str(settings.state_dir.absolute()),
        "device": settings.device,
        "evaluator_core": settings.evaluator_core,
        "box_core": settings.box_core,
        "warm_boxes": settings.warm_boxes,
    }
