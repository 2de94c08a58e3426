"""Promises of what a ranked run's box pairs amount to."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.comparing import (
    LOOK_CONFIDENCE,
    LOOKS,
    claim,
    counted_pairs,
    is_unstable,
    next_look,
    pair_value,
    pair_values,
    pairs_of,
    same_band,
)
from judge.model import Block, CaseTimes, Claim, Comparison, Pair
from judge.stats import Estimate
from tests.judge.comparisons import QUIET, comparison, pair, pairs_at, times

ALTERNATING = (1.049, 1.051)


def claimed(run: Comparison) -> Claim | None:
    return claim(run, "cpu", "topk, 1 secret case")


def test_value_of_a_case_compares_the_calls_that_were_made_next_to_each_other() -> None:
    """The machine slowed down fourfold in the middle, and one call was disturbed."""
    candidate = [10_500, 10_500, 40_500, 40_500, 40_500, 40_500, 10_500, 10**6]
    baseline = [20_500, 20_500, 80_500, 80_500, 80_500, 80_500, 20_500, 20_500]
    assert pair_value(pair(times(candidate, baseline))) == pytest.approx(math.log(2))


def test_arms_with_unlike_numbers_of_calls_have_no_value() -> None:
    assert pair_value(pair(times([20_500, 20_500], [40_500]))) is None


def test_value_of_a_pair_is_the_mean_over_its_cases() -> None:
    both = pair(times(50_500, 100_500, case="a"), times(100_500, 100_500, case="b"))
    assert pair_value(both) == pytest.approx(math.log(2) / 2)


def test_value_of_a_chain_subtracts_the_null_of_the_whole_chain() -> None:
    assert pair_value(pair(times(4_500, 8_500, chain=4))) == pytest.approx(math.log(2))


@pytest.mark.parametrize("bad", [0, -5, math.nan, math.inf, 2**70])
@pytest.mark.parametrize("arm", ["baseline", "candidate", "null"])
def test_raw_time_that_is_no_time_gives_no_value_and_no_claim(bad: float, arm: str) -> None:
    broken = pair(times(**{arm: [1_000, 1_000, bad]}))
    assert pair_value(broken) is None
    assert claimed(comparison([*pairs_at(ALTERNATING * 4)[:7], broken])) is None


def test_pair_without_cases_or_with_a_case_twice_has_no_value() -> None:
    assert pair_value(Pair(Block.CANDIDATE, 0, ())) is None
    assert pair_value(pair(times(), times())) is None


def test_pairs_of_unlike_cases_are_never_averaged() -> None:
    pairs = [*pairs_at(ALTERNATING * 4)[:7], pair(times(case="another"))]
    assert claimed(comparison(pairs)) is None


def test_order_of_cases_within_a_pair_does_not_matter() -> None:
    a, b = times(50_500, case="a"), times(70_500, case="b")
    assert pair_value(pair(a, b)) == pair_value(pair(b, a))
    assert claimed(comparison([pair(a, b), pair(b, a)] * 4)) is not None


TURNS = st.lists(st.tuples(*[st.integers(2_000, 10**9)] * 2), min_size=1, max_size=12)
NULLS = st.lists(st.integers(100, 200), min_size=1, max_size=12)


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
    return pair(*(times(*zip(*draw(TURNS), strict=True), n, 1, draw(NULLS)) for n in names))


def altered(one: Pair, change: Any) -> Pair:
    return replace(one, cases=tuple(change(case) for case in one.cases))


ARMS = ("baseline_ns", "candidate_ns", "null_ns")


@settings(deadline=None)
@given(pairs(), st.integers(2, 1000))
def test_slower_clock_of_both_arms_changes_no_value(one: Pair, factor: int) -> None:
    def scaled(case: CaseTimes) -> CaseTimes:
        arms = {arm: tuple(factor * ns for ns in getattr(case, arm)) for arm in ARMS}
        return replace(case, **arms)

    assert pair_value(altered(one, scaled)) == pytest.approx(pair_value(one), abs=1e-9)


@settings(deadline=None)
@given(pairs())
def test_swapping_the_arms_negates_the_value(one: Pair) -> None:
    def swapped(case: CaseTimes) -> CaseTimes:
        return replace(case, baseline_ns=case.candidate_ns, candidate_ns=case.baseline_ns)

    value, other = pair_value(one), pair_value(altered(one, swapped))
    assert value is not None
    assert other == pytest.approx(-value, abs=1e-12)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=4), min_size=8, max_size=8),
    st.lists(st.floats(0, 1), min_size=1, max_size=8),
)
def test_shorter_candidate_times_never_lower_the_claim(
    candidate: list[list[int]], cuts: list[float]
) -> None:
    """Down to the null and below it, too."""
    cut = itertools.cycle(cuts)
    shorter = [[max(1, round(ns * next(cut))) for ns in arm] for arm in candidate]
    before, after = (
        claimed(comparison([pair(times(arm)) for arm in a])) for a in (candidate, shorter)
    )
    assert before is not None
    assert after is not None
    assert after.speedup >= before.speedup * (1 - 1e-9)


def test_claim_carries_all_that_it_depends_on() -> None:
    found = claimed(comparison(pairs_at(ALTERNATING * 4)))
    assert found is not None
    assert found.speedup == pytest.approx(1.05, abs=1e-4)
    assert found.low < found.speedup < found.high
    assert math.log(found.high / found.low) / 2 == pytest.approx(
        Estimate.of([math.log(1.049), math.log(1.051)] * 4).half_width(0.9975), rel=1e-2
    )
    assert replace(found, speedup=0, low=0, high=0) == Claim(
        speedup=0,
        low=0,
        high=0,
        confidence=0.99,
        baseline="plain torch",
        workload="topk, 1 secret case",
        axis="time per call, geometric mean of 1 case",
        device="cpu",
        pairs=8,
    )


def test_axis_of_a_claim_counts_its_cases() -> None:
    found = claimed(comparison([pair(times(case="a"), times(case="b"))] * 8, before=two_cases()))
    assert found is not None
    assert found.axis == "time per call, geometric mean of 2 cases"


def two_cases() -> list[Pair]:
    return [pair(times(case="a"), times(case="b"), block=Block.BEFORE)] * 4


def test_claim_is_of_the_last_completed_look() -> None:
    pairs = pairs_at([*ALTERNATING * 4, 9.0, 9.0, 9.0])
    found = claimed(comparison(pairs))
    assert found is not None
    assert (found.pairs, round(found.speedup, 2)) == (8, 1.05)
    assert len(counted_pairs(comparison(pairs_at(ALTERNATING * 20)))) == max(LOOKS)


def test_run_without_a_completed_look_claims_nothing() -> None:
    assert claimed(comparison(pairs_at(ALTERNATING * 4)[:7])) is None
    assert claimed(comparison([])) is None


def test_run_on_a_machine_that_could_not_tell_kernels_apart_claims_nothing() -> None:
    candidate = pairs_at(ALTERNATING * 4)
    void = pairs_at([1.05, 1.051, 1.049, 1.05], Block.BEFORE)
    assert claimed(comparison(candidate, before=void)) is None
    assert claimed(comparison(candidate, before=[])) is None


def test_candidate_that_the_null_hides_is_at_least_as_fast_as_claimed() -> None:
    hidden = claimed(comparison([pair(times(candidate=500))] * 8))
    seen = claimed(comparison([pair(times(candidate=900))] * 8))
    assert hidden is not None
    assert seen is not None
    assert hidden.at_least
    assert not seen.at_least


def test_only_the_last_series_before_the_candidate_counts() -> None:
    void = [replace(one, series=0) for one in pairs_at([1.1] * 4, Block.BEFORE)]
    quiet = [replace(one, series=1) for one in pairs_at(QUIET, Block.BEFORE)]
    run = comparison(pairs_at(ALTERNATING * 4), before=[*void, *quiet])
    assert pairs_of(run, Block.BEFORE) == tuple(quiet)
    assert claimed(run) is not None


def test_values_of_every_series_are_told_in_order_with_gaps_where_there_is_none() -> None:
    void = [replace(one, series=0) for one in pairs_at([2.0, 1.0], Block.BEFORE)]
    quiet = [replace(one, series=1) for one in pairs_at([1.0], Block.BEFORE)]
    run = comparison([pair(times([])), pair()], before=[*void, *quiet], guard=[])
    assert pair_values(run) == {
        (Block.BEFORE, 0): (pytest.approx(math.log(2)), 0.0),
        (Block.BEFORE, 1): (0.0,),
        (Block.CANDIDATE, 0): (None, 0.0),
    }


NARROW = [0.05, 0.051]
WIDE = [0.0, 0.1]


@pytest.mark.parametrize(
    ("values", "fitting", "more"),
    [
        ([], 40, 8),
        ([], 8, 8),
        ([], 7, None),
        (NARROW, 40, 8),
        (WIDE * 4, 40, 12),
        (WIDE * 4, 12, 12),
        (WIDE * 4, 11, None),
        (NARROW * 4, 40, None),
        (NARROW * 5, 40, 12),
        (WIDE * 6, 40, 20),
        (NARROW * 6, 40, None),
        (WIDE * 10, 40, 32),
        (WIDE * 16, 99, None),
    ],
)
def test_run_goes_on_to_the_next_look_until_it_is_narrow_or_nothing_fits(
    values: list[float], fitting: int, more: int | None
) -> None:
    assert next_look(values, fitting) == more


def test_look_is_narrow_at_four_tenths_of_a_per_cent() -> None:
    # The 99.75 % t-quantile of 7 degrees of freedom over sqrt(7): values at 0 +- x have this half-width.
    quantile = Estimate.of(WIDE * 4).half_width(LOOK_CONFIDENCE) / 0.05
    assert next_look([0, 2 * 0.0039 / quantile] * 4, 32) is None
    assert next_look([0, 2 * 0.0041 / quantile] * 4, 32) == 12


def test_four_looks_together_hold_ninety_nine_per_cent() -> None:
    assert pytest.approx(0.9975) == LOOK_CONFIDENCE


def test_entry_is_unstable_above_one_per_cent() -> None:
    wide = Estimate(0.0, (0.0101 / 3.0) ** 2, 1e5)
    narrow = Estimate(0.0, (0.0099 / 3.1) ** 2, 1e5)
    assert is_unstable(wide)
    assert not is_unstable(narrow)


def test_band_is_shared_by_what_cannot_be_told_apart() -> None:
    slow, fast = Estimate(0.0, 1e-6, 11), Estimate(0.01, 1e-6, 11)
    near = Estimate(0.002, 1e-6, 11)
    assert same_band(slow, near)
    assert same_band(near, slow)
    assert not same_band(slow, fast)
    assert not same_band(fast, slow)


def test_two_entries_without_any_spread_share_a_band_only_when_equal() -> None:
    assert same_band(Estimate(0.1, 0, 7), Estimate(0.1, 0, 11))
    assert not same_band(Estimate(0.1, 0, 7), Estimate(0.2, 0, 11))
