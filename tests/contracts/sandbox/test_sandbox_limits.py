"""What a box may use, and what it may print."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from runners.ports import Phase
from tests.contracts.sandbox.lab import MIB, Lab, host_uid, processes_of, until

pytestmark = pytest.mark.box


def test_memory_over_the_limit_ends_the_box_and_is_told(full_lab: Lab) -> None:
    end = full_lab.end("x = bytearray(400 << 20); say(1)")
    assert end.out_of_memory
    assert end.signal == signal.SIGKILL
    assert end.memory_peak_bytes is not None
    assert end.memory_peak_bytes <= 256 * MIB


def test_a_child_killed_for_memory_is_told_though_the_program_ends_well(full_lab: Lab) -> None:
    code = """
        if os.fork() == 0:
            x = bytearray(400 << 20)
        os.wait()
    """
    end = full_lab.end(code)
    assert end.out_of_memory


def test_files_in_tmp_count_as_memory(full_lab: Lab) -> None:
    code = """
        chunk = b"x" * (1 << 20)
        with open("/tmp/big", "wb") as file:
            for _ in range(400):
                file.write(chunk)
    """
    end = full_lab.end(code, tmp_bytes=1 << 30)
    assert end.out_of_memory


def test_memory_now_is_what_the_box_holds(full_lab: Lab) -> None:
    box = full_lab.launch("channel.recv(1); x = b'x' * (64 << 20); say(1); channel.recv(1)")
    before = box.memory_now_bytes()
    box.channel.send(b"g")
    full_lab.hear(box)
    after = box.memory_now_bytes()
    assert before is not None
    assert after is not None
    assert 60 * MIB < after - before < 80 * MIB


def test_tmp_holds_no_more_than_its_size(lab: Lab) -> None:
    code = """
        def fill(place):
            for n in range(64):
                with open(f"{place}/{n}", "wb") as file:
                    file.write(b"x" * (1 << 20))
        say([error_of(fill, "/tmp"), error_of(fill, "/dev/shm")])
    """
    assert lab.answer(code) == ["ENOSPC", "ENOSPC"]


def test_no_file_grows_over_the_size_of_tmp(lab: Lab) -> None:
    code = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        say(error_of(os.ftruncate, os.memfd_create("x"), 1 << 30))
    """
    assert lab.answer(code) == "EFBIG"


def test_threads_over_the_limit_are_refused_and_told(full_lab: Lab) -> None:
    code = """
        wait = threading.Event()
        try:
            for _ in range(100):
                threading.Thread(target=wait.wait, daemon=True).start()
        except RuntimeError:
            os._exit(3)
    """
    end = full_lab.end(code, processes=16)
    assert end.out_of_processes
    assert end.exit_code == 3


def test_a_fork_bomb_is_ended_whole_and_the_next_box_starts(full_lab: Lab) -> None:
    code = """
        while True:
            try:
                os.fork()
            except OSError:
                say("refused")
                time.sleep(60)
    """
    box = full_lab.launch(code, processes=32)
    uid = host_uid(box)
    assert full_lab.hear(box) == "refused"
    assert len(processes_of(uid)) > 20
    end = box.kill()
    assert end.out_of_processes
    assert processes_of(uid) == []
    assert full_lab.answer("say(1)") == 1


def test_open_files_are_limited(lab: Lab) -> None:
    code = """
        def open_many():
            kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(2000)]
        import resource
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
            raised = True
        except (ValueError, OSError):
            raised = False
        say([error_of(open_many), limit, raised])
    """
    assert lab.answer(code) == ["EMFILE", [1024, 1024], False]


def test_a_crash_leaves_no_core_file(lab: Lab, tmp_path: Path) -> None:
    target = tmp_path / "built"
    target.mkdir()
    code = "os.chdir('/box/out'); os.abort()"
    end = lab.end(code, phase=Phase.BUILD, writable={target: "/box/out"})
    assert end.signal == signal.SIGABRT
    assert list(target.iterdir()) == []


def test_a_box_runs_on_its_cores_only(full_lab: Lab) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("needs two cores")
    first, last = allowed[0], allowed[-1]
    code = f"""
        own = sorted(os.sched_getaffinity(0))
        say([own, error_of(os.sched_setaffinity, 0, [{first}])])
    """
    assert full_lab.answer(code, cores=(last,)) == [[last], "EINVAL"]


def test_everything_printed_within_the_limit_is_kept_in_order(lab: Lab) -> None:
    code = """
        for n in range(5000):
            os.write(1 + n % 2, b"%d\\n" % n)
    """
    end = lab.end(code)
    assert end.output == b"".join(b"%d\n" % n for n in range(5000))
    assert not end.output_exceeded


def test_endless_output_ends_the_box_and_keeps_head_and_tail(lab: Lab) -> None:
    code = """
        os.write(1, b"first words")
        block = b"x" * 65536
        while True:
            os.write(1, block)
    """
    end = lab.end(code)
    assert end.output_exceeded
    assert end.output.startswith(b"first words")
    assert len(end.output) < 70_000


def test_output_that_nobody_drained_still_shows_as_over_the_limit(lab: Lab) -> None:
    code = """
        say(1)
        while True:
            os.write(2, b"x" * 1000)
    """
    box = lab.launch(code)
    lab.hear(box)
    assert until(lambda: not box.drain())
    assert box.kill().output_exceeded


def test_a_box_that_blocks_on_its_output_can_be_killed(lab: Lab) -> None:
    code = """
        os.set_blocking(1, False)
        try:
            while True:
                os.write(1, b"x" * 4096)
        except BlockingIOError:
            say(1)
        os.set_blocking(1, True)
        os.write(1, b"x")
    """
    box = lab.launch(code)
    lab.hear(box)
    end = box.kill()
    assert end.output_exceeded


def test_standard_input_is_empty(lab: Lab) -> None:
    assert lab.answer("say(sys.stdin.read())") == ""
