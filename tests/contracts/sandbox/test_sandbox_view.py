"""What a box can see and write."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

import runners
from runners.ports import Phase
from tests.contracts.sandbox.lab import Lab

pytestmark = pytest.mark.box


def test_a_box_cannot_make_internet_sockets(lab: Lab) -> None:
    code = "say([error_of(socket.socket, f) for f in (socket.AF_INET, socket.AF_INET6)])"
    assert lab.answer(code) == ["EPERM", "EPERM"]


def test_a_box_with_network_reaches_itself_and_not_the_host(lab: Lab) -> None:
    code = """
        own = socket.create_server(("127.0.0.1", 0))
        here = socket.create_connection(own.getsockname(), 5)
        say(error_of(socket.create_connection, ("127.0.0.1", int(os.environ["PORT"])), 5))
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        answer = lab.answer(code, network=True, environment={"PORT": port})
    assert answer == "ECONNREFUSED"


@pytest.mark.parametrize("family", [socket.AF_VSOCK, socket.AF_ALG, socket.AF_PACKET, 3, 11, 44])
def test_a_box_with_network_cannot_make_other_sockets(lab: Lab, family: int) -> None:
    code = f"say(error_of(socket.socket, {int(family)}, socket.SOCK_RAW))"
    assert lab.answer(code, network=True) == "EPERM"


def test_a_box_sees_no_processes_but_its_own(lab: Lab) -> None:
    code = """
        pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
        say([os.getpid(), pids, os.getppid()])
    """
    own, pids, parent = lab.answer(code)
    assert set(pids) == {1, own}
    assert parent == 1


@pytest.mark.parametrize("namespace", ["pid", "net", "ipc", "uts", "mnt", "cgroup"])
def test_a_box_shares_no_namespace_with_the_host(lab: Lab, namespace: str) -> None:
    inside = lab.answer(f"say(os.readlink('/proc/self/ns/{namespace}'))")
    assert inside != os.readlink(f"/proc/self/ns/{namespace}")


def test_the_arguments_of_pid_1_tell_nothing_of_the_host(lab: Lab, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.write_text("x")
    code = "say(open('/proc/1/cmdline').read())"
    answer = lab.answer(code, read_only={shown: "/box/shown"})
    assert str(tmp_path) not in answer


def test_the_environment_is_exactly_the_given_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_SECRET", "hunter2")
    answer = lab.answer("say(dict(os.environ))", environment={"A": "1", "LC_ALL": "C"})
    channel = answer.pop("JUDGE_CHANNEL")
    assert channel == "/run/judge/channel.sock"
    # Python itself adds LC_CTYPE in the C locale; the working directory's name is bubblewrap's.
    assert {k: v for k, v in answer.items() if k not in ("PWD", "LC_CTYPE")} == {
        "A": "1",
        "LC_ALL": "C",
    }


def test_the_runners_environment_is_in_no_process_of_the_box(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
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
    assert lab.answer(code) is False


def test_no_file_of_the_judge_can_be_read(lab: Lab) -> None:
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
    assert not any(lab.answer(code, environment={"R": str(repository)}))


def test_files_of_the_host_outside_the_view_do_not_exist(lab: Lab, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    code = """
        say([p for p in (os.environ["S"], "/etc/shadow", "/etc/hostname", "/var", "/sys", "/home",
             "/root/.ssh", "/root/.bashrc", "/opt") if os.path.lexists(p)])
    """
    assert lab.answer(code, environment={"S": str(secret)}) == []


def test_the_host_name_is_not_told(lab: Lab) -> None:
    assert lab.answer("say(os.uname().nodename)") == "box"


def test_only_harmless_devices_exist(lab: Lab) -> None:
    code = """
        import stat
        modes = {n: os.lstat("/dev/" + n).st_mode for n in os.listdir("/dev")}
        say([n for n, mode in modes.items() if stat.S_ISCHR(mode) or stat.S_ISBLK(mode)])
    """
    harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
    assert set(lab.answer(code)) <= harmless


def test_no_open_file_of_the_judge_is_inherited(lab: Lab) -> None:
    leaked = os.memfd_create("secret", 0)
    os.set_inheritable(leaked, True)
    code = "say(sorted(os.readlink(f'/proc/self/fd/{n}') for n in range(64)"
    code += " if os.path.lexists(f'/proc/self/fd/{n}')))"
    files = lab.answer(code)
    os.close(leaked)
    kinds = sorted(name.split(":")[0] for name in files)
    assert kinds == ["/dev/null", "pipe", "pipe", "socket"]


def test_there_is_no_compiler_and_no_shell_in_a_timed_box(lab: Lab) -> None:
    code = "say([p for p in ('/bin/sh', '/usr/bin/g++', '/usr/bin/env') if os.path.exists(p)])"
    assert lab.answer(code) == []


def test_nothing_but_tmp_and_shared_memory_can_be_written(lab: Lab) -> None:
    code = """
        def write(path):
            with open(path, "w"):
                pass
        places = ("/", "/usr/lib", "/etc", "/run/judge", "/dev", "/proc", sys.prefix, "/tmp",
                  "/dev/shm")
        say([p for p in places if error_of(write, p + "/x") is None])
    """
    assert lab.answer(code) == ["/tmp", "/dev/shm"]


def test_kernel_settings_cannot_be_written(lab: Lab) -> None:
    code = """
        settings = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
                    "/proc/sysrq-trigger", "/proc/self/oom_score_adj_")
        say([p for p in settings if error_of(os.open, p, os.O_WRONLY) is None])
    """
    assert lab.answer(code) == []


def test_a_read_only_path_can_be_read_and_not_written(lab: Lab, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    given.chmod(0o777)
    (given / "file").write_text("content")
    (given / "file").chmod(0o666)
    code = """
        path = "/box/given/file"
        say([open(path).read(), error_of(os.open, path, os.O_WRONLY), error_of(os.chmod, path, 0)])
    """
    answer = lab.answer(code, read_only={given: "/box/given"})
    assert answer == ["content", "EROFS", "EROFS"]


def test_a_build_box_leaves_its_files_in_a_writable_directory(lab: Lab, tmp_path: Path) -> None:
    target = tmp_path / "built"
    target.mkdir()
    code = "open('/box/out/module.so', 'w').write('built'); say(1)"
    lab.answer(code, phase=Phase.BUILD, writable={target: "/box/out"})
    assert (target / "module.so").read_text() == "built"
    about = target.stat()
    assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (os.geteuid(), 0o700)


def test_a_timed_box_with_a_writable_directory_is_refused(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only a build box"):
        lab.launch("", writable={tmp_path: "/box/out"})


def test_a_build_box_compiles(lab: Lab) -> None:
    if not Path("/usr/bin/g++").exists():
        pytest.skip("needs g++")
    code = """
        import subprocess
        open("a.cpp", "w").write("#include <vector>\\nint main() { return std::vector<int>(7).size(); }")
        subprocess.run(["g++", "a.cpp", "-o", "a"], check=True)
        say(subprocess.run(["./a"]).returncode)
    """
    assert lab.answer(code, phase=Phase.BUILD, environment={"PATH": "/usr/bin"}) == 7


def test_tmp_and_shared_memory_are_empty_in_every_box(lab: Lab) -> None:
    code = """
        seen = [os.path.exists("/tmp/left"), os.path.exists("/dev/shm/left")]
        open("/tmp/left", "w"), open("/dev/shm/left", "w")
        say(seen)
    """
    assert lab.answer(code) == [False, False]
    assert lab.answer(code) == [False, False]
