"""`judge up`: the whole product by one command, as a first-time operator and contestant see it."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live import ROOT, free_port

pytestmark = [pytest.mark.slow, pytest.mark.box, pytest.mark.timeout(1_200)]
EXAMPLES_S = 500.0  # with a ranked run and its confirmation, each up to its ceiling
STOP_S = 40.0


class UpRun:
    """One `judge up` on a state folder. Its words, stdout and stderr together, go to a file."""

    def __init__(self, state: Path, port: int, *words: str) -> None:
        self.state = state
        self._said = state.with_name(f"said-{time.monotonic_ns()}")
        with self._said.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "judge.cli", "up", *words],
                cwd=ROOT,
                env={
                    **os.environ,
                    "JUDGE_STATE_DIR": str(state),
                    "JUDGE_PORT": str(port),
                    # A developer's own runner may hold the cores of this machine.
                    "JUDGE_RUNNER_LOCK_DIR": str(state.parent),
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def said(self) -> str:
        return self._said.read_text()

    def wait_for(self, pattern: str, timeout_s: float = EXAMPLES_S) -> re.Match[str]:
        """The match of the first words that fit."""
        end = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.said())):
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.1)
        return found

    def status(self, timeout_s: float) -> int:
        return self.process.wait(timeout_s)


Up = Callable[..., UpRun]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Starts `judge up` on one state folder; whatever a test leaves running is ended."""
    runs: list[UpRun] = []

    def start(*words: str, port: int | None = None) -> UpRun:
        runs.append(UpRun(tmp_path / "state", port or free_port(), *words))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.terminate()
            run.process.wait(STOP_S)


def processes_of(state: Path) -> list[str]:
    """Command lines of living processes that were started for a state folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue  # it ended meanwhile, or belongs to somebody else
            if os.fsencode(state) in words:
                found.append(words[:200].replace(b"\0", b" ").decode(errors="replace"))
    return found


def judge(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUDGE_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-m", "judge.cli", *words],
        cwd=home,
        env={**kept, "HOME": str(home), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=EXAMPLES_S,
        check=False,
    )


def test_a_newcomer_is_judged_by_what_the_first_start_prints_and_a_second_start_is_harmless(
    up: Up, tmp_path: Path
) -> None:
    first = up()
    first.wait_for(r"Ctrl-C ends it")
    said = first.said()
    assert said.count("organizer  kj_") == 1
    assert re.search(r"baseline_torch\.py: accepted", said)
    # A machine too noisy to rank says so; else the ranked board leads, with the example on it.
    noisy = "ranked: unstable timing" in said
    assert noisy or said.index("Ranked: how many times as fast") < said.index("Practice, not")

    again = up()
    assert again.status(30) == 0
    address = re.search(r"page +(http://\S+)", said)
    assert address is not None
    assert address[1] in again.said()

    login = re.search(r"take part +\S+ (login .*) --name", said)
    assert login is not None
    assert judge(tmp_path, *login[1].split(), "--name", "Newcomer").returncode == 0
    assert judge(tmp_path, "init", "mine", "--problem", "topk").returncode == 0
    (tmp_path / "topk.py").write_text((tmp_path / "mine" / "starter.py").read_text())
    judged = judge(tmp_path, "submit", "topk.py", "--problem", "topk")
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert re.search(r" timing +accepted .* us ", judged.stdout)
    assert "Newcomer" in judge(tmp_path, "board", "topk").stdout

    first.process.send_signal(signal.SIGINT)
    assert first.status(STOP_S) == 0
    assert processes_of(first.state) == []

    kept = up("--once")
    assert kept.status(EXAMPLES_S) == 0, kept.said()
    assert "Newcomer" in kept.said()
    assert "organizer  kj_" not in kept.said()
    assert "example-2" not in kept.said()
    assert processes_of(first.state) == []


def test_a_busy_port_is_replaced_and_said(up: Up) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        run = up(port=port)
        run.wait_for(rf"Port {port} cannot be used")
        run.wait_for(r"runner +process", 60)
        run.process.terminate()
        assert run.status(STOP_S) == 0
        assert processes_of(run.state) == []


def test_a_killed_up_takes_everything_with_it(up: Up) -> None:
    run = up()
    run.wait_for(r"runner +process", 60)
    run.process.kill()
    run.process.wait()
    end = time.monotonic() + STOP_S
    while left := processes_of(run.state):
        assert time.monotonic() < end, left
        time.sleep(0.1)


def test_a_contest_file_that_cannot_be_used_is_named(
    up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_CONTEST_FILE", "/nonexistent/contest.toml")
    run = up("--once")
    assert run.status(60) == 3
    assert "/nonexistent/contest.toml: there is no such file" in run.said()
    assert processes_of(run.state) == []
