"""Long-running programs that `judge up` starts, keeps alive and stops, without leaving any behind.

Linux only: it adopts orphans (PR_SET_CHILD_SUBREAPER), so that a grandchild whose parent died is
found and ended as well.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STOP_S = 10.0
KILL_S = 5.0
RESTARTS = 3
RESTART_WINDOW_S = 60.0

_libc = ctypes.CDLL(None, use_errno=True)


class ProcessError(Exception):
    """A program of the judge does not run; the text holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. name: how it is called in talk, and its log file's name."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    log: Path


class Supervisor:
    """Runs programs, each in a session of its own; starts one that died again, a few times.

    Use it from one thread, the main one: a child's death signal is tied to the thread that made it.
    """

    def __init__(self) -> None:
        self._running: dict[str, tuple[Program, subprocess.Popen[bytes]]] = {}
        self._deaths: dict[str, list[float]] = {}
        if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "cannot adopt orphans")

    def start(self, program: Program) -> int:
        """Start a program and return its process id; its output goes to its log file."""
        program.log.parent.mkdir(parents=True, exist_ok=True)
        parent = os.getpid()

        def die_with_parent() -> None:
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

        with program.log.open("ab") as log:
            process = subprocess.Popen(
                program.argv,
                env=dict(program.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._running[program.name] = (program, process)
        return process.pid

    def ended(self, name: str) -> int | None:
        """The exit status of a program that was started and has ended, else None."""
        return self._running[name][1].poll()

    def check(self) -> tuple[str, ...]:
        """Start what died again and reap orphans; a sentence for each restart.

        Raises ProcessError when a program dies again and again.
        """
        told = []
        for name, (program, process) in list(self._running.items()):
            if process.poll() is None:
                continue
            now = time.monotonic()
            recent = [t for t in self._deaths.get(name, []) if now - t < RESTART_WINDOW_S]
            self._deaths[name] = [*recent, now]
            if len(recent) >= RESTARTS:
                raise ProcessError(
                    f"The {name} died {len(recent) + 1} times within {RESTART_WINDOW_S:.0f} s. "
                    f"The end of {program.log}:\n{log_tail(program.log)}"
                )
            told.append(f"The {name} ended with status {process.returncode}; starting it again.")
            self.start(program)
        self._reap_orphans()
        return tuple(told)

    def stop(self) -> int:
        """End every program, last started first, and all they left behind; how many had to be killed.

        Returns after at most about STOP_S seconds a program.
        """
        killed = 0
        for _, process in reversed(self._running.values()):
            if process.poll() is None:
                _signal_group(process.pid, signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                killed += 1
                _signal_group(process.pid, signal.SIGKILL)
                process.wait(KILL_S)
        self._running.clear()
        return killed + _kill_children()

    def _reap_orphans(self) -> None:
        own = {process.pid for _, process in self._running.values()}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def log_tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log file."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(it wrote nothing)"


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _kill_children() -> int:
    """Kill adopted orphans until none is left; how many there were."""
    killed: set[int] = set()
    end = time.monotonic() + KILL_S
    while time.monotonic() < end:
        living = [pid for pid in _children() if not _reaped(pid)]
        if not living:
            break
        for pid in living:
            os.kill(pid, signal.SIGKILL)
        killed.update(living)
        time.sleep(0.005)  # a killed process takes a moment to become reapable
    return len(killed)


def _reaped(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] == pid


def _children() -> list[int]:
    """Process ids whose parent is this process, zombies included."""
    me = os.getpid()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it ended meanwhile
            # The name, in parentheses, may hold anything; the parent is the second field behind it.
            if int(stat.rpartition(")")[2].split()[1]) == me:
                found.append(int(entry.name))
    return found
