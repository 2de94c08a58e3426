"""Promises of core locks: no two runners of a host share a core, and the one refused learns who has it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.cores import HeldCores
from runners.settings import SettingsError, chosen_cores

HOLDER = """
import sys
from pathlib import Path
from runners.cores import HeldCores
held = HeldCores.hold([0, 1], "r1", Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_core_of_another_runner_is_refused_by_its_name_with_the_remedy(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as refused:
        HeldCores.hold([1, 2], "r2", tmp_path)
    assert f"Core 1 belongs to runner r1 (process {holder.pid})" in str(refused.value)
    assert "--cores" in str(refused.value)


def test_a_refused_runner_holds_none_of_its_cores(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    with pytest.raises(SettingsError):
        HeldCores.hold([2, 1, 0], "r2", tmp_path)
    HeldCores.hold([2, 3], "r3", tmp_path).release()


def test_runners_with_disjoint_cores_live_side_by_side(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    with HeldCores.hold([2, 3], "r2", tmp_path):
        pass


def test_the_cores_of_a_killed_runner_are_free_again(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    holder.kill()
    holder.wait()
    with HeldCores.hold([0, 1], "r2", tmp_path):
        pass


def test_one_core_for_both_is_one_lock(tmp_path: Path) -> None:
    with HeldCores.hold([0, 0], "r1", tmp_path):
        assert len(list(tmp_path.iterdir())) == 1


def test_another_users_lock_file_can_be_used_and_a_link_in_its_place_cannot(tmp_path: Path) -> None:
    HeldCores.hold([0], "r1", tmp_path).release()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o666
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "kernel-judge-core-1.lock").symlink_to(target)
    with pytest.raises(SettingsError, match="cannot be opened"):
        HeldCores.hold([1], "r1", tmp_path)
    assert target.read_text() == "mine"


def test_cores_are_those_asked_for_or_the_first_and_the_last() -> None:
    assert chosen_cores(None, None, None, (2, 3, 5)) == (2, 5)
    assert chosen_cores("3,2", None, None, (2, 3, 5)) == (3, 2)
    assert chosen_cores(None, 3, None, (2, 3, 5)) == (3, 5)


@pytest.mark.parametrize(
    ("cores", "evaluator", "box", "words"),
    [
        ("0,9", None, None, "Core 9 is not among"),
        ("0", None, None, "two CPU numbers"),
        ("a,b", None, None, "two CPU numbers"),
        ("0,1", 1, None, "--cores names both"),
        (None, None, 7, "Core 7 is not among"),
    ],
)
def test_cores_that_cannot_be_had_are_named(
    cores: str | None, evaluator: int | None, box: int | None, words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        chosen_cores(cores, evaluator, box, (0, 1))


def test_judge_work_takes_no_core_that_another_runner_has(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("secret")
    tried = subprocess.run(
        [
            *(sys.executable, "-m", "judge.cli", "work", "--token-file", str(token)),
            *("--server", "http://127.0.0.1:1", "--cores", "0,0"),
        ],
        env={**os.environ, "JUDGE_RUNNER_LOCK_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert tried.returncode == 2
    assert "belongs to runner r1" in tried.stderr
