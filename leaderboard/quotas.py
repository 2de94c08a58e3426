"""Whether one more job fits a quota. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from judge.model import Mode, Refusal
from judge.text import moment


def over_quota(filler: datetime | None, count: int, per_s: int, mode: Mode) -> Refusal | None:
    """Why no further job fits, or None if one does.

    filler: receipt time of the `count`-th newest job that counts in the window that ends now: the one
    that fills the quota, and the first to leave it again. None where there are fewer.
    """
    if count < 1:
        return Refusal("quota_exceeded", f"This contest takes no {mode} submissions.", 429)
    if filler is None:
        return None
    frees_at = filler + timedelta(seconds=per_s)
    if frees_at.microsecond:  # named in whole seconds, and never too early
        frees_at = frees_at.replace(microsecond=0) + timedelta(seconds=1)
    return Refusal(
        "quota_exceeded",
        f"Your team has used its {count} {mode} submissions per {_span(per_s)}. "
        f"The next slot frees at {moment(frees_at)}.",
        429,
    )


def _span(seconds: int) -> str:
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds % size == 0:
            return word if seconds == size else f"{seconds // size} {word}s"
    raise AssertionError("every whole number of seconds is a multiple of one second")
