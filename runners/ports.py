"""The seams of a runner: sandboxes and devices.

Implementations: `runners.sandboxes.bubblewrap` (later Docker, Docker with gVisor) and
`runners.devices.cpu` (later CUDA, ROCm). Every promise is tested against each of them.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class SandboxError(Exception):
    """The sandbox failed, not the program in it: our fault."""


class Phase(StrEnum):
    """What a box is for. A build box may exec compilers; a timed box may neither exec nor fork."""

    BUILD = "build"
    TIMED = "timed"


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a sandbox holds on this machine. ranked_ok needs a freezer and an own host uid."""

    level: str  # "full" or "reduced"
    freezer: bool
    own_uid: bool
    reasons: tuple[str, ...] = ()  # what is missing and its remedy, one sentence each


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """One single-use box.

    command: argv inside; its working directory is /tmp. read_only: host path to path inside.
    writable: host path to path inside (build phase only). cores: CPU numbers it may run on.
    output_bytes: stdout and stderr together; more ends the box.
    """

    phase: Phase
    command: Sequence[str]
    read_only: Mapping[Path, str]
    environment: Mapping[str, str]
    cores: tuple[int, ...]
    memory_bytes: int
    processes: int
    tmp_bytes: int
    output_bytes: int
    writable: Mapping[Path, str] = field(default_factory=dict)
    network: bool = False  # loopback only, and only where world > 1


@dataclass(frozen=True, slots=True)
class BoxEnd:
    """How a box ended. Exactly what was seen; `runners.endings` turns it into a verdict.

    exit_code: None if it was killed by `signal`. killed_by_us: the judge ended it on purpose.
    output: head and tail of stdout and stderr, bounded; output_exceeded: it printed over the limit.
    """

    exit_code: int | None
    signal: int | None
    killed_by_us: bool
    out_of_memory: bool
    out_of_processes: bool
    output_exceeded: bool
    output: bytes
    memory_peak_bytes: int | None


class Box(Protocol):
    """A living box. Frames are whole messages of at most 64 KiB on one seqpacket Unix socket.

    The peer is hostile. Whoever launched the box must call `kill` in the end; killing twice is fine.
    """

    channel: socket.socket

    def send_memory(self, frame: bytes, fds: Sequence[int]) -> None:
        """Send one frame with file descriptors (sealed memfds) by SCM_RIGHTS."""

    def freeze(self) -> None:
        """Stop every process of the box; returns when all are stopped. Raises SandboxError on time-out."""

    def thaw(self) -> None: ...

    def pin(self, cores: Sequence[int]) -> None:
        """Let it run on these cores alone from now on, whatever its spec said.

        Only before it holds a submission's code: a thread that is just being made could escape it.
        """

    def memory_now_bytes(self) -> int | None:
        """Memory charged to the box's cgroup, or None where no controller exists."""

    def alive(self) -> bool: ...

    def drain(self) -> bool:
        """Take what it has printed, without waiting; whether that is within `output_bytes`.

        Call it now and then while a call runs, and between calls: a full pipe blocks the box.
        """

    def output_so_far(self) -> bytes:
        """What `BoxEnd.output` would hold if the box, which is frozen, had ended now."""

    def wait(self, timeout_s: float) -> BoxEnd | None:
        """How it ended, or None if it still lives after the time."""

    def kill(self) -> BoxEnd:
        """End every process of the box, wait until none is left, clean up, say how it ended."""


class Sandbox(Protocol):
    """Makes boxes. One object per runner process."""

    name: str

    def isolation(self) -> Isolation: ...

    def launch(self, spec: BoxSpec) -> Box:
        """Start a box and wait until its program has connected the channel. Raises SandboxError."""

    def close(self) -> None: ...


class Device(Protocol):
    """The hardware a runner judges on."""

    name: str

    def evaluator_core(self) -> int: ...

    def box_cores(self) -> tuple[int, ...]: ...

    def last_level_cache_bytes(self) -> int: ...

    def floor_ns(self, bytes_moved: int, flops: int) -> float:
        """A time that no kernel can be under which moves so much and does so many operations.

        From measured peaks of this device, with a margin: a false alarm would hold an honest kernel.
        """

    def describe(self) -> Mapping[str, str]:
        """Environment of a run as plain strings: CPU model, cores, torch, kernel, compiler."""
