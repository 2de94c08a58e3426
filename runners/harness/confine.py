"""Give up rights for good, before anything of a submission is loaded. Standard library only."""

import ctypes
import os

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_ALL_THREADS = 1
_SECCOMP_CALL = {"x86_64": 317, "aarch64": 277, "riscv64": 277}


class _Program(ctypes.Structure):
    """`struct sock_fprog`: a count of 8-byte instructions and where they lie."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def hide_memory() -> None:
    """Keep other processes of this uid from opening this one's memory; no core files either."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE) failed")


def apply_filter(bpf: bytes) -> None:
    """Put a system call filter on every thread of this process. It cannot be taken off again.

    bpf: `struct sock_filter`s, 8 bytes each. Raises OSError if the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) failed")
    buffer = ctypes.create_string_buffer(bpf, len(bpf))
    program = _Program(len(bpf) // 8, ctypes.addressof(buffer))
    call = _SECCOMP_CALL[os.uname().machine]
    # Positive: the id of a thread that has a filter of its own and would have stayed outside.
    left_out = libc.syscall(
        ctypes.c_long(call),
        ctypes.c_long(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_long(_ALL_THREADS),
        ctypes.byref(program),
    )
    if left_out:
        raise OSError(ctypes.get_errno(), f"seccomp failed ({left_out})")
