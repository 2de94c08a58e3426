"""Bodies about the contest and its problems."""

from __future__ import annotations

from datetime import datetime

from judge.model import Case, Mode, Stage
from judge.wire.base import Body, ShortText, StrictValue


class QuotaBody(Body):
    """What one mode allows every team."""

    mode: Mode
    count: int
    per_s: int


class AnnouncementBody(Body):
    """A word from the organizers."""

    at: datetime
    text: ShortText


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
    """A problem as everybody may see it: public cases only.

    baseline: what ranked runs are measured against; None where nothing is ranked. best: the fastest
    shipped kernel, by name.
    """

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
    baseline: str | None = None
    best: str | None = None
