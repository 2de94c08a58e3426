"""Boxes of a runner without root: fewer promises, and they are told as such."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runners
from runners.sandboxes.bubblewrap import find_bubblewrap
from tests.contracts.sandbox.lab import PRELUDE

pytestmark = pytest.mark.box

NOBODY = "65534"
PYTHON = Path("/usr/bin/python3")
RUNNER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from runners.ports import BoxSpec, Phase
from runners.sandboxes.bubblewrap import BubblewrapSandbox
sandbox = BubblewrapSandbox()
box = sandbox.launch(BoxSpec(
    Phase.TIMED, [sys.executable, "-I", "-c", sys.argv[2]], {}, {}, (0,), 256 << 20, 64, 16 << 20,
    1 << 16))
answer = json.loads(box.channel.recv(1 << 16))
end = box.kill()
isolation = sandbox.isolation()
sandbox.close()
print(json.dumps({"answer": answer, "level": isolation.level, "reasons": isolation.reasons,
                  "own_uid": isolation.own_uid, "killed": end.killed_by_us}))
"""

AsUser = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def as_user() -> Iterator[AsUser]:
    """Runs code in a box that a runner of the user nobody has launched."""
    if os.geteuid() != 0 or not PYTHON.exists() or find_bubblewrap() is None:
        pytest.skip("needs root to become an ordinary user, the system's Python and bubblewrap")
    pyseccomp = pytest.importorskip("pyseccomp")
    with tempfile.TemporaryDirectory() as directory:
        # Copies, for the repository may lie where only root can read.
        home = Path(directory)
        home.chmod(0o755)
        shutil.copy(pyseccomp.__file__, home)
        shutil.copytree(
            Path(runners.__file__).parent,
            home / "runners",
            ignore=shutil.ignore_patterns("__pycache__"),
        )

        def run(code: str) -> dict[str, Any]:
            drop = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
            program = PRELUDE + textwrap.dedent(code)
            done = subprocess.run(
                [*drop, str(PYTHON), "-c", RUNNER, directory, program],
                capture_output=True,
                text=True,
                timeout=60,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "JUDGE_SECRET": "hunter2"},
                check=False,
            )
            assert done.returncode == 0, done.stderr
            report: dict[str, Any] = json.loads(done.stdout)
            return report

        yield run


def test_a_box_without_root_works_and_is_marked_as_reduced(as_user: AsUser) -> None:
    report = as_user("say(os.getuid()); time.sleep(60)")
    assert report["answer"] == int(NOBODY)
    assert report["killed"]
    assert report["level"] == "reduced"
    assert not report["own_uid"]
    assert any("as root" in reason for reason in report["reasons"])


def test_a_box_without_root_sees_and_writes_as_little(as_user: AsUser) -> None:
    report = as_user("""
        pids = [p for p in os.listdir("/proc") if p.isdigit()]
        environments = [open(f"/proc/{p}/environ").read() for p in pids]
        say([len(pids), any("hunter2" in text for text in environments), os.listdir("/home")
             if os.path.exists("/home") else [], error_of(os.open, "/x", os.O_CREAT),
             error_of(os.open, "/dev/x", os.O_CREAT), error_of(os.open, "/tmp/x", os.O_CREAT)])
        time.sleep(60)
    """)
    assert report["answer"] == [2, False, [], "EROFS", "EROFS", None]


def test_a_box_without_root_makes_no_namespace_and_no_network(as_user: AsUser) -> None:
    report = as_user("""
        say([libc.unshare(0x10000000), error_of(socket.socket, socket.AF_INET)])
        time.sleep(60)
    """)
    assert report["answer"] == [-1, "EPERM"]


def test_without_control_groups_memory_and_processes_are_limited_all_the_same(
    as_user: AsUser,
) -> None:
    report = as_user("""
        try:
            held = bytearray(400 << 20)
            too_much = False
        except MemoryError:
            too_much = True
        started = 0
        try:
            for _ in range(500):
                if os.fork() == 0:
                    time.sleep(60)
                started += 1
        except OSError:
            pass
        say([too_much, started < 500])
        time.sleep(60)
    """)
    assert report["answer"] == [True, True]


def test_without_control_groups_kill_ends_every_process_before_it_returns(
    as_user: AsUser, tmp_path: Path
) -> None:
    mark = tmp_path.name
    as_user(f"""
        import ctypes
        def work():
            libc.prctl(15, {mark[:15].encode()!r}, 0, 0, 0)
            say(1)
            time.sleep(60)
        on_double_fork(work)
        time.sleep(60)
    """)
    assert not [p for p in Path("/proc").glob("[0-9]*/comm") if _reads(p, mark[:15])]


def _reads(path: Path, text: str) -> bool:
    try:
        return path.read_text().strip() == text
    except (FileNotFoundError, ProcessLookupError):
        return False
