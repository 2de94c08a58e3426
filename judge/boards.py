"""Boards as wire bodies: the fold of finished jobs, folded again only when one of theirs ended."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Final

from judge.model import Contest, Entry, Mode, Problem
from judge.ports import JobRecord, Store
from judge.wire import BoardBody, EntryBody
from leaderboard.ranking import standings, timing_cases

PRACTICE: Final = (
    "Practice, not ranked: one benchmark run each, on a machine that may be shared. "
    "A later run may order these times differently."
)

Kind = tuple[str, str, Mode]
"""What a board is of: problem, device, mode."""

Fold = tuple[tuple[int, int] | None, tuple[Entry, ...]]
"""The end after which a board was folded, None for none, and its entries."""


class Boards:
    """Keeps each board's entries until a job of it ends. May be used from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._latest_end: dict[Kind, tuple[int, int]] = {}
        self._folded: dict[tuple[Kind, datetime | None], Fold] = {}
        self._lock = threading.Lock()
        store.on_end(self._note_end)

    def body(
        self, problem: Problem, device: str, mode: Mode, now: datetime, until: datetime | None
    ) -> BoardBody:
        """The board at `now`, or as it stood at `until`."""
        return BoardBody(
            problem=problem.id,
            problem_version=problem.version,
            device=device,
            mode=mode,
            heading=PRACTICE,
            as_of=until or now,
            frozen=until is not None,
            cases=list(timing_cases(problem)),
            entries=[_entry(entry) for entry in self._entries(problem, device, mode, until)],
        )

    def _entries(
        self, problem: Problem, device: str, mode: Mode, until: datetime | None
    ) -> tuple[Entry, ...]:
        kind = (problem.id, device, mode)
        with self._lock:
            # Read before the store is: a job that ends in between is then folded next time.
            latest = self._latest_end.get(kind)
            kept = self._folded.get((kind, until))
            if kept is None or kept[0] != latest:
                finished = self._store.finished(*kind)
                kept = (latest, standings(finished, problem, device, mode, until))
                self._folded[kind, until] = kept
            return kept[1]

    def _note_end(self, record: JobRecord) -> None:
        # One assignment and no lock: this must not wait for a fold. A record's version never comes
        # again, so each end leaves a mark that no fold has seen.
        kind = (record.submission.problem_id, record.device, record.mode)
        self._latest_end[kind] = (record.job_id, record.version)


def frozen_at(contest: Contest, now: datetime) -> datetime | None:
    """The time of the freeze while it lasts: until the contest closes."""
    frozen = contest.freezes is not None and contest.freezes <= now < contest.closes
    return contest.freezes if frozen else None


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
