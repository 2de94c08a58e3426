"""What the organizers have said: whether intake is open, and announcements. A fold of events."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from judge.ports import Store
from judge.records import Event, Identity

INTAKE = "intake"
ANNOUNCEMENT = "announcement"


@dataclass(frozen=True, slots=True)
class Notices:
    """The organizers' word as it stands. announcements: (when, text), newest first."""

    intake_open: bool = True
    intake_reason: str = ""
    announcements: tuple[tuple[datetime, str], ...] = ()

    def after(self, event: Event) -> Notices:
        """The notices once an event happened. Events of other kinds change nothing."""
        if event.kind == INTAKE:
            return Notices(event.body["open"], event.body["reason"], self.announcements)
        if event.kind == ANNOUNCEMENT:
            news = ((event.at, event.body["text"]), *self.announcements)
            return Notices(self.intake_open, self.intake_reason, news)
        return self


class NoticeBoard:
    """Keeps the fold of the organizers' events, read once at the start."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._now = Notices()
        self._lock = threading.Lock()
        after = 0
        while events := store.events((INTAKE, ANNOUNCEMENT), after, 1_000):
            for event in events:
                self._now = self._now.after(event)
            after = events[-1].seq

    @property
    def now(self) -> Notices:
        return self._now

    def set_intake(self, is_open: bool, reason: str, at: datetime, by: Identity) -> None:
        """Open or pause intake, durably; the history keeps whose token said so."""
        self._append(INTAKE, {"open": is_open, "reason": reason}, at, by)

    def announce(self, text: str, at: datetime, by: Identity) -> None:
        """Publish an announcement, durably; the history keeps whose token said so."""
        self._append(ANNOUNCEMENT, {"text": text}, at, by)

    def _append(self, kind: str, body: Mapping[str, Any], at: datetime, by: Identity) -> None:
        # One at a time: the fold must see the events in the order of the history, and each of them.
        with self._lock:
            self._now = self._now.after(self._store.append(kind, {"token": by.token_id}, body, at))
