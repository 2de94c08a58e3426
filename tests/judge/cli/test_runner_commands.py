"""What `judge runners` shows, and how an organizer sets a runner aside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judge.api.conftest import Judge, contest_text, running


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with running(tmp_path_factory.mktemp("judge"), contest_text()) as made:
        made.hello(
            isolation="reduced",
            reasons=["no freezer: mount cgroup2"],
            environment={"cpu": "Some CPU"},
            doctor={"at": "noon", "figures": {"round_trip_us": 0.4}},
        )
        yield made


@pytest.fixture
def run(judge: Judge, tmp_path: Path) -> object:
    def judge_command(*words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "judge.cli", *words, "--server", judge.url],
            env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    return judge_command


def test_runners_are_listed_for_everybody(run) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = run("runners")
    assert status == 0
    row = out.splitlines()[1].split()
    assert row[:3] == ["r1", "cpu", "active"]
    assert "reduced" in row


def test_one_runner_is_shown_with_all_that_is_known(run) -> None:  # type: ignore[no-untyped-def]
    _, out, _ = run("runners", "r1")
    for told in ("no freezer: mount cgroup2", "cpu: Some CPU", "round_trip_us: 0.4", "at: noon"):
        assert told in out
    status, out, err = run("runners", "nobody")
    assert (status, out) == (0, "")
    assert "No runner named nobody" in err


def test_json_is_the_apis_body(run, judge: Judge) -> None:  # type: ignore[no-untyped-def]
    _, out, _ = run("runners", "--json")
    told = json.loads(out)
    assert [runner["name"] for runner in told] == ["r1"]
    assert told[0].keys() == judge.connect().get("/runners").json()[0].keys()


def test_an_organizer_sets_a_runner_aside_and_back(run, judge: Judge) -> None:  # type: ignore[no-untyped-def]
    token = ("--token", judge.organizer.token)
    status, out, _ = run("admin", "quarantine", "r1", "its fan is broken", *token)
    assert (status, out) == (0, "r1: quarantined\n")
    assert "its fan is broken" in run("runners", "r1")[1]
    assert run("admin", "reinstate", "r1", *token)[:2] == (0, "r1: active\n")
    status, _, err = run("admin", "reinstate", "nobody", *token)
    assert status == 2
    assert 'There is no runner "nobody"' in err
