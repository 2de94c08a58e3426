"""What is kept of what a box prints."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.sandboxes.output import BoundedOutput


@pytest.fixture
def output() -> Iterator[BoundedOutput]:
    made = BoundedOutput(1000)
    yield made
    made.finish()


@given(st.lists(st.binary(min_size=1, max_size=400), max_size=12))
def test_head_and_tail_are_kept_whatever_the_writes(chunks: list[bytes]) -> None:
    output = BoundedOutput(1000)
    for chunk in chunks:
        os.write(output.write_fd, chunk)
        output.drain()
    output.close_write_end()
    output.finish()
    whole = b"".join(chunks)
    if len(whole) <= 1000:
        assert output.kept() == whole
        assert not output.exceeded
    else:
        gap = b"\n[... %d bytes left out ...]\n" % (len(whole) - 1000)
        assert output.kept() == whole[:500] + gap + whole[-500:]
        assert output.exceeded


def test_draining_an_empty_pipe_does_not_wait(output: BoundedOutput) -> None:
    output.drain()
    assert output.kept() == b""


def test_the_pipe_holds_more_than_the_limit_so_that_a_late_drain_sees_it() -> None:
    output = BoundedOutput(100_000)
    os.set_blocking(output.write_fd, False)
    written = 0
    while written <= 100_000:
        written += os.write(output.write_fd, b"x" * 3000)
    output.drain()
    assert output.exceeded
    output.finish()
