"""The words of the judge: what a job is for, where it stands, how it ended."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What a job is for. The order of definition is the order of service in a queue."""

    TEST = "test"
    BENCHMARK = "benchmark"
    RANKED = "ranked"


class Stage(StrEnum):
    """What a case is for: correctness only, or correctness and time."""

    TEST = "test"
    TIMING = "timing"


class Role(StrEnum):
    """What a token may do."""

    CONTESTANT = "contestant"
    ORGANIZER = "organizer"
    RUNNER = "runner"


class RunnerState(StrEnum):
    """Whether a runner is given jobs."""

    ACTIVE = "active"
    QUARANTINED = "quarantined"


class Verdict(StrEnum):
    """The one word a job, or one of its cases, ends with."""

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong answer"
    FORBIDDEN = "forbidden"
    COMPILE_ERROR = "compile error"
    RUNTIME_ERROR = "runtime error"
    TIME_LIMIT = "time limit"
    MEMORY_LIMIT = "memory limit"
    OUTPUT_LIMIT = "output limit"
    UNSTABLE_TIMING = "unstable timing"
    JUDGE_ERROR = "judge error"

    @property
    def is_ours(self) -> bool:
        """Whether the judge, not the author, is to blame: such a verdict never costs quota."""
        return self is Verdict.JUDGE_ERROR


class JobState(StrEnum):
    """Where a job stands. `done` and `cancelled` are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in (JobState.DONE, JobState.CANCELLED)
