"""`judge check` as it is run by a contestant: exit codes, table, JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from judge.catalog import digest_of_folder
from runners.check import harness_digest

FAULTS = Path(__file__).parents[1] / "faults"
PROBLEMS = FAULTS / "problems"


def check(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "judge.cli", "check", "--problems", str(PROBLEMS), *words],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
    )


def submission(name: str) -> str:
    return str(FAULTS / "submissions" / name)


@pytest.mark.box
@pytest.mark.slow
def test_an_accepted_kernel_exits_0_and_json_tells_times_and_digests(
    tmp_path: Path, sandbox: object
) -> None:
    ran = check(tmp_path, submission("honest.py"), "--problem", "double", "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["unofficial"] is True
    assert told["verdict"] == "accepted"
    assert told["medians_ns"]["n1000"] > 0
    assert told["problem_digest"] == digest_of_folder(PROBLEMS / "double")
    assert told["harness_digest"] == harness_digest()


@pytest.mark.box
@pytest.mark.slow
def test_a_wrong_kernel_exits_1_and_the_table_says_where(tmp_path: Path, sandbox: object) -> None:
    ran = check(tmp_path, submission("wrong_dtype.py"), "--problem", "double", "--mode", "test")
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("wrong answer (unofficial)\n")
    assert "n100" in ran.stdout
    assert "float64" in ran.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("nothing.py", "--problem", "double"),
        (submission("honest.py"), "--problem", "no-such-problem"),
        (submission("honest.py"), "--problem", "double", "--mode", "ranked"),
        (submission("honest.py"), "--problem", "double", "--device", "abacus"),
        (str(PROBLEMS / "double" / "statement.md"), "--problem", "double"),
    ],
)
def test_wrong_use_exits_2_and_says_what_to_do(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = check(tmp_path, *words)
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.strip()
    assert "Traceback" not in ran.stderr
