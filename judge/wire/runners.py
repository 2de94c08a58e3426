"""Bodies about runners themselves: hello, the beats after it, rings, and what everybody is told."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError, to_json

from judge.enrolment import Hello, SelfTest
from judge.model import RunnerState
from judge.wire.base import Body, Name, ShortText

MAX_DOCTOR_BYTES = 32 * 1024
MAX_REASONS = 32
MAX_FACTS = 64
MAX_PROBLEMS = 256
MAX_AGE_S = 366 * 86_400.0


def _small(doctor: dict[str, Any]) -> dict[str, Any]:
    if len(to_json(doctor)) > MAX_DOCTOR_BYTES:
        raise PydanticCustomError(
            "too_large", "it is larger than {limit} KiB", {"limit": MAX_DOCTOR_BYTES >> 10}
        )
    return doctor


Doctor = Annotated[dict[str, Any], AfterValidator(_small)]
Fact = Annotated[str, StringConstraints(max_length=500)]


class SelfTestBody(Body):
    """How the judge's baseline fared at the runner. age_s: seconds since the test began."""

    passed: bool
    detail: ShortText = ""
    age_s: Annotated[float, Field(ge=0, le=MAX_AGE_S)] = 0.0


class HelloBody(Body):
    """A runner enrols, or says anew what it is."""

    runner: Name
    isolation: Literal["full", "reduced"]
    self_test: SelfTestBody
    reasons: Annotated[list[ShortText], Field(default_factory=list, max_length=MAX_REASONS)]
    environment: Annotated[dict[Fact, Fact], Field(default_factory=dict, max_length=MAX_FACTS)]
    problem_digests: Annotated[
        dict[Fact, Fact], Field(default_factory=dict, max_length=MAX_PROBLEMS)
    ]
    doctor: Doctor | None = None

    def to_model(self, now: datetime) -> Hello:
        test = self.self_test
        return Hello(
            name=self.runner,
            isolation=self.isolation,
            self_test=SelfTest(test.passed, test.detail, now - timedelta(seconds=test.age_s)),
            reasons=tuple(self.reasons),
            environment=self.environment,
            problems=self.problem_digests,
            doctor=self.doctor,
        )


class BeatBody(Body):
    """The runner lives, and waits for work."""

    runner: Name


class StandingBody(Body):
    """What a runner is told of itself.

    why: of the state. beat_s: how often it should say that it lives. retest_s: after how many seconds
    a passed self-test would end the quarantine; None where none would.
    """

    state: RunnerState
    why: str
    beat_s: float
    retest_s: float | None


class RingsBody(Body):
    """Ids of the jobs that are ready for the runner's device, in order of service."""

    jobs: list[int]


class RunnerBody(Body):
    """A runner, as everybody is told of it.

    why: of a quarantine, or why organizers should look at an active runner. alive: it was heard of
    lately. problem_digests: of the open contest's problems alone. self_test: how it went, for people.
    doctor: as `judge doctor --timing --json` wrote it.
    """

    name: str
    device: str
    state: RunnerState
    why: str
    since: datetime
    alive: bool
    first_seen: datetime
    last_seen: datetime
    isolation: str
    reasons: list[str]
    environment: dict[str, str]
    problem_digests: dict[str, str]
    self_test_passed: bool
    self_test: str
    self_test_at: datetime
    failures: int
    doctor: dict[str, Any] | None


class QuarantineBody(Body):
    """Give a runner no more jobs. why: shown to everybody."""

    runner: Name
    why: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class ReinstateBody(Body):
    """Give a runner jobs again."""

    runner: Name
