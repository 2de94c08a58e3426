"""What a runner says of one attempt at a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judge.model.comparison import Comparison
from judge.model.problem import Value
from judge.model.words import Stage, Verdict


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
    comparison: Comparison | None = None
