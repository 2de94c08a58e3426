"""Lines of JSON over a pipe, between a worker and its evaluator process.

Both ends are trusted. To the evaluator: `{"settings"}` once, then `{"job"}` and `{"stop"}`.
From it: `{"ready"}` once, then `{"progress", "loaded"}` and, to end a job, `{"outcome"}`.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from typing import Any

Message = Mapping[str, Any]

CHUNK_BYTES = 1 << 16


class ConversationEndedError(Exception):
    """The other side has closed its end, or takes no more."""


class MessagePipe:
    """One end of the conversation: whole messages in, whole messages out.

    incoming, outgoing: file descriptors; they are made non-blocking so that every wait has an end.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._received = bytearray()
        os.set_blocking(incoming, False)
        os.set_blocking(outgoing, False)

    def receive(self, timeout_s: float) -> Message | None:
        """The next message, or None if none is complete after the time.

        Raises ConversationEndedError once the other side has closed and all is read.
        """
        deadline = time.monotonic() + timeout_s
        while (end := self._received.find(b"\n")) < 0:
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._incoming], [], [], left_s)[0]:
                return None
            chunk = os.read(self._incoming, CHUNK_BYTES)
            if not chunk:
                raise ConversationEndedError("the other side has closed the pipe")
            self._received += chunk
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        message: Message = json.loads(line)
        return message

    def send(self, message: Message, timeout_s: float) -> None:
        """Write the message whole. Raises ConversationEndedError if it is not taken in time."""
        rest = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        deadline = time.monotonic() + timeout_s
        while rest:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([], [self._outgoing], [], left_s)[1]:
                raise ConversationEndedError(f"a message was not taken within {timeout_s:g} s")
            try:
                rest = rest[os.write(self._outgoing, rest[:CHUNK_BYTES]) :]
            except BlockingIOError:
                continue  # a pipe may be writable for less than the chunk
            except BrokenPipeError as error:
                raise ConversationEndedError("the other side has closed the pipe") from error
