"""The doorbell for runners that hear no queue: they ask over HTTP what is ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judge.api.changes import Changes
from judge.model import Mode
from judge.ports import Queue

BELL = 0
"""Stands among watched submissions for the bell itself; submissions count from 1."""

MOST_RINGS = 16
"""Ids one answer holds: where several runners ask at once, the first ones may be taken already."""


class Bell:
    """Holds which jobs the dispatcher found ready, and wakes those who wait. Implements `Queue`."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._ready: Mapping[int, tuple[str, Mode]] = {}

    def ring(self, job_ids: Mapping[int, tuple[str, Mode]]) -> None:
        """Take what is ready now, in order of service, in place of what was."""
        if job_ids != self._ready:
            self._ready = dict(job_ids)
            self._changes.publish(BELL)

    def close(self) -> None:
        """Nothing is held that needs closing."""

    def ready(self, device: str, may_rank: bool) -> list[int]:
        """The first jobs that are ready for a device."""
        fit = (
            job_id
            for job_id, (wanted, mode) in self._ready.items()
            if wanted == device and (may_rank or mode is not Mode.RANKED)
        )
        return [job_id for job_id, _ in zip(fit, range(MOST_RINGS), strict=False)]

    async def wait(self, device: str, may_rank: bool, timeout_s: float) -> list[int]:
        """Those jobs once there is one, or none after the time, or when the server ends."""
        with self._changes.watch(BELL) as watch:
            while True:
                watch.forget()
                ready = self.ready(device, may_rank)
                if ready or watch.closing or timeout_s <= 0:
                    return ready
                timeout_s = await watch.wait(timeout_s)


class Doorbells:
    """Several doorbells as one. One that cannot be reached keeps no other from ringing."""

    def __init__(self, bell: Bell, queue: Queue) -> None:
        self._bells: Sequence[Queue] = (bell, queue)

    def ring(self, job_ids: Mapping[int, tuple[str, Mode]]) -> None:
        for bell in self._bells:
            bell.ring(job_ids)

    def close(self) -> None:
        for bell in self._bells:
            bell.close()
