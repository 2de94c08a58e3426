"""Boards as wire bodies: the fold of finished jobs, folded again only when one of theirs changed.

What a ranked run's outcome leads to is decided here too, since it depends on the board that stands.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from judge.comparing import CONFIDENCE, findings
from judge.model import (
    Claim,
    Contest,
    Entry,
    JobState,
    Mode,
    Outcome,
    Problem,
    RankedEntry,
    Ruling,
    Verdict,
)
from judge.past import Past
from judge.ports import Store
from judge.records import JobRecord
from judge.wire import BoardBody, EntryBody, RankedBoardBody, RankedEntryBody, SpeedupBody
from leaderboard.ranked import (
    RunNumbers,
    held_with,
    holder,
    ranked_cases,
    ranked_standings,
    run_numbers,
    workload_of,
)
from leaderboard.ranking import standings, timing_cases

PRACTICE: Final = (
    "Practice, not ranked: one benchmark run each, on a machine that may be shared. "
    "A later run may order these times differently."
)

Kind = tuple[str, str, Mode]
"""What a board is of: problem, device, mode."""

Mark = tuple[int, int] | None
"""The change after which a board was folded: job and version; None for none."""


class Boards:
    """Keeps each board's entries until a job of it ends or is held. May be used from any thread."""

    def __init__(self, store: Store, problems: Mapping[str, Problem]) -> None:
        self._store = store
        self._problems = problems
        self._latest_end: dict[Kind, tuple[int, int]] = {}
        self._practice: dict[tuple[Kind, datetime | None], tuple[Mark, tuple[Entry, ...]]] = {}
        self._ranked: dict[tuple[Kind, datetime | None], tuple[Mark, tuple[RankedEntry, ...]]] = {}
        self._outcomes: dict[tuple[int, int], Outcome] = {}
        self._numbers: dict[tuple[int, int], RunNumbers | None] = {}
        self._past: Past | None = None
        self._lock = threading.Lock()
        store.on_end(self._note_end)

    def body(
        self, problem: Problem, device: str, now: datetime, until: datetime | None
    ) -> BoardBody:
        """The practice table at `now`, or as it stood at `until`."""
        kind = (problem.id, device, Mode.BENCHMARK)
        with self._lock:
            # Read before the store is: a job that ends in between is then folded next time.
            latest = self._latest_end.get(kind)
            kept = self._practice.get((kind, until))
            if kept is None or kept[0] != latest:
                finished = self._at(until, kind, self._store.finished(*kind))
                kept = (latest, standings(finished, problem, device, Mode.BENCHMARK, until))
                self._practice[kind, until] = kept
        return BoardBody(
            problem=problem.id,
            problem_version=problem.version,
            device=device,
            mode=Mode.BENCHMARK,
            heading=PRACTICE,
            as_of=until or now,
            frozen=until is not None,
            cases=list(timing_cases(problem)),
            entries=[_entry(entry) for entry in kept[1]],
        )

    def ranked_body(
        self, problem: Problem, device: str, now: datetime, until: datetime | None
    ) -> RankedBoardBody:
        """The ranked board at `now`, or as it stood at `until`."""
        entries = self._ranked_entries(problem, device, until)
        return RankedBoardBody(
            problem=problem.id,
            problem_version=problem.version,
            device=device,
            mode=Mode.RANKED,
            heading=heading_of(problem, device),
            baseline=problem.baseline.name if problem.baseline else None,
            best=problem.best.name if problem.best else None,
            as_of=until or now,
            frozen=until is not None,
            entries=[_ranked_entry(entry) for entry in entries],
        )

    def claim_of(self, record: JobRecord) -> Claim | None:
        """What a finished ranked job claims; None where it claims nothing that could be ranked."""
        problem, outcome = self._problems.get(record.submission.problem_id), record.outcome
        if outcome is None or outcome.verdict is not Verdict.ACCEPTED or problem is None:
            return None
        if problem.version != record.submission.problem_version:
            return None
        with self._lock:
            numbers = self._numbers_of(outcome, problem, record.device)
        return numbers.claim if numbers else None

    def ruling(self, record: JobRecord, outcome: Outcome) -> Ruling:
        """What follows from the outcome of a job, before the store takes it.

        Held, where its times are not to be trusted as they are. Otherwise to be confirmed, where it is
        the first accepted run of its job and would change the band of any team: its own included,
        which has none before its first entry. A run is held too while another of its kernel is.
        """
        problem = self._problems.get(record.submission.problem_id)
        if record.mode is not Mode.RANKED or problem is None or outcome.comparison is None:
            return Ruling()
        if outcome.verdict not in (Verdict.ACCEPTED, Verdict.UNSTABLE_TIMING):
            return Ruling()
        reasons = (*findings(outcome.comparison), *self._held_kernel(record, problem))
        if reasons:
            return Ruling(hold=" ".join(reasons))
        return self._to_confirm(record, outcome, problem)

    def ruling_at_release(self, record: JobRecord) -> Ruling:
        """What follows once the reason that a judged run is held for is gone.

        Held still, where another run of its kernel is held for a reason of its own. Otherwise as `ruling`
        says of a run that nothing speaks against.
        """
        problem, outcome = self._problems.get(record.submission.problem_id), record.outcome
        if record.mode is not Mode.RANKED or problem is None or outcome is None:
            return Ruling()
        reasons = self._held_kernel(record, problem)
        return Ruling(hold=reasons[0]) if reasons else self._to_confirm(record, outcome, problem)

    def held_for(self, record: JobRecord) -> tuple[int, ...]:
        """The submissions that are held because this one is, and for nothing else."""
        problem = self._problems.get(record.submission.problem_id)
        if record.mode is not Mode.RANKED or problem is None:
            return ()
        reason = held_with(record.submission.id)
        with self._lock:
            runs = self._runs(problem, record.device)
        return tuple(run.submission.id for run in runs if run.held and run.hold == reason)

    def _held_kernel(self, record: JobRecord, problem: Problem) -> tuple[str, ...]:
        """Why a run is held for its kernel's sake: one reason or none."""
        with self._lock:
            runs = self._runs(problem, record.device)
        first = holder(record.submission, runs)
        return () if first is None else (held_with(first),)

    def _to_confirm(self, record: JobRecord, outcome: Outcome, problem: Problem) -> Ruling:
        if outcome.verdict is not Verdict.ACCEPTED or record.confirms is not None:
            return Ruling()
        return Ruling(confirm=self._moves_a_band(record, outcome, problem))

    def _moves_a_band(self, record: JobRecord, outcome: Outcome, problem: Problem) -> bool:
        """Whether the board has other bands once this outcome counts."""
        ended = replace(
            record,
            state=JobState.DONE,
            held=False,
            hold="",
            outcome=outcome,
            finished_at=record.submission.received_at,
        )
        device = record.device
        new = run_numbers(outcome, problem, device)
        with self._lock:
            runs = self._runs(problem, device)  # it is among them where it is held
            others = [run for run in runs if run.job_id != record.job_id]

            def numbers_of(each: Outcome) -> RunNumbers | None:
                return new if each is outcome else self._numbers_of(each, problem, device)

            before = ranked_standings(runs, problem, device, None, numbers_of)
            after = ranked_standings([*others, ended], problem, device, None, numbers_of)
        return _bands(before) != _bands(after)

    def _ranked_entries(
        self, problem: Problem, device: str, until: datetime | None
    ) -> tuple[RankedEntry, ...]:
        kind = (problem.id, device, Mode.RANKED)
        with self._lock:
            latest = self._latest_end.get(kind)
            kept = self._ranked.get((kind, until))
            if kept is None or kept[0] != latest:
                entries = ranked_standings(
                    self._at(until, kind, self._runs(problem, device)),
                    problem,
                    device,
                    until,
                    lambda outcome: self._numbers_of(outcome, problem, device),
                )
                kept = (latest, entries)
                self._ranked[kind, until] = kept
            return kept[1]

    def _at(
        self, until: datetime | None, kind: Kind, finished: Sequence[JobRecord]
    ) -> Sequence[JobRecord]:
        """Finished jobs of a board as they stood at `until`."""
        if until is None:
            return finished
        if self._past is None or self._past.until != until:
            self._past = Past(self._store, until)
        return self._past.jobs(*kind, finished)

    def _runs(self, problem: Problem, device: str) -> tuple[JobRecord, ...]:
        """The finished ranked jobs of a board without their times, which are kept as numbers.

        So of each outcome the long list of raw times is read from the store once.
        """
        found = self._store.finished(problem.id, device, Mode.RANKED, self._outcomes)
        for outcome in (record.outcome for record in found):
            if outcome is not None and (outcome.job_id, outcome.attempt) not in self._outcomes:
                self._numbers_of(outcome, problem, device)
                self._outcomes[outcome.job_id, outcome.attempt] = Outcome(
                    outcome.job_id,
                    outcome.attempt,
                    outcome.verdict,
                    message="",
                    isolation=outcome.isolation,
                )
        return found

    def _numbers_of(self, outcome: Outcome, problem: Problem, device: str) -> RunNumbers | None:
        """The numbers of an outcome that the store has: it never changes, so they are made once."""
        key = (outcome.job_id, outcome.attempt)
        if key not in self._numbers:
            self._numbers[key] = run_numbers(outcome, problem, device)
        return self._numbers[key]

    def _note_end(self, record: JobRecord) -> None:
        # One assignment and no lock: this must not wait for a fold. A record's version never comes
        # again, so each end leaves a mark that no fold has seen.
        kind = (record.submission.problem_id, record.device, record.mode)
        self._latest_end[kind] = (record.job_id, record.version)


def heading_of(problem: Problem, device: str) -> str:
    """What a ranked board's numbers are, with everything that they depend on."""
    baseline = problem.baseline.name if problem.baseline else "no baseline"
    workload = workload_of(problem.id, problem.version, ranked_cases(problem))
    return (
        f"Ranked: how many times as fast as {baseline}. Time per call on {device}, geometric mean over "
        f"the cases ({workload}), {100 * CONFIDENCE:g} % intervals over box pairs. Kernels "
        "that these cannot tell from the best of them share a band and its rank."
    )


def frozen_at(contest: Contest, now: datetime) -> datetime | None:
    """The time of the freeze while it lasts: until the contest closes."""
    frozen = contest.freezes is not None and contest.freezes <= now < contest.closes
    return contest.freezes if frozen else None


def _bands(entries: tuple[RankedEntry, ...]) -> dict[int, int]:
    return {entry.team_id: entry.band for entry in entries if entry.band is not None}


def _entry(entry: Entry) -> EntryBody:
    return EntryBody(
        rank=entry.rank,
        team_id=entry.team_id,
        team=entry.team,
        submission_id=entry.submission_id,
        received_at=entry.received_at,
        score_ns=entry.score_ns,
        times_ns=dict(entry.times_ns),
        note=entry.note,
    )


def _ranked_entry(entry: RankedEntry) -> RankedEntryBody:
    return RankedEntryBody(
        rank=entry.rank,
        band=entry.band,
        team_id=entry.team_id,
        team=entry.team,
        submission_ids=list(entry.submission_ids),
        received_at=entry.received_at,
        claim=SpeedupBody.of(entry.claim) if entry.claim else None,
        against_best=SpeedupBody.of(entry.against_best) if entry.against_best else None,
        note=entry.note,
    )
