"""How values are written for people: the same words and digits in CLI, API texts and pages."""

from __future__ import annotations

from datetime import UTC, datetime
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


def speedup(ratio: float | None, unit: str = "x") -> str:
    """A ratio with four significant digits, such as `15.62x`; `-` for None.

    Four, since a ranked interval is some tenths of a per cent wide.
    """
    if ratio is None:
        return "-"
    digits = 4 if ratio < 1 else 3 if ratio < 10 else 2 if ratio < 100 else 1
    return f"{ratio:,.{digits}f}{unit}"


def error_size(value: float | None) -> str:
    """An error with two digits, such as `3.1e-07`; `-` for None."""
    return "-" if value is None else f"{value:.1e}"


def moment(at: datetime) -> str:
    """An aware time in UTC to the second, such as `2026-03-01 12:00:05 UTC`."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# Letters and marks by their category, yet nothing is seen of them.
_BLANKS: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)


def is_visible(char: str) -> bool:
    """Whether a character shows itself and nothing else: no control, no mark that hides or reorders
    text, no blank but the space.
    """
    return char.isprintable() and char not in _BLANKS


def plain(text: str, limit: int = 20_000) -> str:
    """Untrusted text made safe to print: what is not visible, but newline and tab, becomes `?`."""
    return "".join(c if c in "\n\t" or is_visible(c) else "?" for c in text[:limit])
