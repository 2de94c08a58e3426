"""The RQ worker: it hears job ids on its device's queues and trusts nothing else in them.

Whoever can write to the queue can at most make a runner claim a job that the server would give it
anyway: no function is imported, no callback is run, no webhook is sent, nothing is unpickled.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any, Protocol

import redis
from rq.exceptions import StopRequested
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty
from rq.worker import SimpleWorker

from judge.model import Mode
from judge.queue import FUNCTION, connect, queue_name
from runners.stop import Stop

log = logging.getLogger(__name__)

WORKER_TTL_S = 20
"""RQ waits in one blocking call for 15 s less than this."""

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0

Answer = Callable[[int], bool]
"""What is done when a job's id rings; whether the job was this runner's. It must not raise."""


class Rings(Protocol):
    """How a runner hears of jobs: `QueueRings`, or `runners.http_rings.HttpRings`."""

    def listen(self, answer: Answer, hindered: Callable[[], bool]) -> None:
        """Answer rings until told to stop, or until this runner is `hindered`. On the main thread.

        Lost connections are waited out.
        """


class ForeignRingError(Exception):
    """The queue holds something that is not a ring of ours."""


class RingJob(RqJob):
    """An RQ job that may only be `judge.run(job_id)`."""

    answer: Callable[[int], None]

    @property
    def func(self) -> Callable[..., Any]:
        extras = (
            self._success_callback_name,
            self._failure_callback_name,
            self._stopped_callback_name,
            self.webhooks,
            self.instance,
            self.kwargs,
        )
        args = self.args
        if self.func_name != FUNCTION or any(extras) or len(args) != 1 or type(args[0]) is not int:
            raise ForeignRingError(f"refused the ring {self.id!r}: it is not {FUNCTION}(job_id)")
        return self.answer

    @property
    def success_callback(self) -> None:
        return None

    @property
    def failure_callback(self) -> None:
        return None

    @property
    def stopped_callback(self) -> None:
        return None

    def send_webhooks(self, *_args: Any, **_kwargs: Any) -> None:
        """Never: a forged ring could make the runner call any address."""


class NoDeathPenalty(BaseDeathPenalty):
    """RQ's alarm would strike in the middle of our clean-up; the worker has its own ceiling."""

    def setup_death_penalty(self) -> None:
        pass

    def cancel_death_penalty(self) -> None:
        pass


class RingWorker(SimpleWorker):
    """Answers rings in this process, one at a time."""

    death_penalty_class = NoDeathPenalty
    max_connection_wait_time = LONGEST_PAUSE_S
    over: Callable[[], bool]

    def subscribe(self) -> None:
        """Take no orders from the queue: stopping is the operator's and the server's word."""

    def _install_signal_handlers(self) -> None:
        """`Stop` has installed ours."""

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """RQ's sign of life to the queue; between two waits, where there is no pipeline, also the
        place to end."""
        if pipeline is None and self.over():
            raise StopRequested
        super().heartbeat(timeout, pipeline)


class QueueRings:
    """Listens on the queues of a device. Implements `Rings`."""

    def __init__(self, redis_url: str, device: str, name: str, stop: Stop) -> None:
        self._redis_url = redis_url
        self._queues = [queue_name(device, mode) for mode in Mode]
        self._name = name
        self._stop = stop

    def listen(self, answer: Answer, hindered: Callable[[], bool]) -> None:
        def over() -> bool:
            return self._stop() or hindered()

        def answer_whole(job_id: int) -> None:
            with self._stop.working():
                answer(job_id)

        job_class = type("AnsweredJob", (RingJob,), {"answer": staticmethod(answer_whole)})
        worker_class = type("ListeningWorker", (RingWorker,), {"over": staticmethod(over)})
        pause_s = FIRST_PAUSE_S
        while not over():
            connection = connect(self._redis_url)
            try:
                with self._stop.waiting():
                    worker = worker_class(
                        self._queues,
                        # RQ refuses a name that a killed worker left behind.
                        name=f"{self._name}-{uuid.uuid4().hex[:8]}",
                        connection=connection,
                        job_class=job_class,
                        serializer=JSONSerializer,
                        worker_ttl=WORKER_TTL_S,
                        log_job_description=False,
                    )
                    log.info("runner listens queues=%s", ",".join(self._queues))
                    worker.work(logging_level="WARNING")
                    pause_s = FIRST_PAUSE_S
            except redis.RedisError as fault:
                log.warning("queue unreachable fault=%s next_try_s=%.1f", fault, pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            finally:
                connection.close()
            if not over():
                self._stop.wait(pause_s)
