"""Pure decisions: which job is next, what a mode runs, and who may see what of an outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from judge.model import (
    Case,
    CaseResult,
    JobState,
    Mode,
    Outcome,
    Problem,
    Refusal,
    Role,
    Stage,
    Submission,
    Verdict,
)
from judge.stats import median

MAX_ATTEMPTS = 3
"""Runners a job may lose before it ends as a judge error, held for an organizer."""

MAX_TOKENS = 50
"""Valid tokens one contestant may have."""

_SERVICE = {mode: place for place, mode in enumerate(Mode)}


class JobFacts(Protocol):
    """What the rules read of a job's record; `judge.records.JobRecord` has it all."""

    @property
    def job_id(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def state(self) -> JobState: ...
    @property
    def submission(self) -> Submission: ...


Facts = TypeVar("Facts", bound=JobFacts)


def service_order(job: JobFacts) -> tuple[int, int]:
    """Sort key: tests before benchmarks before ranked jobs, then by id."""
    return _SERVICE[job.mode], job.job_id


def ready_jobs(records: Iterable[Facts]) -> tuple[Facts, ...]:
    """The jobs to ring for, in order of service: one per team and device at most.

    A team with a running job has none; of a team that waits on two devices the first to be claimed
    runs, so that a device without a runner holds up no other. records: the unfinished jobs of every
    device (final ones are passed over), in any order.
    """
    jobs = list(records)
    busy = {job.submission.team_id for job in jobs if job.state is JobState.RUNNING}
    ready: dict[tuple[int, str], Facts] = {}
    for job in sorted(jobs, key=service_order):
        if job.state is JobState.QUEUED and job.submission.team_id not in busy:
            ready.setdefault((job.submission.team_id, job.device), job)
    return tuple(ready.values())


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job stands in its device's queue: 1 is next, None is not queued.

    eta_s: rough seconds until its verdict; None where nothing is known.
    """

    place: int | None
    eta_s: float | None


def place_and_eta(
    records: Iterable[JobFacts],
    record: JobFacts,
    recent_s: Mapping[Mode, Sequence[float]],
    runners: int,
) -> Place:
    """The place of a job among the queued ones of its device, and a rough time until its verdict.

    records: the unfinished jobs, in any order. recent_s: for each mode how long the latest jobs of
    this device took, claim to end, in seconds. runners: how many of the device were heard of
    lately.

    The work before the job is shared by the runners; the work of its own team is done one by one;
    the longer of both counts. A running job is taken to be half done. eta_s is None without runners
    or without any finished job to learn from.
    """
    if record.state not in (JobState.QUEUED, JobState.RUNNING):
        return Place(None, None)
    seen = [duration for durations in recent_s.values() for duration in durations]

    def work_s(job: JobFacts) -> float:
        whole = median(recent_s.get(job.mode) or seen)
        return whole / 2 if job.state is JobState.RUNNING else whole

    known = runners > 0 and bool(seen)
    if record.state is JobState.RUNNING:
        return Place(None, work_s(record) if known else None)
    before = [
        job
        for job in records
        if job.job_id != record.job_id
        and (
            job.state is JobState.RUNNING
            or (job.state is JobState.QUEUED and service_order(job) < service_order(record))
        )
    ]
    on_device = [job for job in before if job.device == record.device]
    place = 1 + sum(job.state is JobState.QUEUED for job in on_device)
    if not known:
        return Place(place, None)
    shared_s = sum(work_s(job) for job in on_device) / runners
    own_team = record.submission.team_id
    serial_s = sum(work_s(job) for job in before if job.submission.team_id == own_team)
    return Place(place, max(shared_s, serial_s) + work_s(record))


def cases_of_mode(problem: Problem, secret: Sequence[Case], mode: Mode) -> tuple[Case, ...]:
    """The cases a job runs, in the order they are reported: correctness first, then times.

    secret: the problem version's stored secret cases. A test runs the public test cases; a
    benchmark adds the secret test cases and the public timing cases; a ranked job has the secret
    timing cases instead of those, since they alone are scored.
    """
    public = problem.cases
    wanted: dict[Mode, tuple[tuple[Sequence[Case], Stage], ...]] = {
        Mode.TEST: ((public, Stage.TEST),),
        Mode.BENCHMARK: ((public, Stage.TEST), (secret, Stage.TEST), (public, Stage.TIMING)),
        Mode.RANKED: (
            (public, Stage.TEST),
            (secret, Stage.TEST),
            (secret, Stage.TIMING),
        ),
    }
    return tuple(case for cases, stage in wanted[mode] for case in cases if case.stage is stage)


def fault_of_new_token(
    asker: Role, valid_tokens: int, wanted: Role, device: str | None, devices: Sequence[str]
) -> Refusal | None:
    """Why somebody may not have the token they ask for, or None if they may.

    valid_tokens: how many the asker has that work; only contestants have a limit. devices: those of
    the contest.
    """
    if asker is not Role.ORGANIZER and wanted is not asker:
        detail = f"Only organizers make tokens of role {wanted}; you can make {asker}."
        return Refusal("role_forbidden", detail, 403)
    if asker is Role.ORGANIZER and wanted is Role.CONTESTANT:
        detail = (
            "A contestant's token belongs to a person: make an invite code, and let them register."
        )
        return Refusal("needs_registration", detail, 409)
    if wanted is Role.RUNNER and device not in devices:
        detail = f'A runner\'s token needs "device", one of: {", ".join(devices)}.'
        return Refusal("device_unknown", detail)
    if wanted is not Role.RUNNER and device is not None:
        detail = 'Only a runner\'s token has a "device"; leave it out.'
        return Refusal("device_unexpected", detail)
    if asker is Role.CONTESTANT and valid_tokens >= MAX_TOKENS:
        detail = f"You have {MAX_TOKENS} valid tokens; revoke one before making another."
        return Refusal("too_many_tokens", detail, 409)
    return None


def fault_of_invites(count: int, team: str | None, team_size: int) -> Refusal | None:
    """Why so many invites for one team are not made, or None: codes nobody can use help nobody."""
    if team is None or count <= team_size:
        return None
    detail = (
        f"A team holds {team_size} here (contest.toml: team_size), so {count} codes for {team} are "
        "too many. Without a team every code makes a team of one."
    )
    return Refusal("team_too_small", detail, 409)


def may_see(role: Role | None, is_owner: bool) -> bool:
    """Whether a viewer may open a submission at all: its team and the organizers may."""
    return is_owner or role is Role.ORGANIZER


HIDDEN_CASE = "secret"
"""The name every secret case goes by while it is hidden."""


def disclose(outcome: Outcome, role: Role | None, is_owner: bool, contest_over: bool) -> Outcome:
    """What a viewer may know of an outcome. role: None for a visitor without a token.

    Organizers see all, and so does everybody once the contest is over (who may open the submission
    is `may_see`'s question). The owner sees all of the public cases; of a secret case the stage and
    the verdict word, without name, shape, message, errors, differences or times, and in an order
    that tells nothing; no raw times of a ranked run, which are all of secret cases; and no message
    where secret cases alone decided the verdict. Anybody else is told the verdict.
    """
    if contest_over or role is Role.ORGANIZER:
        return outcome
    if not is_owner:
        return Outcome(
            outcome.job_id, outcome.attempt, outcome.verdict, "", isolation=outcome.isolation
        )
    public = [result for result in outcome.results if not result.secret]
    secret = [result for result in outcome.results if result.secret]
    hidden = sorted((_hidden(result) for result in secret), key=lambda r: (r.stage, r.verdict))
    return replace(
        outcome,
        message=_message_without_secrets(outcome, public, secret),
        results=(*public, *hidden),
        measurements=tuple(m for m in outcome.measurements if not m.secret),
        comparison=None,
    )


def _hidden(result: CaseResult) -> CaseResult:
    return CaseResult(
        case=HIDDEN_CASE, stage=result.stage, secret=True, verdict=result.verdict, values={}
    )


def _message_without_secrets(
    outcome: Outcome, public: Sequence[CaseResult], secret: Sequence[CaseResult]
) -> str:
    """The outcome's message, or a fixed sentence where only secret cases failed.

    A second lock: an outcome promises to keep such words out of its message.
    """
    failed = [result for result in secret if result.verdict is not Verdict.ACCEPTED]
    if not failed or any(result.verdict is not Verdict.ACCEPTED for result in public):
        return outcome.message
    return (
        f"Every public case that ran is accepted, but {len(failed)} of the {len(secret)} secret "
        f"cases that ran failed. They differ in shape only: "
        "test the kernel on more shapes of the kind the statement names."
    )
