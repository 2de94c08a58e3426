"""How a runner stands with its server: it says hello, beats while it waits, and hears how it stands."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from judge.model import Refusal, RunnerState
from judge.wire import BeatBody, HelloBody, StandingBody
from runners.server_link import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    ServerLink,
    ServerUnreachableError,
)
from runners.stop import Stop

log = logging.getLogger(__name__)

BEAT_S = 15.0


class EnrolmentRefusedError(Exception):
    """The server takes no runner by this name and token; the text says why and what to do."""


class Enrolment:
    """Used from the main thread, but for `hinder`. busy: a job's heartbeats beat for the runner."""

    def __init__(self, server: ServerLink, name: str, stop: Stop, busy: Callable[[], bool]) -> None:
        self._server = server
        self._name = name
        self._stop = stop
        self._busy = busy
        self._beat_s = BEAT_S
        self._hindered = threading.Event()
        self._free = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def greet(self, body: HelloBody) -> StandingBody | None:
        """Say hello, until it is answered; None if told to stop meanwhile.

        Raises EnrolmentRefusedError.
        """
        pause_s = FIRST_PAUSE_S
        while not self._stop():
            try:
                answer = self._hello(body)
            except ServerUnreachableError as fault:
                log.warning("server unreachable fault=%s next_try_s=%.1f", fault, pause_s)
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            if isinstance(answer, Refusal):
                raise EnrolmentRefusedError(answer.detail)
            if answer is None:
                break
            self._beat_s = answer.beat_s
            self._take(answer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="beats", daemon=True)
                self._thread.start()
            return answer
        return None

    def hindered(self) -> bool:
        """Whether the runner need not ask for work before it has said hello again."""
        return self._hindered.is_set()

    def hinder(self) -> None:
        """A claim or a call for rings was refused for what the runner is. From any thread."""
        self._free.clear()
        self._hindered.set()

    def sit_out(self, at_most_s: float | None) -> None:
        """Wait until the server says that the runner may work again, at most so long."""
        with self._stop.waiting():
            if not self._stop():
                self._free.wait(at_most_s)

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _hello(self, body: HelloBody) -> StandingBody | Refusal | None:
        with self._stop.waiting():
            if not self._stop():
                return self._server.hello(body)
        return None

    def _beat(self) -> None:
        while not self._ended.wait(self._beat_s):
            if self._busy():
                continue
            try:
                answer = self._server.beat(BeatBody(runner=self._name))
            except ServerUnreachableError as fault:
                log.info("beat unanswered fault=%s", fault)
                continue
            if isinstance(answer, Refusal):
                log.warning("beat refused code=%s detail=%r", answer.code, answer.detail)
                self.hinder()
            else:
                self._take(answer)

    def _take(self, standing: StandingBody) -> None:
        if standing.state is RunnerState.ACTIVE:
            self._hindered.clear()
            self._free.set()
        else:
            self.hinder()
