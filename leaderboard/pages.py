"""The pages: what people see in a browser. Readable without JavaScript, no external host.

Pages show wire bodies and decide nothing: what a viewer may know was settled by `PageSource`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from itertools import groupby
from typing import Any, Final, Protocol

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.exceptions import HTTPException

from judge import text
from judge.address import API
from judge.comparing import CONFIDENCE
from judge.model import Refusal, Role
from judge.records import Identity
from judge.wire import (
    MAX_LOG_CHARS,
    BoardBody,
    BoardRefBody,
    Body,
    ContestBody,
    ErrorBody,
    ProblemBody,
    RankedBoardBody,
    SubmissionBody,
)
from leaderboard.plots import HEIGHT, WIDTH, speedup_axis, strip
from leaderboard.ranked_shown import blocks_of, lead_of

COOKIE: Final = "judge_token"
LONGEST_NUMBER: Final = 19
STATIC: Final = str(files("leaderboard") / "static")
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}
Handler = Callable[[Request, Exception], Response | Awaitable[Response]]


class PageSource(Protocol):
    """What the pages ask of the server. A Refusal becomes an error page with its status."""

    def identify(self, token: str) -> Identity | None: ...

    def contest(self) -> ContestBody: ...

    def boards(self) -> list[BoardRefBody]: ...

    def board(self, problem: str, device: str) -> BoardBody | Refusal: ...

    def ranked_board(self, problem: str, device: str) -> RankedBoardBody | Refusal: ...

    def problem(self, problem: str) -> ProblemBody | Refusal: ...

    def statement(self, problem: str) -> str: ...

    def submission(self, submission_id: int, viewer: Identity) -> SubmissionBody | Refusal: ...

    def history(self, viewer: Identity) -> list[SubmissionBody]: ...


def _environment() -> Environment:
    env = Environment(
        loader=PackageLoader("leaderboard"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["us"] = text.microseconds
    env.filters["speedup"] = text.speedup
    env.filters["error"] = text.error_size
    env.filters["moment"] = text.moment
    env.filters["plain"] = text.plain
    env.globals.update(
        max_log_chars=MAX_LOG_CHARS,
        confidence=f"{100 * CONFIDENCE:g}",
        strip=strip,
        strip_width=WIDTH,
        strip_height=HEIGHT,
    )
    return env


def _local_path(target: str) -> str:
    """The target if it is a path on this server, else the front page: no open redirect."""
    safe = target.startswith("/") and not target.startswith(("//", "/\\"))
    return target if safe and target.isprintable() else "/"


def _same_origin(request: Request) -> bool:
    """Whether a form was sent by one of our own pages (browsers send Origin with every POST)."""
    origin = request.headers.get("origin")
    return origin is None or origin.split("://")[-1] == request.headers.get("host", "")


class Pages:
    """Renders each page from a `PageSource`."""

    def __init__(self, source: PageSource) -> None:
        self._source = source
        self._env = _environment()
        # Raw HTML in a statement is shown as text; links and tables are all an organizer needs.
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable("table")

    def viewer(self, request: Request) -> Identity | None:
        token = request.cookies.get(COOKIE)
        return self._source.identify(token) if token else None

    def render(self, request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        page = self._env.get_template(name).render(
            contest=self._source.contest(), viewer=self.viewer(request), **values
        )
        return HTMLResponse(page, status_code=status, headers=dict(PAGE_HEADERS))

    def refuse(self, request: Request, refusal: Refusal) -> HTMLResponse:
        return self.render(request, "error.html", status=refusal.status, refusal=refusal)

    def missing(self, request: Request) -> HTMLResponse:
        detail = "There is nothing at this address. It may be misspelt, or gone."
        return self.refuse(request, Refusal("not_found", detail, 404))

    def home(self, request: Request) -> HTMLResponse:
        server = str(request.base_url).rstrip("/")
        return self.render(request, "home.html", boards=self._source.boards(), server=server)

    def board(self, request: Request, problem: str, device: str) -> HTMLResponse:
        board = self._source.board(problem, device)
        if isinstance(board, Refusal):
            return self.refuse(request, board)
        ranked = self._source.ranked_board(problem, device)
        if isinstance(ranked, Refusal):
            return self.refuse(request, ranked)
        bands = [list(band) for _, band in groupby(ranked.entries, lambda entry: entry.band)]
        shown = [entry.claim for entry in ranked.entries if entry.claim]
        axis = speedup_axis([(claim.low, claim.high) for claim in shown])
        return self.render(
            request,
            "board.html",
            board=board,
            ranked=ranked,
            bands=bands,
            axis=axis,
            lead=lead_of(bands),
        )

    def problem(self, request: Request, problem: str) -> HTMLResponse:
        body = self._source.problem(problem)
        if isinstance(body, Refusal):
            return self.refuse(request, body)
        statement = Markup(self._markdown.render(self._source.statement(problem)))
        return self.render(request, "problem.html", problem=body, statement=statement)

    def submission(self, request: Request, number: str) -> HTMLResponse:
        if not number.isascii() or not number.isdecimal() or len(number) > LONGEST_NUMBER:
            return self.missing(request)
        viewer = self.viewer(request)
        if viewer is None:
            return self.sign_in(request, request.url.path)
        body = self._source.submission(int(number), viewer)
        if isinstance(body, Refusal):
            return self.refuse(request, body)
        blocks = [blocks_of(run) for run in body.ranked.runs] if body.ranked else []
        return self.render(request, "submission.html", s=body, blocks=blocks)

    def history(self, request: Request) -> HTMLResponse:
        viewer = self.viewer(request)
        if viewer is None:
            return self.sign_in(request, request.url.path)
        return self.render(
            request,
            "history.html",
            submissions=self._source.history(viewer),
            everybody=viewer.role is Role.ORGANIZER,
        )

    def sign_in(self, request: Request, target: str, wrong: bool = False) -> HTMLResponse:
        return self.render(
            request, "sign_in.html", status=401, target=_local_path(target), wrong=wrong
        )

    def take_token(self, request: Request, token: str, target: str) -> Response:
        if not _same_origin(request):
            return self.refuse(
                request,
                Refusal("foreign_form", "This form was sent from another site. Sign in here.", 403),
            )
        if self._source.identify(token.strip()) is None:
            return self.sign_in(request, target, wrong=True)
        answer = RedirectResponse(_local_path(target), status_code=303)
        answer.set_cookie(
            COOKIE,
            token.strip(),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            max_age=7 * 24 * 3600,
        )
        return answer


def router(source: PageSource) -> APIRouter:
    """All pages as routes; `static_files` are what they link to."""
    pages = Pages(source)
    routes = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

    @routes.get("/")
    def home(request: Request) -> Response:
        return pages.home(request)

    @routes.get("/boards/{problem}/{device}.ranked.json")
    def ranked_json(problem: str, device: str) -> Response:
        return _answer(source.ranked_board(problem, device))

    @routes.get("/boards/{problem}/{device}.json")
    def board_json(problem: str, device: str) -> Response:
        return _answer(source.board(problem, device))

    @routes.get("/boards/{problem}/{device}")
    def board(request: Request, problem: str, device: str) -> Response:
        return pages.board(request, problem, device)

    @routes.get("/problems/{problem}")
    def problem(request: Request, problem: str) -> Response:
        return pages.problem(request, problem)

    @routes.get("/submissions")
    def history(request: Request) -> Response:
        return pages.history(request)

    @routes.get("/submissions/{number}")
    def submission(request: Request, number: str) -> Response:
        return pages.submission(request, number)

    @routes.get("/sign-in")
    def sign_in(request: Request, target: str = "/submissions") -> Response:
        return pages.sign_in(request, target)

    @routes.post("/sign-in")
    def take_token(request: Request, token: str = Form(""), target: str = Form("/")) -> Response:
        return pages.take_token(request, token, target)

    @routes.post("/sign-out")
    def sign_out(request: Request) -> Response:
        answer = RedirectResponse("/", status_code=303)
        if _same_origin(request):
            answer.delete_cookie(COOKIE)
        return answer

    return routes


def error_pages(source: PageSource, answer_of_api: Handler) -> Handler:
    """What answers an HTTPException: a page for people, the API's own answer below its address."""
    pages = Pages(source)

    def answer(request: Request, error: Exception) -> Response | Awaitable[Response]:
        assert isinstance(error, HTTPException)
        if request.url.path.startswith(f"{API}/"):
            return answer_of_api(request, error)
        if error.status_code == 404:
            return pages.missing(request)
        return pages.refuse(request, Refusal("http", error.detail, error.status_code))

    return answer


def _answer(found: Body | Refusal) -> Response:
    """A body as the API would give it, or the API's error."""
    if isinstance(found, Refusal):
        body: Body = ErrorBody(detail=found.detail, code=found.code)
        return Response(body.model_dump_json(), found.status, media_type="application/json")
    return Response(found.model_dump_json(), media_type="application/json")


def static_files() -> StaticFiles:
    """The style sheet and pictures; mount at `/static`."""
    return StaticFiles(directory=STATIC)
