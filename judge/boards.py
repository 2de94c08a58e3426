"""Boards as wire bodies: the fold of finished jobs, folded again only when something changed."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Final

from judge.model import Contest, Entry, Mode, Problem
from judge.ports import Store
from judge.wire import BoardBody, EntryBody
from leaderboard.ranking import standings, timing_cases

PRACTICE: Final = (
    "Practice, not ranked: one benchmark run each, on a machine that may be shared. "
    "A later run may order these times differently."
)


class Boards:
    """Keeps each board's entries until a record changes. May be used from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes = 0
        self._folded: dict[
            tuple[str, str, Mode, datetime | None], tuple[int, tuple[Entry, ...]]
        ] = {}
        self._lock = threading.Lock()
        store.on_change(self._note_change)

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
        key = (problem.id, device, mode, until)
        with self._lock:
            # Read before the store is: a change in between is then folded next time.
            changes = self._changes
            kept = self._folded.get(key)
            if kept is None or kept[0] != changes:
                finished = self._store.finished(problem.id, device, mode)
                kept = (changes, standings(finished, problem, device, mode, until))
                self._folded[key] = kept
            return kept[1]

    def _note_change(self, _submission_id: int) -> None:
        self._changes += 1


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
