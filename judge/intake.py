"""One submission, from what was handed in to a stored job with a signed receipt."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta

from judge.archive import digest_of_files, unpack
from judge.model import Contest, Mode, Problem, Refusal, Role
from judge.notices import NoticeBoard, Notices
from judge.ports import Store
from judge.receipts import ReceiptKey, sign
from judge.records import Identity, JobRecord, NewSubmission, OpenContest
from judge.sameness import sameness
from judge.text import moment
from judge.wire import ReceiptBody

Hindrance = Callable[[str, Mode], Refusal | None]
"""Why nothing of a mode can be judged on a device now, or None: what no problem and no file decides."""


def no_hindrance(device: str, mode: Mode) -> Refusal | None:
    """Hinders nothing."""
    return None


@dataclass(frozen=True, slots=True)
class HandedIn:
    """What a contestant asked for, unchecked, and when it had all arrived.

    uploads: (name, content) pairs, as they came. received_at: by the server's clock.
    """

    problem: str
    device: str
    mode: str
    uploads: tuple[tuple[str, bytes], ...]
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Intake:
    """The door that every submission comes in by: `start`, then `confirm` what the store says.

    hindrance: asked for ranked submissions. A refused submission leaves no trace. May be used from any
    thread.
    """

    opened: OpenContest
    notices: NoticeBoard
    store: Store
    key: ReceiptKey
    hindrance: Hindrance = no_hindrance

    def start(self, handed: HandedIn, identity: Identity) -> Future[JobRecord | Refusal] | Refusal:
        """Check a submission and have it stored; `confirm` what comes of it."""
        new = check(handed, identity, self.opened, self.notices.now, self.hindrance)
        if isinstance(new, Refusal):
            return new
        quota = self.opened.contest.quotas.get(new.mode)
        return self.store.add_submission(new, (quota.count, quota.per_s) if quota else None)

    def confirm(self, stored: JobRecord | Refusal) -> tuple[JobRecord, ReceiptBody] | Refusal:
        """The submission that is on disk with its signed receipt, made before any work starts."""
        return stored if isinstance(stored, Refusal) else (stored, sign(self.key, stored))


def check(
    handed: HandedIn,
    identity: Identity,
    opened: OpenContest,
    notices: Notices,
    hindrance: Hindrance = no_hindrance,
) -> NewSubmission | Refusal:
    """The submission as it may be stored, or the first reason against it. Pure but for `hindrance`.

    The cheap and general reasons come first: who, whether anything is taken now, for what; then the
    files.
    """
    user_id, team_id = identity.user_id, identity.team_id
    if identity.role is not Role.CONTESTANT or user_id is None or team_id is None:
        return Refusal(
            "not_a_contestant",
            f"Only contestants hand in, and this token is {_a(identity.role)}'s: log in with a "
            "contestant's token (`judge login`).",
            403,
        )
    refusal = _closed(opened.contest, notices, handed.received_at)
    if refusal is not None:
        return refusal
    problem = _problem(handed.problem, opened)
    if isinstance(problem, Refusal):
        return problem
    devices = [name for name in opened.contest.devices if name in problem.devices]
    if handed.device not in devices:
        return Refusal(
            "device_unknown", _unknown("device", handed.device, devices, problem.id), 404
        )
    if handed.mode not in list(Mode):
        return Refusal("mode_unknown", _unknown("mode", handed.mode, list(Mode), problem.id))
    mode = Mode(handed.mode)
    if mode is Mode.RANKED:
        refusal = _not_ranked(problem) or hindrance(handed.device, mode)
        if refusal is not None:
            return refusal
    unpacked = unpack(handed.uploads, problem.languages)
    if isinstance(unpacked, Refusal):
        return unpacked
    return NewSubmission(
        user_id=user_id,
        team_id=team_id,
        problem_id=problem.id,
        problem_version=problem.version,
        device=handed.device,
        mode=mode,
        main=unpacked.main,
        digest=digest_of_files(unpacked.files),
        files=unpacked.files,
        received_at=handed.received_at,
        sameness=sameness(unpacked.main, unpacked.files) if mode is Mode.RANKED else "",
    )


def _closed(contest: Contest, notices: Notices, received_at: datetime) -> Refusal | None:
    """Why nothing is taken at that moment. A submission counts from when it had all arrived."""
    if not notices.intake_open:
        reason = f" ({notices.intake_reason})" if notices.intake_reason else ""
        return Refusal(
            "intake_paused",
            f"The organizers have paused intake{reason}: nothing was stored; hand in again when "
            "`judge problems` and the front page no longer say so.",
            503,
        )
    if received_at < contest.opens:
        return Refusal(
            "contest_not_open",
            f"{contest.title} opens at {moment(contest.opens)}, in "
            f"{_duration(contest.opens - received_at)}: hand in then. Until then `judge check FILE` "
            "judges on your own machine.",
            403,
        )
    if received_at >= contest.closes:
        return Refusal(
            "contest_over",
            f"{contest.title} closed at {moment(contest.closes)}, "
            f"{_duration(received_at - contest.closes)} before this arrived: nothing more is taken. "
            "`judge check FILE` still judges on your own machine.",
            403,
        )
    return None


def _problem(name: str, opened: OpenContest) -> Problem | Refusal:
    problem = opened.problems.get(name)
    if problem is None or name not in opened.contest.problems:
        known = list(opened.contest.problems)
        return Refusal("problem_unknown", _unknown("problem", name, known, ""), 404)
    return problem


def _not_ranked(problem: Problem) -> Refusal | None:
    """Why the problem has no ranked runs, or None if it has."""
    if problem.baseline is not None:
        return None
    return Refusal(
        "ranked_not_offered",
        f"{problem.id} names no baseline to measure against, so it has no ranked runs: hand in with "
        "--mode benchmark, which checks the kernel on public and secret cases and times it for practice.",
        409,
    )


def _unknown(noun: str, given: str, known: Sequence[str], problem: str) -> str:
    """The sentence for a word that is not one of those known."""
    where = f" for {problem}" if problem else " in this contest"
    near = difflib.get_close_matches(given, known, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"take one of: {', '.join(known)}."
    return f'There is no {noun} "{given[:40]}"{where}: {hint}'


def _a(role: Role) -> str:
    return f"{'an' if role is Role.ORGANIZER else 'a'} {role}"


def _duration(span: timedelta) -> str:
    """A span with its two largest units, such as `2 d 3 h`, or `5 s`."""
    seconds = max(int(span.total_seconds()), 0)
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts = []
    for name, size in units:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2]) or "0 s"
