"""A runner's day against a real server: tested, enrolled, set aside and back, with its real evaluator."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from judge.wire import HelloBody, SelfTestBody
from runners.duty import DOCTOR_FILE, Duty, doctor_figures
from runners.enrolment import Enrolment, EnrolmentRefusedError
from runners.http_rings import HttpRings
from runners.problems import problem_folders
from runners.server_link import ServerLink
from runners.settings import EvaluatorSettings, WorkerSettings
from runners.stop import Stop
from runners.worker import Worker
from tests.judge.api.conftest import Judge, contest_text, running, until

TOPK = Path(__file__).parents[2] / "problems" / "topk"
WRONG = "def custom_kernel(data):\n    return data[-1]\n"
NAME = "r1"
START_S = 60.0

pytestmark = [pytest.mark.box, pytest.mark.slow]


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setattr("judge.roll.BEAT_S", 0.05)
    with running(tmp_path / "judge", contest_text()) as made:
        yield made


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    """A copy of the shipped problem, which the runner judges by."""
    shutil.copytree(TOPK, tmp_path / "problems" / "topk")
    return tmp_path / "problems"


def state_of(judge: Judge) -> dict[str, Any]:
    found = [r for r in judge.connect().get("/runners").json() if r["name"] == NAME]
    return found[0] if found else {}


def events(judge: Judge) -> list[str]:
    listed = judge.organizer.http.get("/admin/events", params={"limit": 1000}).json()
    return [e["kind"] for e in listed if e["kind"].startswith("runner.")]


def on_duty(judge: Judge, problems: Path, state: Path, meanwhile: Callable[[], None]) -> list[int]:
    """A runner's day; it is told to stop by a signal once `meanwhile` has run. The ids it heard."""
    settings = WorkerSettings(
        judge.url, "", judge.runner.token, NAME, EvaluatorSettings(problems, state)
    )
    stop, server, heard = Stop(), ServerLink(judge.url, settings.token), []
    enrolment = Enrolment(server, NAME, stop, busy=lambda: worker.busy)
    worker = Worker(
        settings, lambda: problem_folders(problems), server, stop.event, enrolment.hinder
    )
    answer = worker.answer
    worker.answer = lambda job_id: heard.append(job_id) or answer(job_id)  # type: ignore[method-assign]
    failed: list[BaseException] = []

    def run_meanwhile() -> None:
        try:
            meanwhile()
        except BaseException as error:
            failed.append(error)
        finally:
            if not stop():
                os.kill(os.getpid(), signal.SIGTERM)

    beside = threading.Thread(target=run_meanwhile)
    try:
        worker.start()
        with stop.on_signals():
            beside.start()
            Duty(settings, worker, enrolment, HttpRings(server, NAME, stop), stop).run()
            beside.join()
    finally:
        stop.event.set()
        worker.close()
        enrolment.close()
        server.close()
    if failed:
        raise failed[0]
    return heard


def verdict_of(judge: Judge, submission: int) -> str | None:
    body = judge.organizer.http.get(f"/submissions/{submission}").json()
    verdict: str | None = body["verdict"]
    return verdict


def listening(judge: Judge) -> bool:
    return bool(judge.app.parts.changes.waiters)


def test_a_runner_with_the_servers_url_alone_tests_itself_enrols_and_judges(
    judge: Judge, problems: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / DOCTOR_FILE).write_text('{"at": "noon", "figures": {"round_trip_us": 0.4}}')
    taken = judge.newcomer().submit()

    def meanwhile() -> None:
        until(lambda: verdict_of(judge, taken["submission_id"]) == "wrong answer", START_S)

    assert on_duty(judge, problems, state, meanwhile) == [taken["job_id"]]
    shown = state_of(judge)
    assert shown["self_test_passed"]
    assert shown["self_test"].startswith("baseline_torch.py of topk: accepted")
    assert shown["environment"]["device"] == "cpu"
    assert list(shown["problem_digests"]) == ["topk"]
    assert shown["doctor"] == {"at": "noon", "figures": {"round_trip_us": 0.4}}


def test_a_runner_that_fails_its_self_test_says_so_takes_nothing_and_tries_again(
    judge: Judge, problems: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.duty.RETRY_S", 0.1)
    monkeypatch.setattr("judge.enrolment.REST", timedelta(0))
    baseline = problems / "topk" / "submissions" / "baseline_torch.py"
    right = baseline.read_text()
    baseline.write_text(WRONG)
    taken = judge.newcomer().submit()

    def meanwhile() -> None:
        until(lambda: state_of(judge).get("self_test_passed") is False, START_S)
        assert "wrong answer" in state_of(judge)["self_test"]
        assert verdict_of(judge, taken["submission_id"]) is None
        until(lambda: events(judge)[-1] == "runner.quarantined", START_S)
        baseline.write_text(right)
        until(lambda: verdict_of(judge, taken["submission_id"]) == "wrong answer", START_S)

    on_duty(judge, problems, tmp_path, meanwhile)
    assert events(judge) == ["runner.enrolled", "runner.quarantined", "runner.reinstated"]


def test_a_runner_in_quarantine_leaves_the_rings_to_others_and_comes_back_when_reinstated(
    judge: Judge, problems: Path, tmp_path: Path
) -> None:
    def meanwhile() -> None:
        until(lambda: listening(judge), START_S)
        held = {"runner": NAME, "why": "for a while"}
        judge.organizer.http.post("/admin/quarantine", json=held)
        # The wait for rings that is under way may still hear one; the claim is refused.
        refused = judge.newcomer().submit()
        until(lambda: not listening(judge), START_S)
        assert verdict_of(judge, refused["submission_id"]) is None
        judge.organizer.http.post("/admin/reinstate", json={"runner": NAME})
        until(lambda: verdict_of(judge, refused["submission_id"]) == "wrong answer", START_S)

    judge.hello()
    on_duty(judge, problems, tmp_path, meanwhile)


def test_a_token_that_is_another_runners_ends_the_day_with_the_reason(judge: Judge) -> None:
    server = ServerLink(judge.url, judge.runner.token)
    enrolment = Enrolment(server, "r2", Stop(), busy=lambda: False)
    hello = HelloBody(runner="r2", isolation="full", self_test=SelfTestBody(passed=True))
    with pytest.raises(EnrolmentRefusedError, match="belongs to runner r1"):
        enrolment.greet(hello)
    enrolment.close()
    server.close()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, None),
        (b"{", None),
        (b"[1]", None),
        (b"\xff", None),
        (b'{"a": "' + b"x" * 40_000 + b'"}', None),
        (b'{"at": 1}', {"at": 1}),
    ],
)
def test_doctors_figures_are_taken_as_they_are_or_left_out(
    tmp_path: Path, content: bytes | None, found: object
) -> None:
    if content is not None:
        (tmp_path / DOCTOR_FILE).write_bytes(content)
    assert doctor_figures(tmp_path) == found
