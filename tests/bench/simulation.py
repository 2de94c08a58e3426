"""What the rules of ranked runs achieve on plain numbers, where the truth is known.

A simulated run draws the values of its box pairs and follows the same stopping rule, interval and band
rule as a real one. It shows what the rules alone do; what this machine's boxes do is measured elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from judge.comparing import GUARD_PAIRS, LOOK_CONFIDENCE, LOOKS, drift, next_look, same_band
from judge.model import Block, CaseTimes, Comparison, Pair
from judge.stats import Estimate
from tests.bench.figures import Row

Noise = Callable[[np.random.Generator, int], np.ndarray]
"""Draws the noise of so many pairs: independent, around 0."""

ONE_PER_CENT = math.log(1.01)
SPREADS = (0.0015, 0.003, 0.006)
"""Standard deviations between box pairs, as log ratios."""

WANDERS = (0.01, 0.02)
"""Standard deviations of a machine's speed that wanders by itself, as log ratios."""

MEMORIES = (0.5, 0.8, 0.9, 0.95)
"""How much of that is left a box pair later; what is new in it comes by chance."""

QUIET = 0.002
"""Standard deviation between the boxes of a quiet machine."""

CHECKING = 3
"""How many box pairs long the correctness cases take, between the first block and the second."""

NULL_NS = (500,) * 9
BASELINE_NS = 100_000_000
"""Net time of a call; long, so that rounding to nanoseconds is no noise."""

BATCHES = 5
RUNS = 400
COPIES = 10


def normal(sd: float) -> Noise:
    return lambda rng, n: rng.normal(0.0, sd, n)


def with_outliers(sd: float) -> Noise:
    """One pair in ten is five times as noisy, as beside a busy neighbour."""
    return lambda rng, n: rng.normal(0.0, sd, n) * np.where(rng.random(n) < 0.1, 5.0, 1.0)


def ranked_run(
    rng: np.random.Generator, truth: float, noise: Noise, fitting: int = max(LOOKS)
) -> Estimate:
    """The estimate of one run. truth: log ratio. fitting: pairs that fit before the ceiling."""
    drawn: list[float] = (truth + noise(rng, max(LOOKS))).tolist()
    values: list[float] = []
    while (more := next_look(values, fitting)) is not None:
        values = drawn[:more]
    return Estimate.of(values)


def wandering_run(
    rng: np.random.Generator,
    wander: float,
    memory: float,
    slowed: float = 0.0,
    pairs: int = LOOKS[1],
) -> Comparison:
    """A run of the baseline against its copy on a machine whose speed wanders as an AR(1) process.

    wander: standard deviation of its log. memory: correlation of the speeds in neighbouring pairs.
    slowed: by how much the baseline is slower beside the candidate, as a log ratio.
    """
    length = 2 * GUARD_PAIRS + CHECKING + pairs
    fresh = wander * math.sqrt(1 - memory**2)
    speeds = [rng.normal(0.0, wander)]
    for step in rng.normal(0.0, fresh, length - 1):
        speeds.append(memory * speeds[-1] + step)

    def block(kind: Block, of_block: Sequence[float], slowed: float = 0.0) -> list[Pair]:
        logs = np.array(of_block)[:, None] + rng.normal(0.0, QUIET, (len(of_block), 2))
        times = NULL_NS[0] + BASELINE_NS * np.exp(logs + np.array([slowed, 0.0]))
        return [
            Pair(kind, 0, (CaseTimes("a", 1, (round(one),), (round(other),), NULL_NS),))
            for one, other in times.tolist()
        ]

    before = block(Block.BEFORE, speeds[:GUARD_PAIRS])
    candidate = block(Block.CANDIDATE, speeds[GUARD_PAIRS + CHECKING : -GUARD_PAIRS], slowed)
    guard = block(Block.GUARD, speeds[-GUARD_PAIRS:])
    return Comparison("plain torch", (*before, *candidate, *guard), {})


def held(runs: Sequence[Comparison]) -> float:
    """The share of runs that are held because the baseline is not as fast beside the candidate."""
    return float(np.mean([drift(run) != "" for run in runs]))


def coverage(runs: Sequence[Estimate], truth: float) -> float:
    """The share of runs whose published interval holds the truth."""
    return float(np.mean([run.may_be(truth, LOOK_CONFIDENCE) for run in runs]))


def ranked_above(some: Sequence[Estimate], others: Sequence[Estimate]) -> float:
    """The share of pairs of runs in which the first ends in a better band than the second."""
    return float(
        np.mean(
            [a.mean > b.mean and not same_band(a, b) for a, b in zip(some, others, strict=True)]
        )
    )


def all_tied(copies: Sequence[Estimate]) -> bool:
    """Whether runs of one kernel all share the band of the best among them."""
    best = max(copies, key=lambda run: run.mean)
    return all(same_band(best, run) for run in copies)


def batch(rng: np.random.Generator, noise: Noise, fitting: int, runs: int) -> dict[str, float]:
    """The figures of one batch by name; shares in per cent."""

    def judged(truth: float) -> list[Estimate]:
        return [ranked_run(rng, truth, noise, fitting) for _ in range(runs)]

    kernel, copy, faster = judged(0.0), judged(0.0), judged(ONE_PER_CENT)
    crowds = [kernel[start : start + COPIES] for start in range(0, runs, COPIES)]
    return {
        "interval holds the truth": 100 * coverage([*kernel, *copy], 0.0),
        "two copies told apart": 100 * (ranked_above(kernel, copy) + ranked_above(copy, kernel)),
        f"{COPIES} copies all tied": 100 * float(np.mean([all_tied(crowd) for crowd in crowds])),
        "1 % faster in a better band": 100 * ranked_above(faster, kernel),
        "1 % faster in a worse band": 100 * ranked_above(kernel, faster),
        "pairs used": float(np.mean([run.dof + 1 for run in kernel])),
    }


BOUNDS = {
    "interval holds the truth": "> 99",
    "two copies told apart": "< 5",
    f"{COPIES} copies all tied": "> 85",
    "1 % faster in a better band": "> 95",
    "1 % faster in a worse band": "< 0.1",
}


def simulation_rows(runs: int = RUNS, batches: int = BATCHES) -> list[Row]:
    """Coverage, false and true ranks, and pairs used, for every spread; one sample per batch.

    runs: ranked runs per kernel and batch. Seeded: the same rows every time.
    """
    longest = max(LOOKS)
    kinds = {f"sd {100 * sd:.2f} %": (normal(sd), longest) for sd in SPREADS}
    kinds["sd 0.30 %, outliers"] = with_outliers(0.003), longest
    kinds["sd 0.60 %, 12 fit"] = normal(0.006), 12
    rows = []
    for kind, (noise, fitting) in kinds.items():
        rng = np.random.default_rng(20260101)
        found = [batch(rng, noise, fitting, runs) for _ in range(batches)]
        for name in found[0]:
            samples = tuple(figures[name] for figures in found)
            unit = "pairs" if name == "pairs used" else "%"
            rows.append(Row(f"simulated, {kind}: {name}", unit, samples, BOUNDS.get(name, "")))
    return rows + wander_rows(runs // 2, batches)


def wander_rows(runs: int, batches: int) -> list[Row]:
    """How many runs are held on machines whose speed wanders, and of a baseline that is slowed."""
    kinds = {
        f"speed wanders by {100 * wander:g} %, memory {memory:g}: honest run held": (
            *(wander, memory, 0.0),
            "< 5" if wander <= WANDERS[0] else "",
        )
        for wander in WANDERS
        for memory in MEMORIES
    }
    kinds["quiet machine: baseline slowed by 3 % held"] = (0.001, 0.9, math.log(1.03), "> 99")
    rows = []
    for kind, (wander, memory, slowed, bound) in kinds.items():
        rng = np.random.default_rng(20260101)
        shares = [
            100 * held([wandering_run(rng, wander, memory, slowed) for _ in range(runs)])
            for _ in range(batches)
        ]
        rows.append(Row(f"simulated, {kind}", "%", tuple(shares), bound))
    return rows
