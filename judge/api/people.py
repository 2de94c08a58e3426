"""Routes for taking part and for tokens."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from judge.api.answers import answer, answer_list, api_router
from judge.api.auth import Guard, Id
from judge.api.errors import RefusedError, refuse
from judge.api.parts import Parts
from judge.model import Refusal, Role
from judge.records import Identity, TokenRecord
from judge.rules import fault_of_new_token
from judge.tokens import invite_hash, new_token, token_hash
from judge.wire import AckBody, NewTokenBody, RegisterBody, TokenBody, TokenInfoBody, WhoamiBody

log = logging.getLogger(__name__)


def router(parts: Parts, guard: Guard) -> APIRouter:
    routes = api_router("people")
    store, clock, contest = parts.store, parts.clock, parts.opened.contest

    @routes.get("/health", response_model=AckBody)
    def health() -> Response:
        """Whether the server works, and what hinders judging."""
        trouble = parts.trouble()
        return answer(AckBody(ok=trouble is None, detail=trouble or ""))

    @routes.post("/register", response_model=TokenBody, status_code=201)
    def register(body: RegisterBody) -> Response:
        """Take part: a name and, unless registration is open, an invite code give a token."""
        if body.invite is None and not contest.open_registration:
            detail = "This contest takes part by invitation: send the invite code you were given."
            raise refuse("invite_needed", detail, 403)
        token = new_token()
        identity = store.register(
            body.name,
            None if body.invite is None else invite_hash(body.invite),
            token_hash(token),
            clock(),
            contest.team_size,
        )
        if isinstance(identity, Refusal):
            raise RefusedError(identity)
        log.info("user registered user=%s team=%s", identity.user_id, identity.team_id)
        shown = TokenBody(
            token=token, token_id=identity.token_id, role=identity.role, label=identity.label
        )
        return answer(shown, 201)

    @routes.get("/whoami", response_model=WhoamiBody)
    async def whoami(viewer: Identity = Depends(guard.anyone)) -> Response:
        """Who the token belongs to."""
        return answer(
            WhoamiBody(
                role=viewer.role,
                user_id=viewer.user_id,
                name=viewer.user or viewer.label,
                team_id=viewer.team_id,
                team=viewer.team or None,
            )
        )

    @routes.get("/tokens", response_model=list[TokenInfoBody])
    def tokens(viewer: Identity = Depends(guard.anyone)) -> Response:
        """One's own tokens; all tokens for an organizer."""
        return answer_list([_info(token) for token in _tokens_of(viewer)], TokenInfoBody)

    @routes.post("/tokens", response_model=TokenBody, status_code=201)
    def add_token(
        body: NewTokenBody,
        viewer: Identity = Depends(guard.person),
    ) -> Response:
        """Make a token: contestants for themselves, organizers for organizers and runners."""
        valid = sum(token.revoked_at is None for token in _tokens_of(viewer))
        refusal = fault_of_new_token(viewer.role, valid, body.role, body.device, contest.devices)
        if refusal is not None:
            raise RefusedError(refusal)
        token = new_token()
        user_id = viewer.user_id if body.role is viewer.role else None
        made = store.add_token(
            token_hash(token), body.role, body.label, clock(), user_id, body.device
        )
        log.info("token made token=%s role=%s by=%s", made.id, made.role, viewer.token_id)
        shown = TokenBody(token=token, token_id=made.id, role=made.role, label=made.label)
        return answer(shown, 201)

    @routes.delete("/tokens/{token_id}", response_model=AckBody)
    def revoke_token(token_id: Id, viewer: Identity = Depends(guard.anyone)) -> Response:
        """Revoke one of one's own tokens, or any as an organizer; it stops working at once."""
        known = {token.id: token for token in _tokens_of(viewer)}
        if token_id not in known:
            raise refuse("token_unknown_id", f"You have no token {token_id}.", 404)
        if not store.revoke_token(token_id, clock()):
            return answer(AckBody(detail=f"Token {token_id} was revoked already."))
        log.info("token revoked token=%s by=%s", token_id, viewer.token_id)
        return answer(AckBody(detail=f"Token {token_id} is revoked."))

    def _tokens_of(viewer: Identity) -> tuple[TokenRecord, ...]:
        if viewer.role is Role.ORGANIZER:
            return store.tokens(None)
        if viewer.user_id is None:
            return tuple(t for t in store.tokens(None) if t.id == viewer.token_id)
        return store.tokens(viewer.user_id)

    return routes


def _info(token: TokenRecord) -> TokenInfoBody:
    return TokenInfoBody(
        token_id=token.id,
        role=token.role,
        label=token.label,
        created_at=token.created_at,
        last_used_at=token.last_used_at,
        revoked=token.revoked_at is not None,
    )
