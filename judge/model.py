"""The nouns of the judge: immutable values that every part shares.

Nothing here reads a clock, a file or a random number. Times are aware UTC datetimes, durations are
integers in nanoseconds (`_ns`) unless the name says seconds (`_s`), sizes are integers in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

Value = int | float | bool | str
"""One typed value of a case, as written in `problem.toml`."""


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


@dataclass(frozen=True, slots=True)
class Case:
    """One input shape of a problem.

    name: unique in its problem, such as `t4096-e384`. values: typed, in the order of `problem.toml`.
    calls: checked calls made on it in its stage (test: each is compared; timing: each is also timed).
    chain: 1, or the fixed number K of calls timed as one chain.
    cold: evict the last-level cache before every call.
    """

    name: str
    stage: Stage
    values: Mapping[str, Value]
    secret: bool = False
    calls: int = 1
    chain: int = 1
    cold: bool = False


@dataclass(frozen=True, slots=True)
class SecretCases:
    """From what the secret cases of a stage are drawn, once, when a problem version opens.

    choices: for each value name the values it may take. count: how many cases are drawn.
    """

    stage: Stage
    count: int
    calls: int
    choices: Mapping[str, tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A limit that the checker applies, and why it is what it is."""

    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a submission may use. Seconds are wall clock; each stage nests in `job_s`."""

    build_s: float = 120.0
    load_s: float = 30.0
    call_s: float = 10.0
    job_s: float = 300.0
    memory_bytes: int = 4 << 30
    output_bytes: int = 1 << 20
    tmp_bytes: int = 256 << 20
    processes: int = 256


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem as its folder declares it. Immutable once open: a change is a new version.

    digest: SHA-256 (hex) over every file of the folder that the judge uses.
    languages: file endings a submission's main file may have, such as `.py` and `.cpp`.
    output_in_data: whether the judge's output tensors are the last elements of a kernel's `data`.
    """

    id: str
    title: str
    version: int
    digest: str
    cases: tuple[Case, ...]
    secret_cases: tuple[SecretCases, ...]
    tolerances: Mapping[str, Tolerance]
    limits: Limits
    devices: tuple[str, ...]
    languages: tuple[str, ...]
    output_in_data: bool = False


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `count` charged or pending jobs of one mode per team in any window of `per_s`."""

    count: int
    per_s: int


@dataclass(frozen=True, slots=True)
class Contest:
    """A contest as `contest.toml` declares it.

    problems: ids, in the order they are shown. devices: those a job may ask for.
    team_size: the most members a team may have (1: everybody is a team of one).
    show_sources_after_close: whether sources open to all when the contest ends.
    """

    title: str
    problems: tuple[str, ...]
    devices: tuple[str, ...]
    opens: datetime
    freezes: datetime | None
    closes: datetime
    quotas: Mapping[Mode, Quota]
    team_size: int = 1
    open_registration: bool = False
    show_sources_after_close: bool = False


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a submission, byte-exact. `name` is a relative path with `/`."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Submission:
    """Who handed in what, for which problem, and when the server received it.

    digest: SHA-256 (hex) of the files (see `judge.archive.digest_of_files`).
    main: name of the file that is loaded or compiled.
    """

    id: int
    team_id: int
    user_id: int
    problem_id: str
    problem_version: int
    main: str
    digest: str
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Job:
    """One submission to be judged on one device: all a runner needs beside the problem folder.

    key: 128 random bits, fresh for every attempt; every input of the job is drawn from it.
    cases: the public and secret cases of this mode, in the order they are reported.
    """

    id: int
    submission_id: int
    problem_id: str
    problem_digest: str
    device: str
    mode: Mode
    attempt: int
    key: bytes
    main: str
    files: tuple[SourceFile, ...]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One element that differs. index: position in the output tensor, row-major."""

    output: str
    index: tuple[int, ...]
    got: str
    expected: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a problem's `check` says of one call's output.

    message: one sentence for the contestant; empty when passed.
    max_abs_error, max_rel_error: over all checked values; None where the notion does not apply.
    """

    passed: bool
    message: str = ""
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case of a job ended: the worst report over its calls.

    message: bounded plain text. call: index of the failing call, or None.
    """

    case: str
    stage: Stage
    secret: bool
    verdict: Verdict
    values: Mapping[str, Value]
    message: str = ""
    call: int | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Measurement:
    """The raw times of one timing case.

    samples_ns: one per timed call (per chain where `chain` > 1), in the order they were taken.
    null_samples_ns: the same path with the judge's null kernel, taken interleaved in the same run.
    """

    case: str
    secret: bool
    chain: int
    samples_ns: tuple[int, ...]
    null_samples_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a runner says of one attempt at a job.

    message: one sentence for the author. log: head and tail of build output and of what the box
    printed, bounded. environment: what it ran on, plain strings. isolation: `full` or `reduced`.

    Promise of whoever makes an Outcome: `message` and `log` hold no word that stems from a secret
    case: no name, shape or exception of one, and nothing printed while one was run. Such text stands
    in that case's `CaseResult.message` alone, so that `judge.rules.disclose` can withhold it.
    """

    job_id: int
    attempt: int
    verdict: Verdict
    message: str
    results: tuple[CaseResult, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    log: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    isolation: str = "full"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job is: stage word (`building`, `loading`, `test`, `timing`), steps of total."""

    stage: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was not taken. code: stable snake_case word; detail: what to do, in a sentence.

    status: the HTTP status that fits (400 malformed, 401, 403, 404, 409, 413, 429, 503).
    """

    code: str
    detail: str
    status: int = 400


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a board.

    times_ns: net median of each timing case. score_ns: their geometric mean.
    rank: 1-based; None where the entry is shown but not ranked, with `note` saying why.
    """

    team_id: int
    team: str
    submission_id: int
    received_at: datetime
    score_ns: float | None
    times_ns: Mapping[str, float]
    rank: int | None
    note: str = ""
