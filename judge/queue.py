"""The doorbell: RQ on Redis or Valkey. It holds job ids; the store holds the truth."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue as RqNamedQueue
from rq.job import Job as RqJob
from rq.serializers import JSONSerializer

from judge.model import Mode
from judge.ports import QueueError

FUNCTION = "judge.run"
"""The one function name a worker accepts; its one argument is the job id."""

# RQ's own limits must never decide: leases do. A failed ring's traces go after a minute.
RQ_TIMEOUT_S = 24 * 3_600
FAILURE_TTL_S = 60


def queue_name(device: str, mode: Mode) -> str:
    """The RQ queue that runners of a device listen on for a mode."""
    return f"judge.{device}.{mode.value}"


def connect(url: str) -> redis.Redis:
    """A connection that fails at once when the server is down, and reconnects by itself later."""
    return redis.Redis.from_url(
        url,
        socket_timeout=2.0,
        socket_connect_timeout=1.0,
        retry=Retry(NoBackoff(), 1),
        health_check_interval=0,
    )


class RqQueue:
    """Rings by enqueueing RQ jobs. Implements `judge.ports.Queue`.

    Each ring has an RQ id of its own, `J17-4f3a9c21`: RQ's record of a ring that a dead worker took
    with it cannot stand in the way of the next one. A job whose id still waits in its queue is
    not rung again, so a sweep each second does not pile up rings.
    """

    def __init__(self, connection: redis.Redis) -> None:
        self._connection = connection

    @classmethod
    def open(cls, url: str) -> RqQueue:
        """Prepare a queue at a `redis://`, `rediss://` or `unix://` URL; connects on first use."""
        return cls(connect(url))

    def ring(self, job_ids: Mapping[int, tuple[str, Mode]]) -> None:
        """Ring for jobs: id to (device, mode), in the order given. Two round trips in all.

        Raises QueueError if the queue cannot be reached; then any part of it may have rung.
        """
        by_queue: dict[str, list[int]] = defaultdict(list)
        for job_id, (device, mode) in job_ids.items():
            by_queue[queue_name(device, mode)].append(job_id)
        if not by_queue:
            return
        try:
            waiting = self._waiting(tuple(by_queue))
            with self._connection.pipeline(transaction=True) as pipe:
                for name, ids in by_queue.items():
                    queue = RqNamedQueue(
                        name, connection=self._connection, serializer=JSONSerializer
                    )
                    # Spares RQ a question about the version in every ring.
                    queue.redis_server_version = (7, 2, 4)
                    for job_id in ids:
                        if job_id not in waiting[name]:
                            queue.enqueue_job(self._rq_job(job_id, name), pipeline=pipe)
                pipe.execute()
        except redis.RedisError as fault:
            raise QueueError(f"the queue cannot be reached: {fault}") from fault

    def depths(self, devices: tuple[str, ...]) -> Mapping[str, int]:
        """How many rings wait, by queue name. Raises QueueError if the queue cannot be reached."""
        names = [queue_name(device, mode) for device in devices for mode in Mode]
        try:
            with self._connection.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.llen(_key(name))
                return dict(zip(names, pipe.execute(), strict=True))
        except redis.RedisError as fault:
            raise QueueError(f"the queue cannot be reached: {fault}") from fault

    def close(self) -> None:
        self._connection.close()

    def _waiting(self, names: tuple[str, ...]) -> dict[str, frozenset[int]]:
        with self._connection.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.lrange(_key(name), 0, -1)
            lists: list[list[bytes]] = pipe.execute()
        return {
            name: frozenset(filter(None, map(_job_id_of_ring, rings)))
            for name, rings in zip(names, lists, strict=True)
        }

    def _rq_job(self, job_id: int, name: str) -> RqJob:
        return RqJob.create(
            FUNCTION,
            args=[job_id],
            connection=self._connection,
            id=f"J{job_id}-{secrets.token_hex(4)}",
            origin=name,
            timeout=RQ_TIMEOUT_S,
            result_ttl=0,
            failure_ttl=FAILURE_TTL_S,
            serializer=JSONSerializer,
        )


def _key(name: str) -> str:
    return f"{RqNamedQueue.redis_queue_namespace_prefix}{name}"


def _job_id_of_ring(ring: bytes) -> int | None:
    """The job a ring is for; None for an id that is not one of ours."""
    digits = ring.removeprefix(b"J").partition(b"-")[0]
    return int(digits) if ring.startswith(b"J") and digits.isdigit() else None
