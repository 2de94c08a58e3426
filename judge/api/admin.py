"""Routes for organizers."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from judge.api.answers import answer, answer_list, api_router, insist
from judge.api.auth import Guard, Id
from judge.api.errors import RefusedError
from judge.api.parts import Parts
from judge.records import Identity, JobRecord
from judge.release import release as release_held
from judge.rules import fault_of_invites
from judge.tokens import invite_hash, new_invite
from judge.wire import (
    AckBody,
    BackupBody,
    EventBody,
    HoldBody,
    IntakeBody,
    InviteCodesBody,
    InvitesBody,
    NewAnnouncementBody,
    SubmissionBody,
)

log = logging.getLogger(__name__)


def router(parts: Parts, guard: Guard) -> APIRouter:
    routes = api_router("organizers", "/admin")
    store, clock, notices = parts.store, parts.clock, parts.notices

    @routes.post("/intake", response_model=AckBody)
    def intake(body: IntakeBody, organizer: Identity = Depends(guard.organizer)) -> Response:
        """Open or pause intake; the reason is shown to everybody."""
        notices.set_intake(body.open, body.reason, clock(), organizer)
        log.info("intake set open=%s by=%s", body.open, organizer.token_id)
        return answer(AckBody(detail="Intake is open." if body.open else "Intake is paused."))

    @routes.post("/announcements", response_model=AckBody, status_code=201)
    def announce(
        body: NewAnnouncementBody, organizer: Identity = Depends(guard.organizer)
    ) -> Response:
        """Tell everybody something."""
        notices.announce(body.text, clock(), organizer)
        log.info("announcement made by=%s", organizer.token_id)
        return answer(AckBody(detail="The announcement is published."), 201)

    @routes.post("/invites", response_model=InviteCodesBody, status_code=201)
    def invites(body: InvitesBody, organizer: Identity = Depends(guard.organizer)) -> Response:
        """Make invite codes, each good for one person; all for one team where it is named."""
        refusal = fault_of_invites(body.count, body.team, parts.opened.contest.team_size)
        if refusal is not None:
            raise RefusedError(refusal)
        codes = [new_invite() for _ in range(body.count)]
        store.add_invites([invite_hash(code) for code in codes], body.team, clock())
        log.info("invites made count=%s by=%s", body.count, organizer.token_id)
        return answer(InviteCodesBody(codes=codes), 201)

    @routes.post("/submissions/{submission_id}/hold", response_model=SubmissionBody)
    def hold(
        submission_id: Id, body: HoldBody, organizer: Identity = Depends(guard.organizer)
    ) -> Response:
        """Hold a judged submission back from its board, for a reason its author is shown."""
        moderated = store.moderate(submission_id, body.reason, organizer.token_id, clock())
        return _moderated(insist(moderated), organizer)

    @routes.post("/submissions/{submission_id}/release", response_model=SubmissionBody)
    def release(submission_id: Id, organizer: Identity = Depends(guard.organizer)) -> Response:
        """Let a held submission go back to its board, or first to the run that confirms it."""
        released = release_held(store, parts.views, submission_id, organizer.token_id, clock())
        return _moderated(insist(released), organizer)

    def _moderated(record: JobRecord, organizer: Identity) -> Response:
        log.info(
            "entry moderated submission=%s held=%s state=%s by=%s",
            *(record.submission.id, record.held, record.state.value, organizer.token_id),
        )
        return answer(parts.views.body(record, organizer))

    @routes.post("/backup", response_model=BackupBody, status_code=201)
    def backup(organizer: Identity = Depends(guard.organizer)) -> Response:
        """Write a consistent copy of the database on the server, while it runs."""
        now = clock()
        parts.backups_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = parts.backups_dir / f"judge-{now:%Y%m%dT%H%M%S.%fZ}"
        size = store.backup(str(path))
        log.info("backup written path=%s bytes=%s by=%s", path, size, organizer.token_id)
        return answer(BackupBody(path=str(path), size_bytes=size), 201)

    @routes.get("/events", response_model=list[EventBody])
    def events(
        after: int = Query(0, ge=0, le=2**63 - 1),
        limit: int = Query(100, ge=1, le=1_000),
        organizer: Identity = Depends(guard.organizer),
    ) -> Response:
        """The history in order, from behind the event of number `after`."""
        found = [
            EventBody(
                seq=event.seq,
                at=event.at,
                kind=event.kind,
                subject=dict(event.subject),
                body=dict(event.body),
            )
            for event in store.events(None, after, limit)
        ]
        return answer_list(found, EventBody)

    return routes
