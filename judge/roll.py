"""The roll of runners: who is there, what everybody is told of them, and whether any may rank."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from judge import enrolment
from judge.enrolment import RunnerRecord
from judge.model import Mode, Refusal
from judge.pace import Pace
from judge.ports import Clock, Store
from judge.wire import RunnerBody, StandingBody

BEAT_S = 15.0
"""How often an idle runner says that it lives."""

ALIVE_S = 4 * BEAT_S
"""A runner that was silent for longer counts as gone."""

NOTE_SEEN_EVERY = timedelta(minutes=1)


class Roll:
    """Reads the store at each question; signs of life between its notes come from the pace.

    problems: ids of those of the contest that is open. A runner may hold folders of coming ones, of
    which nobody is told.
    """

    def __init__(self, store: Store, pace: Pace, clock: Clock, problems: Collection[str]) -> None:
        self._store = store
        self._pace = pace
        self._clock = clock
        self._problems = frozenset(problems)

    def bodies(self) -> list[RunnerBody]:
        """Every runner with a valid token, by device and name."""
        now = self._clock()
        return [self._body(runner, now) for runner in self._store.runners()]

    def body(self, runner: RunnerRecord) -> RunnerBody:
        """One runner, as everybody is told of it."""
        return self._body(runner, self._clock())

    def standing(self, runner: RunnerRecord, now: datetime) -> StandingBody:
        """What a runner is told of itself."""
        due = enrolment.returns_at(runner)
        return StandingBody(
            state=runner.state,
            why=runner.why,
            beat_s=BEAT_S,
            retest_s=None if due is None else max(0.0, (due - now).total_seconds()),
        )

    def heard(self, runner: RunnerRecord, now: datetime) -> None:
        """A runner gave a sign of life; kept for after a restart once a minute."""
        self._pace.heard(runner.device, runner.name, now)
        if now - runner.last_seen >= NOTE_SEEN_EVERY:
            self._store.note_seen(runner.token_id, now)

    def hindrance(self, device: str, mode: Mode) -> Refusal | None:
        """Why a ranked job for the device would wait for good; None for any other mode."""
        if mode is not Mode.RANKED:
            return None
        now = self._clock()
        alive = [
            runner
            for runner in self._store.runners()
            if runner.device == device and self._alive(self._last_seen(runner), now)
        ]
        return enrolment.ranked_hindrance(device, alive)

    def _last_seen(self, runner: RunnerRecord) -> datetime:
        heard = self._pace.last_heard(runner.device, runner.name)
        return runner.last_seen if heard is None else max(heard, runner.last_seen)

    def _alive(self, last_seen: datetime, now: datetime) -> bool:
        return (now - last_seen).total_seconds() <= ALIVE_S

    def _body(self, runner: RunnerRecord, now: datetime) -> RunnerBody:
        hello, last_seen = runner.hello, self._last_seen(runner)
        unopened = hello.problems.keys() - self._problems
        secret = any(problem in hello.self_test.detail for problem in unopened)
        return RunnerBody(
            name=runner.name,
            device=runner.device,
            state=runner.state,
            why=runner.why,
            since=runner.since,
            alive=self._alive(last_seen, now),
            first_seen=runner.first_seen,
            last_seen=last_seen,
            isolation=hello.isolation,
            reasons=list(hello.reasons),
            environment=dict(hello.environment),
            problem_digests={
                problem: digest
                for problem, digest in hello.problems.items()
                if problem in self._problems
            },
            self_test_passed=hello.self_test.passed,
            self_test="of a problem that is not open" if secret else hello.self_test.detail,
            self_test_at=hello.self_test.began_at,
            failures=len(runner.failures),
            doctor=None if hello.doctor is None else dict(hello.doctor),
        )
