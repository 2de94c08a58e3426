"""How bodies become responses: serialized once, by pydantic, without a second validation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from judge.address import API
from judge.api.errors import RefusedError
from judge.model import Refusal
from judge.wire import Body, ErrorBody

T = TypeVar("T")
B = TypeVar("B", bound=Body)

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "What was wrong with the request, and what to do."},
    "5XX": {"model": ErrorBody, "description": "The judge's fault; trying again is safe."},
}
"""The errors of every route, for the OpenAPI document."""


def api_router(tag: str, prefix: str = "", route_class: type[APIRoute] = APIRoute) -> APIRouter:
    """A router whose routes carry their whole address, so that the application can hold them itself."""
    return APIRouter(prefix=API + prefix, tags=[tag], responses=ERRORS, route_class=route_class)


def answer(body: Body, status: int = 200) -> Response:
    """A body as JSON."""
    return Response(body.model_dump_json(), status_code=status, media_type="application/json")


def answer_list(bodies: Sequence[B], kind: type[B]) -> Response:
    """A list of bodies as JSON."""
    return Response(_lists(kind).dump_json(list(bodies)), media_type="application/json")


@cache
def _lists(kind: type[B]) -> TypeAdapter[list[B]]:
    return TypeAdapter(list[kind])  # type: ignore[valid-type]


def insist(found: T | Refusal) -> T:
    """What was asked for; a Refusal leaves the route as its error."""
    if isinstance(found, Refusal):
        raise RefusedError(found)
    return found
