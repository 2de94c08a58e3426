"""Events: appended by every change, read in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from judge.records import Event
from leaderboard.schema import events, to_us
from leaderboard.store.prepared import Prepared
from leaderboard.store.rows import MAX_ID, event_of, event_row

_INSERT = insert(events)
_NOTE = Prepared(insert(events).inline(), ["at_us", "kind", "subject", "body"])


def append(
    connection: Connection,
    kind: str,
    subject: Mapping[str, int],
    body: Mapping[str, Any],
    now: datetime,
) -> Event:
    row = event_row(kind, subject, body, now)
    key = connection.execute(_INSERT, row).inserted_primary_key
    assert key is not None
    return Event(seq=key[0], at=now, kind=kind, subject=dict(subject), body=dict(body))


def note(
    connection: Connection,
    kind: str,
    subject: Mapping[str, int],
    body: Mapping[str, Any],
    now: datetime,
) -> None:
    """Append an event whose number nobody asks for."""
    _NOTE.run(connection, event_row(kind, subject, body, now))


def events_after(
    connection: Connection,
    kinds: Sequence[str] | None,
    after: int,
    limit: int,
    until: datetime | None,
) -> tuple[Event, ...]:
    query = select(events).where(events.c.seq > min(after, MAX_ID))
    if kinds is not None:
        query = query.where(events.c.kind.in_(kinds))
    if until is not None:
        query = query.where(events.c.at_us <= to_us(until))
    query = query.order_by(events.c.seq).limit(min(limit, MAX_ID))
    return tuple(event_of(row) for row in connection.execute(query))
