"""A laboratory: a box with a program inside that tries things and reports."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import socket
import struct
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import runners
from runners.ports import Box, BoxEnd, BoxSpec, Phase, Sandbox
from runners.sandboxes.seccomp import timed_filter_bpf

MIB = 1 << 20
F_ADD_SEALS = 1033
SEAL_SEAL, SEAL_SHRINK, SEAL_GROW = 1, 2, 4

PRELUDE = """
import array, ctypes, errno, json, mmap, os, signal, socket, sys, threading, time
channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
channel.connect(os.environ["JUDGE_CHANNEL"])
libc = ctypes.CDLL(None, use_errno=True)
def say(answer):
    channel.send(json.dumps(answer).encode())
def error_of(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None
def hear_memory():
    frame, ancillary, _, _ = channel.recvmsg(65536, 64)
    return array.array("i", ancillary[0][2])[0]
def on_double_fork(work):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            work()
        os._exit(0)
def hide_memory():
    sys.path.insert(0, "/box/harness")
    import confine
    confine.hide_memory()
def confine():
    hide_memory()
    import confine
    confine.apply_filter(bytes.fromhex(os.environ["FILTER"]))
"""


class Lab:
    """One sandbox under test. Boxes that it launches are killed when the test ends."""

    def __init__(self, make: Callable[[], Sandbox], sandbox: Sandbox) -> None:
        """make: how another sandbox of this kind is made."""
        self.make = make
        self.sandbox = sandbox
        self._boxes: list[Box] = []
        self._memories: list[tuple[int, mmap.mmap]] = []

    def spec(self, code: str, **changes: Any) -> BoxSpec:
        harness = Path(runners.__file__).parent / "harness" / "confine.py"
        spec = BoxSpec(
            phase=Phase.TIMED,
            command=[sys.executable, "-I", "-c", PRELUDE + textwrap.dedent(code)],
            read_only={harness: "/box/harness/confine.py"},
            environment={"FILTER": timed_filter_bpf().hex()},
            cores=(max(os.sched_getaffinity(0)),),
            memory_bytes=256 * MIB,
            processes=64,
            tmp_bytes=16 * MIB,
            output_bytes=64 << 10,
        )
        return replace(spec, **changes)

    def launch(self, code: str, **changes: Any) -> Box:
        box = self.sandbox.launch(self.spec(code, **changes))
        self._boxes.append(box)
        return box

    def hear(self, box: Box, limit_s: float = 30.0) -> Any:
        """The next thing that the program in the box says."""
        box.channel.settimeout(limit_s)
        frame = box.channel.recv(1 << 16)
        assert frame, f"the program ended: {box.kill()}"
        return json.loads(frame)

    def answer(self, code: str, **changes: Any) -> Any:
        """The first thing that a program in a box of its own says; the box has ended then."""
        box = self.launch(code, **changes)
        answer = self.hear(box)
        box.kill()
        return answer

    def end(self, code: str, **changes: Any) -> BoxEnd:
        """How a box with this program ends by itself."""
        end = self.launch(code, **changes).wait(30.0)
        assert end is not None, "the box still lives"
        return end

    def shared_memory(self, more_seals: int = 0) -> tuple[int, mmap.mmap]:
        """One page, sealed as the evaluator seals it: its file and the judge's view of it."""
        fd = os.memfd_create("test", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(fd, 4096)
        memory = mmap.mmap(fd, 4096)
        fcntl.fcntl(fd, F_ADD_SEALS, SEAL_SHRINK | SEAL_GROW | SEAL_SEAL | more_seals)
        self._memories.append((fd, memory))
        return fd, memory

    def clean_up(self) -> None:
        for box in self._boxes:
            box.kill()
        for fd, memory in self._memories:
            memory.close()
            os.close(fd)


def host_uid(box: Box) -> int:
    """The user that the host knows the program by."""
    credentials = box.channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[1])


def processes_of(uid: int) -> list[str]:
    """Living processes of the host that belong to a user."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.stat().st_uid == uid and ") Z " not in (entry / "stat").read_text():
                found.append(entry.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def until(condition: Callable[[], bool], limit_s: float = 10.0) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True
