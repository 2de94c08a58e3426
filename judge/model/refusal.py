"""Why something was not taken."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something was not taken. code: stable snake_case word; detail: what to do, in a sentence.

    status: the HTTP status that fits (400 malformed, 401, 403, 404, 409, 413, 429, 503).
    """

    code: str
    detail: str
    status: int = 400
