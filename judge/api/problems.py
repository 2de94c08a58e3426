"""Routes for the contest and its problems: what everybody may read."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from judge.api.answers import answer, answer_list, api_router, insist
from judge.api.auth import Guard
from judge.api.parts import Parts
from judge.records import Identity
from judge.wire import ContestBody, ProblemBody


def router(parts: Parts, guard: Guard) -> APIRouter:
    routes = api_router("contest")
    views = parts.views

    @routes.get("/contest", response_model=ContestBody)
    def contest() -> Response:
        """The contest: times, problems, devices, quotas, announcements, and whether intake is open."""
        return answer(views.contest())

    @routes.get("/problems", response_model=list[ProblemBody])
    def problems(viewer: Identity | None = Depends(guard.maybe)) -> Response:
        """The problems with their public cases; none before the contest opens."""
        return answer_list(views.problems(viewer), ProblemBody)

    @routes.get("/problems/{problem}", response_model=ProblemBody)
    def problem(problem: str, viewer: Identity | None = Depends(guard.maybe)) -> Response:
        """One problem with its public cases."""
        return answer(insist(views.problem(problem, viewer)))

    @routes.get("/problems/{problem}/files/{path:path}", response_class=Response)
    def problem_file(
        problem: str, path: str, viewer: Identity | None = Depends(guard.maybe)
    ) -> Response:
        """A public file of a problem, byte-exact."""
        content = insist(views.problem_file(problem, path, viewer))
        return Response(content, media_type="text/plain; charset=utf-8")

    return routes
