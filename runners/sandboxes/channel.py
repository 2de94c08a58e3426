"""The one socket between judge and box: whole frames, file descriptors towards the box only."""

from __future__ import annotations

import array
import os
import select
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from runners.ports import SandboxError
from runners.sandboxes.output import BoundedOutput

PATH_INSIDE = "/run/judge/channel.sock"
MAX_FRAME_BYTES = 1 << 16


class Listener:
    """A socket in a private directory that takes one connection, from one user, and then closes."""

    def __init__(self, parent: Path, uid: int) -> None:
        """parent: a directory that only the runner can enter. uid: who may connect, as seen here."""
        self._uid = uid
        self._directory = Path(tempfile.mkdtemp(prefix="box-", dir=parent))
        self.path = self._directory / "s"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._socket.bind(str(self.path))
        if uid != os.geteuid():
            os.chown(self.path, uid, uid)
        self.path.chmod(0o600)
        self._socket.listen(1)

    def accept(self, limit_s: float, process_fd: int, output: BoundedOutput) -> socket.socket:
        """The connection of the program in the box.

        process_fd: a pidfd of the box. output: drained meanwhile, so that a talkative start is no
        deadlock. Raises SandboxError when the box ends first or the time is over.
        """
        deadline = time.monotonic() + limit_s
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(process_fd, select.POLLIN)
        poll.register(output.read_fd, select.POLLIN)
        while True:
            left_ms = int((deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                raise SandboxError(f"the program in a box did not connect within {limit_s} s")
            ready = dict(poll.poll(left_ms))
            if self._socket.fileno() in ready:
                return self._take()
            if process_fd in ready:
                raise SandboxError("a box ended before its program connected")
            if output.read_fd in ready:
                output.drain()
                if output.exceeded:
                    raise SandboxError("a box printed over its limit before its program connected")
                if ready[output.read_fd] & select.POLLHUP:
                    poll.unregister(output.read_fd)

    def _take(self) -> socket.socket:
        connection, _ = self._socket.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, _ = struct.unpack("3i", credentials)
        if uid != self._uid:
            connection.close()
            raise SandboxError(f"user {uid} connected to the channel of user {self._uid}'s box")
        return connection

    def close(self) -> None:
        """Stop listening and remove the directory. Doing it twice is fine."""
        self._socket.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def send_memory(channel: socket.socket, frame: bytes, fds: Sequence[int]) -> None:
    """Send one frame with open files.

    Raises ValueError for a frame over 64 KiB, ConnectionError if the peer has gone, TimeoutError if
    it does not read (the socket's own time-out).
    """
    if len(frame) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame holds at most {MAX_FRAME_BYTES} bytes, got {len(frame)}")
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())
    channel.sendmsg([frame], [rights] if fds else [], socket.MSG_NOSIGNAL)
