"""One shape for every error of the API, the framework's own among them: `{"detail", "code"}`."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from judge.model import Refusal
from judge.ports import StoreError
from judge.wire import ErrorBody

log = logging.getLogger(__name__)

RETRY_AFTER_S: Final = 2

CODES: Final[Mapping[int, str]] = {
    400: "bad_request",
    408: "body_too_slow",
    413: "body_too_large",
    415: "media_type_unknown",
}
"""Stable words for what the framework refuses by status alone."""


FRAMEWORKS_UNREADABLE: Final = "There was an error parsing the body"
UNREADABLE: Final = "The body cannot be read as JSON. Send one JSON object with the route's fields."


class RefusedError(Exception):
    """Carries a Refusal out of a route: the author's fault, told as a value of the answer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


def refuse(code: str, detail: str, status: int = 400) -> RefusedError:
    """A refusal to raise from a route."""
    return RefusedError(Refusal(code, detail, status))


def error_response(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that says why, with the headers its status calls for."""
    extra = dict(headers or {})
    if refusal.status == 401:
        extra.setdefault("WWW-Authenticate", "Bearer")
    if refusal.status == 503:
        extra.setdefault("Retry-After", str(RETRY_AFTER_S))
    return Response(
        ErrorBody(detail=refusal.detail, code=refusal.code).model_dump_json(),
        status_code=refusal.status,
        headers=extra,
        media_type="application/json",
    )


def add_error_handlers(app: FastAPI) -> None:
    """Turn every exception that may leave a route into the one shape."""
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(StoreError, _store_failed)
    app.add_exception_handler(Exception, _ours)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return error_response(error.refusal)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_response(Refusal("invalid_request", sentence_of(error.errors()), 422))


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    known = {
        404: Refusal(
            "not_found",
            f"There is nothing at {path[:200]}. All routes are listed in /api/v1/openapi.json.",
            404,
        ),
        405: Refusal(
            "method_not_allowed",
            f"{path[:200]} does not take {request.method}"
            f"{_allowed(error)}. All routes are listed in /api/v1/openapi.json.",
            405,
        ),
    }
    code = CODES.get(error.status_code, f"http_{error.status_code}")
    detail = UNREADABLE if str(error.detail) == FRAMEWORKS_UNREADABLE else str(error.detail)
    plain = Refusal(code, detail, error.status_code)
    return error_response(known.get(error.status_code, plain), error.headers)


def _allowed(error: HTTPException) -> str:
    methods = (error.headers or {}).get("Allow", "")
    return f"; it takes {methods}" if methods else ""


def _store_failed(request: Request, error: Exception) -> Response:
    log.error("store failed method=%s path=%s error=%s", request.method, request.url.path, error)
    return error_response(
        Refusal("store_unavailable", "The judge's database did not answer. Try again shortly.", 503)
    )


def _ours(request: Request, error: Exception) -> Response:
    # Starlette raises the exception again after this answer, so the trace is logged by the server.
    return error_response(
        Refusal(
            "internal_error",
            "The judge failed on this request; that is our fault, and it has been logged. "
            "Try again, and tell an organizer if it happens twice.",
            500,
        )
    )


def sentence_of(errors: Sequence[Any]) -> str:
    """One sentence for what a body or parameter lacks: the first fault, and how many more."""
    first = errors[0]
    source, *path = first["loc"]
    field = ".".join(str(part) for part in path)
    where = {
        "body": "the JSON body",
        "query": "the query",
        "path": "the address",
        "header": "the headers",
    }.get(str(source), str(source))
    more = f" ({len(errors) - 1} more like it.)" if len(errors) > 1 else ""
    if first["type"] == "json_invalid":
        reason = first.get("ctx", {}).get("error", first["msg"])
        return f"The body is not valid JSON: {reason}. Send one JSON object."
    if not field:
        return f"In {where}: {_reason(first)}.{more} Send a JSON object with the route's fields."
    return f'In {where}, "{field}": {_reason(first)}.{more}'


def _reason(fault: Mapping[str, Any]) -> str:
    kind = fault["type"]
    if kind == "missing":
        return "it is missing; add it"
    if kind == "extra_forbidden":
        return "there is no such field; leave it out"
    if kind == "model_attributes_type":
        return "it is not a JSON object"
    told = str(fault["msg"])
    return told[:1].lower() + told[1:]
