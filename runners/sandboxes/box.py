"""One living bubblewrap box: freeze, kill, and how it ended."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from runners.ports import BoxEnd, SandboxError
from runners.sandboxes.cgroups import Group
from runners.sandboxes.channel import send_memory
from runners.sandboxes.output import BoundedOutput
from runners.sandboxes.uids import UidLease

_FREEZE_LIMIT_S = 5.0
_END_LIMIT_S = 20.0


class BubblewrapBox:
    """A living box.

    channel: set by the sandbox once the program has connected. process_fd: a pidfd that turns
    readable when the box ends, for whoever polls several things at once.
    """

    channel: socket.socket

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        group: Group,
        output: BoundedOutput,
        lease: UidLease | None,
        owned: Sequence[Path],
    ) -> None:
        self._process = process
        self.process_fd = os.pidfd_open(process.pid)
        self._pid_1_fd = -1
        self._group = group
        self._output = output
        self._lease = lease
        self._owned = owned
        self._killed_by_us = False
        self._end: BoxEnd | None = None

    def watch(self, pid_1: int) -> None:
        """Say which process is the box's pid 1: the kernel ends it last of all in the box."""
        with contextlib.suppress(ProcessLookupError):
            self._pid_1_fd = os.pidfd_open(pid_1)

    def send_memory(self, frame: bytes, fds: Sequence[int]) -> None:
        """Send one frame with open files.

        Raises ConnectionError if the program has gone, TimeoutError if it does not read.
        """
        send_memory(self.channel, frame, fds)

    def freeze(self) -> None:
        """Stop every process of the box; returns when all are stopped. A box that ended is still."""
        if self._end is None:
            self._group.freeze(_FREEZE_LIMIT_S)

    def thaw(self) -> None:
        if self._end is None:
            self._group.thaw()

    def pin(self, cores: Sequence[int]) -> None:
        """Let it run on these cores alone. Only before it holds a submission's code."""
        if self._end is None:
            self._group.pin(cores)

    def memory_now_bytes(self) -> int | None:
        return None if self._end is not None else self._group.memory_now_bytes()

    def alive(self) -> bool:
        return self._end is None and not _readable(self.process_fd)

    def drain(self) -> bool:
        """Take what the box has printed; whether that is within its limit."""
        if self._end is None:
            self._output.drain()
        return not self._output.exceeded

    def output_so_far(self) -> bytes:
        """Head and tail of what it has printed until now, bounded like `BoxEnd.output`."""
        self.drain()
        return self._output.kept()

    def wait(self, timeout_s: float) -> BoxEnd | None:
        """How it ended, or None if it still lives after the time. Ends a box that prints too much."""
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        if self._end is None:
            poll.register(self.process_fd, select.POLLIN)
            poll.register(self._output.read_fd, select.POLLIN)
        while self._end is None:
            if not self.drain():
                return self.kill()
            if not self.alive():
                return self._finish()
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0:
                return None
            for fd, event in poll.poll(left_ms):
                if fd == self._output.read_fd and event & select.POLLHUP:
                    poll.unregister(fd)
        return self._end

    def kill(self) -> BoxEnd:
        """End every process of the box, wait until none is left, clean up, say how it ended."""
        if self._end is None:
            self._killed_by_us = self.alive()
            return self._finish()
        return self._end

    def _finish(self) -> BoxEnd:
        self._group.kill()
        if self._killed_by_us:
            # Enough by itself where no control group could be had: pid 1 of the box dies with it.
            self._process.kill()
        status = self._process.wait()
        if self._pid_1_fd >= 0:
            if not _readable(self._pid_1_fd, _END_LIMIT_S):
                raise SandboxError(f"the processes of a box outlived it for {_END_LIMIT_S} s")
            os.close(self._pid_1_fd)
        self._output.finish()
        code, signal = _code_and_signal(status)
        self._end = BoxEnd(
            exit_code=code,
            signal=signal,
            killed_by_us=self._killed_by_us,
            out_of_memory=self._group.killed_for_memory(),
            out_of_processes=self._group.refused_processes(),
            output_exceeded=self._output.exceeded,
            output=self._output.kept(),
            memory_peak_bytes=self._group.memory_peak_bytes(),
        )
        self._group.remove()
        os.close(self.process_fd)
        if hasattr(self, "channel"):
            self.channel.close()
        take_back(self._owned)
        if self._lease is not None:
            self._lease.release()
        return self._end


def _code_and_signal(status: int) -> tuple[int | None, int | None]:
    """From bubblewrap's own status: it exits with 128 + n for a program killed by signal n."""
    if status < 0:
        return None, -status
    if 128 < status < 128 + 65:
        return None, status - 128
    return status, None


def _readable(fd: int, limit_s: float = 0.0) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(limit_s * 1000))


def take_back(directories: Sequence[Path]) -> None:
    """Make directories the runner's again; a later box with the same user id has no way in."""
    for directory in directories:
        with contextlib.suppress(FileNotFoundError):
            os.chown(directory, os.geteuid(), os.getegid())
            directory.chmod(0o700)
