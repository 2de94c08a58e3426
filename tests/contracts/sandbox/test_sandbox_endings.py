"""How boxes end, stand still, and are told apart from the judge's own faults."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import runners
from runners.ports import Box
from tests.contracts.sandbox.lab import Lab, host_uid, processes_of, until

pytestmark = pytest.mark.box


@pytest.mark.parametrize(
    ("code", "exit_code", "by_signal"),
    [
        ("os._exit(0)", 0, None),
        ("os._exit(3)", 3, None),
        ("raise SystemExit('no')", 1, None),
        ("os.kill(os.getpid(), signal.SIGSEGV)", None, signal.SIGSEGV),
        ("ctypes.string_at(0)", None, signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGKILL)", None, signal.SIGKILL),
    ],
)
def test_an_ending_says_exit_code_or_signal(
    lab: Lab, code: str, exit_code: int | None, by_signal: int | None
) -> None:
    end = lab.end(code)
    assert (end.exit_code, end.signal) == (exit_code, by_signal)
    assert not end.killed_by_us
    assert not end.out_of_memory
    assert not end.out_of_processes


def test_a_box_lives_until_its_program_ends(lab: Lab) -> None:
    box = lab.launch("channel.recv(1)")
    assert box.alive()
    assert box.wait(0.0) is None
    box.channel.send(b"g")
    end = box.wait(20.0)
    assert end is not None
    assert end.exit_code == 0
    assert not box.alive()


def test_killing_twice_gives_the_same_ending(lab: Lab) -> None:
    box = lab.launch("time.sleep(60)")
    end = box.kill()
    assert end.killed_by_us
    assert box.kill() == end
    assert box.wait(0.0) == end


def test_a_killed_box_holds_no_file_of_the_judge_open(lab: Lab) -> None:
    lab.launch("time.sleep(60)").kill()
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        lab.launch("time.sleep(60)").kill()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_kill_ends_children_that_left_their_session(full_lab: Lab) -> None:
    box = full_lab.launch("on_double_fork(lambda: (say(1), time.sleep(60))); time.sleep(60)")
    full_lab.hear(box)
    uid = host_uid(box)
    assert len(processes_of(uid)) >= 2
    box.kill()
    assert processes_of(uid) == []


def test_children_end_when_the_program_ends(full_lab: Lab) -> None:
    code = "on_double_fork(lambda: (say(1), time.sleep(60))); channel.recv(1); os._exit(0)"
    box = full_lab.launch(code)
    uid = host_uid(box)
    full_lab.hear(box)
    box.channel.send(b"g")
    assert box.wait(20.0) is not None
    assert processes_of(uid) == []
    box.kill()


def test_a_box_dies_with_its_runner_and_leaves_nothing_to_the_next(full_lab: Lab) -> None:
    script = textwrap.dedent(f"""
        import sys, time
        sys.path.insert(0, {str(Path(runners.__file__).parent.parent)!r})
        from tests.contracts.sandbox.conftest import SANDBOXES
        from tests.contracts.sandbox.lab import Lab, host_uid
        make = SANDBOXES[{full_lab.sandbox.name!r}]
        lab = Lab(make, make())
        box = lab.launch("on_double_fork(lambda: time.sleep(600)); time.sleep(600)")
        print(host_uid(box), flush=True)
        time.sleep(600)
    """)
    runner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert runner.stdout is not None
    uid = int(runner.stdout.readline())
    runner.kill()
    runner.communicate()
    assert until(lambda: processes_of(uid) == [])
    full_lab.make().close()
    left = [p for p in Path("/sys/fs/cgroup").glob(f"**/judge-*-{runner.pid}-*") if p.is_dir()]
    assert left == []


def counter(memory: mmap.mmap) -> int:
    return int(struct.unpack_from("Q", memory)[0])


def frozen_still(box: Box, memory: mmap.mmap) -> bool:
    """Whether a counter that runs stands still for 20 ms of a freeze, and runs again after it."""
    assert until(lambda: counter(memory) > 100)
    box.freeze()
    before = counter(memory)
    until(lambda: counter(memory) != before, limit_s=0.02)
    still = counter(memory) == before
    box.thaw()
    return still and until(lambda: counter(memory) > before)


COUNTING = {
    "threads": """
        def count():
            while True:
                number.value += 1
        for _ in range(4):
            threading.Thread(target=count).start()
    """,
    "a child in a session of its own": """
        def count():
            while True:
                number.value += 1
        on_double_fork(count)
        time.sleep(60)
    """,
    "processes that hop from pid to pid": """
        while True:
            number.value += 1
            if os.fork():
                os._exit(0) if os.getpid() != main else time.sleep(60)
    """,
}


@pytest.mark.parametrize("code", COUNTING.values(), ids=COUNTING.keys())
def test_freezing_stops_everything_and_thawing_lets_it_go_on(full_lab: Lab, code: str) -> None:
    fd, memory = full_lab.shared_memory()
    start = """
        main = os.getpid()
        view = mmap.mmap(hear_memory(), 4096)
        number = ctypes.c_uint64.from_buffer(view)
    """
    box = full_lab.launch(textwrap.dedent(start) + textwrap.dedent(code))
    box.send_memory(b"memory", [fd])
    assert all(frozen_still(box, memory) for _ in range(5))


def test_a_frozen_box_can_be_killed(full_lab: Lab) -> None:
    box = full_lab.launch("while True: pass")
    uid = host_uid(box)
    box.freeze()
    assert box.kill().killed_by_us
    assert processes_of(uid) == []
