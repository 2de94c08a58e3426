"""What a box may not ask of the kernel: two filters from one table.

The *base* filter is in force from a box's first instruction. The *timed* filter is put on top of it
by the harness before it loads a submission, when nothing more needs to be executed or forked.
"""

from __future__ import annotations

import errno
import functools
import io
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import pyseccomp

from runners.ports import SandboxError


class Answer(Enum):
    """What a denied call gets: an error that callers survive, or the death of the process."""

    EPERM = pyseccomp.ERRNO(errno.EPERM)
    ENOSYS = pyseccomp.ERRNO(errno.ENOSYS)
    KILL = pyseccomp.KILL_PROCESS


@dataclass(frozen=True, slots=True)
class Argument:
    """A condition on one argument: `value & mask == wanted`, or `value > above`."""

    index: int
    mask: int = 0xFFFF_FFFF
    wanted: int = 0
    above: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Calls that are denied, and why they get that answer. when: all conditions must hold."""

    calls: tuple[str, ...]
    answer: Answer
    reason: str
    when: tuple[Argument, ...] = ()


def _calls(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_NAMESPACES = {
    "time": 0x0000_0080,
    "mount": 0x0002_0000,
    "cgroup": 0x0200_0000,
    "uts": 0x0400_0000,
    "ipc": 0x0800_0000,
    "user": 0x1000_0000,
    "pid": 0x2000_0000,
    "net": 0x4000_0000,
}
_CLONE_THREAD = 0x0001_0000
_AF_INET, _AF_INET6, _AF_NETLINK = 2, 10, 16
_FOREIGN_FAMILIES = (3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15)
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PR_SET_DUMPABLE, _PR_SET_SECCOMP = 4, 22

BASE: tuple[Rule, ...] = (
    Rule(
        _calls("ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp"),
        Answer.KILL,
        "reaches into another process; no kernel needs it and no library probes for it",
    ),
    Rule(
        _calls(
            "mount umount2 pivot_root chroot setns move_mount fsopen fsconfig fsmount fspick"
            " open_tree mount_setattr open_by_handle_at name_to_handle_at"
        ),
        Answer.KILL,
        "rebuilds the view of files or leaves it",
    ),
    Rule(
        _calls(
            "bpf kexec_load kexec_file_load init_module finit_module delete_module reboot"
            " swapon swapoff acct quotactl quotactl_fd settimeofday clock_settime iopl ioperm"
            " sethostname setdomainname vhangup"
        ),
        Answer.KILL,
        "changes the machine; only an attack asks for it",
    ),
    Rule(
        _calls("io_uring_setup io_uring_enter io_uring_register io_setup io_submit"),
        Answer.EPERM,
        "lets the kernel write on while the box is frozen; libraries probe and fall back",
    ),
    Rule(
        _calls(
            "perf_event_open userfaultfd keyctl add_key request_key memfd_secret personality"
            " move_pages migrate_pages fanotify_init lookup_dcookie syslog adjtimex clock_adjtime"
            " process_mrelease statmount listmount modify_ldt"
        ),
        Answer.EPERM,
        "wide kernel surface or a view beyond the box; profilers and NUMA libraries probe for it",
    ),
    Rule(
        ("mincore",),
        Answer.ENOSYS,
        "walks terabytes of an empty mapping in one call that neither freeze nor SIGKILL ends",
    ),
    Rule(_calls("unshare"), Answer.EPERM, "makes namespaces; build tools probe for it"),
    *(
        Rule(
            ("clone",),
            Answer.EPERM,
            f"makes a {name} namespace",
            (Argument(0, mask=flag, wanted=flag),),
        )
        for name, flag in _NAMESPACES.items()
    ),
    Rule(
        ("clone3",),
        Answer.ENOSYS,
        "its flags lie in memory where no filter sees them; libc falls back to clone",
    ),
    *(
        Rule(
            ("socket", "socketpair"),
            Answer.EPERM,
            "an address family beyond Unix and IP",
            (Argument(0, wanted=family),),
        )
        for family in _FOREIGN_FAMILIES
    ),
    Rule(
        ("socket", "socketpair"),
        Answer.EPERM,
        "packet, crypto and vsock sockets: vsock reaches the host from any network namespace",
        (Argument(0, above=_AF_NETLINK),),
    ),
    *(
        Rule(
            ("ioctl",),
            Answer.EPERM,
            "types into somebody's terminal",
            (Argument(1, wanted=request),),
        )
        for request in (_TIOCSTI, _TIOCLINUX)
    ),
)

NO_NETWORK: tuple[Rule, ...] = tuple(
    Rule(("socket",), Answer.EPERM, "this box has no network", (Argument(0, wanted=family),))
    for family in (_AF_INET, _AF_INET6, _AF_NETLINK)
)

TIMED: tuple[Rule, ...] = (
    Rule(
        _calls("execve execveat fork vfork"),
        Answer.EPERM,
        "a timed box runs what the judge started; `platform` and torch fall back on an error",
    ),
    Rule(
        ("clone",),
        Answer.EPERM,
        "threads only: a process of its own could run on beside the clock",
        (Argument(0, mask=_CLONE_THREAD, wanted=0),),
    ),
    Rule(("clone3",), Answer.ENOSYS, "as in the base filter"),
    Rule(
        _calls("timer_create timerfd_create"),
        Answer.EPERM,
        "thousands of timers go off while the box is frozen: their interrupts would take the core"
        " from the null kernel, whose time is subtracted",
    ),
    Rule(
        ("prctl",),
        Answer.EPERM,
        "would let other processes of this uid write into this one's memory",
        (Argument(0, wanted=_PR_SET_DUMPABLE),),
    ),
    Rule(
        ("prctl",),
        Answer.EPERM,
        "no filters of the submission's own: they could trap the harness's calls",
        (Argument(0, wanted=_PR_SET_SECCOMP),),
    ),
    Rule(("seccomp",), Answer.EPERM, "as above"),
)

# The newest call that this table was written with in mind (mseal). Calls that came later are
# unknown here, so they do not exist in a box: every library has a way for older kernels.
_NEWEST_CALL = 462
_X32_BIT = 0x4000_0000
# Calls that an older libseccomp has no name for. Since 424 all 64-bit architectures share numbers.
_NUMBERS = {
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "statmount": 457,
    "listmount": 458,
}


@functools.cache
def base_filter_bpf(network: bool) -> bytes:
    """The program that bubblewrap loads before a box's first instruction, as `struct sock_filter`s.

    network: whether Internet sockets may be made (they reach the box's own loopback only).
    """
    return _compile(BASE if network else BASE + NO_NETWORK)


@functools.cache
def timed_filter_bpf() -> bytes:
    """The program that the harness adds before it loads a submission: no exec, no fork.

    Give it to the box in any form; `runners.harness.confine.apply_filter` takes these bytes.
    """
    return _compile(TIMED)


def _compile(rules: tuple[Rule, ...]) -> bytes:
    program = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    program.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    for rule in rules:
        conditions = [_condition(argument) for argument in rule.when]
        for number in _numbers(rule.calls):
            program.add_rule(rule.answer.value, number, *conditions)
    return _refuse_newer_calls() + _export(program)


def _condition(argument: Argument) -> pyseccomp.Arg:
    if argument.above is not None:
        return pyseccomp.Arg(argument.index, pyseccomp.GT, argument.above)
    return pyseccomp.Arg(argument.index, pyseccomp.MASKED_EQ, argument.mask, argument.wanted)


def _numbers(calls: tuple[str, ...]) -> Iterator[int]:
    """Numbers on this architecture; calls that it does not have (fork on arm64) are left out."""
    for call in calls:
        number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, call)
        if number < 0:
            number = _NUMBERS.get(call, -1)
        if number >= 0:
            yield number


def _export(program: pyseccomp.SyscallFilter) -> bytes:
    with tempfile.TemporaryFile() as file:
        program.export_bpf(file)
        file.seek(0, io.SEEK_SET)
        bpf = file.read()
    if not bpf or len(bpf) % 8:
        raise SandboxError("libseccomp gave no usable filter; install libseccomp2")
    return bpf


def _refuse_newer_calls() -> bytes:
    """Four instructions before a program: a call above `_NEWEST_CALL` answers ENOSYS.

    libseccomp has no ranges over call numbers. The x32 numbers go on to its own check, which kills.
    """
    load_number, jump_if_at_least, answer = 0x20, 0x35, 0x06
    return b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (load_number, 0, 0, 0),
            (jump_if_at_least, 2, 0, _X32_BIT),
            (jump_if_at_least, 0, 1, _NEWEST_CALL + 1),
            (answer, 0, 0, Answer.ENOSYS.value),
        )
    )
