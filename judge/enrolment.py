"""A runner as the server knows it, and pure decisions about whether it may judge.

A token belongs to one runner from its first hello on. Failures that look like the runner's own fault
put it into quarantine; the numbers below say when, and how it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from judge.model import Refusal, RunnerState
from judge.text import moment

MAX_FAILURES = 3
"""Failures in a row, without an honest verdict between them, that lead to quarantine."""

MIN_TEAMS = 2
"""From fewer teams the fault may lie in what was submitted, by chance or on purpose."""

KEPT_FAILURES = 10

SELF_TEST = 0
"""Stands among failures for a self-test, where else a submission's id stands."""

REST = timedelta(seconds=60)
"""A self-test counts for coming back only if it began no sooner after the quarantine."""

AGAIN_AFTER = timedelta(hours=1)
"""How often, at most, a runner comes back by itself."""

RESTARTS = timedelta(minutes=10)
"""Leases lost within this time of one that counted are not counted: a runner that is told to stop, or
is started anew several times, is not broken; one that ends at every job is found out later."""

LIVING = timedelta(minutes=2)
"""How long after its last sign of life that was kept a runner can still take over another's jobs."""

FULL = "full"
"""The isolation that ranked jobs need."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """How the judge's baseline fared at the runner. began_at: by the server's clock."""

    passed: bool
    detail: str
    began_at: datetime


@dataclass(frozen=True, slots=True)
class Hello:
    """What a runner says of itself.

    isolation: `full` or `reduced`; reasons: what is missing, a sentence each. environment: what it runs
    on. problems: digest of each problem folder, by id. doctor: what `judge doctor --timing` found, as
    it wrote it; None if it was never run.
    """

    name: str
    isolation: str
    self_test: SelfTest
    reasons: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    doctor: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RunnerRecord:
    """A runner that has said hello.

    last_seen: to the minute; a server that runs knows better. why: of the state, for people; of an
    active runner why it would be in quarantine if another could take its jobs. since: when the state
    began. by: the organizer's token that set it; None where the server did. returned_at: when it last
    came back by itself. failures: submissions it failed on since its last honest verdict, oldest
    first, SELF_TEST among them. lost_at: when the latest lost lease among those was lost.
    """

    token_id: int
    device: str
    hello: Hello
    first_seen: datetime
    last_seen: datetime
    state: RunnerState
    since: datetime
    why: str = ""
    by: int | None = None
    returned_at: datetime | None = None
    failures: tuple[int, ...] = ()
    lost_at: datetime | None = None

    @property
    def name(self) -> str:
        return self.hello.name

    @property
    def may_judge(self) -> bool:
        """Whether it is given jobs at all."""
        return self.state is RunnerState.ACTIVE and self.hello.self_test.passed

    @property
    def may_rank(self) -> bool:
        """Whether it is given ranked jobs."""
        return self.may_judge and self.hello.isolation == FULL


class RunnerStore(Protocol):
    """What the server asks of its store about runners; part of `judge.ports.Store`."""

    def greet(
        self, token_id: int, device: str, hello: Hello, now: datetime
    ) -> RunnerRecord | Refusal:
        """Enrol the token's runner, or take what it says anew; a self-test may change its state.

        Refuses: runner_bound (the token is another runner's), runner_name_taken (the name belongs to
        a runner with another valid token).
        """

    def runner(self, token_id: int) -> RunnerRecord | None:
        """The runner of a token, if it has said hello."""

    def runners(self) -> tuple[RunnerRecord, ...]:
        """Runners whose token is valid, by device and name."""

    def note_seen(self, token_id: int, now: datetime) -> None:
        """Keep when the runner was last heard of, for after a restart of the server."""

    def quarantine(self, name: str, why: str, by: int, now: datetime) -> RunnerRecord | Refusal:
        """Give the runner no more jobs until an organizer reinstates it. Refuses: runner_unknown.

        by: the organizer's token id. What it judges now it may end.
        """

    def reinstate(self, name: str, by: int, now: datetime) -> RunnerRecord | Refusal:
        """Give the runner jobs again, its failures forgotten. Refuses: runner_unknown."""


def enrolled(token_id: int, device: str, hello: Hello, now: datetime) -> RunnerRecord:
    """A runner at its first hello."""
    new = RunnerRecord(
        token_id, device, hello, first_seen=now, last_seen=now, state=RunnerState.ACTIVE, since=now
    )
    return _after_self_test(new, now)


def greeted(old: RunnerRecord, hello: Hello, now: datetime) -> RunnerRecord:
    """The runner after another hello, which carries its latest self-test."""
    return _after_self_test(replace(old, hello=hello, last_seen=now), now)


def _after_self_test(runner: RunnerRecord, now: datetime) -> RunnerRecord:
    """A failed self-test counts as a failure; a passed one clears those, and may end a quarantine."""
    test = runner.hello.self_test
    if not test.passed:
        return after_failure(runner, SELF_TEST, now)
    due = returns_at(runner)
    if due is not None and test.began_at >= due:
        return replace(
            runner,
            state=RunnerState.ACTIVE,
            since=now,
            why="",
            by=None,
            returned_at=now,
            failures=(),
            lost_at=None,
        )
    left = tuple(failure for failure in runner.failures if failure != SELF_TEST)
    return replace(runner, failures=left)


def after_failure(
    runner: RunnerRecord, failed: int, now: datetime, teams: int = 0, alone: bool = False
) -> RunnerRecord:
    """The runner after a judge error on a submission, or (SELF_TEST) a failed self-test.

    teams: of how many teams the submissions are that it failed on in a row, this one included. alone: no
    other runner that lives `covers` it. Then it is given jobs all the same, with a word to organizers:
    only they, or a failed self-test, leave a device without a runner.
    """
    failures = (*runner.failures, failed)[-KEPT_FAILURES:]
    runner = replace(runner, failures=failures)
    counted = SELF_TEST in failures or teams >= MIN_TEAMS
    if runner.state is RunnerState.QUARANTINED or len(failures) < MAX_FAILURES or not counted:
        return runner
    why = f"{_failures(failures)} in a row, without an honest verdict between them"
    if alone:
        return replace(runner, why=f"{why}; no other runner could take its jobs, so it keeps them")
    return replace(runner, state=RunnerState.QUARANTINED, since=now, by=None, why=why)


def after_loss(
    runner: RunnerRecord, submission_id: int, now: datetime, teams: int, alone: bool
) -> RunnerRecord:
    """The runner after it let a lease run out. Otherwise as `after_failure`."""
    if runner.lost_at is not None and now - runner.lost_at < RESTARTS:
        return runner
    return after_failure(replace(runner, lost_at=now), submission_id, now, teams, alone)


def covers(other: RunnerRecord, runner: RunnerRecord) -> bool:
    """Whether another runner may be given whatever this one may, if it lives."""
    return (
        (other.token_id != runner.token_id and other.device == runner.device)
        and other.may_judge
        and (other.may_rank or not runner.may_rank)
    )


def after_verdict(runner: RunnerRecord) -> RunnerRecord:
    """The runner after a verdict that is not the judge's fault: it works."""
    if not runner.failures:
        return runner
    why = "" if runner.state is RunnerState.ACTIVE else runner.why
    return replace(runner, failures=(), lost_at=None, why=why)


def quarantined(runner: RunnerRecord, why: str, by: int, now: datetime) -> RunnerRecord:
    """The runner after an organizer's word; one in quarantine already is now the organizers'."""
    return replace(runner, state=RunnerState.QUARANTINED, since=now, why=why, by=by)


def reinstated(runner: RunnerRecord, by: int, now: datetime) -> RunnerRecord:
    """The runner after an organizer's word; one that is active only has its failures forgotten."""
    since = runner.since if runner.state is RunnerState.ACTIVE else now
    active = RunnerState.ACTIVE
    return replace(runner, state=active, since=since, why="", by=by, failures=(), lost_at=None)


def returns_at(runner: RunnerRecord) -> datetime | None:
    """From when on a self-test must begin to end the quarantine; None where only a person can.

    An organizer's quarantine is for an organizer to end.
    """
    if runner.state is not RunnerState.QUARANTINED or runner.by is not None:
        return None
    rested = runner.since + REST
    return rested if runner.returned_at is None else max(rested, runner.returned_at + AGAIN_AFTER)


def fault_of_claim(runner: RunnerRecord | None, name: str) -> Refusal | None:
    """Why the runner that asks by this name is given no job, or None."""
    if runner is None:
        detail = (
            "This runner has not said hello to this server yet; `judge work` does so at its start."
        )
        return Refusal("runner_unknown", detail, 409)
    if runner.name != name:
        return bound(runner, name)
    if runner.state is RunnerState.QUARANTINED:
        return Refusal(
            "runner_quarantined",
            f"Runner {name} is in quarantine since {moment(runner.since)}: {runner.why}. An organizer "
            f"gives it jobs again with `judge admin reinstate {name}`.",
            409,
        )
    if not runner.hello.self_test.passed:
        detail = f"Runner {name} failed its self-test: {runner.hello.self_test.detail}"
        return Refusal("self_test_failed", detail, 409)
    return None


def bound(runner: RunnerRecord, name: str) -> Refusal:
    """A token speaks for one runner; another one asks with it."""
    return Refusal(
        "runner_bound",
        f"This token belongs to runner {runner.name}, and {name} asks with it. Start it with --name "
        f"{runner.name}, or give it a token of its own: judge admin runner-token {runner.device}.",
        403,
    )


def ranked_hindrance(device: str, alive: Sequence[RunnerRecord]) -> Refusal | None:
    """Why a ranked job would wait for good, or None.

    alive: the device's runners that were heard of lately. With none at all the job waits: one may be
    about to start. A runner in quarantine may come back.
    """
    if not alive or any(runner.hello.isolation == FULL for runner in alive):
        return None
    return Refusal(
        "ranked_unavailable",
        f"No runner of {device} may take ranked jobs: their isolation is reduced. Its operator finds "
        "what is missing with `judge doctor`; until then hand in with --mode benchmark.",
        503,
    )


def _failures(failures: Sequence[int]) -> str:
    tests = sum(failure == SELF_TEST for failure in failures)
    jobs = len(failures) - tests
    words = []
    if jobs:
        words.append(f"{jobs} job{'s' * (jobs > 1)} failed or lost")
    if tests:
        words.append(f"{tests} failed self-test{'s' * (tests > 1)}")
    return " and ".join(words)
