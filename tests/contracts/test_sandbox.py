"""What every sandbox promises, tried from inside its boxes."""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import runners
from runners.ports import Box, BoxEnd, BoxSpec, Phase, Sandbox, SandboxError
from runners.sandboxes.bubblewrap import BubblewrapSandbox, find_bubblewrap

pytestmark = [
    pytest.mark.box,
    pytest.mark.skipif(find_bubblewrap() is None, reason="needs bubblewrap"),
]

SANDBOXES: dict[str, Callable[[], Sandbox]] = {"bubblewrap": BubblewrapSandbox}

MIB = 1 << 20
F_ADD_SEALS, F_GET_SEALS = 1033, 1034
SEAL_SEAL, SEAL_SHRINK, SEAL_GROW, SEAL_FUTURE_WRITE = 1, 2, 4, 16

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
"""


@pytest.fixture(scope="module", params=SANDBOXES)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    made = SANDBOXES[request.param]()
    yield made
    made.close()


@pytest.fixture
def full(sandbox: Sandbox) -> Sandbox:
    """For promises that reduced isolation does not give."""
    isolation = sandbox.isolation()
    if isolation.level != "full":
        pytest.skip(f"reduced isolation: {'; '.join(isolation.reasons)}")
    return sandbox


def spec_of(code: str, **changes: Any) -> BoxSpec:
    spec = BoxSpec(
        phase=Phase.TIMED,
        command=[sys.executable, "-I", "-c", PRELUDE + textwrap.dedent(code)],
        read_only={},
        environment={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        cores=(max(os.sched_getaffinity(0)),),
        memory_bytes=256 * MIB,
        processes=64,
        tmp_bytes=16 * MIB,
        output_bytes=64 << 10,
    )
    return replace(spec, **changes)


def hear(box: Box, limit_s: float = 20.0) -> Any:
    box.channel.settimeout(limit_s)
    frame = box.channel.recv(1 << 16)
    assert frame, f"the program ended: {box.kill()}"
    return json.loads(frame)


def answer_of(sandbox: Sandbox, code: str, **changes: Any) -> Any:
    """What the code says, once, from a box of its own."""
    box = sandbox.launch(spec_of(code, **changes))
    try:
        return hear(box)
    finally:
        box.kill()


def end_of(sandbox: Sandbox, code: str, limit_s: float = 20.0, **changes: Any) -> BoxEnd:
    """How a box with this code ends by itself."""
    box = sandbox.launch(spec_of(code, **changes))
    try:
        end = box.wait(limit_s)
        assert end is not None, "the box still lives"
        return end
    finally:
        box.kill()


def host_uid(box: Box) -> int:
    credentials = box.channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[1])


def processes_of_uid(uid: int) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.stat().st_uid == uid and " Z " not in (entry / "stat").read_text():
                found.append(entry.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def shared_memory(seals: int = SEAL_SHRINK | SEAL_GROW | SEAL_SEAL) -> tuple[int, mmap.mmap]:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, 4096)
    memory = mmap.mmap(fd, 4096)
    fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd, memory


def counter(memory: mmap.mmap) -> int:
    return int(struct.unpack_from("Q", memory)[0])


def until(condition: Callable[[], bool], limit_s: float = 10.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


# --- what can be seen


def test_a_box_cannot_make_internet_sockets(sandbox: Sandbox) -> None:
    code = "say([error_of(socket.socket, f) for f in (socket.AF_INET, socket.AF_INET6)])"
    assert answer_of(sandbox, code) == ["EPERM", "EPERM"]


def test_a_box_with_network_reaches_itself_and_not_the_host(sandbox: Sandbox) -> None:
    code = """
        own = socket.create_server(("127.0.0.1", 0))
        here = socket.create_connection(own.getsockname(), 5)
        say(error_of(socket.create_connection, ("127.0.0.1", int(os.environ["PORT"])), 5))
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        answer = answer_of(sandbox, code, network=True, environment={"PORT": port})
    assert answer == "ECONNREFUSED"


@pytest.mark.parametrize("family", [socket.AF_VSOCK, socket.AF_ALG, socket.AF_PACKET, 3, 11, 44])
def test_a_box_with_network_cannot_make_other_sockets(sandbox: Sandbox, family: int) -> None:
    code = f"say(error_of(socket.socket, {int(family)}, socket.SOCK_RAW))"
    assert answer_of(sandbox, code, network=True) == "EPERM"


def test_a_box_sees_no_processes_but_its_own(sandbox: Sandbox) -> None:
    code = """
        pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
        say([os.getpid(), pids, os.getppid()])
    """
    own, pids, parent = answer_of(sandbox, code)
    assert set(pids) == {1, own}
    assert parent == 1


def test_the_arguments_of_pid_1_tell_nothing_of_the_host(sandbox: Sandbox, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.write_text("x")
    code = "say(open('/proc/1/cmdline').read())"
    answer = answer_of(sandbox, code, read_only={shown: "/box/shown"})
    assert str(tmp_path) not in answer


def test_the_environment_is_exactly_the_given_one(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_SECRET", "hunter2")
    answer = answer_of(sandbox, "say(dict(os.environ))", environment={"A": "1", "LC_ALL": "C"})
    channel = answer.pop("JUDGE_CHANNEL")
    assert channel == "/run/judge/channel.sock"
    # Python itself adds LC_CTYPE in the C locale; the working directory's name is bubblewrap's.
    assert {k: v for k, v in answer.items() if k not in ("PWD", "LC_CTYPE")} == {
        "A": "1",
        "LC_ALL": "C",
    }


def test_the_runners_environment_is_in_no_process_of_the_box(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_SECRET", "hunter2")
    code = """
        found = []
        for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
            try:
                found.append("hunter2" in open(f"/proc/{pid}/environ").read())
            except OSError:
                pass
        say(any(found))
    """
    assert answer_of(sandbox, code) is False


def test_no_file_of_the_judge_can_be_read(sandbox: Sandbox) -> None:
    repository = Path(runners.__file__).parent.parent
    code = """
        try:
            import runners
            imported = bool(runners.__file__)
        except ImportError:
            imported = False
        say([os.path.exists(os.environ["R"] + "/" + name) for name in
             ("runners/ports.py", "pyproject.toml", "problems", ".git")] + [imported])
    """
    assert not any(answer_of(sandbox, code, environment={"R": str(repository)}))


def test_files_of_the_host_outside_the_view_do_not_exist(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    code = """
        say([p for p in (os.environ["S"], "/etc/shadow", "/etc/hostname", "/var", "/sys", "/home",
             "/root/.ssh", "/root/.bashrc", "/opt") if os.path.lexists(p)])
    """
    assert answer_of(sandbox, code, environment={"S": str(secret)}) == []


def test_the_host_name_is_not_told(sandbox: Sandbox) -> None:
    assert answer_of(sandbox, "say(os.uname().nodename)") == "box"


def test_only_harmless_devices_exist(sandbox: Sandbox) -> None:
    code = """
        import stat
        modes = {n: os.lstat("/dev/" + n).st_mode for n in os.listdir("/dev")}
        say([n for n, mode in modes.items() if stat.S_ISCHR(mode) or stat.S_ISBLK(mode)])
    """
    harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
    assert set(answer_of(sandbox, code)) <= harmless


def test_no_open_file_of_the_judge_is_inherited(sandbox: Sandbox) -> None:
    leaked = os.memfd_create("secret", 0)
    os.set_inheritable(leaked, True)
    try:
        code = "say(sorted(os.readlink(f'/proc/self/fd/{n}') for n in range(64)"
        code += " if os.path.lexists(f'/proc/self/fd/{n}')))"
        files = answer_of(sandbox, code)
    finally:
        os.close(leaked)
    kinds = sorted(name.split(":")[0] for name in files)
    assert kinds == ["/dev/null", "pipe", "pipe", "socket"]


def test_there_is_no_compiler_and_no_shell_in_a_timed_box(sandbox: Sandbox) -> None:
    code = "say([p for p in ('/bin/sh', '/usr/bin/g++', '/usr/bin/env') if os.path.exists(p)])"
    assert answer_of(sandbox, code) == []


# --- what can be written


def test_nothing_but_tmp_and_shared_memory_can_be_written(sandbox: Sandbox) -> None:
    code = """
        def write(path):
            with open(path, "w"):
                pass
        places = ("/", "/usr/lib", "/etc", "/run/judge", "/dev", "/proc", sys.prefix, "/tmp",
                  "/dev/shm")
        say([p for p in places if error_of(write, p + "/x") is None])
    """
    assert answer_of(sandbox, code) == ["/tmp", "/dev/shm"]


def test_kernel_settings_cannot_be_written(sandbox: Sandbox) -> None:
    code = """
        settings = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
                    "/proc/sysrq-trigger", "/proc/self/oom_score_adj_")
        say([p for p in settings if error_of(os.open, p, os.O_WRONLY) is None])
    """
    assert answer_of(sandbox, code) == []


def test_a_read_only_path_can_be_read_and_not_written(sandbox: Sandbox, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    given.chmod(0o777)
    (given / "file").write_text("content")
    (given / "file").chmod(0o666)
    code = """
        path = "/box/given/file"
        say([open(path).read(), error_of(os.open, path, os.O_WRONLY), error_of(os.chmod, path, 0)])
    """
    answer = answer_of(sandbox, code, read_only={given: "/box/given"})
    assert answer == ["content", "EROFS", "EROFS"]


def test_a_build_box_leaves_its_files_in_a_writable_directory(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    target = tmp_path / "built"
    target.mkdir()
    code = "open('/box/out/module.so', 'w').write('built'); say(1)"
    answer_of(sandbox, code, phase=Phase.BUILD, writable={target: "/box/out"})
    assert (target / "module.so").read_text() == "built"
    about = target.stat()
    assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (os.geteuid(), 0o700)


def test_a_timed_box_with_a_writable_directory_is_refused(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only a build box"):
        sandbox.launch(spec_of("", writable={tmp_path: "/box/out"}))


def test_a_build_box_compiles(sandbox: Sandbox) -> None:
    if not Path("/usr/bin/g++").exists():
        pytest.skip("needs g++")
    code = """
        import subprocess
        open("a.cpp", "w").write("#include <vector>\\nint main() { return std::vector<int>(7).size(); }")
        subprocess.run(["g++", "a.cpp", "-o", "a"], check=True)
        say(subprocess.run(["./a"]).returncode)
    """
    assert answer_of(sandbox, code, phase=Phase.BUILD) == 7


def test_tmp_and_shared_memory_are_empty_in_every_box(sandbox: Sandbox) -> None:
    code = """
        seen = [os.path.exists("/tmp/left"), os.path.exists("/dev/shm/left")]
        open("/tmp/left", "w"), open("/dev/shm/left", "w")
        say(seen)
    """
    assert answer_of(sandbox, code) == [False, False]
    assert answer_of(sandbox, code) == [False, False]


# --- rights


def test_the_host_knows_a_box_by_a_user_that_is_neither_root_nor_the_runner(full: Sandbox) -> None:
    box = full.launch(spec_of("channel.recv(1)"))
    try:
        assert host_uid(box) not in (0, os.geteuid())
    finally:
        box.kill()


def test_living_boxes_never_share_a_user_even_across_sandboxes(full: Sandbox) -> None:
    other = SANDBOXES[full.name]()
    boxes = [s.launch(spec_of("channel.recv(1)")) for s in (full, full, other)]
    try:
        assert len({host_uid(box) for box in boxes}) == 3
    finally:
        for box in boxes:
            box.kill()
        other.close()


def test_a_box_has_no_capability_and_can_get_none(sandbox: Sandbox) -> None:
    code = """
        status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
        names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Groups")
        say([status[n].strip() for n in names] + [error_of(os.setuid, 0)])
    """
    *capabilities, no_new_privs, groups, became_root = answer_of(sandbox, code)
    assert [int(c, 16) for c in capabilities[:3]] == [0, 0, 0]
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
def test_a_hostile_system_call_ends_the_box_by_sigsys(sandbox: Sandbox, call: str) -> None:
    pyseccomp = pytest.importorskip("pyseccomp")
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, call)
    end = end_of(sandbox, f"libc.syscall({number}, 0, 0, 0, 0, 0, 0); time.sleep(60)")
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


def test_calls_that_libraries_probe_for_are_refused(sandbox: Sandbox) -> None:
    pyseccomp = pytest.importorskip("pyseccomp")
    numbers = [pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, call) for call in REFUSED_CALLS]
    code = f"say([(libc.syscall(n, 1, 0, 0, 0, 0), ctypes.get_errno()) for n in {numbers}])"
    answers = answer_of(sandbox, code)
    assert [answer for answer in answers if answer != [-1, errno.EPERM]] == []


@pytest.mark.parametrize("flag", [0x10000000, 0x00020000, 0x40000000, 0x20000000])
def test_no_namespace_can_be_made(sandbox: Sandbox, flag: int) -> None:
    pyseccomp = pytest.importorskip("pyseccomp")
    clone = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "clone")
    code = f"""
        unshared = libc.unshare({flag}), ctypes.get_errno()
        say([unshared, (libc.syscall({clone}, {flag} | 17, 0, 0, 0, 0), ctypes.get_errno())])
    """
    assert answer_of(sandbox, code) == [[-1, errno.EPERM], [-1, errno.EPERM]]


def test_a_box_cannot_signal_what_is_not_its_own(full: Sandbox) -> None:
    code = f"say([error_of(os.kill, 1, 9), error_of(os.kill, {os.getpid()}, 9)])"
    assert answer_of(full, code) == ["EPERM", "ESRCH"]


# --- limits


def test_memory_over_the_limit_ends_the_box_and_is_told(full: Sandbox) -> None:
    end = end_of(full, "x = bytearray(400 << 20); say(1)")
    assert end.out_of_memory
    assert end.signal == signal.SIGKILL
    assert end.memory_peak_bytes is not None
    assert end.memory_peak_bytes <= 256 * MIB


def test_a_child_killed_for_memory_is_told_though_the_program_ends_well(full: Sandbox) -> None:
    code = """
        if os.fork() == 0:
            x = bytearray(400 << 20)
        os.wait()
    """
    end = end_of(full, code)
    assert end.out_of_memory


def test_files_in_tmp_count_as_memory(full: Sandbox) -> None:
    code = """
        chunk = b"x" * (1 << 20)
        with open("/tmp/big", "wb") as file:
            for _ in range(400):
                file.write(chunk)
    """
    end = end_of(full, code, tmp_bytes=1 << 30)
    assert end.out_of_memory


def test_memory_now_is_what_the_box_holds(full: Sandbox) -> None:
    box = full.launch(spec_of("channel.recv(1); x = b'x' * (64 << 20); say(1); channel.recv(1)"))
    try:
        before = box.memory_now_bytes()
        box.channel.send(b"g")
        hear(box)
        after = box.memory_now_bytes()
    finally:
        box.kill()
    assert before is not None
    assert after is not None
    assert 60 * MIB < after - before < 80 * MIB


def test_tmp_holds_no_more_than_its_size(sandbox: Sandbox) -> None:
    code = """
        def fill(place):
            for n in range(64):
                with open(f"{place}/{n}", "wb") as file:
                    file.write(b"x" * (1 << 20))
        say([error_of(fill, "/tmp"), error_of(fill, "/dev/shm")])
    """
    assert answer_of(sandbox, code) == ["ENOSPC", "ENOSPC"]


def test_no_file_grows_over_the_size_of_tmp(sandbox: Sandbox) -> None:
    code = """
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        say(error_of(os.ftruncate, os.memfd_create("x"), 1 << 30))
    """
    assert answer_of(sandbox, code) == "EFBIG"


def test_threads_over_the_limit_are_refused_and_told(full: Sandbox) -> None:
    code = """
        wait = threading.Event()
        try:
            for _ in range(100):
                threading.Thread(target=wait.wait, daemon=True).start()
        except RuntimeError:
            os._exit(3)
    """
    end = end_of(full, code, processes=16)
    assert end.out_of_processes
    assert end.exit_code == 3


def test_a_fork_bomb_is_ended_whole_and_the_next_box_starts(full: Sandbox) -> None:
    code = """
        while True:
            try:
                os.fork()
            except OSError:
                say("refused")
                time.sleep(60)
    """
    box = full.launch(spec_of(code, processes=32))
    uid = host_uid(box)
    assert hear(box) == "refused"
    assert len(processes_of_uid(uid)) > 20
    end = box.kill()
    assert end.out_of_processes
    assert processes_of_uid(uid) == []
    assert answer_of(full, "say(1)") == 1


def test_open_files_are_limited(sandbox: Sandbox) -> None:
    code = """
        def open_many():
            kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(2000)]
        import resource
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
            raised = True
        except (ValueError, OSError):
            raised = False
        say([error_of(open_many), limit, raised])
    """
    assert answer_of(sandbox, code) == ["EMFILE", [1024, 1024], False]


def test_a_crash_leaves_no_core_file(sandbox: Sandbox, tmp_path: Path) -> None:
    target = tmp_path / "built"
    target.mkdir()
    code = "os.chdir('/box/out'); os.abort()"
    end = end_of(sandbox, code, phase=Phase.BUILD, writable={target: "/box/out"})
    assert end.signal == signal.SIGABRT
    assert list(target.iterdir()) == []


def test_a_box_runs_on_its_cores_only(full: Sandbox) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("needs two cores")
    first, last = allowed[0], allowed[-1]
    code = f"""
        own = sorted(os.sched_getaffinity(0))
        say([own, error_of(os.sched_setaffinity, 0, [{first}])])
    """
    assert answer_of(full, code, cores=(last,)) == [[last], "EINVAL"]


# --- output


def test_everything_printed_within_the_limit_is_kept_in_order(sandbox: Sandbox) -> None:
    code = """
        for n in range(5000):
            os.write(1 + n % 2, b"%d\\n" % n)
    """
    end = end_of(sandbox, code)
    assert end.output == b"".join(b"%d\n" % n for n in range(5000))
    assert not end.output_exceeded


def test_endless_output_ends_the_box_and_keeps_head_and_tail(sandbox: Sandbox) -> None:
    code = """
        os.write(1, b"first words")
        block = b"x" * 65536
        while True:
            os.write(1, block)
    """
    end = end_of(sandbox, code)
    assert end.output_exceeded
    assert end.output.startswith(b"first words")
    assert len(end.output) < 70_000


def test_output_that_nobody_drained_still_shows_as_over_the_limit(sandbox: Sandbox) -> None:
    code = """
        say(1)
        while True:
            os.write(2, b"x" * 1000)
    """
    box = sandbox.launch(spec_of(code))
    hear(box)
    assert until(lambda: not box.drain())
    assert box.kill().output_exceeded


def test_a_box_that_blocks_on_its_output_can_be_killed(sandbox: Sandbox) -> None:
    code = """
        os.set_blocking(1, False)
        try:
            while True:
                os.write(1, b"x" * 4096)
        except BlockingIOError:
            say(1)
        os.set_blocking(1, True)
        os.write(1, b"x")
    """
    box = sandbox.launch(spec_of(code))
    hear(box)
    end = box.kill()
    assert end.output_exceeded


def test_standard_input_is_empty(sandbox: Sandbox) -> None:
    assert answer_of(sandbox, "say(sys.stdin.read())") == ""


# --- endings


@pytest.mark.parametrize(
    ("code", "exit_code", "by_signal"),
    [
        ("os._exit(0)", 0, None),
        ("os._exit(3)", 3, None),
        ("raise SystemExit('no')", 1, None),
        ("os.kill(os.getpid(), signal.SIGSEGV)", None, signal.SIGSEGV),
        ("ctypes.string_at(0)", None, signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGKILL)", None, signal.SIGKILL),
    ],
)
def test_an_ending_says_exit_code_or_signal(
    sandbox: Sandbox, code: str, exit_code: int | None, by_signal: int | None
) -> None:
    end = end_of(sandbox, code)
    assert (end.exit_code, end.signal) == (exit_code, by_signal)
    assert not end.killed_by_us
    assert not end.out_of_memory
    assert not end.out_of_processes


def test_a_box_lives_until_its_program_ends(sandbox: Sandbox) -> None:
    box = sandbox.launch(spec_of("channel.recv(1)"))
    try:
        assert box.alive()
        assert box.wait(0.0) is None
        box.channel.send(b"g")
        end = box.wait(20.0)
        assert end is not None
        assert end.exit_code == 0
        assert not box.alive()
    finally:
        box.kill()


def test_killing_twice_gives_the_same_ending(sandbox: Sandbox) -> None:
    box = sandbox.launch(spec_of("time.sleep(60)"))
    end = box.kill()
    assert end.killed_by_us
    assert box.kill() == end
    assert box.wait(0.0) == end


def test_kill_ends_children_that_left_their_session(full: Sandbox) -> None:
    box = full.launch(spec_of("on_double_fork(lambda: (say(1), time.sleep(60))); time.sleep(60)"))
    hear(box)
    uid = host_uid(box)
    assert len(processes_of_uid(uid)) >= 2
    box.kill()
    assert processes_of_uid(uid) == []


def test_children_end_when_the_program_ends(full: Sandbox) -> None:
    code = "on_double_fork(lambda: (say(1), time.sleep(60))); channel.recv(1); os._exit(0)"
    box = full.launch(spec_of(code))
    uid = host_uid(box)
    hear(box)
    box.channel.send(b"g")
    assert box.wait(20.0) is not None
    assert processes_of_uid(uid) == []
    box.kill()


def test_a_box_dies_with_its_runner_and_leaves_nothing_to_the_next(full: Sandbox) -> None:
    script = textwrap.dedent(f"""
        import socket, struct, sys, time
        sys.path[:0] = {[str(Path(runners.__file__).parent.parent), str(Path(__file__).parent)]!r}
        from test_sandbox import SANDBOXES, host_uid, spec_of
        sandbox = SANDBOXES[{full.name!r}]()
        box = sandbox.launch(spec_of("on_double_fork(lambda: time.sleep(600)); time.sleep(600)"))
        print(host_uid(box), flush=True)
        time.sleep(600)
    """)
    runner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert runner.stdout is not None
        uid = int(runner.stdout.readline())
    finally:
        runner.kill()
        runner.communicate()
    assert until(lambda: processes_of_uid(uid) == [])
    SANDBOXES[full.name]().close()
    left = [p for p in Path("/sys/fs/cgroup").glob(f"**/judge-*-{runner.pid}-*") if p.is_dir()]
    assert left == []


# --- freezing


def frozen_still(box: Box, memory: mmap.mmap) -> bool:
    """Whether a counter that runs stands still for 20 ms of a freeze, and runs again after it."""
    assert until(lambda: counter(memory) > 100)
    box.freeze()
    before = counter(memory)
    until(lambda: counter(memory) != before, limit_s=0.02)
    still = counter(memory) == before
    box.thaw()
    return still and until(lambda: counter(memory) > before)


COUNTING = {
    "threads": """
        def count():
            while True:
                number.value += 1
        for _ in range(4):
            threading.Thread(target=count).start()
    """,
    "a child in a session of its own": """
        def count():
            while True:
                number.value += 1
        on_double_fork(count)
        time.sleep(60)
    """,
    "processes that hop from pid to pid": """
        while True:
            number.value += 1
            if os.fork():
                os._exit(0) if os.getpid() != main else time.sleep(60)
    """,
}


@pytest.mark.parametrize("code", COUNTING.values(), ids=COUNTING.keys())
def test_freezing_stops_everything_and_thawing_lets_it_go_on(full: Sandbox, code: str) -> None:
    fd, memory = shared_memory()
    start = """
        main = os.getpid()
        view = mmap.mmap(hear_memory(), 4096)
        number = ctypes.c_uint64.from_buffer(view)
    """
    box = full.launch(spec_of(textwrap.dedent(start) + textwrap.dedent(code)))
    try:
        box.send_memory(b"memory", [fd])
        assert all(frozen_still(box, memory) for _ in range(5))
    finally:
        box.kill()
        memory.close()
        os.close(fd)


def test_a_frozen_box_can_be_killed(full: Sandbox) -> None:
    box = full.launch(spec_of("while True: pass"))
    uid = host_uid(box)
    box.freeze()
    assert box.kill().killed_by_us
    assert processes_of_uid(uid) == []


# --- memory and channel


def test_sealed_memory_can_be_written_and_neither_resized_nor_resealed(sandbox: Sandbox) -> None:
    fd, memory = shared_memory()
    code = """
        import fcntl
        fd = hear_memory()
        view = mmap.mmap(fd, 4096)
        view[:4] = b"done"
        say([error_of(os.ftruncate, fd, 0), error_of(os.ftruncate, fd, 8192),
             error_of(fcntl.fcntl, fd, 1033, 8), error_of(os.posix_fallocate, fd, 0, 8192)])
    """
    box = sandbox.launch(spec_of(code))
    try:
        box.send_memory(b"memory", [fd])
        assert hear(box) == ["EPERM"] * 4
    finally:
        box.kill()
    # Would be the death of this process if the box had made it smaller.
    assert memory[:4] == b"done"
    assert memory[4095] == 0
    memory.close()
    os.close(fd)


def test_memory_sealed_against_future_writes_is_read_only_inside(sandbox: Sandbox) -> None:
    fd, memory = shared_memory(SEAL_SHRINK | SEAL_GROW | SEAL_SEAL | SEAL_FUTURE_WRITE)
    memory[:5] = b"input"
    code = """
        fd = hear_memory()
        path = f"/proc/self/fd/{fd}"
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
        say([bytes(mmap.mmap(fd, 4096, prot=mmap.PROT_READ)[:5]).decode(),
             error_of(mmap.mmap, fd, 4096), error_of(os.pwrite, fd, b"x", 0),
             libc.fallocate(fd, 3, 0, 4096)])
    """
    box = sandbox.launch(spec_of(code))
    try:
        box.send_memory(b"memory", [fd])
        assert hear(box) == ["input", "EPERM", "EPERM", -1]
    finally:
        box.kill()
    memory[:5] = b"again"
    memory.close()
    os.close(fd)


def test_nothing_can_connect_a_second_time(sandbox: Sandbox) -> None:
    code = """
        channel.recv(1)
        again = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        say(error_of(again.connect, os.environ["JUDGE_CHANNEL"]))
    """
    box = sandbox.launch(spec_of(code))
    try:
        box.channel.send(b"g")
        assert hear(box) == "ECONNREFUSED"
    finally:
        box.kill()


def test_a_program_that_ends_before_it_connects_is_our_error_with_its_words(
    sandbox: Sandbox,
) -> None:
    spec = spec_of("")
    with pytest.raises(SandboxError, match="hello from inside"):
        sandbox.launch(
            replace(spec, command=[sys.executable, "-I", "-c", "print('hello from inside')"])
        )


def test_a_program_that_never_connects_is_ended() -> None:
    sandbox = BubblewrapSandbox(connect_limit_s=0.5)
    command = [sys.executable, "-I", "-c", "import time; time.sleep(60)"]
    with pytest.raises(SandboxError, match=r"did not connect within 0\.5 s"):
        sandbox.launch(replace(spec_of(""), command=command))
    sandbox.close()


def test_a_program_that_does_not_read_cannot_hold_up_the_judge(sandbox: Sandbox) -> None:
    box = sandbox.launch(spec_of("time.sleep(60)"))
    box.channel.settimeout(0.05)
    try:
        with pytest.raises(TimeoutError):
            for _ in range(10_000):
                box.send_memory(b"x" * 60_000, [])
    finally:
        box.kill()


def test_a_frame_to_a_program_that_has_gone_is_a_connection_error(sandbox: Sandbox) -> None:
    box = sandbox.launch(spec_of("say(1)"))
    hear(box)
    assert until(lambda: not box.alive())
    try:
        with pytest.raises(ConnectionError):
            box.send_memory(b"x", [])
    finally:
        box.kill()


# --- the filter that the harness adds

CONFINED = """
sys.path.insert(0, "/box/harness")
import confine
confine.hide_memory()
confine.apply_filter(bytes.fromhex(os.environ["FILTER"]))
"""


def confined(code: str, **changes: Any) -> BoxSpec:
    from runners.sandboxes.seccomp import timed_filter_bpf

    harness = Path(runners.__file__).parent / "harness" / "confine.py"
    spec = spec_of(
        CONFINED + textwrap.dedent(code),
        read_only={harness: "/box/harness/confine.py"},
        environment={"FILTER": timed_filter_bpf().hex()},
    )
    return replace(spec, **changes)


def confined_answer(sandbox: Sandbox, code: str) -> Any:
    box = sandbox.launch(confined(code))
    try:
        return hear(box)
    finally:
        box.kill()


def test_a_confined_program_can_neither_execute_nor_fork(sandbox: Sandbox) -> None:
    code = """
        import subprocess
        say([error_of(os.fork), error_of(os.execv, sys.executable, ["x"]),
             error_of(os.posix_spawn, sys.executable, ["x"], {}),
             error_of(subprocess.run, ["x"])])
    """
    assert confined_answer(sandbox, code) == ["EPERM"] * 4


def test_a_confined_program_can_start_threads(sandbox: Sandbox) -> None:
    code = """
        thread = threading.Thread(target=say, args=(["from a thread"],))
        thread.start(); thread.join()
    """
    assert confined_answer(sandbox, code) == ["from a thread"]


def test_threads_that_ran_before_are_confined_as_well(sandbox: Sandbox) -> None:
    code = """
        sys.path.insert(0, "/box/harness")
        import confine
        go = threading.Event()
        thread = threading.Thread(target=lambda: (go.wait(), say(error_of(os.fork))))
        thread.start()
        confine.apply_filter(bytes.fromhex(os.environ["FILTER"]))
        go.set()
    """
    spec = confined("")
    command = [sys.executable, "-I", "-c", PRELUDE + textwrap.dedent(code)]
    box = sandbox.launch(replace(spec, command=command))
    try:
        assert hear(box) == "EPERM"
    finally:
        box.kill()


def test_a_confined_program_cannot_open_its_memory_to_others_again(sandbox: Sandbox) -> None:
    code = """
        say([libc.prctl(4, 1, 0, 0, 0), ctypes.get_errno(), libc.prctl(3, 0, 0, 0, 0)])
    """
    assert confined_answer(sandbox, code) == [-1, errno.EPERM, 0]


def test_processes_of_one_box_cannot_reach_into_a_hidden_one(sandbox: Sandbox) -> None:
    code = """
        sys.path.insert(0, "/box/harness")
        import confine
        ready, tell = os.pipe()
        parent = os.getpid()
        if os.fork() == 0:
            os.read(ready, 1)
            say([error_of(os.open, f"/proc/{parent}/{name}", os.O_RDWR) for name in ("mem", "maps")]
                + [error_of(os.listdir, f"/proc/{parent}/fd")])
            os._exit(0)
        confine.hide_memory()
        os.write(tell, b"g")
        os.wait()
    """
    spec = confined("")
    command = [sys.executable, "-I", "-c", PRELUDE + textwrap.dedent(code)]
    box = sandbox.launch(replace(spec, command=command))
    try:
        assert set(hear(box)) <= {"EACCES", "EPERM"}
    finally:
        box.kill()


@pytest.mark.slow
def test_torch_computes_in_a_confined_box(sandbox: Sandbox) -> None:
    pytest.importorskip("torch")
    code = """
        import torch
        sys.path.insert(0, "/box/harness")
        import confine
        confine.hide_memory()
        confine.apply_filter(bytes.fromhex(os.environ["FILTER"]))
        torch.set_num_threads(2)
        say(float(torch.ones(512, 512).matmul(torch.ones(512, 512)).sum()))
    """
    spec = confined("", memory_bytes=2 << 30)
    command = [sys.executable, "-I", "-c", PRELUDE + textwrap.dedent(code)]
    box = sandbox.launch(replace(spec, command=command))
    try:
        assert hear(box, 60.0) == 512.0**3
        end = box.wait(20.0)
    finally:
        box.kill()
    assert end is not None
    assert end.output == b""


# --- without root


def test_an_ordinary_user_gets_a_working_box_that_is_marked_as_reduced() -> None:
    python = Path("/usr/bin/python3")
    if os.geteuid() != 0 or not python.exists():
        pytest.skip("needs root and the system's Python")
    pyseccomp = pytest.importorskip("pyseccomp")
    script = textwrap.dedent(f"""
        import json, sys
        sys.path[:0] = [{str(Path(runners.__file__).parent.parent)!r}, "/box-test"]
        import importlib.util
        place = importlib.util.spec_from_file_location("pyseccomp", {pyseccomp.__file__!r})
        module = importlib.util.module_from_spec(place)
        place.loader.exec_module(module)
        sys.modules["pyseccomp"] = module
        from runners.ports import BoxSpec, Phase
        from runners.sandboxes.bubblewrap import BubblewrapSandbox
        sandbox = BubblewrapSandbox()
        spec = BoxSpec(Phase.TIMED, [sys.executable, "-I", "-c", sys.argv[1]], {{}}, {{}},
                       (0,), 256 << 20, 64, 16 << 20, 1 << 16)
        box = sandbox.launch(spec)
        answer = json.loads(box.channel.recv(1 << 16))
        end = box.kill()
        sandbox.close()
        print(json.dumps([sandbox.isolation().level, sandbox.isolation().own_uid, answer]))
    """)
    code = PRELUDE + textwrap.dedent("""
        pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
        say([os.getuid(), len(pids), os.path.exists("/work"), error_of(os.open, "/x", os.O_CREAT),
             libc.unshare(0x10000000), error_of(socket.socket, socket.AF_INET)])
        time.sleep(60)
    """)
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    done = subprocess.run(
        [*drop, str(python), "-c", script, code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    level, own_uid, answer = json.loads(done.stdout)
    assert (level, own_uid) == ("reduced", False)
    assert answer == [65534, 2, False, "EROFS", -1, "EPERM"]
