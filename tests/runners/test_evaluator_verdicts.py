"""Every way a submission can end gets its verdict, and the next honest one is judged normally."""

import pytest

from judge.model import Stage, Verdict
from tests.runners.conftest import Judge, tiny_case

pytestmark = [pytest.mark.box, pytest.mark.slow]

HONEST = """
import torch
def custom_kernel(data):
    x, factor, y, positive = data
    torch.mul(x, factor, out=y)
    positive[0] = (y > 0).sum()
    return y, positive
"""

# A submission that has found the harness's own objects.
INSIDER = """
import socket, time, torch
import sys
frame = sys._getframe()
while "serve_calls" not in frame.f_globals:
    frame = frame.f_back
harness = frame.f_globals
def honest(data):
    x, factor, y, positive = data
    torch.mul(x, factor, out=y)
    positive[0] = (y > 0).sum()
    return y, positive
original = harness["serve_calls"]
def spy(case, memory, *rest):
    global shared
    shared = memory
    return original(case, memory, *rest)
harness["serve_calls"] = spy
"""

ACCEPTED = {
    "in_place": HONEST,
    "fresh_tensors": """
import torch
def custom_kernel(data):
    x, factor, y, positive = data
    new = x * factor
    return [new, (new > 0).sum().reshape(1).to(torch.int32)]
""",
    "not_contiguous": """
import torch
def custom_kernel(data):
    x, factor, y, positive = data
    wide = torch.zeros(len(x), 2)
    wide[:, 0] = x * factor
    return wide[:, 0], (wide[:, 0] > 0).sum().reshape(1).to(torch.int32)
""",
    "type_names_from_task": HONEST.replace(
        "import torch", "import torch\nfrom task import input_t"
    ),
    "raises_and_catches": HONEST + "\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    pass\n",
}

FAILING = {
    "wrong_values": (Verdict.WRONG_ANSWER, HONEST.replace("factor, out", "factor + 0.1, out")),
    "nothing_written": (
        Verdict.WRONG_ANSWER,
        "def custom_kernel(data):\n    return data[2], data[3]",
    ),
    "remembers_by_address": (
        Verdict.WRONG_ANSWER,
        HONEST
        + """
compute, seen = custom_kernel, {}
def custom_kernel(data):
    key = data[0].data_ptr()
    if key not in seen:
        seen[key] = [t.clone() for t in compute(data)]
    return seen[key]
""",
    ),
    "returns_none": (Verdict.WRONG_ANSWER, "def custom_kernel(data): pass"),
    "returns_text": (Verdict.WRONG_ANSWER, "def custom_kernel(data): return 'abc'"),
    "too_few_outputs": (Verdict.WRONG_ANSWER, "def custom_kernel(data): return data[2]"),
    "wrong_shape": (
        Verdict.WRONG_ANSWER,
        "def custom_kernel(data): return data[2].reshape(1, -1), data[3]",
    ),
    "wrong_dtype": (
        Verdict.WRONG_ANSWER,
        "def custom_kernel(data): return data[2].double(), data[3]",
    ),
    "wrong_device": (
        Verdict.WRONG_ANSWER,
        "def custom_kernel(data): return data[2].to('meta'), data[3]",
    ),
    "late_thread": (
        Verdict.WRONG_ANSWER,
        HONEST
        + """
import threading, time
compute = custom_kernel
def custom_kernel(data):
    def work():
        time.sleep(0.0002)
        compute(data)
    threading.Thread(target=work).start()
    return data[2], data[3]
""",
    ),
    "syntax_error": (Verdict.COMPILE_ERROR, "def custom_kernel(data:\n    return data"),
    "no_kernel": (Verdict.COMPILE_ERROR, "def other(data): return data"),
    "nul_bytes": (Verdict.COMPILE_ERROR, "def custom_kernel(data):\n    return '\0'"),
    "import_error": (Verdict.RUNTIME_ERROR, "import not_there"),
    "exception": (Verdict.RUNTIME_ERROR, "def custom_kernel(data): raise ValueError('odd')"),
    "hostile_exception": (
        Verdict.RUNTIME_ERROR,
        """
class Meta(type):
    @property
    def __name__(cls): raise RuntimeError
class Odd(BaseException, metaclass=type):
    def __str__(self): raise SystemExit
    def __repr__(self): raise KeyboardInterrupt
    def __reduce__(self): raise RuntimeError
def custom_kernel(data): raise Odd
""",
    ),
    "huge_exception": (
        Verdict.RUNTIME_ERROR,
        "def custom_kernel(data): raise ValueError('\\ud800\\x00x' * 1_000_000)",
    ),
    "sys_exit": (Verdict.RUNTIME_ERROR, "import sys\ndef custom_kernel(data): sys.exit(0)"),
    "os_exit_in_call": (Verdict.RUNTIME_ERROR, "import os\ndef custom_kernel(data): os._exit(0)"),
    "os_exit_at_import": (Verdict.RUNTIME_ERROR, "import os\nos._exit(0)"),
    "segfault": (
        Verdict.RUNTIME_ERROR,
        "import ctypes\ndef custom_kernel(data): ctypes.string_at(8)",
    ),
    "writes_to_input": (Verdict.RUNTIME_ERROR, "def custom_kernel(data): data[0].zero_()"),
    "writes_past_the_output": (
        Verdict.RUNTIME_ERROR,
        HONEST
        + """
import ctypes
compute = custom_kernel
def custom_kernel(data):
    result = compute(data)
    ctypes.memset(data[2].data_ptr() + data[2].nbytes, 0, 4)
    return result
""",
    ),
    "kills_itself": (
        Verdict.RUNTIME_ERROR,
        "import os, signal\ndef custom_kernel(data): os.kill(os.getpid(), signal.SIGKILL)",
    ),
    "forks": (Verdict.RUNTIME_ERROR, "import os\ndef custom_kernel(data): os.fork()"),
    "runs_a_program": (
        Verdict.RUNTIME_ERROR,
        "import subprocess\ndef custom_kernel(data): subprocess.run(['/bin/true'])",
    ),
    "thread_bomb": (
        Verdict.RUNTIME_ERROR,
        """
import threading, time
def custom_kernel(data):
    while True:
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
""",
    ),
    "memory_hog": (
        Verdict.MEMORY_LIMIT,
        "import torch\nkept = []\ndef custom_kernel(data):\n"
        "    while True: kept.append(torch.ones(1 << 24))",
    ),
    "endless_import": (Verdict.TIME_LIMIT, "while True: pass"),
    "endless_call": (Verdict.TIME_LIMIT, "def custom_kernel(data):\n    while True: pass"),
    "sleeping_call": (Verdict.TIME_LIMIT, "import time\ndef custom_kernel(data): time.sleep(100)"),
    "output_flood": (
        Verdict.OUTPUT_LIMIT,
        "def custom_kernel(data):\n    while True: print('x' * 1000)",
    ),
    "output_flood_at_import": (Verdict.OUTPUT_LIMIT, "while True: print('x' * 1000)"),
    "too_much_output_but_right": (
        Verdict.OUTPUT_LIMIT,
        HONEST + "\nprint('x' * 100_000, flush=True)\n",
    ),
    "ptrace": (
        Verdict.FORBIDDEN,
        "import ctypes\ndef custom_kernel(data): ctypes.CDLL(None).ptrace(0, 0, 0, 0)",
    ),
    "says_done_early": (
        Verdict.WRONG_ANSWER,
        INSIDER
        + """
def custom_kernel(data):
    shared.words[0] = shared.go[0]
    time.sleep(0.0005)
    return honest(data)
""",
    ),
    "says_done_wrongly": (
        Verdict.FORBIDDEN,
        INSIDER
        + """
def custom_kernel(data):
    shared.words[0] = 12345
    time.sleep(1)
    return honest(data)
""",
    ),
    "sends_garbage": (
        Verdict.FORBIDDEN,
        INSIDER
        + """
def custom_kernel(data):
    for fd in range(3, 64):
        try:
            socket.socket(fileno=fd).send(b'{"kind": "laid_out", "and": [[[[')
        except OSError:
            pass
    time.sleep(1)
""",
    ),
    "sends_a_frame_too_many_at_import": (
        Verdict.FORBIDDEN,
        INSIDER
        + """
for fd in range(3, 64):
    try:
        socket.socket(fileno=fd).send(b'{"kind": "ready"}')
    except OSError:
        pass
custom_kernel = honest
""",
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_honest_submission_is_accepted(judge_job: Judge, name: str) -> None:
    outcome = judge_job(ACCEPTED[name])
    assert (outcome.verdict, outcome.message) == (Verdict.ACCEPTED, "All 2 cases passed.")


@pytest.mark.parametrize("name", FAILING)
def test_a_submission_that_fails_gets_its_verdict(judge_job: Judge, name: str) -> None:
    verdict, source = FAILING[name]
    outcome = judge_job(source)
    assert outcome.verdict is verdict
    assert len(outcome.message) > 20
    assert len(outcome.message) <= 20_000
    outcome.message.encode()


def test_after_all_of_these_an_honest_submission_is_accepted(judge_job: Judge) -> None:
    outcome = judge_job(HONEST, tiny_case("timed", stage=Stage.TIMING, calls=20))
    assert outcome.verdict is Verdict.ACCEPTED
