"""How values are written for people: the same words and digits in CLI, API texts and pages."""

from __future__ import annotations

from datetime import datetime
from typing import Final

MICRO: Final = 1_000


def microseconds(ns: float | None) -> str:
    """A duration in microseconds with four significant digits, such as `12.34 us`; `-` for None.

    One unit everywhere, so that two times can be compared by eye.
    """
    if ns is None:
        return "-"
    us = ns / MICRO
    digits = 3 if abs(us) < 10 else 2 if abs(us) < 100 else 1 if abs(us) < 1000 else 0
    return f"{us:,.{digits}f} us"


def error_size(value: float | None) -> str:
    """An error with two digits, such as `3.1e-07`; `-` for None."""
    return "-" if value is None else f"{value:.1e}"


def moment(at: datetime) -> str:
    """A time in UTC to the second, such as `2026-03-01 12:00:05 UTC`."""
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def plain(text: str, limit: int = 20_000) -> str:
    """Untrusted text made safe to print: control characters but newline and tab become `?`.

    Characters that reorder or hide text (bidirectional marks, zero width) go as well.
    """
    hidden = "\u200b\u200c\u200d\u2060\ufeff\u061c\u200e\u200f"
    bidi = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    kept = (
        c if c in "\n\t" or (c.isprintable() and c not in bidi and c not in hidden) else "?"
        for c in text[:limit]
    )
    return "".join(kept)
