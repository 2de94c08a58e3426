"""Routes for submissions: hand in, look, wait, fetch, cancel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from fastapi.routing import APIRoute
from sse_starlette import EventSourceResponse, ServerSentEvent

from judge.api.answers import answer, api_router, insist
from judge.api.auth import Guard, Id
from judge.api.errors import refuse
from judge.api.parts import Parts
from judge.api.upload import FORM_SCHEMA, read_form
from judge.model import JobState, Role
from judge.records import Identity
from judge.wire import MAX_LISTED, ReceiptBody, SubmissionBody, SubmissionListBody

log = logging.getLogger(__name__)

MAX_WAIT_S = 25.0
PLACE_MOVES_S = 2.0
"""How often a stream looks whether the place in the queue has moved: that is no change of its own."""


class DirectRoute(APIRoute):
    """Gives the request to its endpoint as it is: nothing of it is FastAPI's to take apart."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.endpoint


def router(parts: Parts, guard: Guard) -> APIRouter:
    routes = api_router("submissions", "/submissions")
    store, views, changes = parts.store, parts.views, parts.changes

    async def submit(request: Request) -> Response:
        """Hand in files. The signed receipt comes once they are on disk, before any work starts."""
        author = guard.demand(request, (Role.CONTESTANT,))
        form = await read_form(request)
        handed = form.handed_in(parts.clock())
        # No thread waits for the disk: with many that do, handing them the interpreter costs more
        # than the work.
        storing = insist(parts.intake.start(handed, author))
        record, receipt = insist(parts.intake.confirm(await asyncio.wrap_future(storing)))
        parts.metrics.submissions.inc()
        log.info(
            "submission taken submission=%s job=J%s team=%s problem=%s device=%s mode=%s bytes=%s",
            *(record.submission.id, record.job_id, receipt.team_id, receipt.problem),
            *(receipt.device, receipt.mode.value, form.size_bytes),
        )
        return answer(receipt, 202)

    routes.add_api_route(
        "",
        submit,
        methods=["POST"],
        response_model=ReceiptBody,
        status_code=202,
        openapi_extra=FORM_SCHEMA,
        dependencies=[Depends(guard.contestant)],  # for the document; `submit` asks by itself
        route_class_override=DirectRoute,
    )

    @routes.get("", response_model=SubmissionListBody)
    def history(
        problem: str | None = Query(None, max_length=64),
        before: int | None = Query(None, ge=1, le=2**63 - 1),
        limit: int = Query(20, ge=1, le=MAX_LISTED),
        everybody: bool = Query(False, alias="all"),
        viewer: Identity = Depends(guard.anyone),
    ) -> Response:
        """The own team's submissions, newest first; `all` is for organizers."""
        return answer(insist(views.page(viewer, problem, before, limit, everybody)))

    @routes.get("/{submission_id}", response_model=SubmissionBody)
    def submission(submission_id: Id, viewer: Identity = Depends(guard.anyone)) -> Response:
        """Everything the viewer may know of one submission."""
        return answer(insist(views.submission(submission_id, viewer)))

    @routes.get("/{submission_id}/wait", response_model=SubmissionBody)
    async def wait(
        submission_id: Id,
        version: int = Query(-1, ge=-1, le=2**63 - 1),
        timeout: float = Query(MAX_WAIT_S, ge=0, le=MAX_WAIT_S),
        viewer: Identity = Depends(guard.anyone),
    ) -> Response:
        """The submission once its version exceeds `version`, or as it stands after `timeout` s."""
        _room_to_wait()
        with changes.watch(submission_id) as watch:
            left_s = timeout
            while True:
                watch.forget()
                body = insist(await run_in_threadpool(views.submission, submission_id, viewer))
                over = watch.closing or left_s <= 0 or body.state.is_final
                if over or body.version > version:
                    return answer(body)
                left_s = await watch.wait(left_s)

    @routes.get("/{submission_id}/events", response_class=EventSourceResponse)
    async def events(
        submission_id: Id, viewer: Identity = Depends(guard.anyone)
    ) -> EventSourceResponse:
        """A stream of the submission as it stands and at every change, until it is final.

        Event `submission`, data a SubmissionBody, id its version.
        """
        _room_to_wait()
        insist(await run_in_threadpool(views.record, submission_id, viewer))
        return EventSourceResponse(_told(submission_id, viewer), sep="\n")

    @routes.get("/{submission_id}/files/{name:path}", response_class=Response)
    def source(submission_id: Id, name: str, viewer: Identity = Depends(guard.anyone)) -> Response:
        """One file of a submission, byte-exact."""
        content = insist(views.source(submission_id, name, viewer))
        return Response(content, media_type="application/octet-stream")

    @routes.get("/{submission_id}/log", response_class=Response)
    def whole_log(submission_id: Id, viewer: Identity = Depends(guard.anyone)) -> Response:
        """The whole kept log: what the build and the kernel printed, and traces."""
        text = insist(views.log(submission_id, viewer))
        return Response(text.encode("utf-8", "replace"), media_type="text/plain; charset=utf-8")

    @routes.post("/{submission_id}/cancel", response_model=SubmissionBody)
    def cancel(submission_id: Id, viewer: Identity = Depends(guard.anyone)) -> Response:
        """End a queued or running job. It is free until a box has loaded the file.

        Only organizers end one that is being confirmed: a first run that its author does not like
        would leave no trace otherwise.
        """
        insist(views.record(submission_id, viewer))
        organizer = viewer.role is Role.ORGANIZER
        record = insist(store.cancel(submission_id, parts.clock(), even_confirming=organizer))
        log.info("job cancelled job=J%s by=%s", record.job_id, viewer.token_id)
        return answer(views.body(record, viewer))

    def _room_to_wait() -> None:
        if changes.full:
            raise refuse(
                "too_many_streams",
                "Too many are waiting for news right now. Ask again in a few seconds, "
                "or fetch the submission without waiting.",
                503,
            )

    async def _told(submission_id: int, viewer: Identity) -> AsyncIterator[ServerSentEvent]:
        with changes.watch(submission_id) as watch:
            told = ""
            while not watch.closing:
                watch.forget()
                body = insist(await run_in_threadpool(views.submission, submission_id, viewer))
                text = body.model_copy(update={"eta_s": None}).model_dump_json()
                if text != told:
                    told = text
                    yield ServerSentEvent(
                        body.model_dump_json(), event="submission", id=str(body.version)
                    )
                if body.state.is_final:
                    return
                queued = body.state is JobState.QUEUED
                await watch.wait(PLACE_MOVES_S if queued else MAX_WAIT_S)

    return routes
