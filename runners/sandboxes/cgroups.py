"""Control groups of boxes: limits, freeze, kill.

Freeze and kill always use a cgroup2 mount, which works beside v1 controllers. Limits use whichever
controllers exist: memory, pids and cpuset of v1, or of v2 where they can be enabled.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runners.ports import SandboxError
from runners.sandboxes.hierarchies import (
    Layout,
    available_controllers,
    enable_controllers,
    inherit_cpuset,
    make_directory,
    pids_of,
    process_start,
    remove_directory,
    write,
    write_if_there,
)

_PREFIX = "judge-"
_KILL_LIMIT_S = 20.0
_numbers = itertools.count()


class Cgroups:
    """The groups of one sandbox of one runner process, below one directory per hierarchy.

    freezer: whether boxes can be frozen. limits: the controllers that hold.
    Opening it removes what crashed runners have left. Missing parts are no error.
    """

    def __init__(self, layout: Layout) -> None:
        namespace = os.stat("/proc/self/ns/pid").st_ino
        self._tag = f"{_PREFIX}{namespace}-{os.getpid()}-{process_start(os.getpid())}"
        self._tag += f"-{next(_numbers)}"
        self._v1: dict[str, Path] = {}
        self._v2: Path | None = None
        v2_limits: tuple[str, ...] = ()
        if layout.unified is not None and layout.unified_root is not None:
            self._v2, v2_limits = self._open_unified(layout.unified, layout.unified_root)
        for controller, parent in layout.v1.items():
            remove_leftovers(parent)
            directory = make_directory(parent / self._tag)
            if directory is not None:
                self._v1[controller] = directory
                if controller == "cpuset":
                    inherit_cpuset(directory)
        self.freezer = self._v2 is not None and (self._v2 / "cgroup.freeze").exists()
        self.limits = frozenset(self._v1) | frozenset(v2_limits)

    def _open_unified(self, own: Path, root: Path) -> tuple[Path | None, tuple[str, ...]]:
        """Make this runner's directory where the most limits can be had."""
        best: tuple[Path | None, tuple[str, ...]] = (None, ())
        # Root takes the top of the tree: it is the one place that is allowed to hold processes.
        parents = [root, own] if os.geteuid() == 0 else [own]
        for parent in dict.fromkeys(parents):
            remove_leftovers(parent)
            wanted = available_controllers(parent)
            enabled = enable_controllers(parent, wanted)
            if best[0] is not None and len(enabled) <= len(best[1]):
                continue
            directory = make_directory(parent / self._tag)
            if directory is None:
                continue
            if best[0] is not None:
                remove_directory(best[0])
            best = directory, enable_controllers(directory, enabled)
            if set(best[1]) >= set(wanted):
                break
        return best

    def make(self, memory_bytes: int, processes: int, cores: Sequence[int]) -> Group:
        """An empty group with these limits. processes counts everything in the box, threads too."""
        name = f"box-{next(_numbers)}"
        directories = {c: path / name for c, path in self._v1.items()}
        v2 = None if self._v2 is None else self._v2 / name
        group = Group(v2, directories, self.limits)
        try:
            group.create(memory_bytes, processes, cores)
        except OSError as error:
            group.remove()
            raise SandboxError(f"cannot set up the control groups of a box: {error}") from error
        return group

    def close(self) -> None:
        """Remove this runner's directories. Every group must have been removed."""
        for directory in self._v1.values():
            remove_directory(directory)
        if self._v2 is not None:
            remove_directory(self._v2)


class Group:
    """The control groups of one box, one directory per hierarchy."""

    def __init__(self, v2: Path | None, v1: Mapping[str, Path], limits: frozenset[str]) -> None:
        self._v2 = v2
        self._v1 = v1
        self._limits = limits
        self._freeze_fd = self._events_fd = -1

    def create(self, memory_bytes: int, processes: int, cores: Sequence[int]) -> None:
        for directory in self._directories():
            directory.mkdir()
        cpus = ",".join(str(core) for core in cores)
        for controller in self._limits:
            directory = self._directory_of(controller)
            if controller == "pids":
                write(directory / "pids.max", str(processes))
            elif controller == "cpuset":
                if controller in self._v1:
                    inherit_cpuset(directory)
                write(directory / "cpuset.cpus", cpus)
            elif controller in self._v1:
                write(directory / "memory.limit_in_bytes", str(memory_bytes))
                write_if_there(directory / "memory.memsw.limit_in_bytes", str(memory_bytes))
            else:
                write(directory / "memory.max", str(memory_bytes))
                write_if_there(directory / "memory.swap.max", "0")
                write_if_there(directory / "memory.oom.group", "1")
        if self._v2 is not None:
            self._freeze_fd = os.open(self._v2 / "cgroup.freeze", os.O_RDWR | os.O_CLOEXEC)
            self._events_fd = os.open(self._v2 / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)

    def join(self, pid: int) -> None:
        """Put a process that has not forked yet into the group."""
        for directory in self._directories():
            write(directory / "cgroup.procs", str(pid))

    def pin(self, cores: Sequence[int]) -> None:
        """Have every thread run on these cores alone from now on."""
        if "cpuset" in self._limits:
            cpus = ",".join(str(core) for core in cores)
            write(self._directory_of("cpuset") / "cpuset.cpus", cpus)
        for pid in self.processes():
            for thread in Path(f"/proc/{pid}/task").glob("[0-9]*"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), cores)

    def freeze(self, limit_s: float) -> None:
        """Stop all; returns when the kernel says that all are stopped."""
        if self._freeze_fd < 0:
            raise SandboxError("this machine has no cgroup2 mount to freeze boxes with")
        os.pwrite(self._freeze_fd, b"1", 0)
        deadline = time.monotonic() + limit_s
        while b"frozen 1" not in os.pread(self._events_fd, 128, 0):
            if time.monotonic() > deadline:
                raise SandboxError(f"a box did not freeze within {limit_s} s")

    def thaw(self) -> None:
        """Let all run on. They do so from when the kernel gets to them, some 40 us later."""
        if self._freeze_fd < 0:
            raise SandboxError("this machine has no cgroup2 mount to freeze boxes with")
        os.pwrite(self._freeze_fd, b"0", 0)

    def kill(self) -> None:
        """Kill every process, frozen or not, and wait until none is left."""
        if self._v2 is not None:
            write_if_there(self._v2 / "cgroup.kill", "1")
        pause_s = 0.0001
        deadline = time.monotonic() + _KILL_LIMIT_S
        while pids := self.processes():
            if time.monotonic() > deadline:
                raise SandboxError(f"processes outlived SIGKILL for {_KILL_LIMIT_S} s: {pids}")
            # Without cgroup.kill (kernels before 5.14) a fork may escape one round, not all.
            if self._v2 is None or not (self._v2 / "cgroup.kill").exists():
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.005)

    def processes(self) -> tuple[int, ...]:
        """Process ids of the host that are in the group, zombies left out."""
        for directory in self._directories():
            with contextlib.suppress(FileNotFoundError):
                return pids_of(directory)
        return ()

    def memory_now_bytes(self) -> int | None:
        return self._number("memory", "memory.usage_in_bytes", "memory.current")

    def memory_peak_bytes(self) -> int | None:
        return self._number("memory", "memory.max_usage_in_bytes", "memory.peak")

    def killed_for_memory(self) -> bool:
        """Whether the kernel killed any process of the group for lack of memory."""
        return self._count("memory", "memory.oom_control", "memory.events", "oom_kill") > 0

    def refused_processes(self) -> bool:
        """Whether the kernel refused any fork or thread of the group for the limit of processes."""
        return self._count("pids", "pids.events", "pids.events", "max") > 0

    def remove(self) -> None:
        """Remove the directories; the group must be empty. Doing it twice is fine."""
        for fd in (self._freeze_fd, self._events_fd):
            if fd >= 0:
                os.close(fd)
        self._freeze_fd = self._events_fd = -1
        for group in self._directories():
            remove_directory(group)

    def _directories(self) -> Iterator[Path]:
        if self._v2 is not None:
            yield self._v2
        yield from dict.fromkeys(self._v1.values())

    def _directory_of(self, controller: str) -> Path:
        """Where a controller that holds is set and read."""
        directory = self._v1.get(controller, self._v2)
        assert directory is not None
        return directory

    def _number(self, controller: str, v1_name: str, v2_name: str) -> int | None:
        text = self._read(controller, v1_name, v2_name)
        return int(text) if text else None

    def _count(self, controller: str, v1_name: str, v2_name: str, key: str) -> int:
        text = self._read(controller, v1_name, v2_name)
        counts = dict(line.split() for line in text.splitlines())
        return int(counts.get(key, 0))

    def _read(self, controller: str, v1_name: str, v2_name: str) -> str:
        """Empty where the controller does not hold or this kernel lacks the file."""
        if controller not in self._limits:
            return ""
        name = v1_name if controller in self._v1 else v2_name
        try:
            return (self._directory_of(controller) / name).read_text()
        except FileNotFoundError:
            return ""


def remove_leftovers(parent: Path) -> None:
    """Kill and remove what runners that no longer live have left below `parent`."""
    namespace = str(os.stat("/proc/self/ns/pid").st_ino)
    for directory in parent.glob(f"{_PREFIX}{namespace}-*-*-*"):
        _, _, pid, start, _ = directory.name.split("-")
        if process_start(int(pid)) == start:
            continue
        for box in [*directory.glob("box-*"), directory]:
            # Another user's, or just being removed by another runner: neither is ours to mend.
            with contextlib.suppress(OSError, SandboxError):
                Group(None, {"pids": box}, frozenset()).kill()
                remove_directory(box)
