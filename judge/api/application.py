"""The FastAPI application of the API, with its limits, headers and errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from judge.address import API
from judge.api import admin, boards, metrics, people, problems, runner, runners, submissions
from judge.api.auth import Guard
from judge.api.errors import add_error_handlers
from judge.api.headers import SecurityHeaders
from judge.api.limits import MAX_BODY_BYTES, BodyLimits
from judge.api.parts import Parts
from judge.archive import MAX_BYTES, MAX_FILES

MAX_SUBMISSION_BYTES = MAX_BYTES + 512 * MAX_FILES + MAX_BODY_BYTES
"""The files of a submission, and what multipart puts around them."""

MAX_OUTCOME_BYTES = 16 * 1024 * 1024

# Routes are tried in this order: what is asked most comes first.
ROUTERS: tuple[Callable[[Parts, Guard], APIRouter], ...] = (
    submissions.router,
    runner.router,
    runners.router,
    people.router,
    problems.router,
    boards.router,
    admin.router,
)

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


class Application(FastAPI):
    """FastAPI, wrapped so that even its answer to a bug has our headers and is counted."""

    def __init__(self, parts: Parts, **settings: Any) -> None:
        super().__init__(**settings)
        self.parts = parts

    def build_middleware_stack(self) -> ASGIApp:
        limited = BodyLimits(super().build_middleware_stack(), limit_of)
        return metrics.RequestTimes(SecurityHeaders(limited), self.parts.metrics)


def limit_of(path: str) -> int:
    """The most bytes a body may have, by the address it is sent to."""
    if path == f"{API}/submissions":
        return MAX_SUBMISSION_BYTES
    if path.startswith(f"{API}/runner/"):
        return MAX_OUTCOME_BYTES
    return MAX_BODY_BYTES


def build(parts: Parts, lifespan: Lifespan) -> Application:
    """The application with every route under `/api/v1`, and `/metrics`."""
    app = Application(
        parts,
        title="Kernel Judge",
        version=version("kernel-judge"),
        lifespan=lifespan,
        openapi_url=f"{API}/openapi.json",
        # The framework's documentation pages load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    guard = Guard(parts.store)
    of_metrics = metrics.router(
        lambda: parts.metrics.render(parts.store.unfinished(), parts.depths, parts.changes.waiters)
    )
    for routes in (*(router(parts, guard) for router in ROUTERS), of_metrics):
        # Held directly: an included router would look for its route once more in each request.
        app.router.routes.extend(routes.routes)
    add_error_handlers(app)
    return app
