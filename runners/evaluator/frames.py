"""Messages from a box. Their sender is hostile: whatever arrives gives a value or None, never an error."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from runners.endings import Ending
from runners.ports import Box

MAX_FRAME_BYTES: Final = 64 << 10
POLL_S: Final = 0.1

MAX_NAME_CHARS: Final = 200
MAX_MESSAGE_CHARS: Final = 2_000
MAX_TRACE_CHARS: Final = 6_000


@dataclass(frozen=True, slots=True)
class Ready:
    """The box has imported what it needs and taken on its strict filter."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The submission is loaded. has_setup, has_teardown: it defines that function."""

    has_setup: bool
    has_teardown: bool


@dataclass(frozen=True, slots=True)
class LaidOut:
    """`data` is built, setup has run, and the box watches the go word."""


@dataclass(frozen=True, slots=True)
class TornDown:
    """`teardown` has run."""


@dataclass(frozen=True, slots=True)
class AsksForBuild:
    """The submission asked for an inline extension that is not in the cache. name: which."""

    name: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in the submission failed. text: type, message and trace, bounded."""

    ending: Ending
    text: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The channel is closed."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that the harness never sends. what: for the author."""

    what: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Nothing came in time."""


Said = Ready | Loaded | LaidOut | TornDown | AsksForBuild | Fault
Heard = Said | Gone | Violation | TimedOut

FAULTS: Final = {
    "exception": Ending.EXCEPTION,
    "syntax": Ending.SYNTAX,
    "no_kernel": Ending.NO_KERNEL,
    "bad_return": Ending.BAD_RETURN,
    "memory": Ending.MEMORY,
    "build": Ending.BUILD,
}


def parse(frame: bytes) -> Said | None:
    """What a frame says, or None if the harness never sends such a one."""
    if len(frame) > MAX_FRAME_BYTES:
        return None
    try:
        fields = json.loads(frame.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    match fields:
        case {"kind": "ready", **rest} if not rest:
            return Ready()
        case {"kind": "laid_out", **rest} if not rest:
            return LaidOut()
        case {"kind": "torn_down", **rest} if not rest:
            return TornDown()
        case {
            "kind": "loaded",
            "setup": bool(has_setup),
            "teardown": bool(has_teardown),
            **rest,
        } if not rest:
            return Loaded(has_setup, has_teardown)
        case {"kind": "needs_build", "name": str(name), **rest} if not rest:
            return AsksForBuild(name[:MAX_NAME_CHARS])
        case {
            "kind": "fault",
            "fault": str(fault),
            "type": str(type_name),
            "message": str(message),
            "trace": str(trace),
            **rest,
        } if not rest and fault in FAULTS:
            return Fault(FAULTS[fault], _fault_text(type_name, message, trace))
    return None


def _fault_text(type_name: str, message: str, trace: str) -> str:
    head = type_name[:MAX_NAME_CHARS]
    if message:
        head = f"{head}: {message[:MAX_MESSAGE_CHARS]}" if head else message[:MAX_MESSAGE_CHARS]
    return f"{head}\n{trace[:MAX_TRACE_CHARS]}" if trace else head


def take(channel: socket.socket) -> Said | Gone | Violation:
    """Read the one frame that is waiting. Descriptors that come with it are dropped by the kernel."""
    try:
        frame, _, flags, _ = channel.recvmsg(MAX_FRAME_BYTES + 1)
    except ConnectionError:
        return Gone()
    if not frame:
        return Gone()
    if flags & socket.MSG_TRUNC:
        return Violation("an oversized message")
    said = parse(frame)
    return Violation("a malformed message") if said is None else said


def is_waiting(channel: socket.socket) -> bool:
    """Whether a frame, or the end of the channel, can be taken at once."""
    return bool(_poll(channel, 0.0))


def hear(box: Box, deadline: float, check: Callable[[], None]) -> Heard:
    """Wait for one frame until `deadline` on `time.monotonic`.

    check: called at least ten times a second; it may raise to end the wait.
    """
    while True:
        check()
        left_s = deadline - time.monotonic()
        if _poll(box.channel, max(0.0, min(left_s, POLL_S))):
            return take(box.channel)
        if has_ended(box):
            return Gone()
        if left_s <= 0:
            return TimedOut()


def has_ended(box: Box) -> bool:
    """Whether the box has ended, or had to be ended since it printed too much: this reads its output."""
    return box.wait(0.0) is not None


def _poll(channel: socket.socket, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(channel, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(timeout_s * 1000))
