"""Rings from a real server: heard at once, in order of service, until told to stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runners.http_rings import HttpRings
from runners.server_link import ServerLink
from runners.stop import Stop
from tests.judge.api.conftest import Judge, contest_text, running, until

FAR_TOO_LATE_S = 10.0


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Judge]:
    with running(tmp_path / "judge", contest_text()) as made:
        yield made


def listen(
    url: str,
    token: str,
    answer: Callable[[int], bool],
    meanwhile: Callable[[], None],
    hindered: Callable[[], bool] = lambda: False,
) -> float:
    """Listen until a signal comes, once `meanwhile` has run; the seconds from the signal to the end."""
    stop, link = Stop(), ServerLink(url, token)
    signalled: list[float] = []

    def run_meanwhile() -> None:
        try:
            meanwhile()
        finally:
            signalled.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGTERM)

    beside = threading.Thread(target=run_meanwhile)
    with stop.on_signals():
        beside.start()
        try:
            HttpRings(link, "r1", stop).listen(answer, hindered)
            ended = time.monotonic()
        finally:
            beside.join()
            link.close()
    return ended - signalled[0]


def test_rings_are_answered_in_order_of_service_until_told_to_stop_while_waiting(
    judge: Judge,
) -> None:
    benchmark = judge.newcomer().submit(mode="benchmark")["job_id"]
    test = judge.newcomer().submit()["job_id"]
    answered: list[int] = []

    def answer(job_id: int) -> bool:
        if job_id in answered:  # told before the server had looked again
            return False
        judge.finish(judge.claim(job_id))
        answered.append(job_id)
        return True

    until(lambda: judge.app.parts.bell.ready("cpu", True) == [test, benchmark])

    def meanwhile() -> None:
        until(lambda: len(answered) == 2)
        until(lambda: bool(judge.app.parts.changes.waiters))

    assert listen(judge.url, judge.runner.token, answer, meanwhile) < FAR_TOO_LATE_S
    assert answered == [test, benchmark]


def test_what_others_took_is_passed_over_without_a_rush_of_questions(judge: Judge) -> None:
    for _ in range(2):
        judge.newcomer().submit()
    asked: list[int] = []
    until(lambda: len(judge.app.parts.bell.ready("cpu", True)) == 2)

    def answer(job_id: int) -> bool:
        asked.append(job_id)
        return False

    began = time.monotonic()
    listen(judge.url, judge.runner.token, answer, lambda: until(lambda: len(asked) == 4))
    assert time.monotonic() - began >= 0.5
    assert asked[:4] == [1, 2, 1, 2]


def test_a_hindered_runner_asks_for_no_more(judge: Judge) -> None:
    def answer(job_id: int) -> bool:
        raise AssertionError("it was answered")

    judge.newcomer().submit()
    listen(judge.url, judge.runner.token, answer, lambda: None, lambda: True)
    judge.hello(self_test={"passed": False})
    listen(judge.url, judge.runner.token, answer, lambda: None)


def test_an_unreachable_server_is_waited_for_until_told_to_stop() -> None:
    listen("http://127.0.0.1:1", "token", lambda job_id: True, lambda: None)
