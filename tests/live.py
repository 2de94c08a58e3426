"""A real server of its own for a test, and a runner's side played by hand over HTTP."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from judge.client import JudgeClient
from judge.model import Verdict
from judge.settings import embedded_queue_url
from judge.transport import ServerUnreachable
from judge.wire import (
    CaseResultBody,
    ClaimBody,
    HelloBody,
    LeaseBody,
    MeasurementBody,
    OutcomeBody,
    ProgressBody,
    SelfTestBody,
)

ROOT = Path(__file__).parents[1]
READY_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class LiveJudge:
    """`judge serve` on loopback, with the example contest and a state folder of its own."""

    def __init__(self, state: Path, environment: Mapping[str, str] | None = None) -> None:
        self.state = state
        self._environment = dict(environment or {})
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.organizer = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the server and wait until it answers; the first start learns the organizer's token."""
        self.state.mkdir(exist_ok=True)
        printed = self.state / "printed"
        with printed.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "judge.cli", "serve"],
                cwd=ROOT,
                env={
                    **os.environ,
                    "JUDGE_STATE_DIR": str(self.state),
                    "JUDGE_PORT": str(self.port),
                    **self._environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )
        end = time.monotonic() + READY_S
        with JudgeClient(self.url) as client:
            while True:
                try:
                    client.health()
                    break
                except ServerUnreachable:
                    assert self._process.poll() is None, printed.read_text()
                    assert time.monotonic() < end, printed.read_text()
                    time.sleep(0.05)
        found = re.search(r"organizer token.*: (\S+)", printed.read_text())
        if found:
            self.organizer = found[1]

    def kill(self) -> None:
        """End the server at once, as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(20)

    @property
    def pid(self) -> int:
        """The process id of the server that runs now."""
        assert self._process is not None
        return self._process.pid

    def valkey_pid(self) -> int:
        """The process id of the embedded Valkey: the server's child of that name."""
        for child in children_of(self.pid):
            if "valkey" in Path(f"/proc/{child}/cmdline").read_text():
                return child
        raise AssertionError("the server has no Valkey")

    def invite(self) -> str:
        with JudgeClient(self.url, self.organizer) as client:
            return client.invites(1).codes[0]

    def newcomer(self, name: str) -> str:
        """The token of a new contestant."""
        with JudgeClient(self.url) as client:
            return client.register(name, self.invite()).token


class LiveRunner:
    """`judge work` for a live judge: worker, evaluator and boxes, in a session of their own."""

    def __init__(self, judge: LiveJudge) -> None:
        self._judge = judge
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the worker that runs now."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the runner; it says nothing over HTTP before it takes a job, so none is waited for."""
        judge = self._judge
        with (judge.state / "runner-printed").open("ab") as out:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "judge.cli", "work", "--server", judge.url),
                    *("--token-file", str(judge.state / "secrets" / "runner-cpu.token")),
                    *("--state-dir", str(judge.state), "--problems", str(ROOT / "problems")),
                    *("--redis-url", embedded_queue_url(judge.state)),
                ],
                cwd=ROOT,
                # Runners of other tests, or of a developer, may hold the cores of this machine.
                env={**os.environ, "JUDGE_RUNNER_LOCK_DIR": str(judge.state)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End the worker at once, as a power cut would; its children have to notice by themselves."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)


def children_of(pid: int) -> list[int]:
    """The process's children now, whichever of its threads started them."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for listed in lists for child in listed.read_text().split()]


class HandRunner:
    """What a runner says over HTTP, said by a test."""

    def __init__(self, judge: LiveJudge) -> None:
        token = (judge.state / "secrets" / "runner-cpu.token").read_text().strip()
        self._http = httpx.Client(
            base_url=f"{judge.url}/api/v1/runner/jobs/",
            headers={"Authorization": f"Bearer {token}"},
        )
        with JudgeClient(judge.url) as client:
            self._digests = {p.id: p.digest for p in client.problems()}
        said = HelloBody(runner="by hand", isolation="full", self_test=SelfTestBody(passed=True))
        self._http.post("../hello", json=said.model_dump(mode="json")).raise_for_status()

    def close(self) -> None:
        self._http.close()

    def claim(self, job_id: int) -> LeaseBody:
        body = ClaimBody(runner="by hand", problem_digests=self._digests, isolation="full")
        answer = self._http.post(f"{job_id}/claim", json=body.model_dump(mode="json"))
        return LeaseBody.model_validate_json(answer.raise_for_status().content)

    def beat(self, lease: LeaseBody, progress: ProgressBody) -> None:
        body = {"attempt": lease.attempt, "progress": progress.model_dump(), "loaded": True}
        self._http.post(f"{lease.job_id}/heartbeat", json=body).raise_for_status()

    def finish(
        self, lease: LeaseBody, verdict: Verdict, samples_ns: Mapping[str, list[int]] | None = None
    ) -> None:
        """End the job: each case with the verdict, each timing case with its samples (or 10 us)."""
        timing = [case.name for case in lease.cases if case.stage == "timing"]
        outcome = OutcomeBody(
            job_id=lease.job_id,
            attempt=lease.attempt,
            verdict=verdict,
            message="said by hand",
            results=[
                CaseResultBody(
                    case=case.name,
                    stage=case.stage,
                    secret=case.secret,
                    verdict=verdict,
                    values=case.values,
                )
                for case in lease.cases
            ],
            measurements=[
                MeasurementBody(
                    case=name,
                    secret=False,
                    chain=next(case.chain for case in lease.cases if case.name == name),
                    samples_ns=(samples_ns or {}).get(name, [10_000, 10_100, 10_200, 10_300]),
                    null_samples_ns=[300, 310, 320, 330],
                )
                for name in timing
            ],
            environment={"cpu": "by hand"},
        )
        answer = self._http.post(
            f"{lease.job_id}/outcome", json=outcome.model_dump(mode="json"), timeout=30
        )
        assert answer.is_success, answer.text
