"""Bodies about submissions: receipt, progress, status."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from judge.model import JobState, Mode, Verdict
from judge.wire.base import Body, Word
from judge.wire.outcome import OutcomeBody
from judge.wire.ranked import RankedBody


class ReceiptBody(Body):
    """Proof of receipt, signed with the server's Ed25519 key before any work starts.

    signature: base64 over the canonical JSON of the other fields (`judge.receipts.canonical`).
    """

    submission_id: int
    job_id: int
    team_id: int
    problem: str
    device: str
    mode: Mode
    sha256: str
    received_at: datetime
    key_id: str
    signature: str


class ReceiptKeyBody(Body):
    """The public half of the server's Ed25519 key. key_id: as receipts name it."""

    key_id: str
    public_key_pem: str


class ProgressBody(Body):
    """How far a running job is."""

    stage: Word
    done: Annotated[int, Field(ge=0)] = 0
    total: Annotated[int, Field(ge=0)] = 0


class SubmissionBody(Body):
    """Everything the asking person may know of one submission.

    place: 1 means next in the queue of its device; None once it runs. eta_s: rough seconds until a
    verdict. version: grows with every change; give it to the wait and event routes.
    geomean_ns: geometric mean of the net medians over all timing cases, secret ones included.
    medians_ns: net median per visible timing case. hold: why an organizer must look at it, or empty.
    confirming: a ranked run has ended and another must confirm it before anything of it is told.
    ranked: what a ranked job came to, once it has ended.
    """

    id: int
    job_id: int
    version: int
    team: str
    author: str
    problem: str
    problem_version: int
    device: str
    mode: Mode
    main: str
    files: list[str]
    sha256: str
    received_at: datetime
    state: JobState
    attempt: int
    held: bool
    progress: ProgressBody | None
    place: int | None
    eta_s: float | None
    runner: str | None
    last_heard_at: datetime | None
    finished_at: datetime | None
    verdict: Verdict | None
    outcome: OutcomeBody | None
    geomean_ns: float | None
    medians_ns: dict[str, float]
    hold: str = ""
    confirming: bool = False
    ranked: RankedBody | None = None


MAX_LISTED = 100
"""The most submissions that one page of history may have."""


class SubmissionListBody(Body):
    """Newest first. `next_before`: give it as `before` for the following page."""

    submissions: list[SubmissionBody]
    next_before: int | None
