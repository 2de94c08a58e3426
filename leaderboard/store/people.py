"""Users, teams, invites and tokens."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, func, insert, or_, select, update

from judge.model import Refusal, Role
from judge.records import Identity, TokenRecord
from leaderboard.schema import from_us, invites, teams, to_us, tokens, users
from leaderboard.store.history import note
from leaderboard.store.rows import optional_time

SHOW_USE_EVERY_US = 60 * 1_000_000

FIRST_LABEL = "first token"


def name_key(name: str) -> str:
    """What two names share if a person would read them as the same name."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def register(
    connection: Connection,
    name: str,
    invite_hash: bytes | None,
    token_hash: bytes,
    now: datetime,
    team_size: int | None,
) -> Identity | Refusal:
    team_id = None
    if invite_hash is not None:
        invite = connection.execute(select(invites).where(invites.c.hash == invite_hash)).first()
        if invite is None:
            return Refusal(
                "invite_unknown",
                "No such invite code. Check it letter by letter, or ask an organizer for one.",
                403,
            )
        if invite.used_by is not None:
            return Refusal(
                "invite_used",
                "This invite code was used already; each is good for one person.",
                409,
            )
        team_id = invite.team_id
    if _user_named(connection, name) or (team_id is None and _team_named(connection, name)):
        return Refusal("name_taken", f"The name {name!r} is taken; choose another.", 409)
    if team_id is None:
        team_id = _add_team(connection, name, now)
    elif team_size is not None and _members(connection, team_id) >= team_size:
        full = "Your invite's team is full: ask for an invite of your own, without a team."
        return Refusal("team_full", full, 409)
    facts = {"team_id": team_id, "name": name, "name_key": name_key(name)}
    user_id = _key(connection.execute(insert(users), {**facts, "created_us": to_us(now)}))
    token = _insert_token(
        connection, token_hash, Role.CONTESTANT, FIRST_LABEL, now, user_id=user_id
    )
    if invite_hash is not None:
        connection.execute(
            update(invites)
            .where(invites.c.hash == invite_hash)
            .values(used_by=user_id, used_us=to_us(now))
        )
    subject = {"user": user_id, "team": team_id, "token": token.id}
    note(connection, "user.registered", subject, {"name": name}, now)
    identity = identify(connection, token_hash)
    assert identity is not None
    return identity


def add_invites(
    connection: Connection, hashes: Sequence[bytes], team: str | None, now: datetime
) -> None:
    """A named team is made at once, so that nobody can take its name before its members come."""
    team_id = None
    if team is not None:
        team_id = _team_named(connection, team) or _add_team(connection, team, now)
    rows = [{"hash": code, "team_id": team_id, "created_us": to_us(now)} for code in hashes]
    if rows:
        connection.execute(insert(invites), rows)
    subject = {} if team_id is None else {"team": team_id}
    note(connection, "invites.added", subject, {"count": len(rows)}, now)


def add_token(
    connection: Connection,
    token_hash: bytes,
    role: Role,
    label: str,
    now: datetime,
    user_id: int | None,
    device: str | None,
) -> TokenRecord:
    token = _insert_token(connection, token_hash, role, label, now, user_id, device)
    subject = {"token": token.id} if user_id is None else {"token": token.id, "user": user_id}
    body = {"role": str(role), "label": label, "device": device}
    note(connection, "token.added", subject, body, now)
    return token


def revoke_token(connection: Connection, token_id: int, now: datetime) -> bool:
    """Whether it was valid until now."""
    revoked = connection.execute(
        update(tokens)
        .where(tokens.c.id == token_id, tokens.c.revoked_us.is_(None))
        .values(revoked_us=to_us(now))
    )
    if revoked.rowcount != 1:
        return False
    note(connection, "token.revoked", {"token": token_id}, {}, now)
    return True


def note_use(connection: Connection, token_ids: Iterable[int], now: datetime) -> None:
    """Note that tokens were used, to the minute."""
    now_us = to_us(now)
    old = or_(tokens.c.last_used_us.is_(None), tokens.c.last_used_us <= now_us - SHOW_USE_EVERY_US)
    statement = update(tokens).where(tokens.c.id == bindparam("token"), old)
    rows = [{"token": token_id, "last_used_us": now_us} for token_id in token_ids]
    if rows:
        connection.execute(statement, rows)


def identify(connection: Connection, token_hash: bytes) -> Identity | None:
    row = connection.execute(_IDENTIFY, {"sought": token_hash}).first()
    if row is None:
        return None
    return Identity(
        token_id=row.id,
        role=Role(row.role),
        label=row.label,
        user_id=row.user_id,
        user=row.user or "",
        team_id=row.team_id,
        team=row.team or "",
        device=row.device,
    )


_IDENTIFY: Select[Any] = (
    select(
        tokens, users.c.name.label("user"), teams.c.id.label("team_id"), teams.c.name.label("team")
    )
    .select_from(
        tokens.outerjoin(users, tokens.c.user_id == users.c.id).outerjoin(
            teams, users.c.team_id == teams.c.id
        )
    )
    .where(tokens.c.hash == bindparam("sought"), tokens.c.revoked_us.is_(None))
)


def tokens_of(connection: Connection, user_id: int | None) -> tuple[TokenRecord, ...]:
    query = select(tokens).order_by(tokens.c.id)
    if user_id is not None:
        query = query.where(tokens.c.user_id == user_id)
    return tuple(_token_record(row) for row in connection.execute(query))


def _insert_token(
    connection: Connection,
    token_hash: bytes,
    role: Role,
    label: str,
    now: datetime,
    user_id: int | None = None,
    device: str | None = None,
) -> TokenRecord:
    facts = {
        "hash": token_hash,
        "role": str(role),
        "label": label,
        "device": device,
        "user_id": user_id,
        "created_us": to_us(now),
    }
    token_id = _key(connection.execute(insert(tokens), facts))
    return TokenRecord(
        id=token_id,
        role=role,
        label=label,
        device=device,
        user_id=user_id,
        created_at=now,
        last_used_at=None,
        revoked_at=None,
    )


def _token_record(row: Row[Any]) -> TokenRecord:
    return TokenRecord(
        id=row.id,
        role=Role(row.role),
        label=row.label,
        device=row.device,
        user_id=row.user_id,
        created_at=from_us(row.created_us),
        last_used_at=optional_time(row.last_used_us),
        revoked_at=optional_time(row.revoked_us),
    )


def _user_named(connection: Connection, name: str) -> int | None:
    return connection.execute(select(users.c.id).where(users.c.name_key == name_key(name))).scalar()


def _team_named(connection: Connection, name: str) -> int | None:
    return connection.execute(select(teams.c.id).where(teams.c.name_key == name_key(name))).scalar()


def _members(connection: Connection, team_id: int) -> int:
    count = select(func.count()).select_from(users).where(users.c.team_id == team_id)
    return connection.execute(count).scalar_one()


def _add_team(connection: Connection, name: str, now: datetime) -> int:
    facts = {"name": name, "name_key": name_key(name), "created_us": to_us(now)}
    return _key(connection.execute(insert(teams), facts))


def _key(result: Any) -> int:
    return int(result.inserted_primary_key[0])
