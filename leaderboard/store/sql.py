"""`judge.ports.Store` on SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from judge.enrolment import Hello, RunnerRecord
from judge.model import (
    Case,
    Mode,
    Outcome,
    Problem,
    Progress,
    Refusal,
    Role,
    Ruling,
    SourceFile,
)
from judge.ports import StoreError
from judge.records import Event, HeartbeatReply, Identity, JobRecord, NewSubmission, TokenRecord
from leaderboard.store import backup, history, jobs, people, problems, runners, submissions
from leaderboard.store.engines import Engines, open_engines
from leaderboard.store.known_tokens import KnownTokens
from leaderboard.store.writer import Writer

T = TypeVar("T")


class SqlStore:
    """One server's store. Reads run on the caller's thread, writes on the one writer thread.

    Tokens are remembered in memory: revoke them through this object, not behind its back.
    """

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._writer = Writer(engines.writer)
        self._known = KnownTokens()
        self._known_names: dict[tuple[int, int], submissions.Names] = {}
        self._on_change: tuple[Callable[[int], None], ...] = ()
        self._on_end: tuple[Callable[[JobRecord], None], ...] = ()

    @classmethod
    def open(cls, url: str) -> SqlStore:
        """Open, and where needed create or migrate, the database at a URL.

        url: `sqlite:///path/to/file` or `postgresql://user@host/name`. Raises StoreError.
        """
        try:
            return cls(open_engines(url))
        except SQLAlchemyError as error:
            raise StoreError(f"The database cannot be opened: {error}") from error

    def close(self) -> None:
        """Write what waits, then let go of the database."""
        self._writer.close()
        self._engines.dispose()

    # --- people

    def register(
        self,
        name: str,
        invite_hash: bytes | None,
        token_hash: bytes,
        now: datetime,
        team_size: int | None = None,
    ) -> Identity | Refusal:
        return self._writer.run(
            lambda c: people.register(c, name, invite_hash, token_hash, now, team_size)
        )

    def add_invites(self, hashes: Sequence[bytes], team: str | None, now: datetime) -> None:
        self._writer.run(lambda c: people.add_invites(c, hashes, team, now))

    def add_token(
        self,
        token_hash: bytes,
        role: Role,
        label: str,
        now: datetime,
        user_id: int | None = None,
        device: str | None = None,
    ) -> TokenRecord:
        return self._writer.run(
            lambda c: people.add_token(c, token_hash, role, label, now, user_id, device)
        )

    def identify(self, token_hash: bytes) -> Identity | None:
        known = self._known.get(token_hash)
        if known is not None:
            return known
        generation = self._known.generation
        identity = self._read(lambda c: people.identify(c, token_hash))
        if identity is not None:
            self._known.remember(token_hash, identity, generation)
        return identity

    def tokens(self, user_id: int | None) -> tuple[TokenRecord, ...]:
        return self._read(lambda c: people.tokens_of(c, user_id))

    def revoke_token(self, token_id: int, now: datetime) -> bool:
        revoked = self._writer.run(lambda c: people.revoke_token(c, token_id, now))
        self._known.forget()
        return revoked

    # --- problems

    def open_problem(
        self, problem: Problem, secret: Sequence[Case], now: datetime
    ) -> tuple[Case, ...] | Refusal:
        return self._writer.run(lambda c: problems.open_problem(c, problem, secret, now))

    def secret_cases(self, problem_id: str, version: int) -> tuple[Case, ...]:
        return self._read(lambda c: problems.secret_cases(c, problem_id, version))

    # --- submissions and jobs

    def add_submission(
        self, new: NewSubmission, quota: tuple[int, int] | None
    ) -> Future[JobRecord | Refusal]:
        names = self._names(new.user_id, new.team_id)
        future = self._writer.start(lambda c: submissions.add(c, new, names, quota))
        future.add_done_callback(self._tell_of_submission)
        return future

    def _tell_of_submission(self, future: Future[JobRecord | Refusal]) -> None:
        """Tell of a submission that is on disk, on the thread that wrote it."""
        if future.cancelled() or future.exception() is not None:
            return
        record = future.result()
        if isinstance(record, JobRecord):
            self._tell((record,))

    def record(self, submission_id: int) -> JobRecord | None:
        return self._read(lambda c: submissions.record(c, submission_id))

    def record_of_job(self, job_id: int) -> JobRecord | None:
        return self._read(lambda c: submissions.record_of_job(c, job_id))

    def files(self, submission_id: int) -> tuple[SourceFile, ...]:
        return self._read(lambda c: submissions.files(c, submission_id))

    def history(
        self, team_id: int | None, problem_id: str | None, before: int | None, limit: int
    ) -> tuple[JobRecord, ...]:
        return self._read(lambda c: submissions.history(c, team_id, problem_id, before, limit))

    def unfinished(self, device: str | None = None) -> tuple[JobRecord, ...]:
        return self._read(lambda c: submissions.unfinished(c, device))

    def front(self) -> tuple[JobRecord, ...]:
        return self._read(submissions.front)

    def claim(
        self, job_id: int, runner: str, now: datetime, lease_until: datetime
    ) -> JobRecord | Refusal:
        def claim(connection: Connection) -> jobs.Written[JobRecord | Refusal]:
            if job_id in jobs.lost(connection, now):
                runners.note_lost(connection, (job_id,), now)
            return jobs.claim(connection, job_id, runner, now, lease_until)

        return self._change(claim)

    def heartbeat(
        self,
        job_id: int,
        attempt: int,
        progress: Progress,
        loaded: bool,
        now: datetime,
        lease_until: datetime,
    ) -> HeartbeatReply:
        sign = jobs.SignOfLife(attempt, progress, loaded, now, lease_until)
        return self._change(lambda c: jobs.heartbeat(c, job_id, sign))

    def finish(
        self,
        job_id: int,
        attempt: int,
        outcome: Outcome,
        now: datetime,
        ruling: Ruling = Ruling(),  # noqa: B008  (immutable)
    ) -> JobRecord | Refusal:
        """Raises ValueError where the outcome is of another job or attempt."""
        if (outcome.job_id, outcome.attempt) != (job_id, attempt):
            raise ValueError(
                f"outcome of job {outcome.job_id} attempt {outcome.attempt} "
                f"given for job {job_id} attempt {attempt}"
            )

        def finish(connection: Connection) -> jobs.Written[JobRecord | Refusal]:
            worked = runners.working_on(connection, job_id)
            answer, changed = jobs.finish(connection, outcome, ruling, now)
            if changed:
                runners.note_verdict(connection, worked, outcome.verdict, now)
            return answer, changed

        return self._change(finish)

    def release_lost(self, now: datetime) -> tuple[int, ...]:
        """Also notes, once a minute, which tokens were used: this is the store's regular call."""
        used = self._known.used_to_note(now)
        if used:
            self._writer.run(lambda c: people.note_use(c, used, now))
        if not self._read(lambda c: jobs.lost(c, now)):
            return ()  # looked at every second: without a loss it must not cost a commit

        def release(connection: Connection) -> jobs.Written[tuple[int, ...]]:
            runners.note_lost(connection, jobs.lost(connection, now), now)
            return jobs.release_lost(connection, now)

        return self._change(release)

    def give_up(self, job_id: int, why: str, now: datetime) -> JobRecord | Refusal:
        return self._change(lambda c: jobs.give_up(c, job_id, why, now))

    def cancel(
        self, submission_id: int, now: datetime, even_confirming: bool = True
    ) -> JobRecord | Refusal:
        return self._change(lambda c: jobs.cancel(c, submission_id, now, even_confirming))

    def moderate(
        self,
        submission_id: int,
        hold: str,
        by: int,
        now: datetime,
        ruling: Ruling = Ruling(),  # noqa: B008  (immutable)
    ) -> JobRecord | Refusal:
        answer, changed = self._writer.run(
            lambda c: jobs.moderate(c, submission_id, hold, by, now, ruling)
        )
        self._tell(changed, of_ended=True)
        return answer

    def runs(self, submission_id: int) -> tuple[Outcome, ...]:
        return self._read(lambda c: jobs.runs(c, submission_id))

    # --- runners

    def greet(
        self, token_id: int, device: str, hello: Hello, now: datetime
    ) -> RunnerRecord | Refusal:
        return self._writer.run(lambda c: runners.greet(c, token_id, device, hello, now))

    def runner(self, token_id: int) -> RunnerRecord | None:
        return self._read(lambda c: runners.runner(c, token_id))

    def runners(self) -> tuple[RunnerRecord, ...]:
        return self._read(runners.everyone)

    def note_seen(self, token_id: int, now: datetime) -> None:
        self._writer.run(lambda c: runners.note_seen(c, token_id, now))

    def quarantine(self, name: str, why: str, by: int, now: datetime) -> RunnerRecord | Refusal:
        return self._writer.run(lambda c: runners.quarantine(c, name, why, by, now))

    def reinstate(self, name: str, by: int, now: datetime) -> RunnerRecord | Refusal:
        return self._writer.run(lambda c: runners.reinstate(c, name, by, now))

    # --- history

    def append(
        self, kind: str, subject: Mapping[str, int], body: Mapping[str, Any], now: datetime
    ) -> Event:
        return self._writer.run(lambda c: history.append(c, kind, subject, body, now))

    def events(
        self, kinds: Sequence[str] | None, after: int, limit: int, until: datetime | None = None
    ) -> tuple[Event, ...]:
        return self._read(lambda c: history.events_after(c, kinds, after, limit, until))

    def finished(
        self,
        problem_id: str,
        device: str,
        mode: Mode,
        known: Mapping[tuple[int, int], Outcome] = MappingProxyType({}),
    ) -> tuple[JobRecord, ...]:
        return self._read(lambda c: submissions.finished(c, problem_id, device, mode, known))

    # --- keeping

    def on_change(self, callback: Callable[[int], None]) -> None:
        self._on_change = (*self._on_change, callback)

    def on_end(self, callback: Callable[[JobRecord], None]) -> None:
        self._on_end = (*self._on_end, callback)

    def backup(self, path: str) -> int:
        """On both engines the copy is an SQLite file that `open` can open. Raises StoreError."""
        try:
            return backup.backup(self._engines, path)
        except SQLAlchemyError as error:
            raise StoreError(f"The backup to {path} failed: {error}") from error

    def _names(self, user_id: int, team_id: int) -> submissions.Names:
        names = self._known_names.get((user_id, team_id))
        if names is None:
            names = self._read(lambda c: submissions.names(c, user_id, team_id))
            self._known_names[user_id, team_id] = names
        return names

    def _read(self, query: Callable[[Connection], T]) -> T:
        try:
            with self._engines.reader.connect() as connection:
                return query(connection)
        except SQLAlchemyError as error:
            raise StoreError(f"The database could not be read: {error}") from error

    def _change(self, operation: Callable[[Connection], jobs.Written[T]]) -> T:
        answer, changed = self._writer.run(operation)
        self._tell(changed)
        return answer

    def _tell(self, changed: Iterable[JobRecord], of_ended: bool = False) -> None:
        """of_ended: the jobs had ended before, even where they have not any more."""
        for record in changed:
            # First those who keep what they read: whoever asks them on the news must find it.
            for on_end in self._on_end if of_ended or record.state.is_final else ():
                on_end(record)
            for on_change in self._on_change:
                on_change(record.submission.id)
