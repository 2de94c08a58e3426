"""Who may rank, and the practice table as a pure fold of finished jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeVar

from judge.model import (
    Entry,
    JobState,
    Mode,
    Outcome,
    Problem,
    Stage,
    Submission,
    Verdict,
)
from judge.scoring import Score, score


class FinishedJob(Protocol):
    """What the ranking reads of a job's record; `judge.records.JobRecord` has it all."""

    @property
    def submission(self) -> Submission: ...
    @property
    def team(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def state(self) -> JobState: ...
    @property
    def held(self) -> bool: ...
    @property
    def hold(self) -> str: ...
    @property
    def finished_at(self) -> datetime | None: ...
    @property
    def outcome(self) -> Outcome | None: ...


HELD = "held for review by an organizer"

Finished = TypeVar("Finished", bound=FinishedJob)
Numbers = TypeVar("Numbers")


@dataclass(frozen=True, slots=True)
class Unranked:
    """Why a job has no rank. shown: whether the board still has a line for it."""

    reason: str
    shown: bool = False


def eligible(
    job: FinishedJob, problem: Problem, numbers_of: Callable[[Outcome], Numbers | None]
) -> Numbers | Unranked:
    """Whether a job may rank: its numbers, or why not. The one place that decides it.

    Only a done, accepted job of the problem's standing version that is not held and has valid
    numbers may rank. numbers_of: what the board's mode makes of an accepted outcome, None where a
    time of it is no time.
    """
    if job.state is not JobState.DONE or job.outcome is None:
        return Unranked("not judged yet")
    if job.outcome.verdict is not Verdict.ACCEPTED:
        return Unranked(str(job.outcome.verdict))
    if (job.submission.problem_id, job.submission.problem_version) != (problem.id, problem.version):
        return Unranked("judged on another version of the problem")
    found = numbers_of(job.outcome)
    if found is None:
        return Unranked("a timing case has no valid time", shown=True)
    if job.held:
        return Unranked(HELD, shown=True)
    if job.mode is Mode.RANKED and job.outcome.isolation != "full":
        return Unranked(f"{job.outcome.isolation} isolation", shown=True)
    return found


def jobs_of_board(
    finished: Iterable[Finished], problem: Problem, device: str, mode: Mode, until: datetime | None
) -> list[Finished]:
    """The jobs that a board is folded from, by submission id, which is the order of receipt.

    until: only those finished by then, so the board of a past moment is the fold of its past.
    """
    return sorted(
        (
            job
            for job in finished
            if (job.submission.problem_id, job.device, job.mode) == (problem.id, device, mode)
            and job.finished_at is not None
            and (until is None or job.finished_at <= until)
        ),
        key=lambda job: job.submission.id,
    )


def timing_cases(problem: Problem) -> tuple[str, ...]:
    """The names of the public timing cases: the columns of a benchmark board."""
    return tuple(
        case.name for case in problem.cases if case.stage is Stage.TIMING and not case.secret
    )


def standings(
    finished: Iterable[FinishedJob],
    problem: Problem,
    device: str,
    mode: Mode,
    until: datetime | None = None,
) -> tuple[Entry, ...]:
    """The board of a problem on a device: ranked lines by score, then the unranked by submission.

    finished: jobs in any order; those of another problem, device or mode are passed over.
    until: only jobs finished by then count.

    A team's entry is its latest submission that may rank, by id, which is the order of receipt. Not
    its best: the smallest of many noisy tries is a sample of the noise's lower tail, so retrying
    the same file would climb the board. A team without one is shown unranked, with the reason, if
    its latest accepted submission is held or badly timed. Equal scores rank in the order of
    receipt. Only benchmark jobs have such a board: tests are not timed, and ranked runs have their own.
    """
    if mode is not Mode.BENCHMARK:
        return ()
    cases = timing_cases(problem)
    ranked: dict[int, Entry] = {}
    unranked: dict[int, Entry] = {}
    for job in jobs_of_board(finished, problem, device, mode, until):
        match eligible(job, problem, lambda outcome: score(outcome.measurements, cases)):
            case Score() as found:
                ranked[job.submission.team_id] = _entry(
                    job,
                    {case: time.ns for case, time in found.times.items()},
                    found.geomean_ns,
                    _note(job, found),
                )
            case Unranked(reason, shown=True):
                unranked[job.submission.team_id] = _entry(job, {}, None, reason)
            case _:
                pass
    ordered = sorted(ranked.values(), key=lambda entry: (entry.score_ns, entry.submission_id))
    return (
        *(replace(entry, rank=place) for place, entry in enumerate(ordered, start=1)),
        *sorted(
            (entry for team, entry in unranked.items() if team not in ranked),
            key=lambda entry: entry.submission_id,
        ),
    )


def _entry(
    job: FinishedJob, times_ns: Mapping[str, float], score_ns: float | None, note: str
) -> Entry:
    return Entry(
        team_id=job.submission.team_id,
        team=job.team,
        submission_id=job.submission.id,
        received_at=job.submission.received_at,
        score_ns=score_ns,
        times_ns=times_ns,
        rank=None,
        note=note,
    )


def _note(job: FinishedJob, found: Score) -> str:
    notes = [f"{case}: at most the time shown, below the noise" for case in found.below_noise]
    if job.outcome is not None and job.outcome.isolation != "full":
        notes.append(f"{job.outcome.isolation} isolation")
    return "; ".join(notes)
