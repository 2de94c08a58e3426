"""The HTTP client of the judge: every contestant and organizer verb as one typed call.

It decides nothing: it sends bodies, returns bodies, and waits through restarts and cut connections.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import httpx

from judge.model import JobState, Mode, Role, SourceFile
from judge.transport import CONNECT_S, READ_S, ApiRefusal, ServerUnreachable, Transport
from judge.wire import (
    AckBody,
    BackupBody,
    BoardBody,
    BoardRefBody,
    ContestBody,
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

QUEUED_WAIT_S = 5.0  # a place in the queue moves without a new version: ask again this often
RUNNING_WAIT_S = 20.0  # the server holds a wait for at most 25 s
FIRST_BACKOFF_S = 0.2
LAST_BACKOFF_S = 5.0


@dataclass(frozen=True, slots=True)
class Target:
    """What a submission is for. device and mode are words of the contest."""

    problem: str
    device: str
    mode: Mode


class JudgeClient(Transport):
    """Every verb of a judge. Methods raise as `Transport` says."""

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


def _board_path(problem_id: str, device: str) -> str:
    return f"/boards/{quote(problem_id, safe='')}/{quote(device, safe='')}"
