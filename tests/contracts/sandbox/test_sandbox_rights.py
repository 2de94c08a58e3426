"""What a box may do, as the kernel sees it."""

from __future__ import annotations

import errno
import os
import signal

import pytest

from tests.contracts.sandbox.lab import Lab, host_uid

pytestmark = pytest.mark.box


def test_the_host_knows_a_box_by_a_user_that_is_neither_root_nor_the_runner(full_lab: Lab) -> None:
    box = full_lab.launch("channel.recv(1)")
    assert host_uid(box) not in (0, os.geteuid())


def test_living_boxes_never_share_a_user_even_across_sandboxes(full_lab: Lab) -> None:
    other = Lab(full_lab.make, full_lab.make())
    boxes = [lab.launch("channel.recv(1)") for lab in (full_lab, full_lab, other)]
    uids = {host_uid(box) for box in boxes}
    other.clean_up()
    other.sandbox.close()
    assert len(uids) == 3


def test_a_box_has_no_capability_and_can_get_none(lab: Lab) -> None:
    code = """
        status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
        names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Groups")
        say([status[n].strip() for n in names] + [error_of(os.setuid, 0)])
    """
    *capabilities, no_new_privs, groups, became_root = lab.answer(code)
    assert [int(c, 16) for c in capabilities] == [0, 0, 0, 0, 0]
    assert no_new_privs == "1"
    assert groups.split() in ([], ["65534"])
    assert became_root in ("EPERM", "EINVAL")


KILLED_CALLS = (
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "pidfd_getfd",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "open_tree",
    "fsopen",
    "setns",
    "bpf",
    "init_module",
    "kexec_load",
    "open_by_handle_at",
)


@pytest.mark.parametrize("call", KILLED_CALLS)
def test_a_hostile_system_call_ends_the_box_by_sigsys(lab: Lab, call: str) -> None:
    pyseccomp = pytest.importorskip("pyseccomp")
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, call)
    end = lab.end(f"libc.syscall({number}, 0, 0, 0, 0, 0, 0); time.sleep(60)")
    assert (end.exit_code, end.signal) == (None, signal.SIGSYS)
    assert not end.killed_by_us


REFUSED_CALLS = (
    "io_uring_setup",
    "io_setup",
    "perf_event_open",
    "userfaultfd",
    "keyctl",
    "add_key",
    "memfd_secret",
    "personality",
    "fanotify_init",
)


def test_calls_that_libraries_probe_for_are_refused(lab: Lab) -> None:
    pyseccomp = pytest.importorskip("pyseccomp")
    numbers = [pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, call) for call in REFUSED_CALLS]
    code = f"say([(libc.syscall(n, 1, 0, 0, 0, 0), ctypes.get_errno()) for n in {numbers}])"
    answers = lab.answer(code)
    assert [answer for answer in answers if answer != [-1, errno.EPERM]] == []


@pytest.mark.parametrize("flag", [0x10000000, 0x00020000, 0x40000000, 0x20000000])
def test_no_namespace_can_be_made(lab: Lab, flag: int) -> None:
    pyseccomp = pytest.importorskip("pyseccomp")
    clone = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "clone")
    code = f"""
        unshared = libc.unshare({flag}), ctypes.get_errno()
        say([unshared, (libc.syscall({clone}, {flag} | 17, 0, 0, 0, 0), ctypes.get_errno())])
    """
    assert lab.answer(code) == [[-1, errno.EPERM], [-1, errno.EPERM]]


def test_a_box_cannot_signal_what_is_not_its_own(full_lab: Lab) -> None:
    code = f"say([error_of(os.kill, 1, 9), error_of(os.kill, {os.getpid()}, 9)])"
    assert full_lab.answer(code) == ["EPERM", "ESRCH"]


def test_a_confined_program_can_neither_execute_nor_fork(lab: Lab) -> None:
    code = """
        import subprocess
        confine()
        say([error_of(os.fork), error_of(os.execv, sys.executable, ["x"]),
             error_of(os.posix_spawn, sys.executable, ["x"], {}),
             error_of(subprocess.run, ["x"])])
    """
    assert lab.answer(code) == ["EPERM"] * 4


def test_a_confined_program_can_start_threads(lab: Lab) -> None:
    code = """
        confine()
        thread = threading.Thread(target=say, args=(["from a thread"],))
        thread.start(); thread.join()
    """
    assert lab.answer(code) == ["from a thread"]


def test_threads_that_ran_before_are_confined_as_well(lab: Lab) -> None:
    code = """
        go = threading.Event()
        thread = threading.Thread(target=lambda: (go.wait(), say(error_of(os.fork))))
        thread.start()
        confine()
        go.set()
    """
    assert lab.answer(code) == "EPERM"


def test_a_confined_program_cannot_open_its_memory_to_others_again(lab: Lab) -> None:
    code = """
        confine()
        say([libc.prctl(4, 1, 0, 0, 0), ctypes.get_errno(), libc.prctl(3, 0, 0, 0, 0)])
    """
    assert lab.answer(code) == [-1, errno.EPERM, 0]


def test_processes_of_one_box_cannot_reach_into_a_hidden_one(lab: Lab) -> None:
    code = """
        ready, tell = os.pipe()
        parent = os.getpid()
        if os.fork() == 0:
            os.read(ready, 1)
            say([error_of(os.open, f"/proc/{parent}/{name}", os.O_RDWR) for name in ("mem", "maps")]
                + [error_of(os.listdir, f"/proc/{parent}/fd")])
            os._exit(0)
        hide_memory()
        os.write(tell, b"g")
        os.wait()
    """
    assert set(lab.answer(code)) <= {"EACCES", "EPERM"}


@pytest.mark.slow
def test_torch_computes_in_a_confined_box(lab: Lab) -> None:
    pytest.importorskip("torch")
    code = """
        import torch
        confine()
        torch.set_num_threads(2)
        say(float(torch.ones(512, 512).matmul(torch.ones(512, 512)).sum()))
    """
    box = lab.launch(code, memory_bytes=2 << 30)
    assert lab.hear(box, 60.0) == 512.0**3
    end = box.wait(20.0)
    assert end is not None
    assert end.output == b""
