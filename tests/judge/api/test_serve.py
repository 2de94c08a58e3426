"""Promises of `judge serve`, the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.judge.api.conftest import ROOT, contest_text, until

pytestmark = pytest.mark.slow


class Process:
    """One `judge serve` with its output in a file."""

    def __init__(self, state: Path, **variables: str) -> None:
        state.mkdir(exist_ok=True)
        (state / "contest.toml").write_text(contest_text())
        self.log = state / f"log{len(list(state.glob('log*')))}"
        with self.log.open("w") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "judge.cli", "serve"],
                cwd=ROOT,
                env={
                    **os.environ,
                    "JUDGE_STATE_DIR": str(state / "judge"),
                    "JUDGE_CONTEST_FILE": str(state / "contest.toml"),
                    "JUDGE_PORT": "0",
                    **variables,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.log.read_text()

    def url(self) -> str:
        until(lambda: "running on" in self.text or self.popen.poll() is not None, 30)
        assert self.popen.poll() is None, self.text
        return "http://" + self.text.partition("running on http://")[2].split()[0]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(20)


@pytest.fixture
def serve(tmp_path):
    started: list[Process] = []

    def start(**variables: str) -> Process:
        started.append(Process(tmp_path, **variables))
        return started[-1]

    yield start
    for process in started:
        process.popen.kill()
        process.popen.wait()


def token_of(process: Process) -> str:
    return process.text.partition("organizer token (shown this once): ")[2].split()[0]


def test_the_first_organizer_token_is_shown_once_and_works(serve):
    first = serve()
    url = first.url()
    token = token_of(first)
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{url}/api/v1/whoami", headers=headers).json()["role"] == "organizer"
    first.end()
    second = serve()
    url = second.url()
    assert "organizer token" not in second.text
    assert httpx.get(f"{url}/api/v1/whoami", headers=headers).status_code == 200


def test_secrets_are_for_their_owner_only_and_in_no_log(serve, tmp_path):
    process = serve(JUDGE_LOG_LEVEL="DEBUG")
    url = process.url()
    secrets = tmp_path / "judge" / "secrets"
    assert secrets.stat().st_mode & 0o077 == 0
    for file in secrets.iterdir():
        assert file.stat().st_mode & 0o077 == 0
    runner = (secrets / "runner-cpu.token").read_text().strip()
    headers = {"Authorization": f"Bearer {runner}"}
    assert httpx.get(f"{url}/api/v1/whoami", headers=headers).json()["role"] == "runner"
    process.end()
    assert runner not in process.text
    assert process.text.count("kj_") == 1


def test_a_second_server_on_one_state_folder_is_refused_with_the_remedy(serve):
    first = serve()
    first.url()
    second = serve()
    assert second.popen.wait(30) == 2
    assert "JUDGE_STATE_DIR" in second.text
    assert "Traceback" not in second.text


def test_it_ends_within_seconds_although_a_stream_is_open(serve):
    process = serve()
    url = process.url()
    organizer = {"Authorization": f"Bearer {token_of(process)}"}
    with httpx.Client(base_url=f"{url}/api/v1", timeout=30) as http:
        code = http.post("/admin/invites", json={"count": 1}, headers=organizer).json()["codes"][0]
        made = http.post("/register", json={"name": "Ada", "invite": code}).json()
        http.headers["Authorization"] = f"Bearer {made['token']}"
        taken = http.post(
            "/submissions",
            data={"problem": "topk", "device": "cpu", "mode": "test"},
            files={"files": ("topk.py", b"def custom_kernel(data): ...")},
        ).json()
        with http.stream("GET", f"/submissions/{taken['submission_id']}/events") as answer:
            lines = answer.iter_lines()
            next(lines)
            process.popen.send_signal(signal.SIGTERM)
            assert list(lines) is not None
            process.popen.wait(6)
    assert "Traceback" not in process.text


def test_valkey_ends_with_the_server(serve, tmp_path):
    process = serve()
    process.url()
    socket = tmp_path / "judge" / "valkey" / "valkey.sock"
    pid = int(process.text.partition("valkey started pid=")[2].split()[0])
    assert socket.exists()
    process.end()
    assert not socket.exists()
    assert not Path(f"/proc/{pid}").exists()


def test_an_idle_server_is_small_and_has_no_torch(serve):
    process = serve()
    url = process.url()
    assert httpx.get(f"{url}/").status_code == 200
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    assert int(line.split()[1]) < 150 * 1024
    assert "libtorch" not in Path(f"/proc/{process.popen.pid}/maps").read_text()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"JUDGE_PORT": "http"}, "JUDGE_PORT"),
        ({"JUDGE_CONTEST_FILE": "/no/such/contest.toml"}, "JUDGE_CONTEST_FILE"),
        ({"JUDGE_PROBLEMS_DIR": "/no/such/problems"}, "/no/such/problems/topk"),
        ({"JUDGE_DATABASE_URL": "oracle://x"}, "database"),
    ],
)
def test_what_is_set_up_wrongly_is_a_sentence_not_a_trace(serve, variables, words):
    process = serve(**variables)
    assert process.popen.wait(30) == 2
    assert words in process.text
    assert "Traceback" not in process.text


def test_a_mistyped_variable_is_told(serve):
    process = serve(JUDGE_STAT_DIR="x")
    process.url()
    assert "JUDGE_STAT_DIR" in process.text
