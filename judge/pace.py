"""How fast a device judges: what the last jobs took, and which runners live. Kept in memory only.

After a restart nothing is known until a job ends; an estimate is then left out rather than made up.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from datetime import datetime

from judge.model import Mode

KEPT = 32
"""Durations remembered for each device and mode."""


class Pace:
    """Notes claims, signs of life and ends as they pass. May be used from any thread.

    alive_s: a runner that was silent for longer counts as gone.
    """

    def __init__(self, alive_s: float) -> None:
        self._alive_s = alive_s
        self._lock = threading.Lock()
        self._claimed: dict[int, datetime] = {}
        self._took_s: dict[tuple[str, Mode], deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._heard: dict[str, dict[str, datetime]] = defaultdict(dict)

    def claimed(self, job_id: int, device: str, runner: str, now: datetime) -> None:
        with self._lock:
            self._claimed[job_id] = now
            self._heard[device][runner] = now

    def heard(self, device: str, runner: str, now: datetime) -> None:
        """A runner gave a sign of life, if only by asking for work."""
        with self._lock:
            self._heard[device][runner] = now

    def last_heard(self, device: str, runner: str) -> datetime | None:
        """When the runner last gave a sign of life; None if it did not lately."""
        with self._lock:
            return self._heard.get(device, {}).get(runner)

    def ended(self, job_id: int, device: str, mode: Mode, now: datetime) -> None:
        """An attempt ended with an outcome; lost attempts say nothing about the pace."""
        with self._lock:
            claimed = self._claimed.pop(job_id, None)
            if claimed is not None:
                self._took_s[device, mode].append((now - claimed).total_seconds())

    def recent_s(self, device: str) -> Mapping[Mode, Sequence[float]]:
        """Seconds from claim to end of the latest jobs of a device, by mode."""
        with self._lock:
            return {mode: tuple(self._took_s.get((device, mode), ())) for mode in Mode}

    def runners(self, device: str, now: datetime) -> int:
        """How many runners of a device gave a sign of life lately."""
        with self._lock:
            known = self._heard.get(device, {})
            gone = [
                name for name, at in known.items() if (now - at).total_seconds() > self._alive_s
            ]
            for name in gone:
                del known[name]
            return len(known)
