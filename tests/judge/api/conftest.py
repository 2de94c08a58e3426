"""A real server in this process: uvicorn, SQLite, embedded Valkey, the shipped problem."""

from __future__ import annotations

import itertools
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from judge.api.application import Application
from judge.app import create_app, first_organizer_token
from judge.server import Server, server
from judge.settings import ServerSettings

ROOT = Path(__file__).parents[3]
KERNEL = b"def custom_kernel(data):\n    return data[-1]\n"
NAMES = itertools.count(1)

CONTEST = """
title = "Spring kernels"
problems = ["topk"]
devices = ["cpu"]
opens = {opens}
{freezes}
closes = {closes}
open_registration = {open_registration}
show_sources_after_close = {show_sources}

[quotas]
ranked = {{ count = 1, per_s = 3600 }}
{quotas}
"""


@dataclass
class MovableClock:
    """The server's clock: real, plus what a test adds."""

    ahead: timedelta = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Person:
    """Somebody with a token, and their connection."""

    token: str
    http: httpx.Client

    def submit(self, content: bytes = KERNEL, mode: str = "test", **changes: Any) -> dict[str, Any]:
        answer = self.http.post(
            "/submissions",
            data={"problem": "topk", "device": "cpu", "mode": mode, **changes},
            files={"files": ("topk.py", content)},
        )
        assert answer.status_code == 202, answer.text
        return answer.json()


@dataclass
class Judge:
    """The running server, seen from outside; `parts` for what cannot be seen there."""

    url: str
    app: Application
    clock: MovableClock
    settings: ServerSettings
    organizer: Person
    runner: Person
    server: Server
    trust: ssl.SSLContext | bool = True
    _open: list[httpx.Client] = field(default_factory=list)

    def connect(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        client = httpx.Client(
            base_url=f"{self.url}/api/v1", headers=headers, timeout=30, verify=self.trust
        )
        self._open.append(client)
        return client

    def as_token(self, token: str) -> Person:
        return Person(token, self.connect(token))

    def newcomer(self, name: str | None = None) -> Person:
        made = self.organizer.http.post("/admin/invites", json={"count": 1}).json()["codes"][0]
        body = {"name": name or f"person {next(NAMES)}", "invite": made}
        answer = self.connect().post("/register", json=body)
        assert answer.status_code == 201, answer.text
        return self.as_token(answer.json()["token"])

    def hello(self, name: str = "r1", runner: Person | None = None, **changes: Any) -> Any:
        """Have a runner say hello; how it stands."""
        said = {"runner": name, "isolation": "full", "self_test": {"passed": True}, **changes}
        answer = (runner or self.runner).http.post("/runner/hello", json=said)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def new_runner(self, name: str, device: str = "cpu", **changes: Any) -> Person:
        """A runner with a token of its own, which has said hello."""
        asked = {"role": "runner", "label": name, "device": device}
        made = self.as_token(self.organizer.http.post("/tokens", json=asked).json()["token"])
        self.hello(name, made, **changes)
        return made

    def claim(self, job_id: int, runner: str = "r1") -> dict[str, Any]:
        """The lease of a job, as a runner gets it."""
        digests = {p.id: p.digest for p in self.app.parts.opened.problems.values()}
        body = {"runner": runner, "problem_digests": digests, "isolation": "full"}
        answer = self.runner.http.post(f"/runner/jobs/{job_id}/claim", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def finish(self, lease: dict[str, Any], **changes: Any) -> httpx.Response:
        """Send the outcome of a lease: every case accepted, every timing case measured."""
        outcome = {
            "job_id": lease["job_id"],
            "attempt": lease["attempt"],
            "verdict": "accepted",
            "message": "",
            "results": [
                {
                    "case": case["name"],
                    "stage": case["stage"],
                    "secret": case["secret"],
                    "verdict": "accepted",
                    "values": case["values"],
                }
                for case in lease["cases"]
            ],
            "measurements": [
                {
                    "case": case["name"],
                    "secret": case["secret"],
                    "chain": case["chain"],
                    "samples_ns": [9_000, 10_000, 11_000],
                    "null_samples_ns": [990, 1_000, 1_010],
                }
                for case in lease["cases"]
                if case["stage"] == "timing"
            ],
            "log": "built",
            "environment": {"cpu": "test"},
            **changes,
        }
        return self.runner.http.post(f"/runner/jobs/{lease['job_id']}/outcome", json=outcome)

    def judged(self, person: Person, mode: str = "benchmark", **changes: Any) -> int:
        """A submission that went all the way; its id."""
        receipt = person.submit(mode=mode)
        assert self.finish(self.claim(receipt["job_id"]), **changes).status_code == 200
        return int(receipt["submission_id"])

    def close(self) -> None:
        for client in self._open:
            client.close()


def contest_text(**changes: Any) -> str:
    words = {
        "opens": "2026-01-01T00:00:00Z",
        "freezes": "",
        "closes": "2036-01-01T00:00:00Z",
        "open_registration": "false",
        "show_sources": "false",
        "quotas": "",
    }
    return CONTEST.format(**{**words, **changes})


@contextmanager
def running(
    state: Path,
    contest: str,
    clock: MovableClock | None = None,
    tls: Path | None = None,
    **settings: Any,
) -> Iterator[Judge]:
    """A server on a free port of loopback while the block runs.

    tls: a PEM file with its key and certificate; it speaks https then.
    """
    state.mkdir(parents=True, exist_ok=True)
    contest_file = state / "contest.toml"
    contest_file.write_text(contest)
    chosen = ServerSettings(
        state_dir=state / "judge",
        contest_file=contest_file,
        problems_dir=ROOT / "problems",
        **settings,
    )
    organizer = first_organizer_token(chosen)
    kept = state / "organizer"
    if organizer is not None:
        kept.write_text(organizer)
    clock = clock or MovableClock()
    app = create_app(chosen, clock)
    http = server(app, "127.0.0.1", 0)
    scheme, trust = "http", True
    if tls is not None:
        http.config.ssl_certfile = tls
        scheme, trust = "https", ssl.create_default_context(cafile=str(tls))
    thread = threading.Thread(target=http.run, name="uvicorn")
    thread.start()
    try:
        until(lambda: http.started or not thread.is_alive())
        assert http.started, "the server did not start"
        port = http.servers[0].sockets[0].getsockname()[1]
        judge = Judge(  # type: ignore[arg-type]
            f"{scheme}://127.0.0.1:{port}", app, clock, chosen, None, None, http, trust
        )
        judge.organizer = judge.as_token(kept.read_text())
        token = (chosen.secrets_dir / "runner-cpu.token").read_text().strip()
        judge.runner = judge.as_token(token)
        judge.hello()
        try:
            yield judge
        finally:
            judge.close()
    finally:
        http.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the server did not end"


def until(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    """Wait for something that another process or thread brings about."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        threading.Event().wait(0.005)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """One server for the tests of a file; each takes newcomers of its own."""
    with running(tmp_path_factory.mktemp("judge"), contest_text()) as judge:
        yield judge


@pytest.fixture
def own_judge(tmp_path: Path) -> Callable[..., Any]:
    """Makes servers with a contest of the test's own."""
    return lambda contest="", **settings: running(tmp_path, contest or contest_text(), **settings)
