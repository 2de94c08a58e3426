"""A worker with its real evaluator, against a server whose answers the test decides."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from judge.model import Job, Limits, Mode, Problem, SourceFile, Verdict
from judge.rules import cases_of_mode
from judge.wire import LeaseBody
from runners.problems import problem_folders
from runners.server_link import ServerLink
from runners.settings import EvaluatorSettings, WorkerSettings
from runners.worker import Worker, ceiling_s
from tests.live import children_of

FAULTS = Path(__file__).parents[1] / "faults"
TOKEN = "a-secret-of-this-runner"
HEARTBEAT_S = 0.1
BUSY = 503

pytestmark = [pytest.mark.box, pytest.mark.slow]

Reply = tuple[int, dict[str, Any]]
OK: Reply = (200, {"ok": True, "detail": ""})
GO_ON: Reply = (200, {"stop": False, "lease_s": 5.0})
STOP: Reply = (200, {"stop": True, "lease_s": 5.0})
DOWN: Reply = (BUSY, {"detail": "Try again.", "code": "busy"})
REFUSED: Reply = (409, {"detail": "It is somebody else's.", "code": "job_leased"})


class Desk:
    """The server's three runner routes. Replies may be changed at any time by a test."""

    def __init__(self) -> None:
        self.reset()
        desk = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                assert self.headers["authorization"] == f"Bearer {TOKEN}"
                status, reply = desk.answer(self.path.rpartition("/")[2], body)
                content = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Tests look at replies, not at logs."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def reset(self) -> None:
        self.lease: Reply = REFUSED
        self.heartbeat: Callable[[dict[str, Any]], Reply] = lambda body: GO_ON
        self.outcome: Callable[[dict[str, Any]], Reply] = lambda body: OK
        self.heartbeats: list[dict[str, Any]] = []
        self.outcomes: list[dict[str, Any]] = []

    def answer(self, verb: str, body: dict[str, Any]) -> Reply:
        if verb == "claim":
            return self.lease
        if verb == "heartbeat":
            self.heartbeats.append(body)
            return self.heartbeat(body)
        reply = self.outcome(body)
        self.outcomes.append(body)
        return reply

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


FOLDER = problem_folders(FAULTS / "problems")["double"]
PROBLEM: Problem = FOLDER.problem


def lease(name: str, digest: str = PROBLEM.digest) -> Reply:
    job = Job(
        id=5,
        submission_id=5,
        problem_id=PROBLEM.id,
        problem_digest=digest,
        device="cpu",
        mode=Mode.TEST,
        attempt=2,
        key=os.urandom(16),
        main=name,
        files=(SourceFile(name, (FAULTS / "submissions" / name).read_bytes()),),
        cases=cases_of_mode(PROBLEM, (), Mode.TEST),
    )
    return 200, LeaseBody.of(job, 5.0, HEARTBEAT_S).model_dump(mode="json")


@pytest.fixture(scope="module")
def shared_desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


STOPPING = threading.Event()
HINDERED = threading.Event()


@pytest.fixture(scope="module")
def worker(
    shared_desk: Desk, tmp_path_factory: pytest.TempPathFactory, sandbox: object
) -> Iterator[Worker]:
    os.environ["JUDGE_RUNNER_TOKEN"] = TOKEN
    settings = WorkerSettings(
        server=shared_desk.url,
        redis_url="",
        token=TOKEN,
        name="r1",
        evaluator=EvaluatorSettings(FAULTS / "problems", tmp_path_factory.mktemp("state")),
    )
    server = ServerLink(settings.server, TOKEN)
    made = Worker(settings, lambda: {PROBLEM.id: FOLDER}, server, STOPPING, HINDERED.set)
    made.start()
    yield made
    made.close()
    server.close()
    del os.environ["JUDGE_RUNNER_TOKEN"]


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    shared_desk.reset()
    STOPPING.clear()
    HINDERED.clear()
    return shared_desk


def evaluator_pid() -> int:
    (found,) = (
        pid
        for pid in children_of(os.getpid())
        if b"runners.evaluator_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    return found


def test_a_job_is_claimed_judged_and_handed_in_once(worker: Worker, desk: Desk) -> None:
    desk.lease = lease("honest.py")
    assert worker.answer(5)
    (outcome,) = desk.outcomes
    assert (outcome["job_id"], outcome["attempt"]) == (5, 2)
    assert outcome["verdict"] == Verdict.ACCEPTED
    assert any(body["loaded"] for body in desk.heartbeats)


def test_a_refused_claim_drops_the_ring(worker: Worker, desk: Desk) -> None:
    desk.lease = REFUSED
    assert not worker.answer(5)
    assert not desk.outcomes
    assert not desk.heartbeats
    assert not HINDERED.is_set()


def test_a_claim_refused_for_what_the_runner_is_is_told_on(worker: Worker, desk: Desk) -> None:
    desk.lease = (409, {"detail": "You are in quarantine.", "code": "runner_quarantined"})
    assert not worker.answer(5)
    assert HINDERED.is_set()


def test_a_stop_ends_the_work_and_hands_in_nothing(worker: Worker, desk: Desk) -> None:
    desk.lease = lease("endless_call.py")
    desk.heartbeat = lambda body: STOP if body["loaded"] else GO_ON
    worker.answer(5)
    assert not desk.outcomes
    desk.lease, desk.heartbeat = lease("honest.py"), lambda body: GO_ON
    worker.answer(5)
    assert [o["verdict"] for o in desk.outcomes] == [Verdict.ACCEPTED]


def test_a_job_survives_a_server_that_is_away_for_a_while(worker: Worker, desk: Desk) -> None:
    desk.lease = lease("honest.py")
    desk.heartbeat = lambda body: DOWN
    desk.outcome = lambda body: OK if len(desk.outcomes) == 2 else DOWN
    worker.answer(5)
    assert len(desk.outcomes) == 3
    assert desk.outcomes[0] == desk.outcomes[2]
    assert desk.outcomes[2]["verdict"] == Verdict.ACCEPTED


def test_an_evaluator_that_dies_costs_a_judge_error_and_is_replaced(
    worker: Worker, desk: Desk
) -> None:
    desk.lease = lease("endless_call.py")
    pid = evaluator_pid()

    def kill_once_loaded(body: dict[str, Any]) -> Reply:
        if body["loaded"] and Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)
        return GO_ON

    desk.heartbeat = kill_once_loaded
    worker.answer(5)
    assert [o["verdict"] for o in desk.outcomes] == [Verdict.JUDGE_ERROR]
    desk.lease, desk.heartbeat = lease("honest.py"), lambda body: GO_ON
    worker.answer(5)
    assert desk.outcomes[1]["verdict"] == Verdict.ACCEPTED


def test_another_version_of_the_problem_is_a_judge_error_that_names_the_remedy(
    worker: Worker, desk: Desk
) -> None:
    desk.lease = lease("honest.py", digest="f" * 64)
    worker.answer(5)
    (outcome,) = desk.outcomes
    assert outcome["verdict"] == Verdict.JUDGE_ERROR
    assert "update that folder" in outcome["message"]


def test_a_runner_told_to_stop_gives_the_job_up(
    worker: Worker, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.worker.FINISH_S", 0.0)
    desk.lease = lease("endless_call.py")

    def stop_once_loaded(body: dict[str, Any]) -> Reply:
        if body["loaded"]:
            STOPPING.set()
        return GO_ON

    desk.heartbeat = stop_once_loaded
    worker.answer(5)
    assert not desk.outcomes


def test_the_token_stays_in_the_worker(worker: Worker) -> None:
    process = Path(f"/proc/{evaluator_pid()}")
    assert TOKEN.encode() not in (process / "environ").read_bytes()
    assert TOKEN.encode() not in (process / "cmdline").read_bytes()


def test_no_evaluator_is_held_to_hang_while_a_ranked_run_keeps_to_its_own_ceiling() -> None:
    limits = Limits(build_s=30, job_s=60, ranked_s=600)
    # Twice, where it asks for the build stage only once it runs; correctness may take job_s.
    assert ceiling_s(limits, Mode.RANKED) > limits.build_s + 2 * (limits.ranked_s + limits.job_s)
    assert ceiling_s(limits, Mode.BENCHMARK) < limits.ranked_s


def test_an_evaluator_that_hangs_costs_a_judge_error_at_the_ceiling(
    worker: Worker, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.worker.ceiling_s", lambda limits, mode: 1.0)
    desk.lease = lease("honest.py")
    os.kill(evaluator_pid(), signal.SIGSTOP)
    worker.answer(5)
    assert [o["verdict"] for o in desk.outcomes] == [Verdict.JUDGE_ERROR]


ORPHAN = """
import sys
from pathlib import Path
from runners.evaluator_link import EvaluatorLink
from runners.settings import EvaluatorSettings
link = EvaluatorLink(EvaluatorSettings(Path(sys.argv[1]), Path(sys.argv[2])))
link.start()
link.ready()
print(link.pid, flush=True)
sys.stdin.read()
"""


def test_an_evaluator_and_its_boxes_end_when_the_worker_is_killed(
    tmp_path: Path, sandbox: object
) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(FAULTS / "problems"), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with worker:
        assert worker.stdout is not None
        pid = int(worker.stdout.readline())
        family = [pid, *children_of(pid)]
        assert len(family) > 1
        handles = [os.pidfd_open(member) for member in family]
        worker.kill()
    for handle in handles:
        assert select.select([handle], [], [], 20)[0]
        os.close(handle)
