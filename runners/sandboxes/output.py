"""What a box prints, read without a thread and without trust in its amount."""

from __future__ import annotations

import fcntl
import os

_CHUNK_BYTES = 1 << 16
_LARGEST_PIPE_BYTES = 8 << 20


class BoundedOutput:
    """The judge's end of a box's stdout and stderr.

    Keeps everything up to `limit_bytes`; beyond it head and tail of half the limit each. Whoever
    waits for the box drains it now and then. The pipe holds more than the limit where the system
    allows, so that a drain after a blocked call still sees that the limit was passed.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        _enlarge(self.read_fd, 2 * limit_bytes + _CHUNK_BYTES)

    @property
    def exceeded(self) -> bool:
        """Whether it printed more than the limit."""
        return self._total > self._limit

    def close_write_end(self) -> None:
        """Drop the judge's copy of the end that the box writes to. Doing it twice is fine."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def drain(self) -> None:
        """Take what is there, without waiting; stops once the limit has been passed."""
        while not self.exceeded and self._read():
            pass

    def finish(self) -> None:
        """Take the rest after the last process has ended, and close. Doing it twice is fine."""
        if self.read_fd >= 0:
            while self._read():
                pass
            os.close(self.read_fd)
            self.read_fd = -1
        self.close_write_end()

    def kept(self) -> bytes:
        """Head and tail, with a line between them where bytes were left out."""
        left_out = self._total - len(self._head) - len(self._tail)
        gap = b"\n[... %d bytes left out ...]\n" % left_out if left_out else b""
        return bytes(self._head) + gap + bytes(self._tail)

    def _read(self) -> bool:
        try:
            chunk = os.read(self.read_fd, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._total += len(chunk)
        half = self._limit // 2
        room = max(half - len(self._head), 0)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[: -(self._limit - half) or None]
        return bool(chunk)


def _enlarge(pipe_fd: int, wanted_bytes: int) -> None:
    """Make the pipe as large as wanted, or as large as this user may."""
    size = min(wanted_bytes, _LARGEST_PIPE_BYTES)
    while size > _CHUNK_BYTES:
        try:
            fcntl.fcntl(pipe_fd, fcntl.F_SETPIPE_SZ, size)
        except OSError:
            size //= 2
        else:
            return
