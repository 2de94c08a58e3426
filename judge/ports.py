"""The seams of the server: what the rules ask of a store and of a queue.

Implementations: `leaderboard.store.SqlStore` (SQLite, PostgreSQL) and `judge.queue.RqQueue`
(embedded Valkey, any Redis by URL). Every promise below is tested against each of them.
All methods may be called from any thread. Times come in as arguments: no implementation reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from judge.enrolment import RunnerStore
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
from judge.records import Event, HeartbeatReply, Identity, JobRecord, NewSubmission, TokenRecord

Clock = Callable[[], datetime]
"""Gives the current time, aware, UTC. The server's is the only clock that counts."""


class StoreError(Exception):
    """The store failed: our fault, never a contestant's."""


class QueueError(Exception):
    """The queue could not be reached; the sweeper will ring again."""


class Store(RunnerStore, Protocol):
    """All that must survive. History is appended as events; rows are its current fold.

    A method that returns `X | Refusal` has changed nothing when it returns a Refusal.
    """

    # --- people
    def register(
        self,
        name: str,
        invite_hash: bytes | None,
        token_hash: bytes,
        now: datetime,
        team_size: int | None = None,
    ) -> Identity | Refusal:
        """Make a user (and their team, or join the invite's team) and their first token.

        invite_hash: SHA-256 of the code, or None where the contest needs none. A code works once.
        team_size: the most members the invite's team may have; None for no limit.
        Refuses: invite_unknown, invite_used, name_taken, team_full.
        """

    def add_invites(self, hashes: Sequence[bytes], team: str | None, now: datetime) -> None: ...

    def add_token(
        self,
        token_hash: bytes,
        role: Role,
        label: str,
        now: datetime,
        user_id: int | None = None,
        device: str | None = None,
    ) -> TokenRecord: ...

    def identify(self, token_hash: bytes) -> Identity | None:
        """Whom the token speaks for; None if unknown or revoked. Must be fast: every request asks."""

    def tokens(self, user_id: int | None) -> tuple[TokenRecord, ...]:
        """Tokens of one user, or all for None."""

    def revoke_token(self, token_id: int, now: datetime) -> bool: ...

    # --- problems
    def open_problem(
        self, problem: Problem, secret: Sequence[Case], now: datetime
    ) -> tuple[Case, ...] | Refusal:
        """Record a problem version as open, with its secret cases; idempotent.

        Returns the secret cases that stand (those stored first, if it was open already).
        Refuses with problem_changed where the same id and version is open under another digest.
        """

    def secret_cases(self, problem_id: str, version: int) -> tuple[Case, ...]: ...

    # --- submissions and jobs
    def add_submission(
        self, new: NewSubmission, quota: tuple[int, int] | None
    ) -> Future[JobRecord | Refusal]:
        """Store files, submission, job (queued) and its event in one durable transaction.

        The future is done once that is on disk, so that thousands may wait without a thread each. It may
        be cancelled until the writing begins.

        quota: (count, per_s) for this team and mode, or None. Jobs that are charged, or pending and not
        cancelled, count if received within `per_s` before `new.received_at`. Checked atomically.
        Refuses: quota_exceeded (429, says when the next slot frees).
        """

    def record(self, submission_id: int) -> JobRecord | None: ...

    def record_of_job(self, job_id: int) -> JobRecord | None: ...

    def files(self, submission_id: int) -> tuple[SourceFile, ...]: ...

    def history(
        self, team_id: int | None, problem_id: str | None, before: int | None, limit: int
    ) -> tuple[JobRecord, ...]:
        """Newest first, ids below `before`; None means all. Raw logs left out."""

    def unfinished(self, device: str | None = None) -> tuple[JobRecord, ...]:
        """Queued and running jobs, by id."""

    def front(self) -> tuple[JobRecord, ...]:
        """Of each team what runs and, for each device and mode, the oldest queued job: by id.

        `rules.ready_jobs` finds the same in them as among all the unfinished ones.
        """

    def claim(
        self, job_id: int, runner: str, now: datetime, lease_until: datetime
    ) -> JobRecord | Refusal:
        """Give a queued job, or one whose lease ran out, to a runner: attempt + 1.

        Refuses: job_unknown, job_final, job_leased (someone else's lease lives), team_busy (another job
        of the team runs), attempts_used_up (it is ended as judge error and held).
        """

    def heartbeat(
        self,
        job_id: int,
        attempt: int,
        progress: Progress,
        loaded: bool,
        now: datetime,
        lease_until: datetime,
    ) -> HeartbeatReply:
        """Renew the lease of the current attempt; `loaded` charges the quota, once."""

    def finish(
        self,
        job_id: int,
        attempt: int,
        outcome: Outcome,
        now: datetime,
        ruling: Ruling = Ruling(),  # noqa: B008  (immutable)
    ) -> JobRecord | Refusal:
        """Take the outcome of the current attempt.

        Where the ruling asks for a confirmation the job is queued once more, at no further charge, and
        the next outcome ends it whatever its ruling says of confirming.

        A judge error gives the quota back, and so does unstable timing of a comparison that was void
        before the candidate started; any other verdict charges it, if it is not yet. A judge error
        below the attempt limit puts the job back in the queue instead of ending it. Attempts count
        anew from a confirmation on.
        Refuses: job_unknown, stale_attempt, job_final. A refused outcome is kept as an event.
        """

    def release_lost(self, now: datetime) -> tuple[int, ...]:
        """Put jobs whose lease ran out back in the queue (or end them, attempts used up); their ids.

        Either way the quota is given back.
        """

    def give_up(self, job_id: int, why: str, now: datetime) -> JobRecord | Refusal:
        """End a queued job that cannot be judged any more, as judge error and held; gives quota back.

        why: the sentence its author is told. Refuses: job_unknown, job_final, job_leased.
        """

    def cancel(
        self, submission_id: int, now: datetime, even_confirming: bool = True
    ) -> JobRecord | Refusal:
        """Cancel a queued or running job.

        even_confirming: also one that waits for its confirmation, or runs it.
        Refuses: job_final, confirming.
        """

    def moderate(
        self,
        submission_id: int,
        hold: str,
        by: int,
        now: datetime,
        ruling: Ruling = Ruling(),  # noqa: B008  (immutable)
    ) -> JobRecord | Refusal:
        """Hold a judged submission back from its board, or let it go where `hold` is empty.

        What stands so already is left as it is, without an event. by: the organizer's token id.
        ruling: what follows from letting it go: another hold, or, of an accepted ranked run that
        nobody confirmed yet, that the job is queued once more as by `finish`.
        Refuses: submission_unknown, job_unfinished.
        """

    def runs(self, submission_id: int) -> tuple[Outcome, ...]:
        """The outcomes of every attempt that handed one in, in their order, logs included."""

    # --- history
    def append(
        self, kind: str, subject: Mapping[str, int], body: Mapping[str, Any], now: datetime
    ) -> Event: ...

    def events(
        self, kinds: Sequence[str] | None, after: int, limit: int, until: datetime | None = None
    ) -> tuple[Event, ...]:
        """In order of seq, those above `after`, not later than `until`."""

    def finished(
        self,
        problem_id: str,
        device: str,
        mode: Mode,
        known: Mapping[tuple[int, int], Outcome] = MappingProxyType({}),
    ) -> tuple[JobRecord, ...]:
        """Done jobs of a board's problem, device and mode, by submission id; raw logs left out.

        known: outcomes by job and attempt that the caller keeps, in whatever form: they are handed
        back in their records, and not read again.
        """

    # --- keeping
    def on_change(self, callback: Callable[[int], None]) -> None:
        """Have `callback` called with the submission's id after each change of its record.

        Called after commit, on the thread that asked for the change: it must be quick and not raise.
        """

    def on_end(self, callback: Callable[[JobRecord], None]) -> None:
        """Have `callback` called with the record of each job that ends, before `on_change` is.

        And again with each change of such a record: an organizer's hold or release, which may have
        queued the job once more.
        The promises are those of `on_change`.
        """

    def backup(self, path: str) -> int:
        """Write a consistent copy to a new file; its size in bytes."""

    def close(self) -> None: ...


class Queue(Protocol):
    """A doorbell: it holds job ids, never the truth. Ringing twice for one job is harmless."""

    def ring(self, job_ids: Mapping[int, tuple[str, Mode]]) -> None:
        """Ring for jobs: id to (device, mode). Raises QueueError if the queue cannot be reached."""

    def close(self) -> None: ...
