"""Promises of the numbers over samples."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.stats import geometric_mean, median, median_interval, relative_spread

TIMES = st.lists(st.integers(1, 2**40), min_size=1, max_size=60)


@given(TIMES)
def test_median_is_that_of_the_standard_library(samples: list[int]) -> None:
    assert median(samples) == statistics.median(samples)


def test_median_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median([])


def test_spread_is_half_the_middle_half_over_the_median() -> None:
    assert relative_spread([90, 100, 100, 100, 110]) == 0.0
    assert relative_spread([80, 90, 100, 110, 120]) == pytest.approx(0.1)


def test_spread_of_three_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        relative_spread([1, 2, 3])


@given(TIMES)
def test_interval_holds_the_sample_median(samples: list[int]) -> None:
    low, high = median_interval(samples)
    assert low <= median(samples) <= high


def test_interval_takes_the_ranks_of_the_binomial_table() -> None:
    # For n = 20 and 99 % the classical table gives the 4th smallest and the 4th largest.
    assert median_interval(list(range(1, 21))) == (4, 17)


def test_interval_of_few_samples_is_their_whole_range() -> None:
    assert median_interval([5, 1, 9]) == (1, 9)


def test_interval_covers_the_true_median_as_often_as_it_says() -> None:
    rng = random.Random(7)
    trials = 2_000
    held = 0
    for _ in range(trials):
        low, high = median_interval([rng.expovariate(1.0) for _ in range(15)], 0.95)
        held += low <= math.log(2) <= high
    assert held / trials >= 0.94


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=50))
def test_geometric_mean_lies_between_least_and_largest(values: list[float]) -> None:
    mean = geometric_mean(values)
    assert min(values) * (1 - 1e-12) <= mean <= max(values) * (1 + 1e-12)


def test_geometric_mean_of_tiny_values_does_not_underflow() -> None:
    assert geometric_mean([1e-300] * 10_000) == pytest.approx(1e-300)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_geometric_mean_refuses_what_is_no_positive_number(bad: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        geometric_mean([1.0, bad])
