"""Promises of the numbers over samples."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.stats import (
    Estimate,
    geometric_mean,
    median,
    median_interval,
    relative_spread,
    t_quantile,
    trimmed_mean,
)

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


def test_trimmed_mean_leaves_out_a_tenth_at_either_end() -> None:
    assert trimmed_mean([0, *[5] * 7, 6, 10**9]) == (7 * 5 + 6) / 8
    assert trimmed_mean([1, 2, 6]) == 3


def test_trimmed_mean_of_nothing_or_of_all_trimmed_is_refused() -> None:
    with pytest.raises(ValueError, match="needs samples"):
        trimmed_mean([])
    with pytest.raises(ValueError, match="share"):
        trimmed_mean([1, 2], 0.5)


# Abramowitz and Stegun, table 26.10, as far as its three decimals go.
TABLE = {
    1: {0.75: 1.000, 0.95: 6.314, 0.975: 12.706, 0.995: 63.657},
    3: {0.75: 0.765, 0.95: 2.353, 0.975: 3.182, 0.995: 5.841},
    7: {0.75: 0.711, 0.95: 1.895, 0.975: 2.365, 0.995: 3.499},
    11: {0.75: 0.697, 0.95: 1.796, 0.975: 2.201, 0.995: 3.106},
    19: {0.75: 0.688, 0.95: 1.729, 0.975: 2.093, 0.995: 2.861},
    30: {0.75: 0.683, 0.95: 1.697, 0.975: 2.042, 0.995: 2.750},
    120: {0.75: 0.677, 0.95: 1.658, 0.975: 1.980, 0.995: 2.617},
}


@pytest.mark.parametrize("dof", TABLE)
def test_quantiles_of_t_are_those_of_the_published_table(dof: int) -> None:
    assert {p: round(t_quantile(p, dof), 3) for p in TABLE[dof]} == TABLE[dof]


@settings(deadline=None)
@given(st.floats(1e-6, 1 - 1e-6))
def test_quantiles_of_t_are_exact_where_a_closed_form_exists(p: float) -> None:
    assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-9, abs=1e-9)
    two = 2 * (p - 0.5) * math.sqrt(2 / (4 * p * (1 - p)))
    assert t_quantile(p, 2) == pytest.approx(two, rel=1e-9, abs=1e-9)
    # The third closed form, for 4 degrees of freedom (Shaw, 2006).
    spread = 2 * math.sqrt(p * (1 - p))
    four = 2 * math.sqrt(max(math.cos(math.acos(spread) / 3) / spread - 1, 0))
    assert t_quantile(p, 4) == pytest.approx(math.copysign(four, p - 0.5), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("dof", [0.99, 1.5, 2.71, 7.0, 31.9, 1000.5, 1e5])
@pytest.mark.parametrize("p", [0.6, 0.995, 0.99875])
def test_density_up_to_a_quantile_adds_up_to_its_probability(dof: float, p: float) -> None:
    """Simpson's rule over the density, which is another way than the beta function."""
    log_scale = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(math.pi * dof)

    def density(angle: float) -> float:
        # Over t = sqrt(dof) tan(angle), so that long tails are short.
        return math.sqrt(dof) * math.exp(log_scale) * math.cos(angle) ** (dof - 1)

    end, steps = math.atan(t_quantile(p, dof) / math.sqrt(dof)), 2_000
    weights = (1, *(4, 2) * (steps // 2 - 1), 4, 1)
    parts = [w * density(end * step / steps) for step, w in enumerate(weights)]
    assert 0.5 + math.fsum(parts) * end / steps / 3 == pytest.approx(p, abs=1e-9)


def test_quantiles_of_t_mirror_each_other_and_come_to_the_normal_one() -> None:
    assert t_quantile(0.25, 7) == -t_quantile(0.75, 7)
    assert t_quantile(0.5, 7) == 0
    assert t_quantile(0.995, 1e5) == pytest.approx(statistics.NormalDist().inv_cdf(0.995), abs=1e-4)


@pytest.mark.parametrize(("p", "dof"), [(0, 3), (1, 3), (math.nan, 3), (0.9, 0), (0.9, math.nan)])
def test_quantile_of_t_that_does_not_exist_is_refused(p: float, dof: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(p, dof)


def test_estimate_is_the_textbook_one() -> None:
    found = Estimate.of([1.0, 2.0, 3.0, 4.0])
    assert (found.mean, found.dof) == (2.5, 3)
    assert found.variance_of_mean == pytest.approx(5 / 3 / 4)
    # 3.182 from the table, times the standard error 0.6455.
    assert found.half_width(0.95) == pytest.approx(2.054, abs=1e-3)
    assert found.interval(0.95) == pytest.approx((0.446, 4.554), abs=1e-3)


def test_estimate_of_one_value_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        Estimate.of([1.0])


@settings(deadline=None)
@given(st.floats(-1, 1), st.integers(2, 40))
def test_equal_values_are_their_own_mean_with_an_interval_of_no_width(value: float, n: int) -> None:
    found = Estimate.of([value] * n)
    assert found == Estimate(value, 0.0, n - 1)
    assert found.interval(0.99) == (value, value)
    assert found.may_be(value, 0.99)


def test_difference_has_the_freedom_of_welch() -> None:
    """Welch's own bounds: between the smaller of both and their sum, which equal spreads reach."""
    a, b = Estimate(3.0, 4.0, 7), Estimate(1.0, 4.0, 7)
    assert a.minus(b) == Estimate(2.0, 8.0, 14)
    assert Estimate(0.0, 1e-9, 3).minus(Estimate(0.0, 1.0, 19)).dof == pytest.approx(19)
    assert Estimate(0.0, 2.0, 4).minus(Estimate(0.0, 1.0, 9)).dof == pytest.approx(
        9 / (4 / 4 + 1 / 9)
    )


def test_difference_with_values_that_do_not_vary_is_known_too() -> None:
    still = Estimate(1.0, 0.0, 7)
    assert still.minus(Estimate(0.5, 0.0, 3)).interval(0.99) == (0.5, 0.5)
    assert still.minus(Estimate(0.5, 1e-300, 3)).dof == 3


def test_interval_of_a_difference_covers_it_as_often_as_it_says() -> None:
    rng = random.Random(11)
    trials = 2_000
    held = 0
    for _ in range(trials):
        few = Estimate.of([rng.gauss(1.0, 3.0) for _ in range(5)])
        many = Estimate.of([rng.gauss(0.0, 1.0) for _ in range(16)])
        held += few.minus(many).may_be(1.0, 0.95)
    assert 0.94 <= held / trials <= 0.97
