"""An outcome on the wire: per-case results, raw samples, log and environment."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, PlainSerializer, StringConstraints

from judge.model import (
    Block,
    CaseResult,
    CaseTimes,
    Comparison,
    Difference,
    Measurement,
    Outcome,
    Pair,
    Stage,
    Verdict,
)
from judge.wire.base import MAX_LOG_CHARS, Body, ShortText, StrictValue, Text


def _number_or_word(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


ErrorSize = Annotated[float, PlainSerializer(_number_or_word, when_used="json")]
"""An error of a wrong kernel may be infinite or no number, which JSON cannot say: such a one travels
as the text `inf` or `nan`, never as null, which means that there is no such error."""


class DifferenceBody(Body):
    output: str
    index: list[int]
    got: ShortText
    expected: ShortText


class CaseResultBody(Body):
    """One row of the per-case table. A hidden secret case keeps its verdict word alone."""

    case: str
    stage: Stage
    secret: bool
    verdict: Verdict
    values: dict[str, StrictValue]
    message: Text = ""
    call: int | None = None
    max_abs_error: ErrorSize | None = None
    max_rel_error: ErrorSize | None = None
    differences: list[DifferenceBody] = Field(default_factory=list)

    @classmethod
    def of(cls, result: CaseResult) -> CaseResultBody:
        return cls(
            case=result.case,
            stage=result.stage,
            secret=result.secret,
            verdict=result.verdict,
            values=dict(result.values),
            message=result.message,
            call=result.call,
            max_abs_error=result.max_abs_error,
            max_rel_error=result.max_rel_error,
            differences=[
                DifferenceBody(output=d.output, index=list(d.index), got=d.got, expected=d.expected)
                for d in result.differences
            ],
        )

    def to_model(self) -> CaseResult:
        return CaseResult(
            case=self.case,
            stage=self.stage,
            secret=self.secret,
            verdict=self.verdict,
            values=self.values,
            message=self.message,
            call=self.call,
            max_abs_error=self.max_abs_error,
            max_rel_error=self.max_rel_error,
            differences=tuple(
                Difference(output=d.output, index=tuple(d.index), got=d.got, expected=d.expected)
                for d in self.differences
            ),
        )


Samples = Annotated[list[Annotated[int, Field(ge=-(2**62), le=2**62)]], Field(max_length=100_000)]


class MeasurementBody(Body):
    case: str
    secret: bool
    chain: int
    samples_ns: Samples
    null_samples_ns: Samples

    @classmethod
    def of(cls, m: Measurement) -> MeasurementBody:
        return cls(
            case=m.case,
            secret=m.secret,
            chain=m.chain,
            samples_ns=list(m.samples_ns),
            null_samples_ns=list(m.null_samples_ns),
        )

    def to_model(self) -> Measurement:
        return Measurement(
            case=self.case,
            secret=self.secret,
            chain=self.chain,
            samples_ns=tuple(self.samples_ns),
            null_samples_ns=tuple(self.null_samples_ns),
        )


class CaseTimesBody(Body):
    case: str
    chain: int
    baseline_ns: Samples
    candidate_ns: Samples
    null_ns: Samples


class PairBody(Body):
    block: Block
    series: int
    cases: Annotated[list[CaseTimesBody], Field(max_length=1_000)]


class ComparisonBody(Body):
    """Every box pair of a ranked run, with its raw times."""

    baseline: str
    pairs: Annotated[list[PairBody], Field(max_length=1_000)]
    floors_ns: dict[str, float]

    @classmethod
    def of(cls, comparison: Comparison) -> ComparisonBody:
        return cls(
            baseline=comparison.baseline,
            pairs=[
                PairBody(
                    block=pair.block,
                    series=pair.series,
                    cases=[
                        CaseTimesBody(
                            case=times.case,
                            chain=times.chain,
                            baseline_ns=list(times.baseline_ns),
                            candidate_ns=list(times.candidate_ns),
                            null_ns=list(times.null_ns),
                        )
                        for times in pair.cases
                    ],
                )
                for pair in comparison.pairs
            ],
            floors_ns=dict(comparison.floors_ns),
        )

    def to_model(self) -> Comparison:
        return Comparison(
            baseline=self.baseline,
            pairs=tuple(
                Pair(
                    block=pair.block,
                    series=pair.series,
                    cases=tuple(
                        CaseTimes(
                            case=times.case,
                            chain=times.chain,
                            baseline_ns=tuple(times.baseline_ns),
                            candidate_ns=tuple(times.candidate_ns),
                            null_ns=tuple(times.null_ns),
                        )
                        for times in pair.cases
                    ),
                )
                for pair in self.pairs
            ),
            floors_ns=self.floors_ns,
        )


class OutcomeBody(Body):
    """A runner's word on one attempt; also the stored form, and what the author is shown (redacted)."""

    job_id: int
    attempt: int
    verdict: Verdict
    message: Text
    results: list[CaseResultBody] = Field(default_factory=list, max_length=1_000)
    measurements: list[MeasurementBody] = Field(default_factory=list, max_length=1_000)
    log: Annotated[str, StringConstraints(max_length=MAX_LOG_CHARS)] = ""
    environment: dict[str, ShortText] = Field(default_factory=dict)
    isolation: str = "full"
    comparison: ComparisonBody | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> OutcomeBody:
        return cls(
            job_id=outcome.job_id,
            attempt=outcome.attempt,
            verdict=outcome.verdict,
            message=outcome.message,
            results=[CaseResultBody.of(r) for r in outcome.results],
            measurements=[MeasurementBody.of(m) for m in outcome.measurements],
            log=outcome.log,
            environment=dict(outcome.environment),
            isolation=outcome.isolation,
            comparison=ComparisonBody.of(outcome.comparison) if outcome.comparison else None,
        )

    def to_model(self) -> Outcome:
        return Outcome(
            job_id=self.job_id,
            attempt=self.attempt,
            verdict=self.verdict,
            message=self.message,
            results=tuple(r.to_model() for r in self.results),
            measurements=tuple(m.to_model() for m in self.measurements),
            log=self.log,
            environment=self.environment,
            isolation=self.isolation,
            comparison=self.comparison.to_model() if self.comparison else None,
        )
