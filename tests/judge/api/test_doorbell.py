"""Promises of the dispatcher: every ready job rings, soon and again, whatever the queue does."""

from __future__ import annotations

import os
import signal
import time

import redis

from judge.queue import connect
from tests.judge.api.conftest import Judge, until


def waiting(raw: redis.Redis, mode: str = "test") -> list[int]:
    """Job ids whose ring waits, in order; empty while the queue is away."""
    try:
        rings = raw.lrange(f"rq:queue:judge.cpu.{mode}", 0, -1)
    except redis.RedisError:
        return []
    return [int(ring.decode()[1:].partition("-")[0]) for ring in rings]


def pop(raw: redis.Redis, mode: str = "test") -> None:
    """Take a ring as a worker would, and lose it."""
    assert raw.lpop(f"rq:queue:judge.cpu.{mode}") is not None


def queue_of(judge: Judge) -> redis.Redis:
    return connect(judge.settings.queue_url)


def test_a_fresh_submission_is_rung_at_once(own_judge):
    with own_judge() as judge:
        raw = queue_of(judge)
        author = judge.newcomer()
        until(lambda: judge.app.parts.trouble() is None)
        delays = []
        for _ in range(9):
            taken = author.submit()
            began = time.monotonic()
            until(lambda job=taken["job_id"]: job in waiting(raw))
            delays.append(time.monotonic() - began)
            author.http.post(f"/submissions/{taken['submission_id']}/cancel")
        # Well under the second of the sweep, on a machine that may be busy.
        assert sorted(delays)[4] < 0.2
        raw.close()


def test_one_job_of_a_team_rings_at_a_time_and_the_next_one_after_it(own_judge):
    with own_judge() as judge:
        raw = queue_of(judge)
        author = judge.newcomer()
        first, second = author.submit(), author.submit()
        until(lambda: waiting(raw) == [first["job_id"]])
        pop(raw)
        lease = judge.claim(first["job_id"])
        sweep_and_more(judge)
        assert second["job_id"] not in waiting(raw)
        judge.finish(lease)
        until(lambda: second["job_id"] in waiting(raw))
        raw.close()


def sweep_and_more(judge: Judge) -> None:
    """Return after the dispatcher has gone round again, seen by a stranger's ring (which stays)."""
    stranger = judge.newcomer()
    taken = stranger.submit()
    raw = queue_of(judge)
    until(lambda: taken["job_id"] in waiting(raw))
    raw.close()
    stranger.http.post(f"/submissions/{taken['submission_id']}/cancel")


def test_a_ring_that_a_dying_worker_took_is_repeated(own_judge):
    with own_judge() as judge:
        raw = queue_of(judge)
        taken = judge.newcomer().submit()
        until(lambda: waiting(raw) == [taken["job_id"]])
        pop(raw)
        until(lambda: waiting(raw) == [taken["job_id"]])
        raw.close()


def test_killing_valkey_between_ring_and_pop_loses_nothing(own_judge):
    with own_judge() as judge:
        raw = queue_of(judge)
        jobs = [judge.newcomer().submit()["job_id"] for _ in range(5)]
        until(lambda: waiting(raw) == jobs)
        os.kill(raw.info("server")["process_id"], signal.SIGKILL)
        during = judge.newcomer().submit()["job_id"]
        until(lambda: set(waiting(raw)) == {*jobs, during})
        assert len(waiting(raw)) == 6
        raw.close()


def test_a_queue_that_lost_everything_is_rung_full_again(own_judge):
    with own_judge() as judge:
        raw = queue_of(judge)
        jobs = [judge.newcomer().submit()["job_id"] for _ in range(3)]
        until(lambda: waiting(raw) == jobs)
        raw.flushall()
        until(lambda: waiting(raw) == jobs)
        raw.close()


def test_a_queue_that_is_away_fails_no_request_and_is_told_by_health(own_judge, tmp_path):
    away = f"unix://{tmp_path}/nobody.sock"
    with own_judge(redis_url=away) as judge:
        author = judge.newcomer()
        taken = author.submit()
        assert author.http.get(f"/submissions/{taken['submission_id']}").json()["place"] == 1
        until(lambda: judge.connect().get("/health").json()["ok"] is False)
        assert "queue" in judge.connect().get("/health").json()["detail"]
        assert "judge_queue_up 0.0" in judge.connect().get(f"{judge.url}/metrics").text


def test_jobs_left_by_a_server_that_ended_ring_at_the_next_start(own_judge):
    with own_judge() as judge:
        taken = judge.newcomer().submit()
    with own_judge() as judge:
        raw = queue_of(judge)
        until(lambda: waiting(raw) == [taken["job_id"]])
        raw.close()
