"""Promises of net times and scores."""

from __future__ import annotations

import math
from typing import Any

import pytest

from judge.model import Measurement
from judge.scoring import net_time, score

NULLS = tuple(range(480, 521))


def measured(samples: Any, nulls: Any = NULLS, case: str = "a", chain: int = 1) -> Measurement:
    return Measurement(case, False, chain, tuple(samples), tuple(nulls))


def test_net_time_is_the_difference_of_the_medians() -> None:
    time = net_time(measured([9_000, 10_500, 99_000]))
    assert time is not None
    assert (time.ns, time.below_noise) == (10_000, False)


def test_net_time_of_a_chain_is_that_of_one_call() -> None:
    time = net_time(measured([4_500] * 9, chain=4))
    assert time is not None
    assert time.ns == 1_000


def test_net_time_below_the_nulls_half_width_counts_as_that_half_width() -> None:
    time = net_time(measured([501] * 20))
    assert time is not None
    assert time.below_noise
    assert 5 < time.ns < 20


def test_kernel_faster_than_the_null_never_gets_a_time_of_zero_or_less() -> None:
    time = net_time(measured([1] * 20, nulls=[500] * 20))
    assert time is not None
    assert (time.ns, time.below_noise) == (1.0, True)


@pytest.mark.parametrize("bad", [0, -5, math.nan, math.inf, -math.inf, 2**70])
def test_bad_raw_time_in_either_arm_gives_no_net_time(bad: float) -> None:
    assert net_time(measured([1_000, 1_000, bad])) is None
    assert net_time(measured([1_000, 1_000], nulls=[500, bad])) is None


def test_arm_without_samples_gives_no_net_time() -> None:
    assert net_time(measured([])) is None
    assert net_time(measured([1_000], nulls=[])) is None


def test_score_is_the_geometric_mean_over_the_named_cases() -> None:
    found = score([measured([1_500], case="a"), measured([4_500], [500] * 9, case="b")], ["b", "a"])
    assert found is not None
    assert list(found.times) == ["b", "a"]
    assert found.geomean_ns == pytest.approx(2_000)


def test_missing_or_doubled_case_gives_no_score() -> None:
    assert score([measured([1_500])], ["a", "b"]) is None
    assert score([measured([1_500]), measured([1_400])], ["a"]) is None
    assert score([], []) is None


def test_score_names_the_cases_that_are_below_the_noise() -> None:
    found = score([measured([500], case="a"), measured([9_000], case="b")], ["a", "b"])
    assert found is not None
    assert found.below_noise == ("a",)
