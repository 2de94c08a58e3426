"""Rings for every job that is ready, and takes jobs back from runners that fell silent."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from judge.ports import Clock, Queue, QueueError, Store, StoreError
from judge.rules import ready_jobs

log = logging.getLogger(__name__)

SWEEP_S = 1.0

# After a round it rests this many times as long as the round took, so that a rush of submissions, or
# thousands of teams that wait, leave the processor to the requests. Leases are looked at each second
# all the same.
REST_PER_WORK = 30
LONGEST_REST_S = 3.0


class Dispatcher:
    """One thread: a round when something changed, and at least one each second.

    The store is the truth. A ring that was lost, with the queue or with a worker, is repeated by
    a later round; so nothing that happens to the queue is an error of a request.
    """

    def __init__(self, store: Store, queue: Queue, clock: Clock) -> None:
        self._store = store
        self._queue = queue
        self._clock = clock
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the round that runs now."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self, _submission_id: int = 0) -> None:
        """Ask for a round soon. Quick, never raises, from any thread: fit for `Store.on_change`."""
        self._wake.set()

    @property
    def trouble(self) -> str | None:
        """What hinders it right now, in words for an operator; None when all is well."""
        if not self._thread.is_alive():
            return "the dispatcher does not run"
        return self._trouble

    def _run(self) -> None:
        next_sweep = next_ring = 0.0
        while not self._stopping.is_set():
            began = time.monotonic()
            worked_before_s = time.thread_time()
            sweep, ring = began >= next_sweep, began >= next_ring
            # Forgotten before the store is read: what changes from here on asks for another round.
            self._wake.clear()
            self._survive(partial(self.round, sweep, ring))
            worked_s = time.thread_time() - worked_before_s
            ended = time.monotonic()
            if sweep:
                next_sweep = began + SWEEP_S
            if ring:
                next_ring = ended + min(REST_PER_WORK * worked_s, LONGEST_REST_S)
            if next_ring > ended:
                self._stopping.wait(max(0.0, min(next_ring, next_sweep) - ended))
            else:
                self._wake.wait(max(0.0, next_sweep - ended))

    def round(self, sweep: bool = True, ring: bool = True) -> None:
        """Take lost jobs back (sweep), then ring for what is ready (ring).

        Raises StoreError or QueueError; whatever was left undone is done by a later round.
        """
        if sweep:
            for job_id in self._store.release_lost(self._clock()):
                log.info("job released job=J%s reason=lease_ran_out", job_id)
        if ring:
            ready = ready_jobs(self._store.front())
            self._queue.ring({job.job_id: (job.device, job.mode) for job in ready})

    def _survive(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (StoreError, QueueError) as error:
            self._note(f"{type(error).__name__}: {error}")
        except Exception as error:  # the outer loop of a thread without which nothing is judged
            log.exception("dispatcher round failed")
            self._trouble = f"{type(error).__name__}: see the server's log"
        else:
            self._note(None)

    def _note(self, trouble: str | None) -> None:
        """Log the beginning and the end of a trouble, not each second of it."""
        if trouble is not None and self._trouble is None:
            log.warning("dispatcher hindered error=%r", trouble)
        if trouble is None and self._trouble is not None:
            log.info("dispatcher works again")
        self._trouble = trouble
