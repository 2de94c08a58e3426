"""Routes for boards and for the key that signs receipts."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from judge.api.answers import answer, answer_list, api_router, insist
from judge.api.auth import Guard
from judge.api.parts import Parts
from judge.model import Mode
from judge.records import Identity
from judge.wire import BoardBody, BoardRefBody, RankedBoardBody, ReceiptKeyBody


def router(parts: Parts, guard: Guard) -> APIRouter:
    routes = api_router("boards")
    views = parts.views

    @routes.get("/boards", response_model=list[BoardRefBody])
    def boards() -> Response:
        """Every board there is."""
        return answer_list(views.boards(), BoardRefBody)

    @routes.get("/boards/{problem}/{device}", response_model=BoardBody | RankedBoardBody)
    def board(
        problem: str,
        device: str,
        mode: Mode = Mode.BENCHMARK,
        viewer: Identity | None = Depends(guard.maybe),
    ) -> Response:
        """A ranked board, or a practice table; as it stood at the freeze while that lasts."""
        return answer(insist(views.board_of_mode(problem, device, mode, viewer)))

    @routes.get("/receipt-key", response_model=ReceiptKeyBody)
    def receipt_key() -> Response:
        """The public key that verifies receipts."""
        key = parts.intake.key
        return answer(ReceiptKeyBody(key_id=key.key_id, public_key_pem=key.public_pem))

    return routes
