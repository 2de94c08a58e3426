"""Bodies of the organizer verbs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import StringConstraints

from judge.wire.base import Body, ShortText


class IntakeBody(Body):
    """Open or pause intake; the reason is shown to everybody."""

    open: bool
    reason: ShortText = ""


class NewAnnouncementBody(Body):
    text: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]


class HoldBody(Body):
    """Hold a submission back from its board; the reason is shown to its author."""

    reason: Annotated[ShortText, StringConstraints(min_length=1, strip_whitespace=True)]


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
