"""The HTTP client of the judge: every contestant and organizer verb as one typed call.

It decides nothing: it sends bodies, returns bodies, and waits through restarts and cut connections.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from judge.address import API, is_loopback, server_url
from judge.model import JobState, Mode, Role, SourceFile
from judge.wire import (
    AckBody,
    BackupBody,
    BoardBody,
    BoardRefBody,
    Body,
    ContestBody,
    ErrorBody,
    EventBody,
    HoldBody,
    IntakeBody,
    InviteCodesBody,
    InvitesBody,
    NewAnnouncementBody,
    NewTokenBody,
    ProblemBody,
    QuarantineBody,
    RankedBoardBody,
    ReceiptBody,
    ReceiptKeyBody,
    RegisterBody,
    ReinstateBody,
    RunnerBody,
    SubmissionBody,
    SubmissionListBody,
    TokenBody,
    TokenInfoBody,
    WhoamiBody,
)

CONNECT_S = 5.0
READ_S = 30.0
QUEUED_WAIT_S = 5.0  # a place in the queue moves without a new version: ask again this often
RUNNING_WAIT_S = 20.0  # the server holds a wait for at most 25 s
FIRST_BACKOFF_S = 0.2
LAST_BACKOFF_S = 5.0

BodyT = TypeVar("BodyT", bound=Body)


class ServerUnreachable(Exception):  # noqa: N818
    """No usable answer came: the network, or a judge that is down. The text says what to do."""


class ApiRefusal(Exception):  # noqa: N818
    """The judge answered with an error: a sentence, a stable word for programs, the HTTP status."""

    def __init__(self, detail: str, code: str, status: int) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Target:
    """What a submission is for. device and mode are words of the contest."""

    problem: str
    device: str
    mode: Mode


class JudgeClient:
    """One judge, spoken to with one token (or none, for what everybody may see).

    Methods raise ApiRefusal when the judge says no and ServerUnreachable when it says nothing.
    """

    def __init__(self, server: str, token: str | None = None) -> None:
        self.server = server_url(server)
        self.token = token
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.Client(
            base_url=self.server,
            headers=headers,
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            # A proxy from the environment would be asked for 127.0.0.1 of its own machine.
            trust_env=not is_loopback(self.server),
        )

    def __enter__(self) -> JudgeClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # --- people
    def health(self) -> AckBody:
        return self._get("/health", AckBody)

    def register(self, name: str, invite: str | None) -> TokenBody:
        """Take part under a name; the answer holds the only copy of the token."""
        return self._post("/register", RegisterBody(name=name, invite=invite), TokenBody)

    def whoami(self) -> WhoamiBody:
        return self._get("/whoami", WhoamiBody)

    def tokens(self) -> list[TokenInfoBody]:
        return self._get_list("/tokens", TokenInfoBody)

    def new_token(self, role: Role, label: str, device: str | None = None) -> TokenBody:
        return self._post("/tokens", NewTokenBody(role=role, label=label, device=device), TokenBody)

    def revoke_token(self, token_id: int) -> AckBody:
        return self._read(self._request("DELETE", f"/tokens/{token_id}"), AckBody)

    # --- contest and problems
    def contest(self) -> ContestBody:
        return self._get("/contest", ContestBody)

    def problems(self) -> list[ProblemBody]:
        return self._get_list("/problems", ProblemBody)

    def problem(self, problem_id: str) -> ProblemBody:
        return self._get(f"/problems/{quote(problem_id, safe='')}", ProblemBody)

    def problem_file(self, problem_id: str, path: str) -> bytes:
        """A public file of a problem, byte-exact."""
        where = f"/problems/{quote(problem_id, safe='')}/files/{quote(path)}"
        return self._request("GET", where).content

    # --- submissions
    def submit(self, target: Target, files: Sequence[SourceFile]) -> ReceiptBody:
        """Hand in files; the receipt comes before any work starts.

        It is never sent twice by itself: after a cut connection the judge may have taken it.
        """
        fields = {
            "problem": target.problem,
            "device": target.device,
            "mode": target.mode.value,
        }
        parts = [("files", (f.name, f.content, "application/octet-stream")) for f in files]
        try:
            response = self._request("POST", "/submissions", data=fields, files=parts)
        except ServerUnreachable as error:
            if isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                raise
            raise ServerUnreachable(
                f"{error} If it was received, judge history shows it."
            ) from error
        return self._read(response, ReceiptBody)

    def submission(self, submission_id: int) -> SubmissionBody:
        return self._get(f"/submissions/{submission_id}", SubmissionBody)

    def submissions(
        self,
        problem: str | None = None,
        before: int | None = None,
        limit: int = 20,
        everybody: bool = False,
    ) -> SubmissionListBody:
        """Newest first; `everybody` is for organizers."""
        query: dict[str, str | int] = {"limit": limit}
        if problem is not None:
            query["problem"] = problem
        if before is not None:
            query["before"] = before
        if everybody:
            query["all"] = "true"
        return self._get("/submissions", SubmissionListBody, query)

    def wait(self, submission_id: int, version: int, timeout_s: float) -> SubmissionBody:
        """The submission once its version exceeds `version`, or as it stands after the time."""
        response = self._request(
            "GET",
            f"/submissions/{submission_id}/wait",
            params={"version": version, "timeout": timeout_s},
            timeout=httpx.Timeout(timeout_s + READ_S, connect=CONNECT_S),
        )
        return self._read(response, SubmissionBody)

    def watch(
        self,
        submission_id: int,
        patience_s: float = 300.0,
        on_trouble: Callable[[str], None] = lambda reason: None,
    ) -> Iterator[SubmissionBody]:
        """Yield the submission as it stands and at every change, until it is final.

        Lost connections and server errors are waited out, with growing pauses, for at most
        `patience_s` seconds on end; then ServerUnreachable. The verdict is kept by the judge, so
        watching again later finds it.
        """
        version = -1
        timeout_s = QUEUED_WAIT_S
        backoff_s = FIRST_BACKOFF_S
        lost_since: float | None = None
        while True:
            asked = time.monotonic()
            try:
                body = self.wait(submission_id, version, timeout_s)
            except (ServerUnreachable, ApiRefusal) as trouble:
                if isinstance(trouble, ApiRefusal) and trouble.status < 500:
                    raise
                now = time.monotonic()
                lost_since = now if lost_since is None else lost_since
                if now - lost_since >= patience_s:
                    raise ServerUnreachable(
                        f"{trouble} The submission is kept: judge status {submission_id}"
                    ) from trouble
                on_trouble(str(trouble))
                time.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, LAST_BACKOFF_S)
                continue
            lost_since, backoff_s = None, FIRST_BACKOFF_S
            if body.version == version and time.monotonic() - asked < FIRST_BACKOFF_S:
                time.sleep(FIRST_BACKOFF_S)  # a server that is closing ends every wait at once
            version = body.version
            timeout_s = QUEUED_WAIT_S if body.state is JobState.QUEUED else RUNNING_WAIT_S
            yield body
            if body.state.is_final:
                return

    def source(self, submission_id: int, name: str) -> bytes:
        """One file of a submission, byte-exact."""
        return self._request("GET", f"/submissions/{submission_id}/files/{quote(name)}").content

    def log(self, submission_id: int) -> str:
        """The whole kept log."""
        return self._request("GET", f"/submissions/{submission_id}/log").text

    def cancel(self, submission_id: int) -> SubmissionBody:
        return self._read(
            self._request("POST", f"/submissions/{submission_id}/cancel"), SubmissionBody
        )

    # --- boards
    def boards(self) -> list[BoardRefBody]:
        return self._get_list("/boards", BoardRefBody)

    def board(self, problem_id: str, device: str, mode: Mode = Mode.BENCHMARK) -> BoardBody:
        """A practice table. Of other modes there is none, as the judge will say."""
        return self._get(_board_path(problem_id, device), BoardBody, {"mode": mode.value})

    def ranked_board(self, problem_id: str, device: str) -> RankedBoardBody:
        query = {"mode": Mode.RANKED.value}
        return self._get(_board_path(problem_id, device), RankedBoardBody, query)

    def receipt_key(self) -> ReceiptKeyBody:
        """The public key that receipts are signed with."""
        return self._get("/receipt-key", ReceiptKeyBody)

    # --- runners
    def runners(self) -> list[RunnerBody]:
        return self._get_list("/runners", RunnerBody)

    def quarantine(self, runner: str, why: str) -> RunnerBody:
        return self._post("/admin/quarantine", QuarantineBody(runner=runner, why=why), RunnerBody)

    def reinstate(self, runner: str) -> RunnerBody:
        return self._post("/admin/reinstate", ReinstateBody(runner=runner), RunnerBody)

    # --- organizers
    def invites(self, count: int, team: str | None = None) -> InviteCodesBody:
        return self._post("/admin/invites", InvitesBody(count=count, team=team), InviteCodesBody)

    def announce(self, text: str) -> AckBody:
        return self._post("/admin/announcements", NewAnnouncementBody(text=text), AckBody)

    def set_intake(self, is_open: bool, reason: str = "") -> AckBody:
        return self._post("/admin/intake", IntakeBody(open=is_open, reason=reason), AckBody)

    def hold(self, submission_id: int, reason: str) -> SubmissionBody:
        where = f"/admin/submissions/{submission_id}/hold"
        return self._post(where, HoldBody(reason=reason), SubmissionBody)

    def release(self, submission_id: int) -> SubmissionBody:
        where = f"/admin/submissions/{submission_id}/release"
        return self._read(self._request("POST", where), SubmissionBody)

    def backup(self) -> BackupBody:
        return self._read(self._request("POST", "/admin/backup"), BackupBody)

    def events(self, after: int = 0, limit: int = 100) -> list[EventBody]:
        return self._get_list("/admin/events", EventBody, {"after": after, "limit": limit})

    # --- transport
    def _get(
        self, path: str, kind: type[BodyT], query: Mapping[str, str | int] | None = None
    ) -> BodyT:
        return self._read(self._request("GET", path, params=query), kind)

    def _get_list(
        self, path: str, kind: type[BodyT], query: Mapping[str, str | int] | None = None
    ) -> list[BodyT]:
        response = self._request("GET", path, params=query)
        try:
            return TypeAdapter(list[kind]).validate_json(response.content)  # type: ignore[valid-type]
        except ValidationError as error:
            raise self._stranger(response, error) from error

    def _post(self, path: str, body: Body, kind: type[BodyT]) -> BodyT:
        return self._read(self._request("POST", path, json=body.model_dump(mode="json")), kind)

    def _read(self, response: httpx.Response, kind: type[BodyT]) -> BodyT:
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as error:
            raise self._stranger(response, error) from error

    def _stranger(self, response: httpx.Response, error: ValidationError) -> ServerUnreachable:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole body"
        return ServerUnreachable(
            f"{response.url} answered with a body this client does not know (at {where}). "
            "Is the address right, and are client and judge of the same version?"
        )

    def _request(self, method: str, path: str, **parts: Any) -> httpx.Response:
        try:
            response = self._http.request(method, API + path, **parts)
        except httpx.ConnectError as error:
            raise ServerUnreachable(
                f"Cannot reach the judge at {self.server} ({error}). "
                "Is the address right and the judge running?"
            ) from error
        except httpx.TimeoutException as error:
            raise ServerUnreachable(
                f"The judge at {self.server} did not answer in time."
            ) from error
        except httpx.HTTPError as error:
            raise ServerUnreachable(
                f"The connection to the judge at {self.server} broke ({error})."
            ) from error
        if response.is_success:
            return response
        try:
            body = ErrorBody.model_validate_json(response.content)
        except ValidationError:
            raise ServerUnreachable(
                f"{response.url} answered {response.status_code} and is not a judge's API. "
                "Is the address right?"
            ) from None
        raise ApiRefusal(body.detail, body.code, response.status_code)


def _board_path(problem_id: str, device: str) -> str:
    return f"/boards/{quote(problem_id, safe='')}/{quote(device, safe='')}"
