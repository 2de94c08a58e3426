"""Bodies about people, tokens and invites."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from judge.model import Role
from judge.wire.base import Body, Name


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
