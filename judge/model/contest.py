"""A contest as `contest.toml` declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from judge.model.words import Mode


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `count` charged or pending jobs of one mode per team in any window of `per_s`."""

    count: int
    per_s: int


@dataclass(frozen=True, slots=True)
class Contest:
    """A contest as `contest.toml` declares it.

    problems: ids, in the order they are shown. devices: those a job may ask for.
    team_size: the most members a team may have (1: everybody is a team of one).
    show_sources_after_close: whether sources open to all when the contest ends.
    """

    title: str
    problems: tuple[str, ...]
    devices: tuple[str, ...]
    opens: datetime
    freezes: datetime | None
    closes: datetime
    quotas: Mapping[Mode, Quota]
    team_size: int = 1
    open_registration: bool = False
    show_sources_after_close: bool = False
