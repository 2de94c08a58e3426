"""Host user ids for boxes: every living box of a host has one of its own."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from runners.ports import SandboxError

# Between the ranges that systemd gives to home areas and to services with a dynamic user.
FIRST_UID = 60706
UIDS = 478


@dataclass(slots=True)
class UidLease:
    """A user id that is this box's until `release`, or until this process dies."""

    uid: int
    _lock_fd: int

    def release(self) -> None:
        """Give it back. Doing it twice is fine."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1


class UidPool:
    """Hands out user ids by file locks, so that parallel runners of a host never share one."""

    def __init__(self, directory: Path, first: int = FIRST_UID, count: int = UIDS) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._first = first
        self._count = count
        self._next = 0

    def take(self) -> UidLease:
        """The next free id, in turn, so that one just given back rests. SandboxError if none is."""
        for step in range(self._count):
            place = (self._next + step) % self._count
            uid = self._first + place
            fd = os.open(self._directory / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                continue
            self._next = place + 1
            return UidLease(uid, fd)
        raise SandboxError(
            f"all {self._count} user ids for boxes are taken; locks lie in {self._directory}"
        )
