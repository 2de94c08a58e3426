"""Tokens seen lately, so that a request need not ask the database who is speaking."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Lock

from judge.records import Identity

NOTE_USE_EVERY = timedelta(minutes=1)


class KnownTokens:
    """Valid tokens by hash, and which were used since that was last noted. Grows with the tokens
    that exist, not with guesses: an unknown token is never remembered.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._identities: dict[bytes, Identity] = {}
        self._generation = 0
        self._used: set[int] = set()
        self._noted_at: datetime | None = None

    def get(self, token_hash: bytes) -> Identity | None:
        with self._lock:
            identity = self._identities.get(token_hash)
            if identity is not None:
                self._used.add(identity.token_id)
            return identity

    @property
    def generation(self) -> int:
        """Take it before reading a token from the database, and hand it to `remember`."""
        with self._lock:
            return self._generation

    def remember(self, token_hash: bytes, identity: Identity, generation: int) -> None:
        """Keep what was read, unless a token was revoked since: then it may be out of date."""
        with self._lock:
            self._used.add(identity.token_id)
            if generation == self._generation:
                self._identities[token_hash] = identity

    def forget(self) -> None:
        """Read every token anew."""
        with self._lock:
            self._generation += 1
            self._identities.clear()

    def used_to_note(self, now: datetime) -> frozenset[int]:
        """Ids of tokens used since the last time; none until a minute has passed since then."""
        with self._lock:
            early = self._noted_at is not None and now - self._noted_at < NOTE_USE_EVERY
            if early or not self._used:
                return frozenset()
            used = frozenset(self._used)
            self._used.clear()
            self._noted_at = now
            return used
