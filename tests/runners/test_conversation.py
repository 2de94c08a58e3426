"""Whole messages over real pipes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from runners.conversation import ConversationEndedError, MessagePipe


@pytest.fixture
def pipes() -> Iterator[tuple[MessagePipe, MessagePipe, list[int]]]:
    there, back = os.pipe(), os.pipe()
    fds = [*there, *back]
    yield MessagePipe(back[0], there[1]), MessagePipe(there[0], back[1]), fds
    for fd in fds:
        if fd >= 0:
            os.close(fd)


Pipes = tuple[MessagePipe, MessagePipe, list[int]]


def test_messages_arrive_whole_and_in_order(pipes: Pipes) -> None:
    worker, evaluator, _ = pipes
    worker.send({"text": "line\nbreak"}, 1)
    worker.send({"n": 2}, 1)
    assert evaluator.receive(1) == {"text": "line\nbreak"}
    assert evaluator.receive(1) == {"n": 2}
    assert evaluator.receive(0) is None


def test_a_message_larger_than_the_pipe_arrives_whole(pipes: Pipes) -> None:
    worker, evaluator, _ = pipes
    text = "x" * (4 << 20)
    sender = threading.Thread(target=worker.send, args=({"text": text}, 20))
    sender.start()
    assert evaluator.receive(20) == {"text": text}
    sender.join()


def test_a_peer_that_takes_nothing_is_given_up(pipes: Pipes) -> None:
    worker, _, _ = pipes
    with pytest.raises(ConversationEndedError):
        worker.send({"text": "x" * (4 << 20)}, 0.05)


def test_a_closed_pipe_ends_the_conversation_after_what_was_sent(pipes: Pipes) -> None:
    worker, evaluator, fds = pipes
    worker.send({"n": 1}, 1)
    os.close(fds[1])
    fds[1] = -1
    assert evaluator.receive(1) == {"n": 1}
    with pytest.raises(ConversationEndedError):
        evaluator.receive(1)
