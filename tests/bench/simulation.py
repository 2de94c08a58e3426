"""What the rules of ranked runs achieve on plain numbers, where the truth is known.

A simulated run draws the values of its box pairs and follows the same stopping rule, interval and band
rule as a real one. It shows what the rules alone do; what this machine's boxes do is measured elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from judge.comparing import LOOK_CONFIDENCE, LOOKS, next_look, same_band
from judge.stats import Estimate
from tests.bench.figures import Row

Noise = Callable[[np.random.Generator, int], np.ndarray]
"""Draws the noise of so many pairs: independent, around 0."""

ONE_PER_CENT = math.log(1.01)
SPREADS = (0.0015, 0.003, 0.006)
"""Standard deviations between box pairs, as log ratios."""

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
    return rows
