"""Routes for runners: claim a job, keep it alive, end it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from judge.api.answers import answer, api_router
from judge.api.auth import Guard, Id
from judge.api.errors import RefusedError, refuse
from judge.api.parts import Parts
from judge.enrolment import FULL, RunnerRecord, fault_of_claim
from judge.model import JobState, Mode, Problem, Progress, Refusal, Role, Ruling
from judge.records import Identity, JobRecord, job_of
from judge.rules import cases_of_mode
from judge.wire import AckBody, ClaimBody, HeartbeatBody, HeartbeatReplyBody, LeaseBody, OutcomeBody

log = logging.getLogger(__name__)

KEY_BYTES = 16

PROBLEM_DIFFERS = "problem_differs"


def router(parts: Parts, guard: Guard) -> APIRouter:
    class GuardedRoute(APIRoute):
        """Asks for the token before the body is read: an outcome may be large."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handle_for_runners(request: Request) -> Response:
                guard.demand(request, (Role.RUNNER,))
                return await handle(request)

            return handle_for_runners

    routes = api_router("runners", "/runner/jobs", GuardedRoute)
    store, clock, pace = parts.store, parts.clock, parts.pace
    lease = timedelta(seconds=parts.lease_s)

    @routes.post("/{job_id}/claim", response_model=LeaseBody)
    def claim(job_id: Id, body: ClaimBody, runner: Identity = Depends(guard.runner)) -> Response:
        """Take the job whose id rang: a lease, a fresh key, the files and the cases."""
        record = _record(job_id, runner)
        now = clock()
        problem = _open_problem(record, parts)
        if isinstance(problem, Refusal):
            # Nobody will ever be able to judge it: it ends now, instead of waiting for good.
            store.give_up(job_id, problem.detail, now)
            log.warning("job given up job=J%s code=%s", job_id, problem.code)
            raise RefusedError(problem)
        enrolled = store.runner(runner.token_id)
        unfit = fault_of_claim(enrolled, body.runner) or _unfit(record, problem, body, enrolled)
        if unfit is not None:
            if unfit.code == PROBLEM_DIFFERS:
                parts.bell.put_last(job_id, body.runner)
            raise RefusedError(unfit)
        pace.heard(record.device, body.runner, now)
        claimed = store.claim(job_id, body.runner, now, now + lease)
        if isinstance(claimed, Refusal):
            log.debug("claim refused job=J%s runner=%s code=%s", job_id, body.runner, claimed.code)
            raise RefusedError(claimed)
        pace.claimed(job_id, claimed.device, body.runner, now)
        log.info(
            "job claimed job=J%s attempt=%s device=%s runner=%s",
            *(job_id, claimed.attempt, claimed.device, body.runner),
        )
        secret = store.secret_cases(problem.id, problem.version)
        job = job_of(
            claimed,
            problem,
            os.urandom(KEY_BYTES),
            store.files(claimed.submission.id),
            cases_of_mode(problem, secret, claimed.mode),
        )
        return answer(LeaseBody.of(job, parts.lease_s, parts.heartbeat_s))

    @routes.post("/{job_id}/heartbeat", response_model=HeartbeatReplyBody)
    def heartbeat(
        job_id: Id, body: HeartbeatBody, runner: Identity = Depends(guard.runner)
    ) -> Response:
        """Renew the lease and tell how far the job is."""
        record = _record(job_id, runner)
        _only_own(record, body.attempt, runner)
        now = clock()
        progress = Progress(body.progress.stage, body.progress.done, body.progress.total)
        reply = store.heartbeat(job_id, body.attempt, progress, body.loaded, now, now + lease)
        if record.runner is not None and not reply.stop:
            pace.heard(record.device, record.runner, now)
        return answer(HeartbeatReplyBody(stop=reply.stop, lease_s=parts.lease_s))

    @routes.post("/{job_id}/outcome", response_model=AckBody)
    def outcome(
        job_id: Id, body: OutcomeBody, runner: Identity = Depends(guard.runner)
    ) -> Response:
        """End the current attempt. A stale or second outcome is refused and kept as an event."""
        record = _record(job_id, runner)
        if body.job_id != job_id:
            detail = f"The body is about job {body.job_id}, the address about job {job_id}."
            raise refuse("job_mismatch", detail)
        _only_own(record, body.attempt, runner)
        now, said = clock(), body.to_model()
        ranked = record.mode is Mode.RANKED
        ruling = parts.rulings(record, said) if ranked else Ruling()
        ended = store.finish(job_id, body.attempt, said, now, ruling)
        if isinstance(ended, Refusal):
            log.warning(
                "outcome refused job=J%s attempt=%s code=%s", job_id, body.attempt, ended.code
            )
            raise RefusedError(ended)
        pace.ended(job_id, record.device, record.mode, now)
        parts.metrics.outcomes.labels(body.verdict.value).inc()
        log.info(
            "job judged job=J%s attempt=%s verdict=%r state=%s held=%s",
            *(job_id, body.attempt, body.verdict.value, ended.state.value, ended.held),
        )
        final = ended.state is JobState.DONE
        return answer(AckBody(detail="The job is done." if final else "The job is queued again."))

    def _record(job_id: int, runner: Identity) -> JobRecord:
        record = store.record_of_job(job_id)
        if record is None:
            raise refuse("job_unknown", f"There is no job {job_id}.", 404)
        if record.device != runner.device:
            detail = f"Job {job_id} is for {record.device}; this token is for {runner.device}."
            raise refuse("device_mismatch", detail, 403)
        return record

    def _only_own(record: JobRecord, attempt: int, runner: Identity) -> None:
        """Refuse a token that did not claim the attempt. Others of an older attempt: it is over."""
        if record.runner is None or record.attempt != attempt:
            return
        enrolled = store.runner(runner.token_id)
        if enrolled is None or enrolled.name != record.runner:
            detail = f"Attempt {attempt} of job {record.job_id} is runner {record.runner}'s."
            raise refuse("not_your_attempt", detail, 403)

    return routes


def _open_problem(record: JobRecord, parts: Parts) -> Problem | Refusal:
    """The job's problem, if the version it was handed in for is still open."""
    submission = record.submission
    problem = parts.opened.problems.get(submission.problem_id)
    if problem is not None and problem.version == submission.problem_version:
        return problem
    return Refusal(
        "problem_closed",
        f"Version {submission.problem_version} of {submission.problem_id} is not open any more, so this "
        "was not judged. It costs no quota; hand in again for the version that is open.",
        409,
    )


def _unfit(
    record: JobRecord, problem: Problem, claim: ClaimBody, runner: RunnerRecord | None
) -> Refusal | None:
    """Why this runner must not judge the job, or None."""
    theirs = claim.problem_digests.get(problem.id)
    if theirs != problem.digest:
        log.warning(
            "claim refused job=J%s runner=%s code=problem_differs problem=%s",
            *(record.job_id, claim.runner, problem.id),
        )
        have = f"has digest {theirs[:16]}" if theirs else "is missing"
        return Refusal(
            PROBLEM_DIFFERS,
            f"Problem {problem.id} {have} at the runner, the server's is {problem.digest[:16]}; "
            "give the runner the server's problem folder.",
            409,
        )
    may_rank = runner is not None and runner.may_rank and claim.isolation == FULL
    if record.mode is Mode.RANKED and not may_rank:
        return Refusal(
            "isolation_reduced",
            "Ranked jobs need full isolation; `judge doctor` on the runner says what is missing.",
            409,
        )
    return None
