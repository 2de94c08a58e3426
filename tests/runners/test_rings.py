"""The ring worker on a real Valkey, in a process of its own as in production."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rq import Callback, Queue
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from judge.model import Mode
from judge.ports import QueueError
from judge.queue import FUNCTION, RqQueue, connect, queue_name
from judge.valkey import EmbeddedValkey

LISTENER = """
import sys
from runners.rings import QueueRings
from runners.stop import Stop
heard = 0
def answer(job_id):
    global heard
    print(job_id, flush=True)
    heard += 1
    return True
stop = Stop()
with stop.on_signals():
    print("up", flush=True)
    QueueRings(sys.argv[1], "cpu", "r1", stop).listen(answer, lambda: heard == int(sys.argv[2]))
"""


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    server = EmbeddedValkey(tmp_path / "v.sock", tmp_path / "data", tmp_path / "valkey.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def url(valkey: EmbeddedValkey, tmp_path: Path) -> str:
    return f"unix://{tmp_path / 'v.sock'}"


FOR_GOOD = 1_000


@pytest.fixture
def listener(url: str) -> Iterator[subprocess.Popen[str]]:
    with listening(url, FOR_GOOD) as process:
        yield process


@contextmanager
def listening(url: str, until: int) -> Iterator[subprocess.Popen[str]]:
    """A listener that is hindered once it has answered so many rings."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENER, url, str(until)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def heard(listener: subprocess.Popen[str]) -> int:
    assert listener.stdout is not None
    return int(listener.stdout.readline())


def forge(url: str, function: str, **job: object) -> None:
    connection = connect(url)
    name = queue_name("cpu", Mode.TEST)
    queue = Queue(name, connection=connection, serializer=JSONSerializer)
    queue.enqueue_job(
        RqJob.create(function, connection=connection, origin=name, serializer=JSONSerializer, **job)
    )
    connection.close()


def ring(url: str, job_id: int, mode: Mode = Mode.TEST) -> None:
    queue = RqQueue.open(url)
    queue.ring({job_id: ("cpu", mode)})
    queue.close()


def test_tests_are_answered_before_benchmarks(url: str, request: pytest.FixtureRequest) -> None:
    ring(url, 1, Mode.BENCHMARK)
    ring(url, 2, Mode.TEST)
    listener = request.getfixturevalue("listener")
    assert [heard(listener), heard(listener)] == [2, 1]


@pytest.mark.parametrize(
    ("function", "job"),
    [
        ("os.mkdir", {"args": ["{}"]}),
        ("os.mkdir", {"args": [7]}),
        (FUNCTION, {"args": ["{}"]}),
        (FUNCTION, {"args": [True]}),
        (FUNCTION, {"args": [7, 8]}),
        (FUNCTION, {"args": [], "kwargs": {"job_id": 7}}),
        (FUNCTION, {"args": [7], "on_success": "os.mkdir"}),
    ],
)
def test_a_forged_ring_does_nothing_and_the_next_is_answered(
    url: str,
    listener: subprocess.Popen[str],
    tmp_path: Path,
    function: str,
    job: dict[str, object],
) -> None:
    args = [str(tmp_path / "forged") if a == "{}" else a for a in job["args"]]  # type: ignore[attr-defined]
    if "on_success" in job:
        job = {**job, "on_success": Callback("os.mkdir")}
    forge(url, function, **{**job, "args": args})
    ring(url, 9)
    assert heard(listener) == 9
    assert not (tmp_path / "forged").exists()


def test_rings_are_heard_again_after_the_queue_died(
    url: str, listener: subprocess.Popen[str], valkey: EmbeddedValkey
) -> None:
    ring(url, 1)
    assert heard(listener) == 1
    pid = valkey.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    queue = RqQueue.open(url)
    while valkey.pid in (None, pid):
        pass
    ring_until_taken(queue, 2)
    assert heard(listener) == 2


def ring_until_taken(queue: RqQueue, job_id: int) -> None:
    """Ring until the restarted server takes it, as the sweeper does."""
    for _ in range(10_000):
        try:
            queue.ring({job_id: ("cpu", Mode.TEST)})
        except QueueError:
            continue
        queue.close()
        return
    pytest.fail("the queue did not come back")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_listener_ends_at_once_when_told(
    url: str, listener: subprocess.Popen[str], number: signal.Signals
) -> None:
    ring(url, 1)
    heard(listener)
    listener.send_signal(number)
    assert listener.wait(5) == 0


def test_a_hindered_listener_leaves_the_next_ring_to_others(url: str) -> None:
    ring(url, 1)
    with listening(url, until=1) as hindered:
        assert heard(hindered) == 1
        assert hindered.wait(10) == 0
    ring(url, 2)
    with listening(url, FOR_GOOD) as other:
        assert heard(other) == 2
