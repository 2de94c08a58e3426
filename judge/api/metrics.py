"""Figures for Prometheus: requests, submissions, jobs by state, the depth of the queue."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from judge.ports import QueueError
from judge.records import JobRecord

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 30.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """All figures of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.submissions = Counter(
            "judge_submissions", "Submissions taken since the start.", registry=self.registry
        )
        self.outcomes = Counter(
            "judge_outcomes",
            "Outcomes taken since the start.",
            ["verdict"],
            registry=self.registry,
        )
        self.requests = Histogram(
            "judge_request_seconds",
            "Time to answer, by route.",
            ["method", "route", "status"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.jobs = Gauge(
            "judge_jobs", "Unfinished jobs.", ["device", "state"], registry=self.registry
        )
        self.rings = Gauge(
            "judge_queue_rings", "Rings that wait in the queue.", ["queue"], registry=self.registry
        )
        self.queue_up = Gauge(
            "judge_queue_up", "Whether the queue can be reached.", registry=self.registry
        )
        self.waiters = Gauge(
            "judge_waiters", "Open event streams and long polls.", registry=self.registry
        )

    def render(
        self,
        unfinished: Iterable[JobRecord],
        depths: Callable[[], Mapping[str, int]],
        waiters: int,
    ) -> bytes:
        """The text that a scrape gets. depths: may raise QueueError, which is a figure too."""
        self.jobs.clear()
        states = Tally((job.device, job.state.value) for job in unfinished)
        for (device, state), count in states.items():
            self.jobs.labels(device, state).set(count)
        self.waiters.set(waiters)
        try:
            for queue, count in depths().items():
                self.rings.labels(queue).set(count)
        except QueueError:
            self.queue_up.set(0)
        else:
            self.queue_up.set(1)
        return generate_latest(self.registry)


def router(render: Callable[[], bytes]) -> APIRouter:
    """The address that Prometheus scrapes."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/metrics")
    def metrics() -> Response:
        return Response(render(), media_type=CONTENT_TYPE_LATEST)

    return routes


class RequestTimes:
    """ASGI middleware: how long each answer took to begin, by the route's pattern."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._requests = metrics.requests
        self._of_route: dict[tuple[str, str, int], Histogram] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_and_time(message: Message) -> None:
            if message["type"] == "http.response.start":
                took_s = time.perf_counter() - began
                self._figure(scope, message["status"]).observe(took_s)
            await send(message)

        await self._app(scope, receive, send_and_time)

    def _figure(self, scope: Scope, status: int) -> Histogram:
        # A method or address of a stranger's invention must not make a figure of its own.
        method = scope["method"] if scope["method"] in METHODS else "other"
        key = (method, _pattern(scope), status)
        figure = self._of_route.get(key)
        if figure is None:
            figure = self._of_route[key] = self._requests.labels(method, key[1], str(status))
        return figure


def _pattern(scope: Scope) -> str:
    """The pattern of the route that answered, such as `/api/v1/submissions/{submission_id}`."""
    route: Any = scope.get("route")
    return str(getattr(route, "path", "unknown"))
