"""What a viewer is told of one submission: its record and runs as a wire body, redacted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from judge.comparing import claim, counted_pairs, findings, pair_values, pairs_of, void_before
from judge.model import Block, Claim, Comparison, JobState, Mode, Outcome, Role, Verdict
from judge.pairs import nets_of
from judge.records import Identity, JobRecord
from judge.rules import Place, disclose
from judge.scoring import Score, score
from judge.stats import geometric_mean
from judge.wire import (
    ArmsBody,
    OutcomeBody,
    PairValueBody,
    ProgressBody,
    RankedBody,
    RunBody,
    SpeedupBody,
    SubmissionBody,
)
from leaderboard.ranked import workload_of

MAX_SAMPLES: Final = 200
"""Raw samples of one case and arm that are told; evenly chosen among all."""

PAIR_DECIMALS: Final = 4
"""Of a pair's log ratio, when told: to 0.01 %, which is below the noise and hides few bits."""


@dataclass(frozen=True, slots=True)
class Standpoint:
    """How a viewer stands to a submission, which decides what they may know of it."""

    role: Role | None
    is_owner: bool
    contest_over: bool

    @classmethod
    def of(cls, viewer: Identity, record: JobRecord, contest_over: bool) -> Standpoint:
        owner = viewer.team_id is not None and viewer.team_id == record.submission.team_id
        return cls(viewer.role, owner, contest_over)

    def may_know(self, outcome: Outcome) -> Outcome:
        """The outcome without what the viewer may not know."""
        return disclose(outcome, self.role, self.is_owner, self.contest_over)


def submission_body(
    record: JobRecord, standpoint: Standpoint, place: Place, ranked: RankedBody | None
) -> SubmissionBody:
    """A record as its viewer may know it. ranked: what its ranked run came to, redacted already."""
    submission, outcome = record.submission, record.outcome
    shown = standpoint.may_know(outcome) if outcome else None
    times = _score_of(outcome) if outcome else None
    visible = {m.case for m in shown.measurements} if shown else set()
    return SubmissionBody(
        id=submission.id,
        job_id=record.job_id,
        version=record.version,
        team=record.team,
        author=record.author,
        problem=submission.problem_id,
        problem_version=submission.problem_version,
        device=record.device,
        mode=record.mode,
        main=submission.main,
        files=list(record.file_names),
        sha256=submission.digest,
        received_at=submission.received_at,
        state=record.state,
        attempt=record.attempt,
        held=record.held,
        progress=(
            ProgressBody(
                stage=record.progress.stage,
                done=record.progress.done,
                total=record.progress.total,
            )
            if record.progress
            else None
        ),
        place=place.place,
        eta_s=place.eta_s,
        runner=record.runner,
        last_heard_at=record.last_heard_at,
        finished_at=record.finished_at,
        verdict=shown.verdict if shown else None,
        outcome=OutcomeBody.of(shown) if shown else None,
        geomean_ns=times.geomean_ns if times else None,
        medians_ns=(
            {case: t.ns for case, t in times.times.items() if case in visible} if times else {}
        ),
        hold=record.hold,
        confirming=record.confirms is not None and not record.state.is_final,
        ranked=ranked,
    )


def without_raw_times(record: JobRecord) -> JobRecord:
    """A record for a list: the raw times of a ranked run are shown with the submission alone."""
    if record.outcome is None or record.outcome.comparison is None:
        return record
    return replace(record, outcome=replace(record.outcome, comparison=None))


def ranked_body(
    record: JobRecord, made: Claim | None, runs: Sequence[Outcome], standpoint: Standpoint
) -> RankedBody | None:
    """What a ranked job came to, or None before it has ended: nothing of a run is told until then.

    made: what it claims. runs: the outcomes of its attempts, in their order.
    """
    if record.mode is not Mode.RANKED or record.state is not JobState.DONE:
        return None
    return RankedBody(
        claim=SpeedupBody.of(made) if made else None,
        runs=[
            run_body(run, run.comparison, record, standpoint)
            for run in runs
            if run.comparison is not None
        ],
    )


def run_body(
    run: Outcome, comparison: Comparison, record: JobRecord, standpoint: Standpoint
) -> RunBody:
    """One run of a ranked job: the value of every box pair, and the raw times to those who may see them."""
    cases = len(comparison.pairs[0].cases) if comparison.pairs else 0
    submission = record.submission
    workload = workload_of(submission.problem_id, submission.problem_version, cases)
    accepted = run.verdict is Verdict.ACCEPTED
    made = claim(comparison, record.device, workload) if accepted else None
    return RunBody(
        attempt=run.attempt,
        verdict=run.verdict,
        published=run.attempt == record.attempt,
        claim=SpeedupBody.of(made) if made else None,
        void=void_before(pairs_of(comparison, Block.BEFORE)),
        findings=list(findings(comparison)),
        pairs=[
            PairValueBody(
                block=block, series=series, speedup=None if value is None else told_ratio(value)
            )
            for (block, series), values in pair_values(comparison).items()
            for value in values
        ],
        cases=arms_of(comparison) if standpoint.may_know(run).comparison is not None else [],
    )


def told_ratio(value: float) -> float:
    """The speedup of a pair as it is told, from its log ratio."""
    return math.exp(round(value, PAIR_DECIMALS))


def arms_of(comparison: Comparison) -> list[ArmsBody]:
    """Both arms of every case over the pairs that count, by the case's name.

    The geometric mean of the speedups is that of the claim.
    """
    pairs = counted_pairs(comparison)
    nets = [found for pair in pairs if (found := nets_of(pair)) is not None]
    bodies = []
    for of_case in zip(*nets, strict=True):
        name = of_case[0].case
        times = [times for pair in pairs for times in pair.cases if times.case == name]
        baseline_ns = geometric_mean([net.baseline.ns for net in of_case])
        candidate_ns = geometric_mean([net.candidate.ns for net in of_case])
        bodies.append(
            ArmsBody(
                case=name,
                chain=times[0].chain,
                baseline_median_ns=baseline_ns,
                candidate_median_ns=candidate_ns,
                speedup=math.exp(math.fsum(net.value for net in of_case) / len(of_case)),
                baseline_ns=_thinned([ns for each in times for ns in each.baseline_ns]),
                candidate_ns=_thinned([ns for each in times for ns in each.candidate_ns]),
            )
        )
    return bodies


def _thinned(samples_ns: Sequence[int]) -> list[int]:
    step = max(1, -(-len(samples_ns) // MAX_SAMPLES))
    return list(samples_ns[::step])


def _score_of(outcome: Outcome) -> Score | None:
    return score(outcome.measurements, [m.case for m in outcome.measurements])
