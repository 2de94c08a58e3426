"""The numbers of box pairs: net times of both arms per case, and what they come to. Pure.

All values are natural logarithms of ratios of times, baseline over candidate: 0.01 is one per cent
faster. Raw times that are no times (zero, negative, not finite, none at all) give None, never a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from judge.model import CaseTimes, Pair
from judge.scoring import NetTime, least_net_ns, net_of
from judge.stats import median, trimmed_mean

Centre = Callable[[Sequence[float]], float]

MIDDLE_HALF: Final = 0.25
"""Share that is trimmed on either side: a turn in which one call was disturbed counts for nothing."""


@dataclass(frozen=True, slots=True)
class CaseNets:
    """The net time of a call of one case in both boxes of a pair, and what the calls say turn by turn.

    value: log ratio, baseline over candidate, of the calls made next to each other: the mean of its
    middle half. Whatever slows the machine for longer than a turn slows both calls of it alike.
    """

    case: str
    baseline: NetTime
    candidate: NetTime
    value: float

    @property
    def ratio(self) -> float:
        """Log ratio of the two net times, whichever calls they come from."""
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
        turns = len(times.baseline_ns)
        unlike = times.case in nets or turns != len(times.candidate_ns)
        if baseline is None or candidate is None or unlike:
            return None
        nets[times.case] = CaseNets(times.case, baseline, candidate, _turn_by_turn(times))
    return tuple(nets[case] for case in sorted(nets)) or None


def _turn_by_turn(times: CaseTimes) -> float:
    null_ns = median(times.null_ns)
    least_ns = least_net_ns(times.null_ns, times.chain)

    def log_net(sample_ns: float) -> float:
        return math.log(max((sample_ns - null_ns) / times.chain, least_ns))

    turns = zip(times.baseline_ns, times.candidate_ns, strict=True)
    return trimmed_mean([log_net(one) - log_net(other) for one, other in turns], MIDDLE_HALF)


def mean_value(nets: Sequence[CaseNets]) -> float:
    """The value of a pair: the mean over its cases. Raises ZeroDivisionError for no cases."""
    return math.fsum(net.value for net in nets) / len(nets)


def mean_ratio(nets: Sequence[CaseNets]) -> float:
    """The mean over the cases of the log ratio of net times. Raises as `mean_value`."""
    return math.fsum(net.ratio for net in nets) / len(nets)


def pair_value(pair: Pair) -> float | None:
    """The mean over the cases of their values, or None for raw times that are none."""
    nets = nets_of(pair)
    return None if nets is None else mean_value(nets)


def nets_alike(
    pairs: Sequence[Pair], centre: Centre = median
) -> tuple[tuple[CaseNets, ...], ...] | None:
    """The net times of at least 2 pairs that measured the same cases, or None where these are not such."""
    found = tuple(nets for pair in pairs if (nets := nets_of(pair, centre)) is not None)
    kinds = {tuple(net.case for net in nets) for nets in found}
    return found if 2 <= len(found) == len(pairs) and len(kinds) == 1 else None
