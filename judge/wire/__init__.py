"""What travels over HTTP: the bodies of the API, and their way to and from the nouns.

Every body forbids unknown fields. Binary content is base64. Times are ISO 8601 with offset.
"""

from judge.wire.admin import (
    BackupBody,
    EventBody,
    HoldBody,
    IntakeBody,
    NewAnnouncementBody,
)
from judge.wire.base import (
    MAX_LOG_CHARS,
    Body,
    ErrorBody,
)
from judge.wire.boards import (
    BoardBody,
    BoardRefBody,
    EntryBody,
    RankedBoardBody,
    RankedEntryBody,
)
from judge.wire.contest import (
    AnnouncementBody,
    CaseBody,
    ContestBody,
    ProblemBody,
    QuotaBody,
)
from judge.wire.outcome import (
    CaseResultBody,
    ComparisonBody,
    DifferenceBody,
    MeasurementBody,
    OutcomeBody,
)
from judge.wire.people import (
    InviteCodesBody,
    InvitesBody,
    NewTokenBody,
    RegisterBody,
    TokenBody,
    TokenInfoBody,
    WhoamiBody,
)
from judge.wire.ranked import (
    ArmsBody,
    PairValueBody,
    RankedBody,
    RunBody,
    SpeedupBody,
)
from judge.wire.runner import (
    AckBody,
    ClaimBody,
    HeartbeatBody,
    HeartbeatReplyBody,
    LeaseBody,
    SourceFileBody,
)
from judge.wire.runners import (
    BeatBody,
    HelloBody,
    QuarantineBody,
    ReinstateBody,
    RingsBody,
    RunnerBody,
    SelfTestBody,
    StandingBody,
)
from judge.wire.submissions import (
    MAX_LISTED,
    ProgressBody,
    ReceiptBody,
    ReceiptKeyBody,
    SubmissionBody,
    SubmissionListBody,
)

__all__ = [
    "MAX_LISTED",
    "MAX_LOG_CHARS",
    "AckBody",
    "AnnouncementBody",
    "ArmsBody",
    "BackupBody",
    "BeatBody",
    "BoardBody",
    "BoardRefBody",
    "Body",
    "CaseBody",
    "CaseResultBody",
    "ClaimBody",
    "ComparisonBody",
    "ContestBody",
    "DifferenceBody",
    "EntryBody",
    "ErrorBody",
    "EventBody",
    "HeartbeatBody",
    "HeartbeatReplyBody",
    "HelloBody",
    "HoldBody",
    "IntakeBody",
    "InviteCodesBody",
    "InvitesBody",
    "LeaseBody",
    "MeasurementBody",
    "NewAnnouncementBody",
    "NewTokenBody",
    "OutcomeBody",
    "PairValueBody",
    "ProblemBody",
    "ProgressBody",
    "QuarantineBody",
    "QuotaBody",
    "RankedBoardBody",
    "RankedBody",
    "RankedEntryBody",
    "ReceiptBody",
    "ReceiptKeyBody",
    "RegisterBody",
    "ReinstateBody",
    "RingsBody",
    "RunBody",
    "RunnerBody",
    "SelfTestBody",
    "SourceFileBody",
    "SpeedupBody",
    "StandingBody",
    "SubmissionBody",
    "SubmissionListBody",
    "TokenBody",
    "TokenInfoBody",
    "WhoamiBody",
]
