"""Control groups: where they are made, and that they hold without any box."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.ports import SandboxError
from runners.sandboxes.cgroups import Cgroups, Group
from runners.sandboxes.hierarchies import Layout, mount_unified, parse_layout, read_layout

HYBRID = """\
30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
35 30 0:31 / /sys/fs/cgroup/memory rw,nosuid shared:15 - cgroup cgroup rw,memory
36 30 0:32 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids
37 30 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
"""


def test_a_hybrid_machine_gives_limits_by_v1_and_freezing_by_v2() -> None:
    layout = parse_layout(HYBRID, "4:memory:/a/b\n3:pids:/\n2:cpu,cpuacct:/x\n0::/user\n")
    assert layout == Layout(
        unified=Path("/sys/fs/cgroup/unified/user"),
        unified_root=Path("/sys/fs/cgroup/unified"),
        v1={
            "memory": Path("/sys/fs/cgroup/memory/a/b"),
            "pids": Path("/sys/fs/cgroup/pids"),
        },
    )


def test_a_modern_machine_gives_its_own_directory_in_the_one_tree() -> None:
    mounts = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    layout = parse_layout(mounts, "0::/system.slice/judge.service\n")
    assert layout.unified == Path("/sys/fs/cgroup/system.slice/judge.service")
    assert layout.v1 == {}


def test_boxes_go_beside_a_runner_that_has_stepped_aside() -> None:
    mounts = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    layout = parse_layout(mounts, "0::/system.slice/judge.service/judge-runner\n")
    assert layout.unified == Path("/sys/fs/cgroup/system.slice/judge.service")


def test_a_container_that_sees_only_its_own_part_uses_the_top_of_it() -> None:
    mounts = "30 25 0:26 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup ro\n"
    inside = parse_layout(mounts, "0::/docker/ab/runner\n")
    outside = parse_layout(mounts, "0::/elsewhere\n")
    assert inside.unified == Path("/sys/fs/cgroup/runner")
    assert outside.unified == Path("/sys/fs/cgroup")


def test_a_machine_without_control_groups_gives_nothing() -> None:
    groups = Cgroups(parse_layout("20 1 0:2 / / rw - ext4 /dev/vda rw\n", "0::/\n"))
    assert not groups.freezer
    assert groups.limits == frozenset()
    group = groups.make(1 << 20, 4, (0,))
    assert group.memory_now_bytes() is None
    assert group.processes() == ()
    with pytest.raises(SandboxError, match="no cgroup2"):
        group.freeze(1.0)
    group.remove()
    groups.close()


@pytest.fixture
def groups() -> Iterator[Cgroups]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    made = Cgroups(mount_unified(read_layout()))
    if not made.freezer:
        made.close()
        pytest.skip("needs a cgroup2 mount")
    yield made
    made.close()


@pytest.fixture
def group(groups: Cgroups) -> Iterator[Group]:
    made = groups.make(64 << 20, 8, (0,))
    yield made
    made.kill()
    made.remove()


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def test_killing_ends_what_joined_and_nothing_else(group: Group) -> None:
    inside, outside = sleeper(), sleeper()
    try:
        group.join(inside.pid)
        assert group.processes() == (inside.pid,)
        group.kill()
        assert inside.wait(10) == -signal.SIGKILL
        assert group.processes() == ()
        assert outside.poll() is None
    finally:
        for process in (inside, outside):
            process.kill()
            process.wait()


def test_freezing_an_empty_group_is_at_once(group: Group) -> None:
    group.freeze(1.0)
    group.thaw()


def test_a_frozen_group_is_killed_all_the_same(group: Group) -> None:
    inside = sleeper()
    group.join(inside.pid)
    group.freeze(5.0)
    group.kill()
    assert inside.wait(10) == -signal.SIGKILL


def test_removing_twice_and_killing_what_was_removed_is_fine(groups: Cgroups) -> None:
    group = groups.make(64 << 20, 8, (0,))
    group.remove()
    group.remove()
    group.kill()


def test_limits_that_the_kernel_refuses_leave_no_directory(groups: Cgroups) -> None:
    if "cpuset" not in groups.limits:
        pytest.skip("needs the cpuset controller")
    with pytest.raises(SandboxError, match="control groups of a box"):
        groups.make(64 << 20, 8, (4095,))
    # `close` raises while any directory is left below the runner's own.
    other = groups.make(64 << 20, 8, (0,))
    other.remove()


@pytest.fixture
def leftover(groups: Cgroups) -> Iterator[Path]:
    """A group with a living process, of a runner that has died."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    root = read_layout().unified_root
    assert root is not None
    namespace = os.stat("/proc/self/ns/pid").st_ino
    directory = root / f"judge-{namespace}-{ended.pid}-1-0"
    (directory / "box-0").mkdir(parents=True)
    inside = sleeper()
    (directory / "box-0" / "cgroup.procs").write_text(str(inside.pid))
    yield directory
    inside.kill()
    inside.wait()
    for left in (directory / "box-0", directory):
        if left.exists():
            left.rmdir()


def test_what_a_crashed_runner_left_is_ended_by_the_next(leftover: Path) -> None:
    Cgroups(read_layout()).close()
    assert not leftover.exists()


def test_what_another_users_runner_left_hinders_no_ordinary_user(leftover: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(65534, 65534, 65534)
            Cgroups(read_layout()).close()
            os.write(writer, b"fine")
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as answer:
        assert answer.read() == b"fine"
    assert leftover.exists()


def test_freezing_returns_only_when_the_kernel_says_that_all_are_stopped(groups: Cgroups) -> None:
    group = groups.make(256 << 20, 200, (0,))
    crowd = "for n in $(seq 60); do (while :; do :; done) & done; wait"
    shell = subprocess.Popen(["sh", "-c", f"read go; {crowd}"], stdin=subprocess.PIPE)
    group.join(shell.pid)
    assert shell.stdin is not None
    shell.stdin.write(b"go\n")
    shell.stdin.close()
    root = read_layout().unified_root
    assert root is not None
    membership = Path(f"/proc/{shell.pid}/cgroup").read_text()
    events = root / membership.rpartition("0::/")[2].strip() / "cgroup.events"
    try:
        for _ in range(5):
            group.freeze(10.0)
            assert "frozen 1" in events.read_text()
            group.thaw()
    finally:
        group.kill()
        shell.wait()
        group.remove()


def test_two_runners_do_not_remove_each_others_groups(groups: Cgroups) -> None:
    group = groups.make(64 << 20, 8, (0,))
    inside = sleeper()
    group.join(inside.pid)
    Cgroups(read_layout()).close()
    assert inside.poll() is None
    assert group.processes() == (inside.pid,)
    group.kill()
    inside.wait()
    group.remove()
