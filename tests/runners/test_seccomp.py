"""The filter programs, loaded into processes of their own."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import runners

pyseccomp = pytest.importorskip("pyseccomp")

from runners.sandboxes import seccomp  # noqa: E402

PRELUDE = f"""
import ctypes, errno, json, os, sys
sys.path.insert(0, {str(Path(runners.__file__).parent / "harness")!r})
import confine
confine.apply_filter(bytes.fromhex(sys.argv[1]))
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_ulong(a) for a in arguments])
    return ctypes.get_errno() if result == -1 else 0
"""


def under(bpf: bytes, code: str) -> tuple[Any, int]:
    """What the code prints as JSON under a filter, and how its process ended."""
    program = PRELUDE + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, bpf.hex()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode <= 0, done.stderr
    return (json.loads(done.stdout) if done.stdout else None), done.returncode


def number(call: str) -> int:
    return int(pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, call))


def test_every_rule_tells_its_reason_and_names_calls() -> None:
    for rule in seccomp.BASE + seccomp.NO_NETWORK + seccomp.TIMED:
        assert rule.reason
        assert rule.calls


def test_every_named_call_is_known_here_or_belongs_to_another_architecture() -> None:
    elsewhere = {"fork", "vfork", "iopl", "ioperm", "modify_ldt", "lookup_dcookie"}
    unknown = {
        call
        for rule in seccomp.BASE + seccomp.TIMED
        for call in rule.calls
        if number(call) < 0 and call not in seccomp._NUMBERS
    }
    assert unknown <= elsewhere


def test_a_filter_is_whole_instructions_and_small() -> None:
    for bpf in (seccomp.base_filter_bpf(True), seccomp.timed_filter_bpf()):
        assert len(bpf) % 8 == 0
        assert 0 < len(bpf) < 4096


def test_a_call_newer_than_the_table_does_not_exist() -> None:
    answer, _ = under(seccomp.base_filter_bpf(False), "print(json.dumps([call(463), call(470)]))")
    assert answer == [errno.ENOSYS, errno.ENOSYS]


def test_bits_that_the_kernel_ignores_do_not_hide_an_address_family() -> None:
    code = f"""
        high = 1 << 32
        print(json.dumps([call({number("socket")}, high | 2, 1, 0),
                          call({number("socket")}, high | 40, 1, 0)]))
    """
    answer, _ = under(seccomp.base_filter_bpf(False), code)
    assert answer == [errno.EPERM, errno.EPERM]


def test_clone_with_its_flags_in_memory_does_not_exist() -> None:
    answer, _ = under(
        seccomp.base_filter_bpf(True), f"print(json.dumps(call({number('clone3')}, 0, 0)))"
    )
    assert answer == errno.ENOSYS


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64 only")
def test_calls_by_the_numbers_of_another_abi_are_the_end() -> None:
    x32_getpid = 0x4000_0000 + 39
    _, status = under(seccomp.base_filter_bpf(True), f"call({x32_getpid})")
    assert status == -signal.SIGSYS


def test_the_base_filter_leaves_exec_fork_and_threads() -> None:
    code = """
        import subprocess, threading
        thread = threading.Thread(target=print); thread.start(); thread.join()
        subprocess.run([sys.executable, "-I", "-S", "-c", "print(1)"], check=True)
    """
    answer, status = under(seccomp.base_filter_bpf(False), code)
    assert (answer, status) == (1, 0)


def test_a_filter_cannot_be_followed_by_one_of_the_submissions_own() -> None:
    code = f"""
        empty = ctypes.create_string_buffer(8)
        print(json.dumps([call({number("seccomp")}, 1, 0, ctypes.addressof(empty)),
                          call({number("prctl")}, 22, 2, ctypes.addressof(empty))]))
    """
    answer, _ = under(seccomp.timed_filter_bpf(), code)
    assert answer == [errno.EPERM, errno.EPERM]


def test_no_call_can_walk_an_endless_mapping_out_of_reach_of_sigkill() -> None:
    code = f"print(json.dumps(call({number('mincore')}, 0, 1 << 44, 0)))"
    answer, _ = under(seccomp.base_filter_bpf(False), code)
    assert answer == errno.ENOSYS


def test_a_timed_box_gets_no_timers_that_go_off_while_it_is_frozen() -> None:
    code = f"""
        timer = ctypes.create_string_buffer(8)
        print(json.dumps([call({number("timer_create")}, 1, 0, ctypes.addressof(timer)),
                          call({number("timerfd_create")}, 1, 0)]))
    """
    answer, _ = under(seccomp.timed_filter_bpf(), code)
    assert answer == [errno.EPERM, errno.EPERM]
