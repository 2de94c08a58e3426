"""Bodies between server and runners: claim, lease, heartbeat."""

from __future__ import annotations

import base64
from typing import Annotated

from pydantic import StringConstraints

from judge.model import Job, Mode, SourceFile
from judge.wire.base import Body, Name
from judge.wire.contest import CaseBody
from judge.wire.submissions import ProgressBody


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
