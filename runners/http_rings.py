"""Rings from the server itself, for a runner that reaches nothing but the server."""

from __future__ import annotations

import logging
from collections.abc import Callable

from judge.model import Refusal
from runners.rings import FIRST_PAUSE_S, LONGEST_PAUSE_S, Answer
from runners.server_link import ServerLink, ServerUnreachableError
from runners.stop import Stop

log = logging.getLogger(__name__)

WAIT_S = 20.0
AGAIN_S = 0.5
"""Pause where others took all that was ready: the server looks at most that much later again."""


class HttpRings:
    """Asks the server what is ready, again and again. Implements `runners.rings.Rings`."""

    def __init__(self, server: ServerLink, name: str, stop: Stop) -> None:
        self._server = server
        self._name = name
        self._stop = stop

    def listen(self, answer: Answer, hindered: Callable[[], bool]) -> None:
        log.info("runner listens to=server")
        pause_s = FIRST_PAUSE_S
        while not (self._stop() or hindered()):
            try:
                rings = self._poll()
            except ServerUnreachableError as fault:
                log.warning("server unreachable fault=%s next_try_s=%.1f", fault, pause_s)
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            pause_s = FIRST_PAUSE_S
            if isinstance(rings, Refusal):
                log.info("no rings code=%s detail=%r", rings.code, rings.detail)
                return
            if rings and not any(answer(job_id) for job_id in rings):
                self._stop.wait(AGAIN_S)

    def _poll(self) -> list[int] | Refusal:
        """Ids that are ready; none if told to stop meanwhile."""
        with self._stop.waiting():
            if not self._stop():
                told = self._server.ring(self._name, WAIT_S)
                return told if isinstance(told, Refusal) else told.jobs
        return []
