"""Comparisons on plain numbers, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judge.model import Block, CaseTimes, Comparison, Pair

NULL_NS = (500,) * 9
BASELINE_NS = 100_500
"""Raw, so that the net time is 100,000 ns."""


def times(
    candidate: float | Sequence[Any] = BASELINE_NS,
    baseline: float | Sequence[Any] = BASELINE_NS,
    case: str = "a",
    chain: int = 1,
    null: Sequence[Any] = NULL_NS,
) -> CaseTimes:
    """One case of a pair: the given raw samples, or calls that all took the given time.

    As many of those as the other arm has samples, ten where neither has any.
    """
    turns = next((len(arm) for arm in (candidate, baseline) if isinstance(arm, Sequence)), 10)

    def samples(given: float | Sequence[Any]) -> tuple[Any, ...]:
        return tuple(given) if isinstance(given, Sequence) else (round(given),) * turns

    return CaseTimes(case, chain, samples(baseline), samples(candidate), tuple(null))


def pair(*cases: CaseTimes, block: Block = Block.CANDIDATE, series: int = 0) -> Pair:
    return Pair(block, series, cases or (times(),))


def pairs_at(
    speedups: Sequence[float], block: Block = Block.CANDIDATE, baseline_ns: float = 100_000
) -> list[Pair]:
    """One pair of one case per speedup, with this net time of the baseline."""
    return [
        pair(times(500 + baseline_ns / speedup, 500 + baseline_ns), block=block)
        for speedup in speedups
    ]


QUIET = (1.0, 1.001, 0.999, 1.0)
"""Four pairs of the baseline against its copy on a machine that can tell kernels apart."""


def comparison(
    candidate: Sequence[Pair],
    before: Sequence[Pair] | None = None,
    guard: Sequence[Pair] | None = None,
    floors_ns: Mapping[str, float] | None = None,
) -> Comparison:
    """A run of these candidate pairs between quiet pairs of the baseline and its copy."""
    if before is None:
        before = pairs_at(QUIET, Block.BEFORE)
    if guard is None:
        guard = pairs_at(QUIET, Block.GUARD)
    return Comparison("plain torch", (*before, *candidate, *guard), floors_ns or {})
