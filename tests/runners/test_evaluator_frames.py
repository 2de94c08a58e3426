"""Whatever a box sends is heard as a value; nothing it sends raises."""

import json
import socket
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runners.endings import Ending
from runners.evaluator import frames

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
KINDS = ["ready", "loaded", "laid_out", "torn_down", "needs_build", "fault", "load", "ok"]
NEARLY_RIGHT = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS)},
    optional={
        name: st.booleans() | st.text() | JSON
        for name in ("setup", "teardown", "name", "fault", "type", "message", "trace", "more")
    },
)


@given(st.binary(max_size=300))
@example(b"[" * 60_000)
@example(b"9" * 60_000)
@example(b'{"kind": NaN}')
@example(b"\xff\xfe{\x00")
@example(b'{"kind": "ready", "kind": "ready"}')
def test_any_bytes_are_heard_without_an_error(frame: bytes) -> None:
    frames.parse(frame)


@given(NEARLY_RIGHT | JSON)
def test_any_json_is_heard_without_an_error(fields: Any) -> None:
    said = frames.parse(json.dumps(fields).encode())
    if isinstance(said, frames.Fault):
        assert isinstance(said.text, str)
        assert said.ending in Ending


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"{}",
        b'{"kind": "ready", "more": 1}',
        b'{"kind": "loaded", "setup": 1, "teardown": false}',
        b'{"kind": "loaded"}',
        b'{"kind": ["ready"]}',
        b'{"kind": "fault", "fault": "judge", "type": "", "message": "", "trace": ""}',
        b'{"kind": "accepted"}',
    ],
)
def test_a_frame_that_the_harness_never_sends_is_no_word(frame: bytes) -> None:
    assert frames.parse(frame) is None


def test_every_part_of_a_fault_is_bounded() -> None:
    fields = {"kind": "fault", "fault": "exception", "type": "T" * 10_000}
    fields |= {"message": "m" * 20_000, "trace": "t" * 30_000}
    said = frames.parse(json.dumps(fields).encode())
    assert isinstance(said, frames.Fault)
    assert len(said.text) < 9_000


class Peer:
    """A box's end of the channel, and as much of a box as `hear` asks for."""

    def __init__(self) -> None:
        self.channel, self.there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.there.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def wait(self, timeout_s: float) -> None:
        return None

    def hear(self, limit_s: float = 5.0) -> frames.Heard:
        return frames.hear(self, time.monotonic() + limit_s, lambda: None)  # type: ignore[arg-type]


@pytest.fixture
def peer():
    made = Peer()
    yield made
    made.channel.close()
    made.there.close()


def test_an_oversized_frame_is_a_violation_and_not_read_whole(peer: Peer) -> None:
    peer.there.send(b'{"kind": "ready"' + b" " * frames.MAX_FRAME_BYTES + b"}")
    assert isinstance(peer.hear(), frames.Violation)


def test_descriptors_from_a_box_are_never_taken(peer: Peer) -> None:
    read, write = socket.socketpair()
    socket.send_fds(peer.there, [b'{"kind": "ready"}'], [write.fileno()])
    write.close()
    assert peer.hear() == frames.Ready()
    assert read.recv(1) == b""  # no copy of the other end is left
    read.close()


def test_a_closed_channel_and_silence_are_told_apart(peer: Peer) -> None:
    assert peer.hear(0.0) == frames.TimedOut()
    peer.there.close()
    assert peer.hear() == frames.Gone()


def test_whoever_waits_can_be_stopped(peer: Peer) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        frames.hear(peer, time.monotonic() + 60, stop)  # type: ignore[arg-type]
