"""Promises of waiting for news: long polls and event streams."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.judge.api.conftest import Judge, Person, until


def events(person: Person, submission: int) -> Iterator[dict[str, Any]]:
    """The stream's events as they come: event, id, data."""
    with person.http.stream("GET", f"/submissions/{submission}/events") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        found: dict[str, Any] = {}
        for line in answer.iter_lines():
            if not line and found:
                yield {**found, "data": json.loads(found["data"])}
                found = {}
            elif line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                found[name] = value


def wait(person: Person, submission: int, version: int, timeout: float) -> httpx.Response:
    query = {"version": version, "timeout": timeout}
    return person.http.get(f"/submissions/{submission}/wait", params=query)


def watched(judge: Judge, count: int) -> bool:
    return judge.app.parts.changes.waiters == count


def test_a_wait_answers_at_once_when_there_is_news_already(judge):
    author = judge.newcomer()
    taken = author.submit()
    body = wait(author, taken["submission_id"], -1, 25).json()
    assert (body["state"], body["version"] >= 1) == ("queued", True)


def test_a_wait_ends_with_the_change_it_waited_for(judge):
    author = judge.newcomer()
    taken = author.submit()
    version = author.http.get(f"/submissions/{taken['submission_id']}").json()["version"]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait, author, taken["submission_id"], version, 25)
        until(lambda: watched(judge, 1))
        judge.claim(taken["job_id"])
        body = waiting.result(10).json()
    assert body["state"] == "running"
    assert body["version"] > version


def test_a_wait_without_news_answers_with_what_is_known_after_its_time(judge):
    author = judge.newcomer()
    taken = author.submit()
    version = author.http.get(f"/submissions/{taken['submission_id']}").json()["version"]
    began = time.monotonic()
    body = wait(author, taken["submission_id"], version, 0.3).json()
    assert time.monotonic() - began >= 0.3
    assert body["version"] == version


def test_a_wait_for_a_final_submission_never_blocks(judge):
    author = judge.newcomer()
    submission = judge.judged(author)
    began = time.monotonic()
    assert wait(author, submission, 10**6, 25).json()["state"] == "done"
    assert time.monotonic() - began < 5


def test_a_stream_tells_every_step_and_ends_with_the_verdict(judge):
    author = judge.newcomer()
    taken = author.submit(mode="benchmark")
    stream = events(author, taken["submission_id"])
    assert next(stream)["data"]["state"] == "queued"
    lease = judge.claim(taken["job_id"])
    claimed = next(event for event in stream if event["data"]["state"] == "running")
    assert claimed["event"] == "submission"
    assert int(claimed["id"]) == claimed["data"]["version"]
    beat = {"attempt": 1, "progress": {"stage": "timing", "done": 3, "total": 8}, "loaded": True}
    judge.runner.http.post(f"/runner/jobs/{taken['job_id']}/heartbeat", json=beat)
    progress = next(event for event in stream if event["data"]["progress"])
    assert progress["data"]["progress"] == {"stage": "timing", "done": 3, "total": 8}
    judge.finish(lease)
    last = list(stream)[-1]["data"]
    assert (last["state"], last["verdict"]) == ("done", "accepted")
    assert last["geomean_ns"] == pytest.approx(9_000)


def test_a_stream_of_a_finished_submission_tells_it_once_and_ends(judge):
    author = judge.newcomer()
    told = list(events(author, judge.judged(author)))
    assert [event["data"]["verdict"] for event in told] == ["accepted"]


def test_a_stream_tells_when_the_place_in_the_queue_moves(judge):
    first, second = judge.newcomer(), judge.newcomer()
    ahead = first.submit()
    behind = second.submit()
    stream = events(second, behind["submission_id"])
    place = next(stream)["data"]["place"]
    assert first.http.post(f"/submissions/{ahead['submission_id']}/cancel").status_code == 200
    assert next(stream)["data"]["place"] == place - 1
    stream.close()


def test_a_gone_reader_leaves_no_waiter_behind(judge):
    author = judge.newcomer()
    taken = author.submit()
    until(lambda: watched(judge, 0))
    with author.http.stream("GET", f"/submissions/{taken['submission_id']}/events") as answer:
        lines = answer.iter_lines()  # kept: when it goes, the connection goes
        next(lines)
        assert watched(judge, 1)
    until(lambda: watched(judge, 0))


def test_a_hundred_readers_all_hear_the_verdict(judge):
    author = judge.newcomer()
    taken = author.submit()
    limits = httpx.Limits(max_connections=200)
    with httpx.Client(
        base_url=f"{judge.url}/api/v1", headers=author.http.headers, limits=limits, timeout=60
    ) as http:
        reader = Person(author.token, http)
        with ThreadPoolExecutor(100) as pool:
            streams = [
                pool.submit(lambda: list(events(reader, taken["submission_id"])))
                for _ in range(100)
            ]
            until(lambda: watched(judge, 100), 30)
            judge.finish(judge.claim(taken["job_id"]))
            ends = [stream.result(30)[-1]["data"]["verdict"] for stream in streams]
    assert ends == ["accepted"] * 100


def test_too_many_readers_are_asked_to_come_back(own_judge):
    with own_judge(max_streams=1) as judge:
        author = judge.newcomer()
        taken = author.submit()
        with author.http.stream("GET", f"/submissions/{taken['submission_id']}/events") as answer:
            lines = answer.iter_lines()  # kept: when it goes, the connection goes
            next(lines)
            for verb in ("events", "wait"):
                refused = author.http.get(f"/submissions/{taken['submission_id']}/{verb}")
                assert (refused.status_code, refused.json()["code"]) == (503, "too_many_streams")
                assert int(refused.headers["Retry-After"]) > 0
            assert author.http.get(f"/submissions/{taken['submission_id']}").status_code == 200


def test_a_server_that_stops_ends_its_streams_and_waits_at_once(own_judge):
    heard: list[str] = []
    with own_judge() as judge:
        author = judge.newcomer()
        taken = author.submit()

        def read() -> None:
            heard.extend(e["data"]["state"] for e in events(author, taken["submission_id"]))

        def poll() -> None:
            heard.append(wait(author, taken["submission_id"], 10**6, 25).json()["state"])

        readers = [threading.Thread(target=read), threading.Thread(target=poll)]
        for reader in readers:
            reader.start()
        until(lambda: watched(judge, 2))
        began = time.monotonic()
        judge.server.should_exit = True
        for reader in readers:
            reader.join(10)
        assert time.monotonic() - began < 4
    assert heard == ["queued", "queued"]
