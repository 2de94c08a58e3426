"""Finished jobs as they stood at a past moment: what a frozen board is folded from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from judge.model import JobState, Mode
from judge.ports import Store
from judge.records import JobRecord
from leaderboard.transitions import Happened, Stand, stand_after

KINDS: Final = ("job.finished", "job.confirming", "entry.held", "entry.released")
"""The events that decide whether a job has ended, and whether it is held."""

PAGE: Final = 1_000


class Past:
    """What had ended by `until`, and was held then, whatever organizers have done since.

    Reads each event once. For one thread at a time.
    """

    def __init__(self, store: Store, until: datetime) -> None:
        self.until = until
        self._store = store
        self._read_up_to = 0
        self._stands: dict[int, Stand] = {}
        self._reopened: set[int] = set()

    def jobs(
        self, problem_id: str, device: str, mode: Mode, finished: Iterable[JobRecord]
    ) -> list[JobRecord]:
        """The finished jobs of a board as they stood then. finished: as they stand now.

        Those that ended later are among them as they are. A job that was judged then and was released
        since to be confirmed has the outcome that it had.
        """
        self._read_on()
        jobs = [
            self._then(record) for record in finished if record.submission.id not in self._reopened
        ]
        for submission_id in sorted(self._reopened):
            record = self._store.record(submission_id)
            assert record is not None, "nothing is ever deleted"
            of = (record.submission.problem_id, record.device, record.mode)
            if of == (problem_id, device, mode):
                jobs.append(self._before_it_was_reopened(record))
        return jobs

    def _then(self, record: JobRecord) -> JobRecord:
        stand = self._stands.get(record.submission.id)
        return record if stand is None else replace(record, held=stand.held, hold=stand.hold)

    def _before_it_was_reopened(self, record: JobRecord) -> JobRecord:
        stand = self._stands[record.submission.id]
        runs = self._store.runs(record.submission.id)
        return replace(
            record,
            state=stand.state,
            attempt=stand.attempt,
            held=stand.held,
            hold=stand.hold,
            finished_at=stand.finished_at,
            confirms=stand.confirms,
            outcome=next(run for run in runs if run.attempt == stand.attempt),
        )

    def _read_on(self) -> None:
        while events := self._store.events(KINDS, self._read_up_to, PAGE):
            for event in events:
                submission_id = event.subject["submission"]
                stand = self._stands.get(submission_id, Stand())
                if event.at <= self.until:
                    stand = stand_after(stand, [Happened(event.kind, event.body)], event.at)
                    attempt = event.body.get("attempt", stand.attempt)
                    self._stands[submission_id] = replace(stand, attempt=attempt)
                elif event.kind == "job.confirming" and stand.state is JobState.DONE:
                    self._reopened.add(submission_id)
            self._read_up_to = events[-1].seq
