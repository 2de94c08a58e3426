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
        self._unfit: dict[str, frozenset[int]] = {}

    def ring(self, job_ids: Mapping[int, tuple[str, Mode]]) -> None:
        """Take what is ready now, in order of service, in place of what was."""
        if list(job_ids.items()) != list(self._ready.items()):
            self._ready = dict(job_ids)
            for runner, unfit in list(self._unfit.items()):
                self._unfit[runner] = unfit & job_ids.keys()
            self._changes.publish(BELL)

    def close(self) -> None:
        """Nothing is held that needs closing."""

    def put_last(self, job_id: int, runner: str) -> None:
        """Ring a job to a runner after all others: its folder of the problem is another one.

        Two at once may forget one of them, which is told again when it is asked for again.
        """
        self._unfit[runner] = self._unfit.get(runner, frozenset()) | {job_id}

    def ready(self, device: str, may_rank: bool, runner: str = "") -> list[int]:
        """The first jobs that are ready for a device, in the order for this runner."""
        fit = [
            job_id
            for job_id, (wanted, mode) in self._ready.items()
            if wanted == device and (may_rank or mode is not Mode.RANKED)
        ]
        unfit = self._unfit.get(runner)
        return sorted(fit, key=unfit.__contains__)[:MOST_RINGS] if unfit else fit[:MOST_RINGS]

    async def wait(
        self, device: str, may_rank: bool, timeout_s: float, runner: str = ""
    ) -> list[int]:
        """Those jobs once there is one, or none after the time, or when the server ends."""
        with self._changes.watch(BELL) as watch:
            while True:
                watch.forget()
                ready = self.ready(device, may_rank, runner)
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
