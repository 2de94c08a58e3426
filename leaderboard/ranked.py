"""The ranked board as a pure fold of finished ranked jobs: pooled kernels, standing runs, tie bands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from judge.comparing import (
    CONFIDENCE,
    LOOK_CONFIDENCE,
    claim,
    counted_pairs,
    is_unstable,
    pair_value,
    same_band,
)
from judge.model import Claim, Mode, Outcome, Problem, RankedEntry, Stage, Submission
from judge.stats import Estimate
from leaderboard.ranking import HELD, FinishedJob, Unranked, eligible, jobs_of_board

UNSTABLE = "unstable: its interval is too wide to rank"

HELD_WITH = "Held with submission "
"""How the reason begins of a run that is held for another run of its kernel alone."""


@dataclass(frozen=True, slots=True)
class RunNumbers:
    """What the board reads of one run. values: of its counted box pairs, log ratios over the baseline."""

    values: tuple[float, ...]
    claim: Claim


NumbersOf = Callable[[Outcome], RunNumbers | None]


@dataclass(frozen=True, slots=True)
class Pool:
    """All counted runs of one kernel of a team, by submission id, and the speedup of them together."""

    jobs: tuple[FinishedJob, ...]
    found: Estimate
    claim: Claim

    @property
    def latest(self) -> int:
        """The id of its latest submission."""
        return self.jobs[-1].submission.id

    @property
    def received_at(self) -> datetime:
        """When the first of its submissions was received."""
        return min(job.submission.received_at for job in self.jobs)


def workload_of(problem_id: str, version: int, cases: int) -> str:
    """Which cases a ranked run times, in words."""
    return f"{problem_id} v{version}, {cases} secret case{'' if cases == 1 else 's'}"


def ranked_cases(problem: Problem) -> int:
    """How many cases a ranked run of the problem times: all of them are secret."""
    return sum(group.count for group in problem.secret_cases if group.stage is Stage.TIMING)


def run_numbers(outcome: Outcome, problem: Problem, device: str) -> RunNumbers | None:
    """The numbers of a run, or None where it has no valid claim over every secret timing case."""
    comparison, cases = outcome.comparison, ranked_cases(problem)
    if comparison is None:
        return None
    made = claim(comparison, device, workload_of(problem.id, problem.version, cases))
    pairs = counted_pairs(comparison)
    if made is None or len(pairs[0].cases) != cases:
        return None
    values = (pair_value(pair) for pair in pairs)
    return RunNumbers(tuple(value for value in values if value is not None), made)


def held_with(submission_id: int) -> str:
    """Why a run is held that nothing else speaks against. submission_id: the run it is held for."""
    return f"{HELD_WITH}{submission_id}, a run of the same kernel, until an organizer has released that."


def holder(submission: Submission, runs: Iterable[FinishedJob]) -> int | None:
    """The first submission that holds further runs of its kernel, this one among them; None where none.

    runs: finished jobs of the same problem and device. One that is held for another run holds nothing
    itself, so that all are free once that one is released; nor does one that failed by our fault.
    """
    holding = [
        job.submission.id
        for job in runs
        if _holds(job)
        and not job.hold.startswith(HELD_WITH)
        and job.submission.id != submission.id
        and job.submission.team_id == submission.team_id
        and job.submission.problem_version == submission.problem_version
        and _marks(job.submission) & _marks(submission)
    ]
    return min(holding, default=None)


def ranked_standings(
    finished: Iterable[FinishedJob],
    problem: Problem,
    device: str,
    until: datetime | None = None,
    numbers_of: NumbersOf | None = None,
) -> tuple[RankedEntry, ...]:
    """The ranked board of a problem on a device: bands in order, then the unranked by submission.

    finished: jobs in any order; those of another problem, device or mode are passed over.
    until: only jobs finished by then count. numbers_of: `run_numbers` of this problem and device,
    where somebody keeps what it found.

    A team has one entry: its kernel with the latest submission, unless the interval of that lies
    wholly below the one that stood before, which then stays. All runs of a kernel count together,
    so trying again tells more of a kernel and never picks the luckiest run; a run that is held holds
    every later one of its kernel, so it slips past no review either. Entries that cannot be told
    from the best of a band share the band and its rank, in the order in which the teams' first
    kernels that belong there were received.

    A standing kernel that is faster by one factor in every box pair never gets a worse rank. A single
    time that is lower may cost one: it can widen the interval, or let a newer kernel stand.
    """
    numbers_of = numbers_of or (lambda outcome: run_numbers(outcome, problem, device))
    counted: dict[int, list[tuple[FinishedJob, RunNumbers]]] = {}
    everyone: list[tuple[FinishedJob, RunNumbers]] = []
    unranked: dict[int, RankedEntry] = {}
    held: dict[int, set[str]] = {}
    for job in jobs_of_board(finished, problem, device, Mode.RANKED, until):
        match eligible(job, problem, numbers_of):
            case RunNumbers() if held.get(job.submission.team_id, set()) & _marks(job.submission):
                unranked[job.submission.team_id] = _unranked(job, HELD)
            case RunNumbers() as numbers:
                counted.setdefault(job.submission.team_id, []).append((job, numbers))
                everyone.append((job, numbers))
            case Unranked(reason, shown=True):
                unranked[job.submission.team_id] = _unranked(job, reason)
            case _:
                pass
        if _holds(job) and job.submission.problem_version == problem.version:
            held.setdefault(job.submission.team_id, set()).update(_marks(job.submission))
    standing: list[tuple[Pool, tuple[Pool, ...]]] = []
    for team, runs in counted.items():
        pools = _pools(runs)
        stable = tuple(pool for pool in pools if not is_unstable(pool.found))
        if stable:
            standing.append((_standing(stable), pools))
        else:
            latest = pools[-1]
            entry = _unranked(latest.jobs[-1], UNSTABLE)
            unranked[team] = replace(
                entry,
                submission_ids=_ids(latest),
                claim=latest.claim,
                received_at=latest.received_at,
            )
    ranked = _banded(standing, _best_kernel(everyone, problem), problem)
    teams = {entry.team_id for entry in ranked}
    rest = [entry for team, entry in unranked.items() if team not in teams]
    return (*ranked, *sorted(rest, key=lambda entry: entry.submission_ids))


def _pools(runs: Sequence[tuple[FinishedJob, RunNumbers]]) -> tuple[Pool, ...]:
    """A team's runs by kernel, the kernel with the latest submission last.

    Runs are of one kernel where their files are equal, or their sources but for comments and layout;
    also where a third run links them so. runs: by submission id.
    """
    groups: list[tuple[set[str], list[tuple[FinishedJob, RunNumbers]]]] = []
    for job, numbers in runs:
        marks = _marks(job.submission)
        members = [(job, numbers)]
        for group in [group for group in groups if group[0] & marks]:
            groups.remove(group)
            marks |= group[0]
            members += group[1]
        groups.append((marks, members))
    pools = [_pool(members) for _, members in groups]
    return tuple(sorted(pools, key=lambda pool: pool.latest))


def _marks(submission: Submission) -> set[str]:
    """What a kernel is known by: two submissions with a common mark are of one kernel."""
    source = {f"source {submission.sameness}"} if submission.sameness else set()
    return {f"files {submission.digest}", *source}


def _holds(job: FinishedJob) -> bool:
    return job.held and job.outcome is not None and not job.outcome.verdict.is_ours


def _pool(members: Sequence[tuple[FinishedJob, RunNumbers]]) -> Pool:
    """The runs of one kernel as one, in any order."""
    members = sorted(members, key=lambda member: member[0].submission.id)
    values = [value for _, numbers in members for value in numbers.values]
    found = pooled([numbers.values for _, numbers in members])
    at_least = any(numbers.claim.at_least for _, numbers in members)
    made = replace(_claim(members[-1][1].claim, found), pairs=len(values), at_least=at_least)
    return Pool(tuple(job for job, _ in members), found, made)


def pooled(runs: Sequence[Sequence[float]]) -> Estimate:
    """The mean over the box pairs of one or more runs, each with 2 or more values.

    Runs of different days differ by more than their pairs do. So the variance of the mean is that
    between the means of the runs, where it is larger than that between the pairs. It keeps the pairs'
    degrees of freedom: that of two runs, which is 1, would make a third of the kernels that ran twice
    unstable.
    """
    found = Estimate.of([value for values in runs for value in values])
    if len(runs) < 2:
        return found
    between = Estimate.of([math.fsum(values) / len(values) for values in runs])
    return replace(found, variance_of_mean=max(found.variance_of_mean, between.variance_of_mean))


def _claim(like: Claim, found: Estimate) -> Claim:
    """A claim like another one, with the numbers of an estimate."""
    low, high = found.interval(LOOK_CONFIDENCE)
    return replace(
        like,
        speedup=math.exp(found.mean),
        low=math.exp(low),
        high=math.exp(high),
        confidence=CONFIDENCE,
    )


def _standing(pools: Sequence[Pool]) -> Pool:
    """The kernel that a team stands with. pools: stable ones, the latest last."""
    standing = pools[0]
    for pool in pools[1:]:
        if pool.claim.high >= standing.claim.low:
            standing = pool
    return standing


def _best_kernel(runs: Sequence[tuple[FinishedJob, RunNumbers]], problem: Problem) -> Pool | None:
    """Every counted run of the best kernel that ships, whoever handed it in, as one."""
    best = problem.best
    if best is None:
        return None
    of_best = [run for run in runs if run[0].submission.digest == best.digest]
    return _pool(of_best) if of_best else None


def _banded(
    standing: Sequence[tuple[Pool, tuple[Pool, ...]]], best_kernel: Pool | None, problem: Problem
) -> tuple[RankedEntry, ...]:
    """The ranked entries in order. standing: of each team its standing kernel, and all of its kernels."""
    by_speed = sorted(standing, key=lambda team: (-team[0].found.mean, team[0].latest))
    bands: list[list[tuple[Pool, tuple[Pool, ...]]]] = []
    for team in by_speed:
        if bands and same_band(bands[-1][0][0].found, team[0].found):
            bands[-1].append(team)
        else:
            bands.append([team])
    entries: list[RankedEntry] = []
    for number, band in enumerate(bands, start=1):
        leader = band[0][0]
        rank = 1 + len(entries)
        of_band = [
            RankedEntry(
                team_id=pool.jobs[-1].submission.team_id,
                team=pool.jobs[-1].team,
                submission_ids=_ids(pool),
                received_at=_receipt(pools, leader),
                claim=pool.claim,
                against_best=_against(pool, best_kernel, problem),
                band=number,
                rank=rank,
                note=_note(pool, pools),
            )
            for pool, pools in band
        ]
        entries += sorted(of_band, key=lambda entry: (entry.received_at, entry.submission_ids))
    return tuple(entries)


def _against(pool: Pool, best_kernel: Pool | None, problem: Problem) -> Claim | None:
    """The claim of a kernel against the best that ships, both measured against the baseline."""
    if best_kernel is None or problem.best is None:
        return None
    made = _claim(pool.claim, pool.found.minus(best_kernel.found))
    return replace(made, baseline=problem.best.name)


def _receipt(pools: Sequence[Pool], leader: Pool) -> datetime:
    """The earliest receipt of a team's submissions that belong in the leader's band."""
    return min(
        pool.received_at
        for pool in pools
        if not is_unstable(pool.found) and same_band(leader.found, pool.found)
    )


def _note(pool: Pool, pools: Sequence[Pool]) -> str:
    latest = pools[-1]
    if latest is pool:
        return ""
    why = "unstable" if is_unstable(latest.found) else "slower"
    return f"stands, since the newer submission {latest.latest} is {why}"


def _ids(pool: Pool) -> tuple[int, ...]:
    return tuple(job.submission.id for job in pool.jobs)


def _unranked(job: FinishedJob, reason: str) -> RankedEntry:
    return RankedEntry(
        team_id=job.submission.team_id,
        team=job.team,
        submission_ids=(job.submission.id,),
        received_at=job.submission.received_at,
        claim=None,
        against_best=None,
        band=None,
        rank=None,
        note=reason,
    )
