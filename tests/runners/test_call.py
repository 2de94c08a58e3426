"""The one-call protocol in a real box, where what counts is what a kernel can see and do when."""

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from judge.model import Limits, SourceFile
from runners.endings import Ending, Failure
from runners.evaluator.arena import GO_WORD, Layout
from runners.evaluator.burst import burden
from runners.evaluator.call import Line, Start, Taken
from runners.evaluator.pool import BoxPool
from runners.evaluator.program import Program
from runners.evaluator.session import Budget, Session, Watch
from tests.runners.conftest import LIMITS

pytestmark = [pytest.mark.box, pytest.mark.slow]

MakeLine = Callable[..., Line]


@pytest.fixture
def make_line(box_pool: BoxPool) -> Iterator[MakeLine]:
    sessions = []

    def make(source: str, layout: Layout, cold: bool = False) -> Line:
        budget = Budget(Limits(load_s=30), time.monotonic(), Watch())
        session = Session(box_pool.take(LIMITS), box_pool.conditions, budget)
        sessions.append(session)
        files = (SourceFile("k.py", source.encode()),)
        assert session.load(Program("python", "k.py", files)) is None
        assert session.lay_out(layout, {}, Start.of(layout, cold)) is None
        return session.line

    yield make
    for session in sessions:
        session.end()


def layout_of(n: int, chain: int = 1) -> Layout:
    inputs = {"x": torch.zeros(n, dtype=torch.int64)}
    return Layout.of(inputs, {"y": (torch.int64, (n,))}, {}, chain)


def call(line: Line, seed: int = 1) -> Taken | Failure:
    rng = np.random.default_rng(seed)
    size = line.layout.input_bytes
    blocks = [np.frombuffer(rng.bytes(size), np.uint8) for _ in line.layout.outputs]
    return line.call(burden(blocks, line.layout, line.chance), 5.0)


COPY = "def custom_kernel(data):\n    return data[1].copy_(data[0])\n"


def outputs_of(line: Line, taken: Taken | Failure) -> list[np.ndarray]:
    assert isinstance(taken, Taken), taken
    return [
        taken.outputs[slot.offset : slot.offset + slot.size_bytes]
        for slots in line.layout.outputs
        for slot in slots
    ]


@pytest.mark.parametrize(("n", "cold"), [(10, False), (9000, False), (10, True)])
def test_a_kernel_sees_the_input_of_its_own_call(make_line: MakeLine, n: int, cold: bool) -> None:
    line = make_line(COPY, layout_of(n), cold)
    for seed in range(5):
        (output,) = outputs_of(line, call(line, seed))
        assert output.tobytes() == np.random.default_rng(seed).bytes(n * 8)


def test_every_link_of_a_chain_has_its_own_input_and_output(make_line: MakeLine) -> None:
    line = make_line(COPY, layout_of(10, chain=4))
    rng = np.random.default_rng(3)
    blocks = [rng.bytes(line.layout.input_bytes) for _ in range(4)]
    outputs = outputs_of(line, call(line, 3))
    assert [output.tobytes() for output in outputs] == [block[:80] for block in blocks]


@pytest.mark.parametrize("n", [10, 9000])
def test_whatever_a_kernel_gains_by_watching_its_input_is_within_the_clock(
    make_line: MakeLine, n: int
) -> None:
    watcher = """
import ctypes, sys, threading, time
sys.setswitchinterval(1e-6)
seen, threads = {}, []
def watch(address):
    first = ctypes.c_int64.from_address(address)
    value = first.value
    while True:
        if first.value != value:
            value = first.value
            seen[value] = time.perf_counter_ns()
def custom_kernel(data):
    called = time.perf_counter_ns()
    x, y = data
    if not threads:
        threads.append(threading.Thread(target=watch, args=(x.data_ptr(),), daemon=True))
        threads[0].start()
    y[0] = called - seen.get(int(x[0]), called)
    return y
"""
    line = make_line(watcher, layout_of(n))
    for seed in range(40):
        taken = call(line, seed)
        (output,) = outputs_of(line, taken)
        assert isinstance(taken, Taken)
        assert int(output.view(np.int64)[0]) <= taken.ns


def test_something_that_goes_on_writing_is_found_out(make_line: MakeLine) -> None:
    writer = """
import sys, threading
sys.setswitchinterval(1e-6)
def custom_kernel(data):
    x, y = data
    y.copy_(x)
    def go_on():
        while True:
            y[4000] += 1
    if threading.active_count() == 1:
        threading.Thread(target=go_on, daemon=True).start()
    return y
"""
    line = make_line(writer, layout_of(5000))
    failure = next((result for _ in range(300) if isinstance(result := call(line), Failure)), None)
    assert failure is not None
    assert failure.ending in (Ending.LATE_WRITE, Ending.EARLY_DONE)


def test_done_said_before_the_output_is_complete_is_found_out(make_line: MakeLine) -> None:
    hasty = """
import sys
frame = sys._getframe()
while "serve_calls" not in frame.f_globals:
    frame = frame.f_back
harness = frame.f_globals
serve_calls = harness["serve_calls"]
def spy(case, memory, *rest):
    global shared
    shared = memory
    return serve_calls(case, memory, *rest)
harness["serve_calls"] = spy
def custom_kernel(data):
    x, y = data
    shared.words[0] = shared.go[0]
    y.copy_(x)
    return y
"""
    line = make_line(hasty, layout_of(2000))
    results = (call(line) for _ in range(300))
    assert any(result == Failure(Ending.EARLY_DONE) for result in results)


def test_outputs_are_poisoned_anew_before_every_call(make_line: MakeLine) -> None:
    line = make_line("def custom_kernel(data):\n    return data[1]\n", layout_of(10))
    seen = {outputs_of(line, call(line))[0].tobytes() for _ in range(20)}
    assert len(seen) == 20


def test_no_go_word_is_used_twice(make_line: MakeLine) -> None:
    line = make_line(COPY, layout_of(10))
    words = []
    for _ in range(50):
        call(line)
        words.append(line.arena.go[GO_WORD])
    assert len(set(words)) == 50
    assert all(word & 1 for word in words)
