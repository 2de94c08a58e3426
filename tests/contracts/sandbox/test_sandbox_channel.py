"""Memory and messages between judge and box."""

from __future__ import annotations

import sys

import pytest

from runners.ports import SandboxError
from runners.sandboxes.bubblewrap import BubblewrapSandbox, find_bubblewrap
from tests.contracts.sandbox.lab import Lab, until

pytestmark = pytest.mark.box

F_SEAL_FUTURE_WRITE = 16


def test_sealed_memory_can_be_written_and_neither_resized_nor_resealed(lab: Lab) -> None:
    fd, memory = lab.shared_memory()
    code = """
        import fcntl
        fd = hear_memory()
        view = mmap.mmap(fd, 4096)
        view[:4] = b"done"
        say([error_of(os.ftruncate, fd, 0), error_of(os.ftruncate, fd, 8192),
             error_of(fcntl.fcntl, fd, 1033, 8), error_of(os.posix_fallocate, fd, 0, 8192)])
    """
    box = lab.launch(code)
    box.send_memory(b"memory", [fd])
    assert lab.hear(box) == ["EPERM"] * 4
    # Would be the death of this process if the box had made it smaller.
    assert memory[:4] == b"done"
    assert memory[4095] == 0


def test_memory_sealed_against_future_writes_is_read_only_inside(lab: Lab) -> None:
    fd, memory = lab.shared_memory(F_SEAL_FUTURE_WRITE)
    memory[:5] = b"input"
    code = """
        fd = hear_memory()
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
        say([bytes(mmap.mmap(fd, 4096, prot=mmap.PROT_READ)[:5]).decode(),
             error_of(mmap.mmap, fd, 4096), error_of(os.pwrite, fd, b"x", 0),
             libc.fallocate(fd, 3, 0, 4096)])
    """
    box = lab.launch(code)
    box.send_memory(b"memory", [fd])
    assert lab.hear(box) == ["input", "EPERM", "EPERM", -1]
    memory[:5] = b"again"


def test_nothing_can_connect_a_second_time(lab: Lab) -> None:
    code = """
        channel.recv(1)
        again = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        say(error_of(again.connect, os.environ["JUDGE_CHANNEL"]))
    """
    box = lab.launch(code)
    box.channel.send(b"g")
    assert lab.hear(box) == "ECONNREFUSED"


def test_a_program_that_ends_before_it_connects_is_our_error_with_its_words(
    lab: Lab,
) -> None:
    command = [sys.executable, "-I", "-c", "print('hello from inside')"]
    with pytest.raises(SandboxError, match="hello from inside"):
        lab.launch("", command=command)


@pytest.mark.skipif(find_bubblewrap() is None, reason="bubblewrap is not installed")
def test_a_program_that_never_connects_is_ended() -> None:
    sandbox = BubblewrapSandbox(connect_limit_s=0.5)
    command = [sys.executable, "-I", "-c", "import time; time.sleep(60)"]
    with pytest.raises(SandboxError, match=r"did not connect within 0\.5 s"):
        Lab(BubblewrapSandbox, sandbox).launch("", command=command)
    sandbox.close()


def test_a_program_that_does_not_read_cannot_hold_up_the_judge(lab: Lab) -> None:
    box = lab.launch("time.sleep(60)")
    box.channel.settimeout(0.05)

    def send_much() -> None:
        for _ in range(10_000):
            box.send_memory(b"x" * 60_000, [])

    with pytest.raises(TimeoutError):
        send_much()


def test_a_frame_to_a_program_that_has_gone_is_a_connection_error(lab: Lab) -> None:
    box = lab.launch("say(1)")
    lab.hear(box)
    assert until(lambda: not box.alive())
    with pytest.raises(ConnectionError):
        box.send_memory(b"x", [])
