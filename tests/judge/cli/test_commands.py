"""The command line as a process of its own, against a real server."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from judge.client import JudgeClient
from judge.model import Verdict
from judge.wire import (
    BoardBody,
    EventBody,
    ProgressBody,
    ReceiptBody,
    SubmissionBody,
    SubmissionListBody,
    WhoamiBody,
)
from tests.live import ROOT, HandRunner, LiveJudge, free_port

pytestmark = pytest.mark.slow
SOURCE = b"def custom_kernel(data):\r\n    return data  # \xc3\xa9\n"


@dataclass(frozen=True)
class Shell:
    """One person's machine: a home of its own, and the `judge` command."""

    home: Path
    url: str

    def start(self, *words: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("JUDGE_", "XDG_"))}
        return subprocess.Popen(
            [sys.executable, "-m", "judge.cli", *words],
            cwd=cwd or self.home,
            env={**environment, "HOME": str(self.home), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str, cwd: Path | None = None) -> tuple[int, str, str]:
        """Exit status, answer and talk."""
        process = self.start(*words, cwd=cwd)
        out, err = process.communicate(timeout=60)
        return process.returncode, out.decode(), err.decode()

    def fine(self, *words: str) -> str:
        status, out, err = self.run(*words)
        assert status == 0, err
        return out

    def kernel(self) -> Path:
        path = self.home / "topk.py"
        path.write_bytes(SOURCE)
        return path


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveJudge]:
    live = LiveJudge(tmp_path_factory.mktemp("judge") / "state")
    live.start()
    try:
        yield live
    finally:
        live.stop()


@pytest.fixture
def runner(judge: LiveJudge) -> Iterator[HandRunner]:
    by_hand = HandRunner(judge)
    yield by_hand
    by_hand.close()


@pytest.fixture
def ada(judge: LiveJudge, tmp_path: Path, request: pytest.FixtureRequest) -> Shell:
    """A contestant who is logged in; a new one for each test."""
    shell = Shell(tmp_path, judge.url)
    name = f"ada {request.node.name}"[:64]
    out = shell.fine("login", "--server", judge.url, "--invite", judge.invite(), "--name", name)
    assert out.startswith(f"Logged in at {judge.url} as {name} (contestant")
    return shell


@pytest.fixture
def organizer(judge: LiveJudge, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    shell = Shell(tmp_path_factory.mktemp("organizer"), judge.url)
    shell.fine("login", "--server", judge.url, "--token", judge.organizer)
    return shell


def judged(ada: Shell, runner: HandRunner, verdict: Verdict, *words: str) -> tuple[int, str, str]:
    """Run `judge submit` and judge the submission by hand while it waits."""
    process = ada.start("submit", str(ada.kernel()), "--problem", "topk", *words)
    with JudgeClient(ada.url, token_of(ada)) as client:
        end = time.monotonic() + 30
        while not (waiting := [s for s in client.submissions().submissions if not s.verdict]):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.05)
    lease = runner.claim(waiting[0].job_id)
    runner.beat(lease, ProgressBody(stage="test", done=1, total=12))
    runner.finish(lease, verdict)
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


def token_of(shell: Shell) -> str:
    (file,) = shell.home.rglob("login.json")
    return str(json.loads(file.read_text())["tokens"][shell.url])


def test_whoami_shows_the_token_alone_on_stdout_when_asked(ada: Shell) -> None:
    status, out, err = ada.run("whoami", "--show-token")
    assert (status, out) == (0, token_of(ada) + "\n")
    assert "(contestant" in err
    assert token_of(ada) not in ada.fine("whoami")
    assert ada.run("whoami", "--show-token", "--json")[0] == 2


def test_history_never_asks_for_more_than_the_judge_gives(ada: Shell) -> None:
    ada.fine("history", "--limit", "100")
    status, out, err = ada.run("history", "--limit", "101")
    assert (status, out) == (2, "")
    assert "--limit" in err


def test_submit_ends_in_a_verdict_with_the_time_of_every_shape(
    ada: Shell, runner: HandRunner
) -> None:
    status, out, err = judged(ada, runner, Verdict.ACCEPTED)
    assert status == 0, err
    lines = out.splitlines()
    assert lines[0].startswith("submission ")
    assert "sha256 " in lines[0]
    assert lines[1] == "accepted"
    timing = [line for line in lines if " timing " in line]
    assert timing
    assert all(" us " in line for line in timing)
    assert any(line.startswith("geometric mean: ") for line in lines)
    assert "\x1b" not in out + err


@pytest.mark.parametrize(
    ("verdict", "code"), [(Verdict.WRONG_ANSWER, 1), (Verdict.COMPILE_ERROR, 1)]
)
def test_a_submission_that_fails_ends_with_status_1(
    ada: Shell, runner: HandRunner, verdict: Verdict, code: int
) -> None:
    status, out, _ = judged(ada, runner, verdict)
    assert status == code
    assert out.splitlines()[1] == verdict.value


def test_json_on_stdout_is_the_body_and_nothing_else(ada: Shell, runner: HandRunner) -> None:
    kept = ada.home / "result.json"
    status, out, err = judged(ada, runner, Verdict.ACCEPTED, "--json", "-o", str(kept))
    body = SubmissionBody.model_validate_json(out)
    assert (status, body.verdict) == (0, Verdict.ACCEPTED)
    assert kept.read_text() == out
    assert f"submission {body.id}" in err
    assert out.strip() == raw(ada, f"/submissions/{body.id}")


def raw(shell: Shell, path: str) -> str:
    with JudgeClient(shell.url, token_of(shell)) as client:
        return client._request("GET", path).text


def test_a_submission_can_be_followed_up_and_taken_back(ada: Shell) -> None:
    out = ada.fine("submit", str(ada.kernel()), "--problem", "topk", "--no-wait", "--json")
    number = str(ReceiptBody.model_validate_json(out).submission_id)
    assert "place" in ada.fine("status", number)
    assert number in ada.fine("history")
    listed = SubmissionListBody.model_validate_json(ada.fine("history", "--json"))
    assert [str(s.id) for s in listed.submissions] == [number]
    assert "cancelled" in ada.fine("cancel", number)
    status, out, _ = ada.run("status", number)
    assert (status, out) == (1, f"submission {number}: cancelled\n")
    status, _, err = ada.run("cancel", number)
    assert status == 2
    assert err.strip()


def test_the_source_comes_back_byte_exact(ada: Shell) -> None:
    out = ada.fine("submit", str(ada.kernel()), "--problem", "topk", "--no-wait", "--json")
    number = str(ReceiptBody.model_validate_json(out).submission_id)
    process = ada.start("show", number, "--source")
    assert process.communicate(timeout=60)[0] == SOURCE
    assert number in ada.fine("show", number)


def test_a_receipt_proves_what_was_received(ada: Shell) -> None:
    kept = ada.home / "receipt.json"
    words = ("--problem", "topk", "--no-wait", "--receipt", str(kept))
    ada.fine("submit", str(ada.kernel()), *words)
    assert ada.fine("receipt", "verify", str(kept)) == "genuine\n"
    forged = json.loads(kept.read_text()) | {"sha256": "0" * 64}
    kept.write_text(json.dumps(forged))
    status, out, _ = ada.run("receipt", "verify", str(kept))
    assert status == 1
    assert out.startswith("not signed")


def test_init_makes_a_folder_that_can_be_handed_in_and_never_overwrites(ada: Shell) -> None:
    ada.fine("init", "mine", "--problem", "topk")
    assert (ada.home / "mine" / "statement.md").stat().st_size > 0
    starter = ada.home / "mine" / "starter.py"
    starter.write_text(starter.read_text() + "# changed\n")
    status, _, err = ada.run("init", "mine", "--problem", "topk")
    assert status == 2
    assert "exists already" in err
    assert starter.read_text().endswith("# changed\n")
    out = ada.fine("submit", "mine", "--no-wait", "--json")
    assert ReceiptBody.model_validate_json(out).problem == "topk"


def test_problems_boards_and_whoami_answer_people_and_programs(ada: Shell) -> None:
    assert "topk" in ada.fine("problems")
    assert "tolerance" in ada.fine("problems", "show", "topk")
    assert "practice" in ada.fine("board", "topk").lower()
    assert BoardBody.model_validate_json(ada.fine("board", "topk", "--json")).problem == "topk"
    assert WhoamiBody.model_validate_json(ada.fine("whoami", "--json")).role == "contestant"


def test_refusals_of_the_judge_are_wrong_use_with_its_sentence(ada: Shell) -> None:
    words = ("submit", str(ada.kernel()), "--problem", "topk", "--device", "abacus", "--json")
    status, out, err = ada.run(*words)
    assert status == 2
    assert json.loads(out)["detail"] == err.strip()
    for wrong in (
        ("submit", str(ada.kernel()), "--problem", "nonesuch"),
        ("submit", "nowhere.py", "--problem", "topk"),
        ("show", "999999"),
        ("admin", "invites", "1"),
        ("nonsense",),
    ):
        status, _, err = ada.run(*wrong)
        assert status == 2, wrong
        assert err.strip(), wrong


def test_a_judge_that_is_away_is_status_3(tmp_path: Path) -> None:
    shell = Shell(tmp_path, f"http://127.0.0.1:{free_port()}")
    status, out, err = shell.run("problems", "--server", shell.url)
    assert (status, out) == (3, "")
    assert shell.url in err


def test_organizers_run_the_day(ada: Shell, organizer: Shell) -> None:
    codes = organizer.fine("admin", "invites", "3").split()
    assert len(set(codes)) == 3
    organizer.fine("admin", "announce", "Lunch [b]now[/b]")
    assert "Lunch [b]now[/b]" in ada.fine("problems")
    organizer.fine("admin", "pause", "new drivers")
    try:
        status, _, err = ada.run("submit", str(ada.kernel()), "--problem", "topk")
        assert status == 3
        assert "new drivers" in err
    finally:
        organizer.fine("admin", "resume")
    runner = organizer.fine("admin", "runner-token", "cpu").strip()
    assert runner.startswith("kj_")
    assert "organizer" in organizer.fine("admin", "tokens")
    assert "judge" in organizer.fine("admin", "backup")
    events = organizer.fine("admin", "events", "--json", "--limit", "1000")
    assert {EventBody.model_validate(e).kind for e in json.loads(events)}


def test_organizers_hold_and_release_what_was_judged(
    ada: Shell, organizer: Shell, runner: HandRunner
) -> None:
    status, out, err = judged(ada, runner, Verdict.ACCEPTED, "--json")
    assert status == 0, err
    number = str(SubmissionBody.model_validate_json(out).id)
    assert "held" in organizer.fine("admin", "hold", number, "--reason", "odd times")
    told = organizer.fine("admin", "hold", number, "--reason", "odder", "--json")
    assert SubmissionBody.model_validate_json(told).held
    assert "released" in organizer.fine("admin", "release", number)
    told = organizer.fine("admin", "release", number, "--json")
    assert not SubmissionBody.model_validate_json(told).held
    events = organizer.fine("admin", "events")
    assert "entry.held" in events
    assert "entry.released" in events
    for wrong in (
        ("admin", "hold", number),
        ("admin", "hold", number, "--reason", " "),
        ("admin", "hold", "999999", "--reason", "odd"),
        ("admin", "release", "nought"),
        ("admin", "release", "999999"),
    ):
        status, _, err = organizer.run(*wrong)
        assert status == 2, wrong
        assert err.strip(), wrong
    assert ada.run("admin", "hold", number, "--reason", "odd")[0] == 2


def test_a_revoked_token_is_worthless_and_says_so(ada: Shell) -> None:
    second = ada.fine("tokens", "new", "laptop").strip()
    ada.fine("whoami", "--token", second)
    listed = json.loads(ada.fine("tokens", "--json"))
    number = next(t["token_id"] for t in listed if t["label"] == "laptop")
    ada.fine("tokens", "revoke", str(number))
    status, _, err = ada.run("whoami", "--token", second)
    assert status == 2
    assert "judge login" in err


def test_logging_out_forgets_the_token(ada: Shell) -> None:
    ada.fine("logout")
    status, _, err = ada.run("whoami")
    assert status == 2
    assert "judge login" in err


def test_logging_in_replaces_no_token_that_still_works(ada: Shell, judge: LiveJudge) -> None:
    mine = token_of(ada)
    words = ("login", "--server", judge.url, "--token", judge.organizer)
    status, _, err = ada.run(*words)
    assert status == 2
    assert "judge whoami --show-token" in err
    assert token_of(ada) == mine
    ada.fine("logout")
    assert "organizer" in ada.fine(*words)
