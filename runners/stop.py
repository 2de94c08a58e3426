"""How a runner is told to stop: SIGTERM and SIGINT, at once while it waits, else after its work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rq.exceptions import StopRequested

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Set once the runner shall end. Its methods are for the main thread."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._waits = False

    def __call__(self) -> bool:
        return self.event.is_set()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Be set by either signal while the block runs."""
        before = {number: signal.signal(number, self._take) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The block only waits: a signal raises StopRequested in it, which ends the block quietly.

        Look inside the block whether it is set already: before it, a signal could come in between.
        """
        outer, self._waits = self._waits, True
        try:
            yield
        except StopRequested:
            pass
        finally:
            self._waits = outer

    @contextmanager
    def working(self) -> Iterator[None]:
        """The block does what must not be torn: a signal is only noted."""
        outer, self._waits = self._waits, False
        try:
            yield
        finally:
            self._waits = outer

    def wait(self, timeout_s: float) -> None:
        """Wait so long, or until told to stop."""
        with self.waiting():
            self.event.wait(timeout_s)

    def _take(self, _signal: int, _frame: FrameType | None) -> None:
        self.event.set()
        if self._waits:
            raise StopRequested
