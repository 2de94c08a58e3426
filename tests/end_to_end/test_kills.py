"""SIGKILL of server, runner or Valkey at any moment: every job still ends with its own verdict."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.client import JudgeClient, Target
from judge.model import JobState, Mode, SourceFile, Verdict
from judge.transport import ApiRefusal, ServerUnreachable
from judge.wire import SubmissionBody
from tests.live import ROOT, LiveJudge, LiveRunner

LEASE_S = 3.0
HEARTBEAT_S = 0.5
GRACE_S = 5.0
END_S = 150.0
SEED = 20260301

pytestmark = [pytest.mark.slow, pytest.mark.box]

KERNELS = {
    "baseline_torch.py": Verdict.ACCEPTED,
    "mutant_no_bias.py": Verdict.WRONG_ANSWER,
    "variant_fp64.py": Verdict.ACCEPTED,
    "mutant_nothing.py": Verdict.WRONG_ANSWER,
}


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[LiveJudge]:
    live = LiveJudge(
        tmp_path / "state",
        {"JUDGE_LEASE_S": str(LEASE_S), "JUDGE_HEARTBEAT_S": str(HEARTBEAT_S)},
    )
    live.start()
    try:
        yield live
    finally:
        live.stop()


@pytest.fixture
def runner(judge: LiveJudge) -> Iterator[LiveRunner]:
    live = LiveRunner(judge)
    live.start()
    try:
        yield live
    finally:
        live.stop()


def kernel(name: str) -> list[SourceFile]:
    path = ROOT / "problems" / "topk" / "submissions" / name
    return [SourceFile(name, path.read_bytes())]


def hand_in(judge: LiveJudge, token: str, name: str) -> int:
    with JudgeClient(judge.url, token) as client:
        return client.submit(Target("topk", "cpu", Mode.TEST), kernel(name)).submission_id


def state_of(client: JudgeClient, submission_id: int) -> SubmissionBody | None:
    try:
        return client.submission(submission_id)
    except (ServerUnreachable, ApiRefusal):
        return None


def final(client: JudgeClient, submission_id: int, within_s: float) -> SubmissionBody:
    """The submission once it has ended; asks often, so that a killed server is no obstacle."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        body = state_of(client, submission_id)
        if body is not None and body.state is JobState.DONE:
            return body
        time.sleep(0.1)
    raise AssertionError(
        f"submission {submission_id} has not ended: {state_of(client, submission_id)}"
    )


def until_running(client: JudgeClient, submission_id: int, within_s: float) -> SubmissionBody:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        body = state_of(client, submission_id)
        if body is not None and body.state is JobState.RUNNING:
            return body
        time.sleep(0.005)
    raise AssertionError("the job never ran")


def test_a_job_whose_runner_dies_is_claimable_within_a_lease_and_five_seconds(
    judge: LiveJudge, runner: LiveRunner
) -> None:
    token = judge.newcomer("Ada")
    submission = hand_in(judge, token, "baseline_torch.py")
    with JudgeClient(judge.url, token) as client:
        until_running(client, submission, 60)
        runner.kill()
        killed_at = time.monotonic()
        while True:
            body = state_of(client, submission)
            assert body is not None
            if body.state is not JobState.RUNNING:
                break
            assert time.monotonic() - killed_at < LEASE_S + GRACE_S
            time.sleep(0.05)
        assert body.state is JobState.QUEUED
        runner.start()
        ended = final(client, submission, 60)
        assert ended.verdict is Verdict.ACCEPTED
        assert ended.attempt == 2


def test_kills_at_any_moment_cost_no_submission_its_verdict(
    judge: LiveJudge, runner: LiveRunner
) -> None:
    chance = random.Random(SEED)
    jobs: dict[int, tuple[str, Verdict]] = {}
    for name, verdict in KERNELS.items():
        token = judge.newcomer(name.removesuffix(".py"))
        jobs[hand_in(judge, token, name)] = (token, verdict)
    for victim in ("server", "valkey", "runner", "server", "runner", "valkey"):
        time.sleep(chance.uniform(0.05, 1.5))
        if victim == "server":
            judge.kill()
            judge.start()
        elif victim == "valkey":
            os.kill(judge.valkey_pid(), signal.SIGKILL)
        else:
            runner.kill()
            runner.start()
    for submission, (token, verdict) in jobs.items():
        with JudgeClient(judge.url, token) as client:
            ended = final(client, submission, END_S)
        assert (ended.verdict, ended.held) == (verdict, False), ended
        assert ended.attempt <= 3


def test_the_receipt_holds_after_the_server_was_killed_at_once(
    judge: LiveJudge, runner: LiveRunner
) -> None:
    token = judge.newcomer("Grace")
    submission = hand_in(judge, token, "baseline_torch.py")
    judge.kill()
    judge.start()
    with JudgeClient(judge.url, token) as client:
        assert final(client, submission, 90).verdict is Verdict.ACCEPTED
        assert (
            client.source(submission, "baseline_torch.py") == kernel("baseline_torch.py")[0].content
        )
