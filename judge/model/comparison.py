"""A ranked run: raw times of box pairs, and the speedup they amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Block(StrEnum):
    """The part of a ranked run that a box pair belongs to, in the order they are run.

    before: the baseline against its copy, before any box of the candidate exists. guard: the same,
    after the last of them was killed.
    """

    BEFORE = "before"
    CANDIDATE = "candidate"
    GUARD = "guard"


@dataclass(frozen=True, slots=True)
class CaseTimes:
    """Raw times of one case in one box pair, per call, or per chain where `chain` > 1; nanoseconds.

    candidate_ns: of the baseline's copy outside the candidate's block. The calls alternate baseline,
    candidate, candidate, baseline; the null kernel's lie between.
    """

    case: str
    chain: int
    baseline_ns: tuple[int, ...]
    candidate_ns: tuple[int, ...]
    null_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A fresh baseline box and a fresh candidate box that took turns on every case.

    series: 0, or the number of the repeat where an earlier series of `before` was void.
    """

    block: Block
    series: int
    cases: tuple[CaseTimes, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every box pair of a ranked run in the order they were run, void ones too.

    baseline: name of the problem's baseline. floors_ns: for each case a time that no call can be
    under, from its bytes and operations and this machine's peaks.
    """

    baseline: str
    pairs: tuple[Pair, ...]
    floors_ns: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Claim:
    """A speedup with everything it depends on.

    speedup, low, high: times as fast as the baseline, with the bounds of its interval. axis: what was
    timed and how cases were averaged. workload: which cases. pairs: box pairs behind it. at_least:
    the candidate is too fast to be told from the judge's own path in some case.
    """

    speedup: float
    low: float
    high: float
    confidence: float
    baseline: str
    workload: str
    axis: str
    device: str
    pairs: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """What follows from a ranked run beyond its verdict.

    confirm: it must be run once more, and that run alone counts. hold: why an organizer must look at
    it before it may rank, or empty.
    """

    confirm: bool = False
    hold: str = ""
