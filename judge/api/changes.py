"""Wakes those who wait for a submission to change, across threads, without a queue that can grow."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Watch:
    """One waiter's doorbell. It tells that something changed, never what: the store is asked then."""

    def __init__(self) -> None:
        self._rang = asyncio.Event()
        self.closing = False

    def ring(self) -> None:
        self._rang.set()

    def forget(self) -> None:
        """Call before reading the store, so that no change between reading and waiting is lost."""
        self._rang.clear()

    async def wait(self, timeout_s: float) -> float:
        """Wait until it rings, at most so long; the seconds that are left of the time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(until):
                await self._rang.wait()
        except TimeoutError:
            return 0.0
        return until - loop.time()


class Changes:
    """Tells waiters in the event loop of changes that threads commit.

    Holds one set of ids between loop turns and one event per waiter, so a slow client costs no
    memory: it finds the newest state when it looks.
    """

    def __init__(self, most_waiters: int) -> None:
        self._most_waiters = most_waiters
        self._watches: dict[int, set[Watch]] = defaultdict(set)
        self._count = 0
        self._lock = threading.Lock()
        self._pending: set[int] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False

    @property
    def waiters(self) -> int:
        return self._count

    def open(self) -> None:
        """Begin to wake waiters of the running event loop."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
        self._closing = False

    def publish(self, submission_id: int) -> None:
        """Say that a submission changed. May be called from any thread, also before `open`.

        Without a watch it is done at once: whoever begins to watch after this reads the store after
        this too, and a change is published only once it can be read there.
        """
        if submission_id not in self._watches:
            return
        with self._lock:
            if self._loop is None:
                return
            first = not self._pending
            self._pending.add(submission_id)
            if first:
                self._loop.call_soon_threadsafe(self._deliver)

    def close(self) -> None:
        """End every wait now and every later one at once. Call in the event loop."""
        self._closing = True
        with self._lock:
            self._loop = None
            self._pending.clear()
        for watches in self._watches.values():
            for watch in watches:
                watch.closing = True
                watch.ring()

    @property
    def full(self) -> bool:
        """Whether nobody more should begin to wait."""
        return self._count >= self._most_waiters

    @contextmanager
    def watch(self, submission_id: int) -> Iterator[Watch]:
        """A doorbell for one submission while the block runs."""
        watch = Watch()
        watch.closing = self._closing
        if self._closing:
            watch.ring()
        self._count += 1
        self._watches[submission_id].add(watch)
        try:
            yield watch
        finally:
            self._count -= 1
            self._watches[submission_id].discard(watch)
            if not self._watches[submission_id]:
                del self._watches[submission_id]

    def _deliver(self) -> None:
        with self._lock:
            changed = self._pending
            self._pending = set()
        for submission_id in changed:
            for watch in self._watches.get(submission_id, ()):
                watch.ring()
