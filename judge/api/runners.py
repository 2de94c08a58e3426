"""Routes about runners: they enrol and wait for rings; everybody sees them; organizers set them."""

from __future__ import annotations

import logging
from datetime import datetime

from fastapi import APIRouter, Depends, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from judge.api.answers import answer, answer_list, api_router, insist
from judge.api.auth import Guard
from judge.api.errors import RefusedError, refuse
from judge.api.parts import Parts
from judge.enrolment import RunnerRecord, bound, fault_of_claim
from judge.records import Identity
from judge.wire import (
    BeatBody,
    HelloBody,
    QuarantineBody,
    ReinstateBody,
    RingsBody,
    RunnerBody,
    StandingBody,
)

log = logging.getLogger(__name__)

MAX_RING_WAIT_S = 20.0


def router(parts: Parts, guard: Guard) -> APIRouter:
    routes = api_router("runners")
    store, clock, roll = parts.store, parts.clock, parts.roll

    @routes.get("/runners", response_model=list[RunnerBody])
    def runners() -> Response:
        """Every runner with a valid token, by device and name."""
        return answer_list(roll.bodies(), RunnerBody)

    @routes.post("/runner/hello", response_model=StandingBody)
    def hello(body: HelloBody, runner: Identity = Depends(guard.runner)) -> Response:
        """Enrol under a name, which the token is bound to from then on; or say anew what one is."""
        now = clock()
        before = store.runner(runner.token_id)
        assert runner.device is not None
        record = insist(store.greet(runner.token_id, runner.device, body.to_model(now), now))
        roll.heard(record, now)
        if before is None:
            log.info(
                "runner enrolled runner=%s device=%s isolation=%s",
                *(record.name, record.device, body.isolation),
            )
        elif before.state is not record.state:
            log.warning("runner state=%s runner=%s why=%r", record.state, record.name, record.why)
        return answer(roll.standing(record, now))

    @routes.post("/runner/beat", response_model=StandingBody)
    def beat(body: BeatBody, runner: Identity = Depends(guard.runner)) -> Response:
        """Say that one lives, and hear how one stands."""
        now = clock()
        record = _own(runner, body.runner)
        roll.heard(record, now)
        return answer(roll.standing(record, now))

    @routes.get("/runner/ring", response_model=RingsBody)
    async def ring(
        name: str = Query(alias="runner", min_length=1, max_length=64),
        wait: float = Query(MAX_RING_WAIT_S, ge=0, le=MAX_RING_WAIT_S),
        runner: Identity = Depends(guard.runner),
    ) -> Response:
        """Ids of jobs that are ready for this runner, once there is one, or none after `wait` s."""
        record = await run_in_threadpool(_fit, runner, name, clock())
        ready = await parts.bell.wait(record.device, record.may_rank, wait, record.name)
        return answer(RingsBody(jobs=ready))

    @routes.post("/admin/quarantine", response_model=RunnerBody)
    def quarantine(
        body: QuarantineBody, organizer: Identity = Depends(guard.organizer)
    ) -> Response:
        """Give a runner no more jobs, until it is reinstated; what it judges now it may end."""
        record = insist(store.quarantine(body.runner, body.why, organizer.token_id, clock()))
        log.warning("runner quarantined runner=%s by=%s", record.name, organizer.token_id)
        return answer(roll.body(record))

    @routes.post("/admin/reinstate", response_model=RunnerBody)
    def reinstate(body: ReinstateBody, organizer: Identity = Depends(guard.organizer)) -> Response:
        """Give a runner jobs again."""
        record = insist(store.reinstate(body.runner, organizer.token_id, clock()))
        log.info("runner reinstated runner=%s by=%s", record.name, organizer.token_id)
        return answer(roll.body(record))

    def _fit(runner: Identity, name: str, now: datetime) -> RunnerRecord:
        record = _own(runner, name)
        roll.heard(record, now)
        fault = fault_of_claim(record, name)
        if fault is not None:
            raise RefusedError(fault)
        return record

    def _own(runner: Identity, name: str) -> RunnerRecord:
        record = store.runner(runner.token_id)
        if record is None:
            raise refuse("runner_unknown", "Say hello first: this token has no runner yet.", 409)
        if record.name != name:
            raise RefusedError(bound(record, name))
        return record

    return routes
