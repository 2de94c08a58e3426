"""Pure decisions about a job: what a request changes, and what a history adds up to.

A decision takes the record as it stands and `now`, and gives the events that follow, or a Refusal.
`stand_after` folds events into the job's stand; the store writes exactly what the fold says.
Heartbeats change the lease, the time last heard and the progress; these are no history and no part
of the fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from judge.model import Block, JobState, Mode, Outcome, Refusal, Ruling, Verdict
from judge.records import JobRecord
from judge.rules import MAX_ATTEMPTS

JUDGE_ITSELF = "the judge"
"""Stands for a runner where the server ends a job by itself."""

LOST_FOR_GOOD = (
    f"The runner was lost {MAX_ATTEMPTS} times while judging this submission. This is the judge's "
    "fault and costs no quota; an organizer will look at it."
)

FAILED_FOR_GOOD = f"The judge failed {MAX_ATTEMPTS} times while judging this submission."


@dataclass(frozen=True, slots=True)
class Happened:
    """An event in the making: the kind and the facts that the fold needs.

    by: whose doing it was, as the event's subject names them, where that is no runner.
    """

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)
    by: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stand:
    """What the history says of a job."""

    state: JobState = JobState.QUEUED
    attempt: int = 0
    held: bool = False
    charged: bool = False
    runner: str | None = None
    finished_at: datetime | None = None
    hold: str = ""
    confirms: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What follows from a request.

    outcome: to be kept whole for the current attempt. refusal: what the asker is told although
    something was changed or noted.
    """

    happened: tuple[Happened, ...] = ()
    outcome: Outcome | None = None
    refusal: Refusal | None = None


def stand_of(record: JobRecord) -> Stand:
    """The part of a record that its history decides."""
    return Stand(
        state=record.state,
        attempt=record.attempt,
        held=record.held,
        charged=record.charged,
        runner=record.runner,
        finished_at=record.finished_at,
        hold=record.hold,
        confirms=record.confirms,
    )


def stand_after(stand: Stand, happened: Iterable[Happened], at: datetime) -> Stand:
    """The stand after events that happened at one time, in order. Unknown kinds change nothing."""
    for event in happened:
        match event.kind:
            case "job.claimed":
                stand = replace(
                    stand,
                    state=JobState.RUNNING,
                    attempt=event.body["attempt"],
                    runner=event.body["runner"],
                )
            case "job.requeued":
                stand = replace(stand, state=JobState.QUEUED, runner=None)
            case "job.confirming":
                stand = replace(
                    stand,
                    state=JobState.QUEUED,
                    runner=None,
                    finished_at=None,  # it was done where an organizer released it
                    confirms=event.body["attempt"],
                )
            case "job.finished":
                stand = replace(
                    stand,
                    state=JobState.DONE,
                    held=event.body["held"],
                    hold=event.body.get("hold", ""),  # events of older versions have none
                    finished_at=at,
                )
            case "entry.held":
                stand = replace(stand, held=True, hold=event.body["reason"])
            case "entry.released":
                stand = replace(stand, held=False, hold="")
            case "job.cancelled":
                stand = replace(stand, state=JobState.CANCELLED, finished_at=at)
            case "quota.charged":
                stand = replace(stand, charged=True)
            case "quota.refunded":
                stand = replace(stand, charged=False)
            case _:
                pass
    return stand


def claim(
    record: JobRecord, runner: str, now: datetime, lease_until: datetime, team_busy: bool
) -> Change | Refusal:
    """Give the job to a runner. team_busy: another job of the team is running."""
    if record.state.is_final:
        return _final(record)
    if record.state is JobState.RUNNING:
        if not _lease_ran_out(record, now):
            return Refusal("job_leased", f"Job {record.job_id} is being judged already.", 409)
        if _attempts(record) >= MAX_ATTEMPTS:
            ended = _end_lost(record)
            refusal = Refusal(
                "attempts_used_up",
                f"Job {record.job_id} had its {MAX_ATTEMPTS} attempts; it is held for an organizer.",
                409,
            )
            return replace(ended, refusal=refusal)
    if team_busy:
        return Refusal(
            "team_busy",
            f"Another job of the team is running; job {record.job_id} will ring again after it.",
            409,
        )
    claimed = Happened(
        "job.claimed",
        {
            "attempt": record.attempt + 1,
            "runner": runner,
            "lease_until": lease_until.isoformat(),
        },
    )
    if record.state is JobState.RUNNING:
        return Change((*_requeued(record, "lease ran out"), claimed))
    return Change((claimed,))


def heartbeat(record: JobRecord, attempt: int, loaded: bool) -> Change | None:
    """What a sign of life changes; None if the attempt is no longer the runner's."""
    if record.state is not JobState.RUNNING or record.attempt != attempt:
        return None
    return Change(_charge(record) if loaded else ())


def finish(record: JobRecord, outcome: Outcome, ruling: Ruling) -> Change | Refusal:
    """Take an attempt's outcome, or say why it does not count.

    A run that is held needs no confirmation, and a confirming run gets none of its own.
    """
    if record.state.is_final:
        return _final(record)
    if record.state is not JobState.RUNNING or record.attempt != outcome.attempt:
        return Refusal(
            "stale_attempt",
            f"Attempt {outcome.attempt} of job {record.job_id} is over; its outcome does not count.",
            409,
        )
    if outcome.verdict.is_ours:
        if _attempts(record) < MAX_ATTEMPTS:
            return Change(_requeued(record, "judge error"), outcome)
        ended = _finished(record, outcome.verdict, FAILED_FOR_GOOD)
        return Change((*_refund(record), ended), outcome)
    if ruling.confirm and not ruling.hold and _may_be_confirmed(record, outcome):
        return Change(_confirming(record), outcome)
    paid = _refund(record) if _void_beforehand(outcome) else _charge(record)
    return Change((*paid, _finished(record, outcome.verdict, ruling.hold)), outcome)


def release_lost(record: JobRecord, now: datetime) -> Change | None:
    """Take a job from a runner whose lease ran out; None while the lease lives or no one has it."""
    if record.state is not JobState.RUNNING or not _lease_ran_out(record, now):
        return None
    if _attempts(record) < MAX_ATTEMPTS:
        return Change(_requeued(record, "lease ran out"))
    return _end_lost(record)


def cancel(record: JobRecord, even_confirming: bool) -> Change | Refusal:
    """End a job at its author's or an organizer's wish. What the current attempt was
    charged stays charged.

    even_confirming: also one whose first run was whole, so that only its confirmation is missing.
    """
    if record.state.is_final:
        return _final(record)
    if record.confirms is not None and not even_confirming:
        return Refusal(
            "confirming",
            f"Submission {record.submission.id} had its run, and that would change the board: the run "
            "that confirms it cannot be cancelled. An organizer can end it.",
            409,
        )
    return Change((Happened("job.cancelled", {"attempt": record.attempt}),))


def moderate(record: JobRecord, hold: str, by: int, ruling: Ruling) -> Change | Refusal:
    """Hold a judged submission back, or release it where `hold` is empty; no change where it stands so.

    by: the organizer's token id. ruling: what follows from a release; a run that nobody confirmed yet
    goes back to the queue where it asks for that, and another reason to hold it takes the place of
    the one that was released.
    """
    if record.state is not JobState.DONE:
        return Refusal(
            "job_unfinished",
            f"Submission {record.submission.id} is {record.state}: only a judged one can be held or "
            "released.",
            409,
        )
    if (record.held, record.hold) == (bool(hold), hold):
        return Change()
    if hold:
        return Change((_held(hold, by),))
    released = Happened("entry.released", {"reason": record.hold}, {"token": by})
    if ruling.hold:
        return Change((released, _held(ruling.hold, by)))
    if ruling.confirm and record.outcome is not None and _may_be_confirmed(record, record.outcome):
        return Change((released, *_confirming(record)))
    return Change((released,))


def give_up(record: JobRecord, why: str, now: datetime) -> Change | Refusal:
    """End a waiting job that no runner may judge any more: an attempt of the judge's own, and its fault."""
    if record.state.is_final:
        return _final(record)
    if record.state is JobState.RUNNING:
        return Refusal("job_leased", f"Job {record.job_id} is being judged.", 409)
    attempt = record.attempt + 1
    claimed = {"attempt": attempt, "runner": JUDGE_ITSELF, "lease_until": now.isoformat()}
    outcome = Outcome(
        job_id=record.job_id, attempt=attempt, verdict=Verdict.JUDGE_ERROR, message=why
    )
    ended = {"attempt": attempt, "verdict": str(outcome.verdict), "held": True, "hold": why}
    return Change(
        (*_refund(record), Happened("job.claimed", claimed), Happened("job.finished", ended)),
        outcome,
    )


def _lease_ran_out(record: JobRecord, now: datetime) -> bool:
    return record.lease_until is None or record.lease_until <= now


def _final(record: JobRecord) -> Refusal:
    return Refusal("job_final", f"Job {record.job_id} is {record.state} already.", 409)


def _attempts(record: JobRecord) -> int:
    """The attempts of this round: a confirmation starts with all of them."""
    return record.attempt - (record.confirms or 0)


def _may_be_confirmed(record: JobRecord, outcome: Outcome) -> bool:
    ranked = record.mode is Mode.RANKED and outcome.verdict is Verdict.ACCEPTED
    return ranked and record.confirms is None


def _void_beforehand(outcome: Outcome) -> bool:
    """Whether the machine, and not the candidate, made the timing unstable: it never started."""
    comparison = outcome.comparison
    if outcome.verdict is not Verdict.UNSTABLE_TIMING or comparison is None:
        return False
    return all(pair.block is not Block.CANDIDATE for pair in comparison.pairs)


def _requeued(record: JobRecord, reason: str) -> tuple[Happened, ...]:
    """Back in the queue through our fault, so at no cost: it counts while it waits all the same.

    What a confirmation follows was a whole run and stays charged, however often that is lost.
    """
    body = {"attempt": record.attempt, "runner": record.runner, "reason": reason}
    refund = _refund(record) if record.confirms is None else ()
    return (*refund, Happened("job.requeued", body))


def _confirming(record: JobRecord) -> tuple[Happened, ...]:
    """Back in the queue for the run that alone will count."""
    body = {"attempt": record.attempt, "runner": record.runner}
    return (*_charge(record), Happened("job.confirming", body))


def _held(reason: str, by: int) -> Happened:
    return Happened("entry.held", {"reason": reason}, {"token": by})


def _finished(record: JobRecord, verdict: Verdict, hold: str) -> Happened:
    """hold: why an organizer must look at it, or empty."""
    held = {"held": bool(hold), "hold": hold}
    body = {"attempt": record.attempt, "verdict": str(verdict), **held}
    return Happened("job.finished", body)


def _charge(record: JobRecord) -> tuple[Happened, ...]:
    return () if record.charged else (Happened("quota.charged", {"attempt": record.attempt}),)


def _refund(record: JobRecord) -> tuple[Happened, ...]:
    return (Happened("quota.refunded", {"attempt": record.attempt}),) if record.charged else ()


def _end_lost(record: JobRecord) -> Change:
    outcome = Outcome(
        job_id=record.job_id,
        attempt=record.attempt,
        verdict=Verdict.JUDGE_ERROR,
        message=LOST_FOR_GOOD,
    )
    ended = _finished(record, Verdict.JUDGE_ERROR, LOST_FOR_GOOD)
    return Change((*_refund(record), ended), outcome)
