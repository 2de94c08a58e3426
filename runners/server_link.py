"""What a runner says to the server over HTTP: claim, heartbeat, outcome.

The token lives here, in the worker's process, and nowhere else of the runner.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from judge.model import Refusal
from judge.wire import (
    AckBody,
    ClaimBody,
    ErrorBody,
    HeartbeatBody,
    HeartbeatReplyBody,
    LeaseBody,
    OutcomeBody,
)

Answer = TypeVar("Answer", bound=BaseModel)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


class ServerUnreachableError(Exception):
    """The server did not answer, or answered that it cannot now: asking again may help."""


class ServerLink:
    """The runner's three verbs. May be used from several threads."""

    def __init__(self, server_url: str, token: str, timeout_s: float = 10.0) -> None:
        self._http = httpx.Client(
            base_url=server_url.rstrip("/") + "/api/v1/runner/jobs/",
            headers={"authorization": f"Bearer {token}"},
            timeout=timeout_s,
        )

    def close(self) -> None:
        self._http.close()

    def claim(self, job_id: int, body: ClaimBody) -> LeaseBody | Refusal:
        """Ask for the job. Raises ServerUnreachableError."""
        return self._post(f"{job_id}/claim", body, LeaseBody)

    def heartbeat(self, job_id: int, body: HeartbeatBody) -> HeartbeatReplyBody | Refusal:
        """Renew the lease. Raises ServerUnreachableError."""
        return self._post(f"{job_id}/heartbeat", body, HeartbeatReplyBody)

    def outcome(self, job_id: int, body: OutcomeBody) -> AckBody | Refusal:
        """End the attempt. Raises ServerUnreachableError."""
        return self._post(f"{job_id}/outcome", body, AckBody)

    def _post(self, path: str, body: BaseModel, answer: type[Answer]) -> Answer | Refusal:
        try:
            response = self._http.post(
                path,
                content=body.model_dump_json(),
                headers={"content-type": "application/json"},
            )
        except httpx.HTTPError as error:
            raise ServerUnreachableError(f"{type(error).__name__}: {error}") from error
        if response.status_code >= 500 or response.status_code == 429:
            raise ServerUnreachableError(f"the server answered {response.status_code} to {path}")
        try:
            if response.is_success:
                return answer.model_validate_json(response.content)
            told = ErrorBody.model_validate_json(response.content)
        except ValidationError as error:
            raise ServerUnreachableError(
                f"the answer to {path} is not one of a judge server; check --server"
            ) from error
        return Refusal(told.code, told.detail, response.status_code)


def insist(
    ask: Callable[[], Answer | Refusal],
    until: Callable[[], float],
    give_up: threading.Event,
) -> Answer | Refusal | None:
    """Ask until there is an answer, with growing pauses.

    until: gives the deadline on `time.monotonic`, read anew each round, since a heartbeat may move
    it. give_up: set by another thread to end the asking. Returns None if no answer came in time.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return ask()
        except ServerUnreachableError:
            left_s = until() - time.monotonic()
            if left_s <= 0 or give_up.wait(min(pause_s, left_s)):
                return None
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
