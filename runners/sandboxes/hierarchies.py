"""Where control groups can be made on this machine, and the small steps of making them."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runners.ports import SandboxError

CONTROLLERS = ("memory", "pids", "cpuset")
_RUNNERS_LEAF = "judge-runner"
_PRIVATE_MOUNT = Path("/run/kernel-judge/cgroup2")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where this process stands in the control groups of the machine.

    unified: its own directory in cgroup2; unified_root: the top of that mount. v1: its own directory
    per controller.
    """

    unified: Path | None = None
    unified_root: Path | None = None
    v1: Mapping[str, Path] = field(default_factory=dict)


def parse_layout(mountinfo: str, membership: str) -> Layout:
    """The layout that `/proc/self/mountinfo` and `/proc/self/cgroup` describe."""
    own: dict[str, str] = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path
    unified = unified_root = None
    v1: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        before, after = line.split(" - ", 1)
        root, mount = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" and unified is None:
            unified_root = Path(mount)
            unified = _own_directory(unified_root, root, own.get("", "/"))
            # Where a runner stepped aside before, boxes go beside it.
            unified = unified.parent if unified.name == _RUNNERS_LEAF else unified
        elif kind == "cgroup":
            for controller in set(options.split(",")) & set(CONTROLLERS) & own.keys():
                v1.setdefault(controller, _own_directory(Path(mount), root, own[controller]))
    return Layout(unified, unified_root, v1)


def _own_directory(mount: Path, root: str, path: str) -> Path:
    """Where `path` shows below a mount of `root`; the mount itself if it does not show there."""
    base = root.rstrip("/")
    if path != root and not path.startswith(base + "/"):
        return mount
    return mount / path[len(base) :].lstrip("/")


def read_layout() -> Layout:
    """The layout of this machine, now."""
    return parse_layout(
        Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()
    )


def mount_unified(layout: Layout) -> Layout:
    """Mount cgroup2 beside the v1 hierarchies where none is mounted, which takes root."""
    if layout.unified is not None or os.geteuid() != 0:
        return layout
    _PRIVATE_MOUNT.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "cgroup2", "none", str(_PRIVATE_MOUNT)], capture_output=True, check=False
    )
    return layout if mounted.returncode else read_layout()


def process_start(pid: int) -> str | None:
    """When a process started, in clock ticks since boot: with the pid its name for good."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rpartition(")")[2].split()[19]


def write(path: Path, text: str) -> None:
    """Write in one call: the kernel takes each write to a group's file as one order."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def write_if_there(path: Path, text: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        write(path, text)


def pids_of(directory: Path) -> tuple[int, ...]:
    """The living processes that are directly in a group."""
    return tuple(int(line) for line in (directory / "cgroup.procs").read_text().split())


def make_directory(directory: Path) -> Path | None:
    """The directory, newly made; None where this user may not make it."""
    try:
        directory.mkdir()
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT):
            return None
        raise
    return directory


def inherit_cpuset(directory: Path) -> None:
    """A v1 cpuset starts empty, and an empty one takes no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        write(directory / name, (directory.parent / name).read_text().strip())


def available_controllers(parent: Path) -> tuple[str, ...]:
    """Those of ours that a v2 directory could pass on to its children."""
    try:
        words = (parent / "cgroup.controllers").read_text().split()
    except FileNotFoundError:
        return ()
    return tuple(c for c in CONTROLLERS if c in words)


def enable_controllers(parent: Path, controllers: Sequence[str]) -> tuple[str, ...]:
    """Pass controllers on to the children of a v2 directory; returns those that are."""
    control = parent / "cgroup.subtree_control"
    for controller in controllers:
        try:
            write(control, f"+{controller}")
        except OSError as error:
            # A directory that passes controllers on may hold no process itself.
            if error.errno != errno.EBUSY or not _step_aside(parent):
                continue
            with contextlib.suppress(OSError):
                write(control, f"+{controller}")
    enabled = control.read_text().split() if controllers else ()
    return tuple(c for c in controllers if c in enabled)


def _step_aside(parent: Path) -> bool:
    """Move the processes of a v2 directory into a leaf below it, if all are of this one's family.

    The family: this process's highest ancestor in the directory, and everything that descends from it.
    That is a service or scope of the runner's own, or the whole of a container.
    """
    members = pids_of(parent)
    chains = {pid: _ancestors(pid) for pid in members}
    if os.getpid() not in members:
        return False
    head = [pid for pid in (os.getpid(), *chains[os.getpid()]) if pid in members][-1]
    if any(pid != head and head not in chain for pid, chain in chains.items()):
        return False
    leaf = parent / _RUNNERS_LEAF
    try:
        leaf.mkdir(exist_ok=True)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                write(leaf / "cgroup.procs", str(pid))
    except OSError:
        return False
    return True


def _ancestors(pid: int) -> tuple[int, ...]:
    chain: list[int] = []
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            break
        pid = int(stat.rpartition(")")[2].split()[1])
        chain.append(pid)
    return tuple(chain)


def remove_directory(directory: Path) -> None:
    """Remove an empty group. The kernel may call it busy for a moment after its last process."""
    deadline = time.monotonic() + 5.0
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise SandboxError(f"cannot remove {directory}: {error}") from error
            time.sleep(0.001)
        else:
            return
