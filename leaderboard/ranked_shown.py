"""What pages show of ranked boards and runs beyond what their bodies say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from judge.model import Block
from judge.wire import RankedEntryBody, RunBody
from leaderboard.plots import Dots, scatters


@dataclass(frozen=True, slots=True)
class BlockPlot:
    """The box pairs of one series of a block, as a page shows them. broken: those without a value.

    void: it was run again, since it said nothing.
    """

    name: str
    void: bool
    dots: Dots | None
    pairs: int
    broken: int


def lead_of(bands: Sequence[Sequence[RankedEntryBody]]) -> str:
    """Who leads, and whom, in a sentence; empty where nobody is ranked.

    bands: the entries of a board by band, the best first, perhaps with the unranked at the end.
    """
    ranked = [band for band in bands if band[0].band is not None]
    if not ranked:
        return ""
    names = [entry.team for entry in ranked[0]]
    who = f"{names[0]} leads" if len(names) == 1 else f"{len(names)} teams share the lead"
    if len(ranked) == 1:
        return f"{who}."
    next_names = [entry.team for entry in ranked[1]]
    behind = next_names[0] if len(next_names) == 1 else f"the next {len(next_names)} teams"
    return f"{who}, ahead of {behind}."


BLOCKS: Final[Mapping[Block, str]] = {
    Block.BEFORE: "baseline against its copy, before",
    Block.CANDIDATE: "baseline against this submission",
    Block.GUARD: "baseline against its copy, after",
}


def blocks_of(run: RunBody) -> list[BlockPlot]:
    """The series of a run in their order, on one scale, so that their scatter compares by eye."""
    series = [
        (block, number, [pair.speedup for pair in pairs])
        for (block, number), pairs in groupby(run.pairs, lambda pair: (pair.block, pair.series))
    ]
    last = {block: number for block, number, _ in series}
    valid = [[ratio for ratio in ratios if ratio is not None] for _, _, ratios in series]
    # Around 1 where it ought to be 1, around their own mean where nobody knows what it ought to be.
    middles = [None if block is Block.CANDIDATE else 1.0 for block, _, _ in series]
    plots = scatters(list(zip(valid, middles, strict=True)))
    return [
        BlockPlot(
            name=BLOCKS[block],
            void=number < last[block],
            dots=dots,
            pairs=len(ratios),
            broken=ratios.count(None),
        )
        for (block, number, ratios), dots in zip(series, plots, strict=True)
    ]
