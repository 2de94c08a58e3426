"""What the box pairs of a ranked run amount to, and what makes one void or held. Pure.

A pair's value is the mean over its cases of the log ratio of net medians, baseline over candidate: 0.01
is one per cent faster. The spread that matters is that between pairs, since two processes of one code
differ by more than the calls of either.
"""

from __future__ import annotations

from typing import Final

from judge.model import Block, Comparison, Pair

LOOKS: Final = (8, 12, 20, 32)
"""After how many candidate pairs it is looked whether the interval is narrow enough."""

GUARD_PAIRS: Final = 4
"""Pairs of the baseline against its copy, before the candidate's and after them."""


def pairs_of(comparison: Comparison, block: Block) -> tuple[Pair, ...]:
    """The pairs of a block that count: those of its last series."""
    pairs = [pair for pair in comparison.pairs if pair.block is block]
    last = max((pair.series for pair in pairs), default=0)
    return tuple(pair for pair in pairs if pair.series == last)
