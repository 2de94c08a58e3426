"""Bearer tokens: 256 random bits, shown once, kept as a hash."""

from __future__ import annotations

import base64
import hashlib
import secrets

PREFIX = "kj_"
"""Makes a leaked token recognisable to people and to secret scanners."""

INVITE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without I, O, 0 and 1, which people confuse."""


def new_token() -> str:
    """A fresh token; 256 bits from the operating system."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


def new_invite() -> str:
    """A fresh invite code that people can read aloud: 100 random bits, `ABCDE-FGHJK-...`."""
    letters = "".join(secrets.choice(INVITE_LETTERS) for _ in range(20))
    return "-".join(letters[at : at + 5] for at in range(0, 20, 5))


def invite_hash(code: str) -> bytes:
    """What is stored of an invite code: SHA-256, whatever the case and the dashes of its spelling."""
    spelled = "".join(code.split()).replace("-", "").upper()
    return hashlib.sha256(spelled.encode("utf-8", "surrogateescape")).digest()


def token_hash(token: str) -> bytes:
    """What is stored of a token: SHA-256. It needs no salt: a token is random in full."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
