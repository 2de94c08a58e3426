"""What a runner says to the server over HTTP: hello, beat, ring; claim, heartbeat, outcome.

The token lives here, in the worker's process, and nowhere else of the runner.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from judge.address import API, is_loopback
from judge.model import Refusal
from judge.wire import (
    AckBody,
    BeatBody,
    ClaimBody,
    ErrorBody,
    HeartbeatBody,
    HeartbeatReplyBody,
    HelloBody,
    LeaseBody,
    OutcomeBody,
    RingsBody,
    StandingBody,
)
from runners.settings import SettingsError

Answer = TypeVar("Answer", bound=BaseModel)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


class ServerUnreachableError(Exception):
    """The server did not answer, or answered that it cannot now: asking again may help."""


class ServerLink:
    """The runner's verbs. May be used from several threads.

    server: as `settings.checked_server` gives it. ca_file: certificates of who vouches for the server,
    in place of the system's. Raises SettingsError for a file that holds none.
    """

    def __init__(
        self, server: str, token: str, timeout_s: float = 10.0, ca_file: Path | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            base_url=f"{server.rstrip('/')}{API}/runner/",
            headers={"authorization": f"Bearer {token}"},
            timeout=timeout_s,
            verify=_trust(ca_file) if server.startswith("https:") else True,
            # A proxy from the environment would be asked for 127.0.0.1 of its own machine.
            trust_env=not is_loopback(server),
        )

    def close(self) -> None:
        self._http.close()

    def hello(self, body: HelloBody) -> StandingBody | Refusal:
        """Enrol, or say anew what one is. Raises ServerUnreachableError, as all of these."""
        return self._post("hello", body, StandingBody)

    def beat(self, body: BeatBody) -> StandingBody | Refusal:
        """Say that one lives while there is no job."""
        return self._post("beat", body, StandingBody)

    def ring(self, name: str, wait_s: float) -> RingsBody | Refusal:
        """What is ready, once there is something, or nothing after the time."""
        return self._ask(
            "GET",
            "ring",
            RingsBody,
            params={"runner": name, "wait": wait_s},
            timeout=self._timeout_s + wait_s,
        )

    def claim(self, job_id: int, body: ClaimBody) -> LeaseBody | Refusal:
        """Ask for the job."""
        return self._post(f"jobs/{job_id}/claim", body, LeaseBody)

    def heartbeat(self, job_id: int, body: HeartbeatBody) -> HeartbeatReplyBody | Refusal:
        """Renew the lease."""
        return self._post(f"jobs/{job_id}/heartbeat", body, HeartbeatReplyBody)

    def outcome(self, job_id: int, body: OutcomeBody) -> AckBody | Refusal:
        """End the attempt."""
        return self._post(f"jobs/{job_id}/outcome", body, AckBody)

    def _post(self, path: str, body: BaseModel, answer: type[Answer]) -> Answer | Refusal:
        return self._ask(
            "POST",
            path,
            answer,
            content=body.model_dump_json(),
            headers={"content-type": "application/json"},
        )

    def _ask(self, verb: str, path: str, answer: type[Answer], **parts: Any) -> Answer | Refusal:
        try:
            response = self._http.request(verb, path, **parts)
        except httpx.HTTPError as error:
            remedy = ""
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                remedy = "; name the certificate of a private authority with --ca-file"
            raise ServerUnreachableError(f"{type(error).__name__}: {error}{remedy}") from error
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


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:  # an SSLError is one too
        raise SettingsError(
            f"--ca-file {ca_file}: holds no certificate that can be read ({error}); name a PEM file"
        ) from error


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
