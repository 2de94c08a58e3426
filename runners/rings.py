"""The RQ worker: it hears job ids on its device's queues and trusts nothing else in them.

Whoever can write to the queue can at most make a runner claim a job that the server would give it
anyway: no function is imported, no callback is run, no webhook is sent, nothing is unpickled.
"""

from __future__ import annotations

import logging
import signal
import threading
import uuid
from collections.abc import Callable
from types import FrameType
from typing import Any

import redis
from rq.exceptions import StopRequested
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer
from rq.timeouts import BaseDeathPenalty
from rq.worker import SimpleWorker, WorkerStatus

from judge.model import Mode
from judge.queue import FUNCTION, connect, queue_name

log = logging.getLogger(__name__)

WORKER_TTL_S = 20
"""RQ waits in one blocking call for 15 s less than this."""

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0

Answer = Callable[[int], None]
"""What is done when a job's id rings. It must not raise."""


class ForeignRingError(Exception):
    """The queue holds something that is not a ring of ours."""


class RingJob(RqJob):
    """An RQ job that may only be `judge.run(job_id)`."""

    answer: Answer

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

    def subscribe(self) -> None:
        """Take no orders from the queue: stopping is the operator's and the server's word."""

    def _install_signal_handlers(self) -> None:
        """`listen` has installed ours."""


def listen(
    redis_url: str, device: str, name: str, answer: Answer, stopping: threading.Event
) -> None:
    """Answer rings until `stopping` is set, through every loss of the queue.

    Installs handlers for SIGTERM and SIGINT that set `stopping`; call it from the main thread.
    """
    current: RingWorker | None = None

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()
        if current is not None:
            current._stop_requested = True
            if current.get_state() != WorkerStatus.BUSY:
                raise StopRequested

    job_class = type("AnsweredJob", (RingJob,), {"answer": staticmethod(answer)})
    queues = [queue_name(device, mode) for mode in Mode]
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    pause_s = FIRST_PAUSE_S
    try:
        while not stopping.is_set():
            connection = connect(redis_url)
            try:
                current = RingWorker(
                    queues,
                    # RQ refuses a name that a killed worker left behind.
                    name=f"{name}-{uuid.uuid4().hex[:8]}",
                    connection=connection,
                    job_class=job_class,
                    serializer=JSONSerializer,
                    worker_ttl=WORKER_TTL_S,
                    log_job_description=False,
                )
                log.info("runner listens queues=%s", ",".join(queues))
                current.work(logging_level="WARNING")
                pause_s = FIRST_PAUSE_S
            except StopRequested:
                break
            except redis.RedisError as fault:
                log.warning("queue unreachable fault=%s next_try_s=%.1f", fault, pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            finally:
                current = None
                connection.close()
            stopping.wait(pause_s)
    except StopRequested:
        pass  # the signal came between two workers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
