"""What the box pairs of a ranked run amount to, and what makes one void or held. Pure.

A pair's value is a mean of log ratios of net times, baseline over candidate (`judge.pairs`): 0.01 is one
per cent faster. The spread that matters is that between pairs, since two processes of one code
differ by more than the calls of either. What is told in sentences is fit for contestants: it names no
case, and no time of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from judge.model import Block, Claim, Comparison, Pair
from judge.pairs import (
    CaseNets,
    mean_ratio,
    mean_value,
    nets_alike,
    pair_value,
)
from judge.scoring import NetTime
from judge.stats import Estimate, geometric_mean, trimmed_mean

__all__ = [
    "CONFIDENCE",
    "GUARD_PAIRS",
    "LOOKS",
    "LOOK_CONFIDENCE",
    "UNSTABLE_HALF_WIDTH",
    "below_floor",
    "claim",
    "counted_pairs",
    "disagreement",
    "drift",
    "findings",
    "is_unstable",
    "next_look",
    "pair_value",
    "pair_values",
    "pairs_of",
    "same_band",
    "void_before",
]

LOOKS: Final = (8, 12, 20, 32)
"""After how many candidate pairs it is looked whether the interval is narrow enough."""

GUARD_PAIRS: Final = 4
"""Pairs of the baseline against its copy, before the candidate's and after them."""

CONFIDENCE: Final = 0.99
"""Of every interval that is published or decides something."""

LOOK_CONFIDENCE: Final = 1 - (1 - CONFIDENCE) / len(LOOKS)
"""Of the interval at each look, so that all of them together hold `CONFIDENCE` (Bonferroni)."""

NARROW_HALF_WIDTH: Final = 0.004
"""A look whose interval is this narrow is the last."""

UNSTABLE_HALF_WIDTH: Final = 0.01
"""An entry with a wider interval is not ranked."""

VOID_RATIO: Final = 0.01
"""How far the baseline may be from its copy, or from itself while the candidate ran."""

DISAGREEING_RATIO: Final = 0.02
"""How far the ratio of trimmed means may be from the ratio of medians."""


def pairs_of(comparison: Comparison, block: Block) -> tuple[Pair, ...]:
    """The pairs of a block that count: those of its last series."""
    pairs = [pair for pair in comparison.pairs if pair.block is block]
    last = max((pair.series for pair in pairs), default=0)
    return tuple(pair for pair in pairs if pair.series == last)


def pair_values(comparison: Comparison) -> dict[tuple[Block, int], tuple[float | None, ...]]:
    """The value of every pair by block and series, in the order they were run; void series too."""
    values: dict[tuple[Block, int], tuple[float | None, ...]] = {}
    for pair in comparison.pairs:
        before = values.get((pair.block, pair.series), ())
        values[pair.block, pair.series] = (*before, pair_value(pair))
    return values


def next_look(values: Sequence[float], fitting: int) -> int | None:
    """How many candidate pairs to go on to, or None to stop.

    values: of the candidate pairs so far, in order. fitting: how many candidate pairs fit before the
    ceiling, those already run included. Between looks the next one is still meant, unless it no
    longer fits.
    """
    done = len(values)
    if done in LOOKS and Estimate.of(values).half_width(LOOK_CONFIDENCE) <= NARROW_HALF_WIDTH:
        return None
    following = next((look for look in LOOKS if look > done), None)
    return following if following is not None and following <= fitting else None


def counted_pairs(comparison: Comparison) -> tuple[Pair, ...]:
    """The candidate pairs up to the last completed look, behind every number of the run.

    None of them where no look was completed, or where one has no valid times of the same cases.
    """
    pairs = pairs_of(comparison, Block.CANDIDATE)
    counted = pairs[: max((look for look in LOOKS if look <= len(pairs)), default=0)]
    return counted if nets_alike(counted) is not None else ()


def claim(comparison: Comparison, device: str, workload: str) -> Claim | None:
    """The speedup of a ranked run over its baseline, or None where it has no valid one.

    device: on which it ran. workload: which cases, such as `topk, 4 secret cases`. There is none
    where no look was completed, a raw time is no time, or the machine could not tell the baseline
    from its copy beforehand. `findings` says what else stands against it.
    """
    nets = nets_alike(counted_pairs(comparison))
    if nets is None or void_before(pairs_of(comparison, Block.BEFORE)):
        return None
    found = Estimate.of([mean_value(each) for each in nets])
    at_least = any(net.candidate.below_noise for each in nets for net in each)
    count = f"{len(nets[0])} case{'s' if len(nets[0]) > 1 else ''}"
    axis = f"time per call, geometric mean of {count}"
    low, high = found.interval(LOOK_CONFIDENCE)
    return Claim(
        speedup=math.exp(found.mean),
        low=math.exp(low),
        high=math.exp(high),
        confidence=CONFIDENCE,
        baseline=comparison.baseline,
        workload=workload,
        axis=axis,
        device=device,
        pairs=len(nets),
        at_least=at_least,
    )


def is_unstable(found: Estimate) -> bool:
    """Whether an entry's published interval is too wide for it to be ranked."""
    return found.half_width(LOOK_CONFIDENCE) > UNSTABLE_HALF_WIDTH


def same_band(a: Estimate, b: Estimate) -> bool:
    """Whether two entries cannot be told apart: the interval of their log difference contains 0.

    At the confidence of a look: an estimate whose looks ended where its spread seemed small deserves
    no narrower interval here than in its claim (at 99 % two copies of a kernel are told apart in up
    to 2 % of simulated runs instead of 1 %).
    """
    return a.minus(b).may_be(0.0, LOOK_CONFIDENCE)


def void_before(pairs: Sequence[Pair]) -> str:
    """Why nothing may be measured now: the baseline differs from its own copy. Empty where it does not.

    pairs: one series of the block `before`. Decided before any time of the candidate is read.
    """
    nets = nets_alike(pairs)
    if nets is None:
        return "The baseline was not measured against its own copy: fewer than 2 valid box pairs."
    found = Estimate.of([mean_value(each) for each in nets])
    if not _stands_out(found, VOID_RATIO):
        return ""
    return (
        f"The baseline differs from its own copy by {_told(found)} over {len(nets)} box pairs, so this "
        "machine could not tell kernels apart then."
    )


def drift(comparison: Comparison) -> str:
    """Why a run is held: beside the candidate its baseline was not as fast as without it.

    Compares the baseline in the candidate's pairs with the pairs before, and with those after. The run
    is held where it differs from both blocks in the same direction, from each by over `VOID_RATIO` and
    with a 99 % interval that excludes 0: between the two, or like one of them, is where the speed of a
    machine that wanders by itself mostly is. One value a pair: the mean over its cases of the log
    of the net time, and over both boxes where both are the baseline, since boxes that run together
    share what slows them. Empty where nothing is claimed.
    """
    counted = counted_pairs(comparison)
    if not counted:
        return ""
    beside = nets_alike(counted)
    blocks = [nets_alike(pairs_of(comparison, block)) for block in (Block.BEFORE, Block.GUARD)]
    alone = [nets for nets in blocks if nets is not None]
    if (
        beside is None
        or len(alone) < 2
        or {_cases(nets[0]) for nets in alone} != {_cases(beside[0])}
    ):
        return (
            "The baseline was not measured without the candidate both before and after it, so nobody can "
            "tell whether the candidate slowed it."
        )
    with_candidate = Estimate.of([_log_time([net.baseline for net in nets]) for nets in beside])
    without = [[_log_time(_both_boxes(nets)) for nets in block] for block in alone]
    found = [with_candidate.minus(Estimate.of(block)) for block in without]
    same_way = len({each.mean > 0 for each in found}) == 1
    if not same_way or not all(_stands_out(each, VOID_RATIO) for each in found):
        return ""
    before, after = (_told(each) for each in found)
    return (
        f"Beside the candidate the baseline's time differs by {before} from what it was before, and by "
        f"{after} from what it was after, so the ratio of the two is not to be trusted."
    )


def disagreement(comparison: Comparison) -> str:
    """Why an entry is held: 10 %-trimmed means of its calls tell another ratio than their medians.

    So does a kernel that is fast in some calls only. Compared pair by pair; empty where nothing is
    claimed.
    """
    counted = counted_pairs(comparison)
    medians, trimmed = nets_alike(counted), nets_alike(counted, trimmed_mean)
    if medians is None or trimmed is None:
        return ""
    found = Estimate.of(
        [
            mean_ratio(mean) - mean_ratio(middle)
            for mean, middle in zip(trimmed, medians, strict=True)
        ]
    )
    if not _stands_out(found, DISAGREEING_RATIO):
        return ""
    return (
        f"The speedup by 10 %-trimmed means differs by {_told(found)} from that by medians over "
        f"{len(medians)} box pairs: some calls are much faster than others."
    )


def below_floor(comparison: Comparison) -> str:
    """Why an entry is held: in some case it is faster than this machine can be. Names no case.

    A case's time is the geometric mean over the counted pairs of its net times. Empty where nothing
    is claimed.
    """
    nets = nets_alike(counted_pairs(comparison))
    if nets is None:
        return ""
    for of_case in zip(*nets, strict=True):
        time_ns = geometric_mean([net.candidate.ns for net in of_case])
        if time_ns < comparison.floors_ns.get(of_case[0].case, 0.0):
            return (
                "A case takes less time than its bytes and operations need on this machine at its peak: "
                "either the work is not all done, or the floor is wrong."
            )
    return ""


def findings(comparison: Comparison) -> tuple[str, ...]:
    """Every reason to hold a run for an organizer, in sentences for the author too; none is the rule."""
    reasons = (drift(comparison), disagreement(comparison), below_floor(comparison))
    return tuple(reason for reason in reasons if reason)


def _stands_out(found: Estimate, ratio: float) -> bool:
    """Whether a log ratio is further from 0 than `ratio` allows, and not by chance."""
    return abs(found.mean) > math.log1p(ratio) and not found.may_be(0.0, CONFIDENCE)


def _told(found: Estimate) -> str:
    """A log ratio with its interval, in per cent."""
    low, high = found.interval(CONFIDENCE)
    mean, low, high = (100 * math.expm1(value) for value in (found.mean, low, high))
    return f"{mean:+.2f} % ({100 * CONFIDENCE:.0f} % interval {low:+.2f} % to {high:+.2f} %)"


def _log_time(times: Sequence[NetTime]) -> float:
    return math.log(geometric_mean([time.ns for time in times]))


def _both_boxes(nets: Sequence[CaseNets]) -> list[NetTime]:
    return [time for net in nets for time in (net.baseline, net.candidate)]


def _cases(nets: Sequence[CaseNets]) -> tuple[str, ...]:
    return tuple(net.case for net in nets)
