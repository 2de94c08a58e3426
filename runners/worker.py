"""One job's life on a runner: claim, evaluate under a renewed lease, hand in the outcome."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from judge.catalog import ProblemFolder
from judge.model import Job, Limits, Mode, Outcome, Problem, Progress, Refusal
from judge.tables import DeclarationError
from judge.wire import (
    MAX_LOG_CHARS,
    ClaimBody,
    HeartbeatBody,
    HeartbeatReplyBody,
    LeaseBody,
    OutcomeBody,
    ProgressBody,
)
from runners.conversation import ConversationEndedError
from runners.evaluator_link import EvaluatorLink, Ready, judge_error
from runners.self_test import SelfTest, self_test
from runners.server_link import ServerLink, ServerUnreachableError, insist
from runners.settings import WorkerSettings

log = logging.getLogger(__name__)

CLAIM_PATIENCE_S = 30.0
"""A claim not answered by then is dropped: the server rings again for every job without a lease."""

OUTCOME_PATIENCE_S = 600.0
"""How long past the lease's end an outcome is still offered. While the server is down nobody else
can have claimed the job, and it refuses a stale attempt by itself."""

PROBLEM_DIFFERS = "problem_differs"
"""The code of the server's refusal of a runner whose problem folder is another version."""

CEILING_MARGIN_S = 60.0
FINISH_S = 3.0
"""At a shutdown a job has this long to end by itself; then it is given up: its lease runs out."""

Problems = Callable[[], Mapping[str, ProblemFolder]]
"""Reads the problem folders, as they are now, by problem id."""

HINDRANCES = frozenset(
    {"runner_unknown", "runner_bound", "runner_quarantined", "self_test_failed", "token_unknown"}
)
"""Codes of refusals that are about the runner, not about the job."""


class Worker:
    """Answers rings. `answer` is called from one thread; the heartbeats have their own.

    on_hindrance: called where the server refuses the runner itself. busy: whether a job is in hand.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        problems: Problems,
        server: ServerLink,
        stopping: threading.Event,
        on_hindrance: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._read_problems = problems
        self._problems = problems()
        self._stopping = stopping
        self._on_hindrance = on_hindrance
        self._server = server
        self._evaluator = EvaluatorLink(settings.evaluator)
        self.ready = Ready("reduced", ())
        self.busy = False

    def start(self) -> None:
        """Start the evaluator and wait until it can judge.

        Raises ConversationEndedError where it cannot; its own words are on stderr.
        """
        self._evaluator.start()
        self.ready = self._evaluator.ready()
        for reason in self.ready.reasons:
            log.warning("isolation reduced reason=%r", reason)

    def close(self) -> None:
        self._evaluator.kill()

    def digests(self) -> dict[str, str]:
        """The problems that can be judged here: id to digest."""
        return {id: folder.problem.digest for id, folder in self._problems.items()}

    def self_test(self) -> SelfTest | None:
        """Judge a baseline of the problem folders, as they are now; None if told to stop meanwhile."""
        began = time.monotonic()
        device = self._settings.evaluator.device
        try:
            self._problems = self._read_problems()
            folders = [self._problems[id] for id in sorted(self._problems)]
            return self_test(self._evaluator, folders, device, self._stopping.is_set)
        except (DeclarationError, OSError) as fault:
            return SelfTest(False, str(fault), began)

    def answer(self, job_id: int) -> bool:
        """Judge the job if the server gives it to this runner, and say whether it did. Never raises."""
        took = False
        claimed_at = time.monotonic()
        try:
            lease = self._claim(job_id)
            if lease is not None:
                took = self.busy = True
                self._work(lease, claimed_at)
        except Exception:
            # A bug of ours must not end the runner: the lease runs out and the job is rung again.
            log.exception("job failed in the worker job=J%s", job_id)
            self._evaluator.kill()
        finally:
            self.busy = False
        if not self._stopping.is_set():
            self._restart_evaluator()
        return took

    def _work(self, lease: LeaseBody, claimed_at: float) -> None:
        job = lease.to_model()
        log.info(
            "job claimed job=J%s attempt=%s device=%s mode=%s runner=%s",
            *(job.id, job.attempt, job.device, job.mode, self._settings.name),
        )
        heart = Heart(self._server, job, Rhythm(lease.heartbeat_s, claimed_at + lease.lease_s))
        heart.start()
        try:
            outcome = self._judge(job, heart)
        finally:
            heart.stop()
        if outcome is None or heart.lost.is_set():
            log.info("job given up job=J%s attempt=%s", job.id, job.attempt)
            return
        self._hand_in(job, outcome, heart)

    def _claim(self, job_id: int) -> LeaseBody | None:
        answer = self._ask(job_id)
        if isinstance(answer, Refusal) and answer.code == PROBLEM_DIFFERS:
            # The operator may have put a new version into the folder meanwhile.
            before, self._problems = self._problems, self._read_problems()
            if self._problems != before:
                answer = self._ask(job_id)
        if isinstance(answer, LeaseBody):
            return answer
        if answer is None:
            log.warning("claim unanswered job=J%s", job_id)
        else:
            log.info("claim refused job=J%s code=%s detail=%r", job_id, answer.code, answer.detail)
            if answer.code in HINDRANCES:
                self._on_hindrance()
        return None

    def _ask(self, job_id: int) -> LeaseBody | Refusal | None:
        body = ClaimBody(
            runner=self._settings.name,
            problem_digests=self.digests(),
            isolation=self.ready.isolation,
        )
        deadline = time.monotonic() + CLAIM_PATIENCE_S
        return insist(lambda: self._server.claim(job_id, body), lambda: deadline, self._stopping)

    def _judge(self, job: Job, heart: Heart) -> Outcome | None:
        problem = self._problem_of(job)
        if problem is None:
            return judge_error(job, self._digest_fault(job))
        shutdown_at: float | None = None

        def should_stop() -> bool:
            nonlocal shutdown_at
            if shutdown_at is None and self._stopping.is_set():
                shutdown_at = time.monotonic()
            out_of_time = shutdown_at is not None and time.monotonic() > shutdown_at + FINISH_S
            return out_of_time or heart.lost.is_set()

        ceiling = ceiling_s(problem.limits, job.mode)
        return self._evaluator.evaluate(job, ceiling, heart.tell, should_stop)

    def _problem_of(self, job: Job) -> Problem | None:
        """The problem of the lease if the folder here is the same; reads them again if not."""
        for read_again in (False, True):
            if read_again:
                self._problems = self._read_problems()
            folder = self._problems.get(job.problem_id)
            if folder is not None and folder.problem.digest == job.problem_digest:
                return folder.problem
        return None

    def _digest_fault(self, job: Job) -> str:
        return (
            f"the problems folder of runner {self._settings.name} does not hold the version of"
            f" {job.problem_id!r} that is being judged (digest {job.problem_digest[:12]}); its"
            " operator must update that folder"
        )

    def _hand_in(self, job: Job, outcome: Outcome, heart: Heart) -> None:
        body = OutcomeBody.of(replace(outcome, log=outcome.log[:MAX_LOG_CHARS]))
        answer = insist(
            lambda: self._server.outcome(job.id, body),
            lambda: heart.lease_until + OUTCOME_PATIENCE_S,
            self._stopping,
        )
        if answer is None:
            log.warning("outcome not handed in job=J%s attempt=%s", job.id, job.attempt)
        elif isinstance(answer, Refusal):
            log.warning(
                "outcome refused job=J%s attempt=%s code=%s", job.id, job.attempt, answer.code
            )
        else:
            log.info("job done job=J%s attempt=%s verdict=%s", job.id, job.attempt, outcome.verdict)

    def _restart_evaluator(self) -> None:
        try:
            self._evaluator.start()
        except ConversationEndedError as ended:
            log.error("evaluator does not start fault=%s", ended)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often the lease is renewed, and until when it lasts on `time.monotonic`."""

    heartbeat_s: float
    lease_until: float


class Heart(threading.Thread):
    """Renews the lease of one job and carries its progress.

    lost: set once the server says that the attempt is no longer this runner's. An unreachable
    server is no reason to stop: it may come back before the job ends.
    """

    def __init__(self, server: ServerLink, job: Job, rhythm: Rhythm) -> None:
        super().__init__(name=f"heart-J{job.id}", daemon=True)
        self.lost = threading.Event()
        self.lease_until = rhythm.lease_until
        self._server = server
        self._job = job
        self._heartbeat_s = rhythm.heartbeat_s
        self._progress = Progress("claimed")
        self._loaded = False
        self._told_loaded = False
        self._wake = threading.Event()
        self._ended = threading.Event()

    def tell(self, progress: Progress, loaded: bool) -> None:
        """Note progress for the next beat; the first loading is told at once: it charges quota."""
        self._progress = progress
        if loaded and not self._loaded:
            self._loaded = True
            self._wake.set()

    def stop(self) -> None:
        """End after the beat that is under way, and have told of the loading by then."""
        self._ended.set()
        self._wake.set()
        self.join()

    def run(self) -> None:
        while not self.lost.is_set():
            self._wake.wait(self._heartbeat_s)
            self._wake.clear()
            if self._ended.is_set() and self._loaded == self._told_loaded:
                return
            self._beat()
            if self._ended.is_set():
                return

    def _beat(self) -> None:
        sent_at = time.monotonic()
        progress, loaded = self._progress, self._loaded
        body = HeartbeatBody(
            attempt=self._job.attempt,
            progress=ProgressBody(stage=progress.stage, done=progress.done, total=progress.total),
            loaded=loaded,
        )
        try:
            reply = self._server.heartbeat(self._job.id, body)
        except ServerUnreachableError as fault:
            log.warning("heartbeat unanswered job=J%s fault=%s", self._job.id, fault)
            return
        if isinstance(reply, HeartbeatReplyBody) and not reply.stop:
            self.lease_until = sent_at + reply.lease_s
            self._told_loaded = loaded
            return
        why = "stop" if isinstance(reply, HeartbeatReplyBody) else reply.code
        log.info("lease lost job=J%s attempt=%s why=%s", self._job.id, self._job.attempt, why)
        self.lost.set()


def ceiling_s(limits: Limits, mode: Mode) -> float:
    """After how many seconds an evaluator is held to hang, in whatever it is doing.

    A job is begun twice where it asks for the build stage only once it runs. A ranked one judges its
    correctness cases under the limits of any job, beside its box pairs.
    """
    once_s = limits.job_s + (limits.ranked_s if mode is Mode.RANKED else 0.0)
    return limits.build_s + 2 * once_s + CEILING_MARGIN_S
