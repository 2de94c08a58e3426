"""Ranked runs made up for tests: box pairs with a wanted speedup and spread."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from judge.comparing import GUARD_PAIRS
from judge.model import Block, CaseTimes, Comparison, Outcome, Pair, Verdict

BASELINE_NS = 200_000
NULL_NS = 500
CALLS = 6


@dataclass(frozen=True)
class Made:
    """What a made-up run shall look like.

    spread: standard deviation of a box's speed, as a share. slowed: how much slower the baseline is
    beside the candidate. void_series: series of `before` in which the copy was 5 % slower.
    """

    speedup: float = 2.0
    spread: float = 0.002
    pairs: int = 12
    cases: tuple[str, ...] = ("a", "b", "c", "d")
    slowed: float = 0.0
    void_series: int = 0
    seed: int = 1


def comparison(made: Made) -> Comparison:
    """The raw times of such a run."""
    random = Random(made.seed)

    def box(net_ns: float) -> dict[str, tuple[int, ...]]:
        """Times of every case in one box: its own speed, and a little more spread per call."""
        speed = random.gauss(1.0, made.spread)
        return {
            case: tuple(
                NULL_NS + round(net_ns * number * speed * random.gauss(1.0, made.spread / 3))
                for _ in range(CALLS)
            )
            for number, case in enumerate(made.cases, start=1)
        }

    def pair(block: Block, series: int, baseline_ns: float, candidate_ns: float) -> Pair:
        first, second = box(baseline_ns), box(candidate_ns)
        times = (
            CaseTimes(case, 1, first[case], second[case], (NULL_NS,) * CALLS) for case in made.cases
        )
        return Pair(block, series, tuple(times))

    pairs = []
    for series in range(made.void_series + 1):
        copy_ns = BASELINE_NS * (1.05 if series < made.void_series else 1.0)
        pairs += [pair(Block.BEFORE, series, BASELINE_NS, copy_ns) for _ in range(GUARD_PAIRS)]
    beside_ns = BASELINE_NS * (1 + made.slowed)
    candidate_ns = BASELINE_NS / made.speedup
    pairs += [pair(Block.CANDIDATE, 0, beside_ns, candidate_ns) for _ in range(made.pairs)]
    pairs += [pair(Block.GUARD, 0, BASELINE_NS, BASELINE_NS) for _ in range(GUARD_PAIRS)]
    return Comparison("plain torch", tuple(pairs), {})


def outcome(job_id: int, made: Made, attempt: int = 1) -> Outcome:
    """An accepted outcome with such a run."""
    return Outcome(job_id, attempt, Verdict.ACCEPTED, "", comparison=comparison(made))
