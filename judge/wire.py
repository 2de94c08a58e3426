"""What travels over HTTP: the bodies of the API, and their way to and from the nouns.

Every body forbids unknown fields. Binary content is base64. Times are ISO 8601 with offset.
"""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
)

from judge.model import (
    Case,
    CaseResult,
    Difference,
    Job,
    JobState,
    Measurement,
    Mode,
    Outcome,
    Role,
    SourceFile,
    Stage,
    Verdict,
)

Text = Annotated[str, StringConstraints(max_length=20_000)]
ShortText = Annotated[str, StringConstraints(max_length=2_000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64, strip_whitespace=True)]
StrictValue = StrictBool | StrictInt | StrictFloat | StrictStr

MAX_LOG_CHARS = 256 * 1024


class Body(BaseModel):
    """Base of all bodies."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorBody(Body):
    """The one shape of every error: what was wrong and what to do, and a stable word for programs."""

    detail: str
    code: str


# --- people and tokens


class RegisterBody(Body):
    """Take part: `invite` is needed unless the contest has open registration."""

    name: Name
    invite: str | None = None


class TokenBody(Body):
    """A new token, shown once. `token` is the secret."""

    token: str
    token_id: int
    role: Role
    label: str


class NewTokenBody(Body):
    """Ask for a token. Organizers may make runner and organizer tokens, everyone one of their own role."""

    role: Role
    label: Name
    device: str | None = None


class TokenInfoBody(Body):
    """A token without its secret."""

    token_id: int
    role: Role
    label: str
    created_at: datetime
    last_used_at: datetime | None
    revoked: bool


class WhoamiBody(Body):
    """Who the token belongs to."""

    role: Role
    user_id: int | None
    name: str
    team_id: int | None
    team: str | None


class InvitesBody(Body):
    """Make invite codes in bulk."""

    count: Annotated[int, Field(ge=1, le=10_000)]
    team: Name | None = None


class InviteCodesBody(Body):
    """The codes made, each good for one person."""

    codes: list[str]


# --- contest and problems


class QuotaBody(Body):
    """What one mode allows the asking team."""

    mode: Mode
    count: int
    per_s: int
    used: int | None = None


class ContestBody(Body):
    """The contest as everybody may see it. `now` is the server's clock, the only one that counts."""

    title: str
    now: datetime
    opens: datetime
    freezes: datetime | None
    closes: datetime
    devices: list[str]
    problems: list[str]
    quotas: list[QuotaBody]
    intake_open: bool
    intake_reason: str
    announcements: list[AnnouncementBody]


class AnnouncementBody(Body):
    """A word from the organizers."""

    at: datetime
    text: ShortText


class CaseBody(Body):
    """A case as told to people and runners."""

    name: str
    stage: Stage
    values: dict[str, StrictValue]
    secret: bool = False
    calls: int = 1
    chain: int = 1
    cold: bool = False

    @classmethod
    def of(cls, case: Case) -> CaseBody:
        return cls(
            name=case.name,
            stage=case.stage,
            values=dict(case.values),
            secret=case.secret,
            calls=case.calls,
            chain=case.chain,
            cold=case.cold,
        )

    def to_model(self) -> Case:
        return Case(**self.model_dump())


class ProblemBody(Body):
    """A problem as everybody may see it: public cases only."""

    id: str
    title: str
    version: int
    digest: str
    devices: list[str]
    languages: list[str]
    cases: list[CaseBody]
    tolerances: dict[str, tuple[float, str]]
    limits: dict[str, float]
    files: list[str]


# --- submissions


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


class DifferenceBody(Body):
    output: str
    index: list[int]
    got: ShortText
    expected: ShortText


class CaseResultBody(Body):
    """One row of the per-case table. A hidden secret case keeps its verdict word alone."""

    case: str
    stage: Stage
    secret: bool
    verdict: Verdict
    values: dict[str, StrictValue]
    message: Text = ""
    call: int | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    differences: list[DifferenceBody] = []

    @classmethod
    def of(cls, result: CaseResult) -> CaseResultBody:
        return cls(
            case=result.case,
            stage=result.stage,
            secret=result.secret,
            verdict=result.verdict,
            values=dict(result.values),
            message=result.message,
            call=result.call,
            max_abs_error=result.max_abs_error,
            max_rel_error=result.max_rel_error,
            differences=[
                DifferenceBody(
                    output=d.output, index=list(d.index), got=d.got, expected=d.expected
                )
                for d in result.differences
            ],
        )

    def to_model(self) -> CaseResult:
        return CaseResult(
            case=self.case,
            stage=self.stage,
            secret=self.secret,
            verdict=self.verdict,
            values=self.values,
            message=self.message,
            call=self.call,
            max_abs_error=self.max_abs_error,
            max_rel_error=self.max_rel_error,
            differences=tuple(
                Difference(output=d.output, index=tuple(d.index), got=d.got, expected=d.expected)
                for d in self.differences
            ),
        )


Samples = Annotated[list[Annotated[int, Field(ge=-(2**62), le=2**62)]], Field(max_length=100_000)]


class MeasurementBody(Body):
    case: str
    secret: bool
    chain: int
    samples_ns: Samples
    null_samples_ns: Samples

    @classmethod
    def of(cls, m: Measurement) -> MeasurementBody:
        return cls(
            case=m.case,
            secret=m.secret,
            chain=m.chain,
            samples_ns=list(m.samples_ns),
            null_samples_ns=list(m.null_samples_ns),
        )

    def to_model(self) -> Measurement:
        return Measurement(
            case=self.case,
            secret=self.secret,
            chain=self.chain,
            samples_ns=tuple(self.samples_ns),
            null_samples_ns=tuple(self.null_samples_ns),
        )


class OutcomeBody(Body):
    """A runner's word on one attempt; also the stored form, and what the author is shown (redacted)."""

    job_id: int
    attempt: int
    verdict: Verdict
    message: Text
    results: Annotated[list[CaseResultBody], Field(max_length=1_000)] = []
    measurements: Annotated[list[MeasurementBody], Field(max_length=1_000)] = []
    log: Annotated[str, StringConstraints(max_length=MAX_LOG_CHARS)] = ""
    environment: dict[str, ShortText] = {}
    isolation: str = "full"

    @classmethod
    def of(cls, outcome: Outcome) -> OutcomeBody:
        return cls(
            job_id=outcome.job_id,
            attempt=outcome.attempt,
            verdict=outcome.verdict,
            message=outcome.message,
            results=[CaseResultBody.of(r) for r in outcome.results],
            measurements=[MeasurementBody.of(m) for m in outcome.measurements],
            log=outcome.log,
            environment=dict(outcome.environment),
            isolation=outcome.isolation,
        )

    def to_model(self) -> Outcome:
        return Outcome(
            job_id=self.job_id,
            attempt=self.attempt,
            verdict=self.verdict,
            message=self.message,
            results=tuple(r.to_model() for r in self.results),
            measurements=tuple(m.to_model() for m in self.measurements),
            log=self.log,
            environment=self.environment,
            isolation=self.isolation,
        )


class ProgressBody(Body):
    """How far a running job is."""

    stage: Annotated[str, StringConstraints(max_length=32)]
    done: Annotated[int, Field(ge=0)] = 0
    total: Annotated[int, Field(ge=0)] = 0


class SubmissionBody(Body):
    """Everything the asking person may know of one submission.

    place: 1 means next in the queue of its device; None once it runs. eta_s: rough seconds until a
    verdict. version: grows with every change; give it to the wait and event routes.
    geomean_ns: geometric mean of the net medians over all timing cases, secret ones included.
    medians_ns: net median per visible timing case.
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


class SubmissionListBody(Body):
    """Newest first. `next_before`: give it as `before` for the following page."""

    submissions: list[SubmissionBody]
    next_before: int | None


# --- boards


class EntryBody(Body):
    rank: int | None
    team_id: int
    team: str
    submission_id: int
    received_at: datetime
    score_ns: float | None
    times_ns: dict[str, float]
    note: str


class BoardBody(Body):
    """A board. heading says what it is worth: benchmark boards are practice, not ranked."""

    problem: str
    problem_version: int
    device: str
    mode: Mode
    heading: str
    as_of: datetime
    frozen: bool
    cases: list[str]
    entries: list[EntryBody]


class BoardRefBody(Body):
    problem: str
    title: str
    device: str
    entries: int


# --- runners


class ClaimBody(Body):
    """A runner asks for the job whose id rang."""

    runner: Name
    problem_digests: dict[str, str]
    isolation: str


class SourceFileBody(Body):
    name: str
    content_base64: str

    @classmethod
    def of(cls, file: SourceFile) -> SourceFileBody:
        return cls(name=file.name, content_base64=base64.b64encode(file.content).decode())

    def to_model(self) -> SourceFile:
        return SourceFile(self.name, base64.b64decode(self.content_base64))


class LeaseBody(Body):
    """The job, and for how long it is this runner's. Heartbeats renew the lease."""

    job_id: int
    submission_id: int
    problem: str
    problem_digest: str
    device: str
    mode: Mode
    attempt: int
    key_hex: Annotated[str, StringConstraints(min_length=32, max_length=32)]
    main: str
    files: list[SourceFileBody]
    cases: list[CaseBody]
    lease_s: float
    heartbeat_s: float

    @classmethod
    def of(cls, job: Job, lease_s: float, heartbeat_s: float) -> LeaseBody:
        return cls(
            job_id=job.id,
            submission_id=job.submission_id,
            problem=job.problem_id,
            problem_digest=job.problem_digest,
            device=job.device,
            mode=job.mode,
            attempt=job.attempt,
            key_hex=job.key.hex(),
            main=job.main,
            files=[SourceFileBody.of(f) for f in job.files],
            cases=[CaseBody.of(c) for c in job.cases],
            lease_s=lease_s,
            heartbeat_s=heartbeat_s,
        )

    def to_model(self) -> Job:
        return Job(
            id=self.job_id,
            submission_id=self.submission_id,
            problem_id=self.problem,
            problem_digest=self.problem_digest,
            device=self.device,
            mode=self.mode,
            attempt=self.attempt,
            key=bytes.fromhex(self.key_hex),
            main=self.main,
            files=tuple(f.to_model() for f in self.files),
            cases=tuple(c.to_model() for c in self.cases),
        )


class HeartbeatBody(Body):
    """Still at it. `loaded`: a box has been given the submission, so its quota is charged."""

    attempt: int
    progress: ProgressBody
    loaded: bool = False


class HeartbeatReplyBody(Body):
    """stop: the job was cancelled or taken away; end it and send no outcome."""

    stop: bool
    lease_s: float


class AckBody(Body):
    """Done as asked."""

    ok: bool = True
    detail: str = ""


# --- organizers


class IntakeBody(Body):
    """Open or pause intake; the reason is shown to everybody."""

    open: bool
    reason: ShortText = ""


class NewAnnouncementBody(Body):
    text: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]


class BackupBody(Body):
    """Where on the server the copy was written."""

    path: str
    size_bytes: int


class EventBody(Body):
    """One line of the history."""

    seq: int
    at: datetime
    kind: str
    subject: dict[str, int]
    body: dict[str, Any]


ContestBody.model_rebuild()
