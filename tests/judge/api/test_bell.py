"""Promises of the doorbell of runners that ask over HTTP."""

from __future__ import annotations

import asyncio

from judge.api.bell import MOST_RINGS, Bell
from judge.api.changes import Changes
from judge.model import Mode

TEST = ("cpu", Mode.TEST)


def test_jobs_that_a_runner_cannot_judge_hide_no_other_from_it() -> None:
    bell = Bell(Changes(4))
    bell.ring(dict.fromkeys(range(1, MOST_RINGS + 3), TEST))
    for job_id in range(1, MOST_RINGS + 1):
        bell.put_last(job_id, "stale")
    others = [MOST_RINGS + 1, MOST_RINGS + 2]
    assert bell.ready("cpu", True, "stale") == [*others, *range(1, MOST_RINGS - 1)]
    assert bell.ready("cpu", True, "fresh") == list(range(1, MOST_RINGS + 1))


def test_a_job_that_was_put_last_and_left_is_in_order_when_it_comes_back() -> None:
    bell = Bell(Changes(4))
    bell.ring({1: TEST, 2: TEST})
    bell.put_last(1, "r")
    bell.ring({2: TEST})
    bell.ring({1: TEST, 2: TEST})
    assert bell.ready("cpu", True, "r") == [1, 2]


def test_another_order_of_service_is_another_ring() -> None:
    bell = Bell(Changes(4))
    bell.ring({1: TEST, 2: TEST})
    bell.ring({2: TEST, 1: TEST})
    assert asyncio.run(bell.wait("cpu", True, 0)) == [2, 1]
