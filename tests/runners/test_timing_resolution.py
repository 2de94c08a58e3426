"""How small a difference box pairs tell: numbers without a machine."""

from __future__ import annotations

import math

import pytest

from judge.model import Block, CaseTimes, Pair
from runners.timing.resolution import (
    Pace,
    Series,
    first_calls,
    quantile,
    series_after,
    smallest_difference,
    smallest_differences,
)

ALTERNATING = (0.01, -0.01) * 4
"""Standard deviation sqrt(8/7) %."""


def series(pair_s: float, values: tuple[float, ...] = ALTERNATING) -> Series:
    return Series(pair_s * len(values), pair_s * len(values), 10, values)


def pair(baseline_ns: tuple[int, ...], candidate_ns: tuple[int, ...]) -> Pair:
    nulls = (1,) * (2 * len(baseline_ns))  # one after each call of either box
    return Pair(Block.GUARD, 0, (CaseTimes("c", 1, baseline_ns, candidate_ns, nulls),))


def test_the_spread_is_the_standard_deviation_between_pairs() -> None:
    assert series(1).spread == pytest.approx(0.01 * math.sqrt(8 / 7))


def test_the_smallest_difference_is_the_half_width_of_the_pairs_that_fit() -> None:
    # 20 pairs of 1 s: t(97.5 %, 19) = 2.093
    expected = 2.093024 * 0.01 * math.sqrt(8 / 7) / math.sqrt(20)
    assert smallest_difference([series(1)], 20) == pytest.approx(expected, rel=1e-6)


def test_the_length_of_a_pair_is_chosen_by_time_never_by_its_spread() -> None:
    quiet = (0.001, -0.001) * 4
    short, middle, long = series(0.1, quiet), series(1), series(2, quiet)
    # In 20 s: 200, 20 and 10 pairs; a ranked run has up to 32.
    assert smallest_difference([long, short, middle], 20) == smallest_difference([middle], 20)


def test_no_more_pairs_count_than_a_ranked_run_has() -> None:
    assert smallest_difference([series(0.1)], 20) == smallest_difference([series(0.1)], 60)


def test_where_two_pairs_do_not_fit_nothing_is_claimed() -> None:
    assert smallest_difference([series(15)], 20) is None
    assert set(smallest_differences([series(15)])) == {60}


def test_calls_are_as_many_as_fill_a_pair_and_even() -> None:
    pace = Pace.of(few=(4, 0.2), many=(24, 0.4))
    assert pace.fixed_s == pytest.approx(0.16)
    assert pace.calls_in(0.515) == 34
    assert pace.calls_in(0.5251) == 36


@pytest.mark.parametrize("many_s", [0.4, 0.1])
def test_a_pair_has_a_few_calls_however_short_it_is(many_s: float) -> None:
    assert Pace.of(few=(4, 0.2), many=(24, many_s)).calls_in(0.05) == 4


def test_a_shorter_series_is_the_first_calls_of_the_same_boxes() -> None:
    # Equal over the first 4 calls, twice as fast in the last 4: of the middle half of 8 turns, two each.
    ran = pair((1001,) * 8, (1001,) * 4 + (501,) * 4), 1.0
    even = pair((1001,) * 8, (1001,) * 8), 1.0
    pace = Pace(fixed_s=0.2, call_s=0.1)
    short, whole = (series_after([ran, even], asked, pace) for asked in (1.2, 2.0))
    assert short.calls == 4
    assert short.values == (0.0, 0.0)
    assert short.measured_s == pytest.approx(1.2)
    assert whole.calls == 8
    assert whole.values[0] == pytest.approx(math.log(2) / 2)
    assert whole.measured_s == pytest.approx(2.0)


def test_the_null_kernels_times_are_cut_with_the_others() -> None:
    (times,) = first_calls(pair((9,) * 6, (8,) * 6), 2).cases
    assert (times.baseline_ns, times.candidate_ns, times.null_ns) == ((9, 9), (8, 8), (1,) * 4)


@pytest.mark.parametrize(("share", "found"), [(0.99, 99), (0.5, 50), (1, 100), (0, 1)])
def test_a_quantile_is_a_sample(share: float, found: int) -> None:
    assert quantile(range(100, 0, -1), share) == found


def test_the_quantile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        quantile([], 0.5)
