"""The numbers of box pairs: net times of both arms per case, and what they come to. Pure.

All values are natural logarithms of ratios of times, baseline over candidate: 0.01 is one per cent
faster. Raw times that are no times (zero, negative, not finite, none at all) give None, never a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judge.model import Pair
from judge.scoring import NetTime, net_of
from judge.stats import Estimate, median

Centre = Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class CaseNets:
    """The net time of a call of one case in both boxes of a pair."""

    case: str
    baseline: NetTime
    candidate: NetTime

    @property
    def value(self) -> float:
        """Log ratio, baseline over candidate."""
        return math.log(self.baseline.ns) - math.log(self.candidate.ns)


def nets_of(pair: Pair, centre: Centre = median) -> tuple[CaseNets, ...] | None:
    """The net times of every case of a pair, ordered by the case's name.

    None where there are no cases, where one stands there twice, or where one has no net time: a mean
    over fewer cases than the other pairs' would compare unlike things.
    """
    nets: dict[str, CaseNets] = {}
    for times in pair.cases:
        baseline = net_of(times.baseline_ns, times.null_ns, times.chain, centre)
        candidate = net_of(times.candidate_ns, times.null_ns, times.chain, centre)
        if baseline is None or candidate is None or times.case in nets:
            return None
        nets[times.case] = CaseNets(times.case, baseline, candidate)
    return tuple(nets[case] for case in sorted(nets)) or None


def mean_value(nets: Sequence[CaseNets]) -> float:
    """The value of a pair: the mean over its cases. Raises ZeroDivisionError for no cases."""
    return math.fsum(net.value for net in nets) / len(nets)


def pair_value(pair: Pair) -> float | None:
    """The mean over the cases of log(net baseline / net candidate), or None for raw times that are none."""
    nets = nets_of(pair)
    return None if nets is None else mean_value(nets)


def case_values(pair: Pair) -> dict[str, float] | None:
    """The log ratio of every case by its name; None as for `pair_value`."""
    nets = nets_of(pair)
    return None if nets is None else {net.case: net.value for net in nets}


def nets_alike(
    pairs: Sequence[Pair], centre: Centre = median
) -> tuple[tuple[CaseNets, ...], ...] | None:
    """The net times of at least 2 pairs that measured the same cases, or None where these are not such."""
    found = tuple(nets for pair in pairs if (nets := nets_of(pair, centre)) is not None)
    kinds = {tuple(net.case for net in nets) for nets in found}
    return found if 2 <= len(found) == len(pairs) and len(kinds) == 1 else None


def estimate(pairs: Sequence[Pair]) -> Estimate:
    """The mean value of pairs, with the spread between them.

    Raises ValueError for fewer than 2 pairs, for a pair without a value, or for unlike cases.
    """
    nets = nets_alike(pairs)
    if nets is None:
        raise ValueError("an estimate needs 2 or more pairs with valid times of the same cases")
    return Estimate.of([mean_value(each) for each in nets])
