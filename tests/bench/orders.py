"""What two ways of judging made of kernels whose true difference is known. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from judge.comparing import CONFIDENCE, is_unstable, same_band
from judge.stats import Estimate, median

FIRST: Final = "first"
NORMAL_99: Final = 2.5758293035489004
"""Quantile of the normal distribution at 99.5 %: the loop's own error is a standard error."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One comparison by box pairs: the log ratio of every pair, and the seconds of measuring."""

    values: tuple[float, ...]
    seconds: float

    @property
    def estimate(self) -> Estimate:
        return Estimate.of(self.values)


@dataclass(frozen=True, slots=True)
class Looped:
    """One run of the usual loop: mean time of a call, its standard error, seconds of its calls."""

    mean_ns: float
    error_ns: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """Every kernel once by each path; by name, such as `first` and `plus_2`."""

    judged: Mapping[str, Judged]
    looped: Mapping[str, Looped]


@dataclass(frozen=True, slots=True)
class Told:
    """What a path says of two kernels.

    difference: log of slow over fast, with half its 99 % interval. is_apart: it puts them in order.
    is_ranked: it ranks both of them.
    """

    difference: float
    half_width: float
    is_apart: bool
    seconds: float
    is_ranked: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One path at one true difference. Shares are of 1.

    wrong: put in order, and in the wrong one; None where no order is right. apart: put in order at
    all, by a better band or, where the path knows no bands, a better number. unranked: one of them
    was too unstable for a rank. bias, spread: of the told log differences against the true one.
    covered: the 99 % interval held the true one. seconds: median measuring of both kernels.
    """

    path: str
    extra_pct: int
    true_difference: float
    count: int
    wrong: float | None
    apart: float
    unranked: float
    bias: float
    spread: float
    covered: float
    seconds: float


def by_pairs(one: Round, slow: str) -> Told:
    """By the bands of ranked boards."""
    fast, slower = one.judged[FIRST], one.judged[slow]
    a, b = fast.estimate, slower.estimate
    found = a.minus(b)
    is_ranked = not is_unstable(a) and not is_unstable(b)
    return Told(
        difference=found.mean,
        half_width=found.half_width(CONFIDENCE),
        is_apart=is_ranked and not same_band(a, b),
        seconds=fast.seconds + slower.seconds,
        is_ranked=is_ranked,
    )


def by_mean(one: Round, slow: str) -> Told:
    """By the loop's mean: the smaller number leads, whatever its error."""
    told = by_error(one, slow)
    return Told(told.difference, told.half_width, told.difference != 0, told.seconds)


def by_error(one: Round, slow: str) -> Told:
    """By the loop's mean and its own error: apart where their 99 % interval excludes 0."""
    fast, slower = one.looped[FIRST], one.looped[slow]
    difference = math.log(slower.mean_ns / fast.mean_ns)
    error = math.hypot(slower.error_ns / slower.mean_ns, fast.error_ns / fast.mean_ns)
    half = NORMAL_99 * error
    return Told(difference, half, abs(difference) > half, fast.seconds + slower.seconds)


PATHS: Final[Mapping[str, Callable[[Round, str], Told]]] = {
    "box pairs, bands": by_pairs,
    "loop, mean alone": by_mean,
    "loop, its own error": by_error,
}


def rows_of(rounds: Sequence[Round], truths: Mapping[int, float]) -> tuple[Row, ...]:
    """Every path at every difference; none without rounds.

    truths: for each difference in per cent its exact log, constant parts of a call included.
    """
    if not rounds:
        return ()
    return tuple(
        _row(path, extra, true, [tell(one, f"plus_{extra}") for one in rounds])
        for extra, true in truths.items()
        for path, tell in PATHS.items()
    )


def _row(path: str, extra: int, true: float, told: Sequence[Told]) -> Row:
    errors = [one.difference - true for one in told]
    mean = math.fsum(errors) / len(errors)
    spread = math.sqrt(math.fsum((e - mean) ** 2 for e in errors) / max(1, len(errors) - 1))
    return Row(
        path=path,
        extra_pct=extra,
        true_difference=true,
        count=len(told),
        wrong=_share([one.is_apart and one.difference < 0 for one in told]) if extra else None,
        apart=_share([one.is_apart for one in told]),
        unranked=_share([not one.is_ranked for one in told]),
        bias=mean,
        spread=spread,
        covered=_share([abs(e) <= one.half_width for e, one in zip(errors, told, strict=True)]),
        seconds=median([one.seconds for one in told]),
    )


def _share(facts: Sequence[bool]) -> float:
    return sum(facts) / len(facts)


def table(rows: Sequence[Row]) -> str:
    """Plain text; a row is one path at one true difference."""
    lines = [
        f"{'true':>6}  {'path':<20}{'n':>4}{'wrong order':>13}{'put apart':>11}{'unranked':>10}"
        f"{'bias':>10}{'spread':>10}{'99 % holds':>12}{'measuring':>11}"
    ]
    for row in rows:
        wrong = "-" if row.wrong is None else f"{row.wrong:.1%}"
        lines.append(
            f"{f'{row.extra_pct} %':>6}  {row.path:<20}{row.count:>4}{wrong:>13}{row.apart:>11.1%}"
            f"{row.unranked:>10.1%}{100 * row.bias:>8.3f} %{100 * row.spread:>8.3f} %{row.covered:>12.1%}"
            f"{row.seconds:>9.2f} s"
        )
    return "\n".join(lines)
