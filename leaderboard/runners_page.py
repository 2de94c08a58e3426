"""The page of runners: who judges, how they stand, and what they run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from judge.wire import RunnerBody
from leaderboard.pages import Pages, PageSource


def router(source: PageSource, runners: Callable[[], Sequence[RunnerBody]]) -> APIRouter:
    """The route `/runners`. runners: by device and name."""
    pages = Pages(source)
    routes = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

    @routes.get("/runners")
    def page(request: Request) -> Response:
        return pages.render(request, "runners.html", runners=runners())

    return routes
