"""Promises of what makes a ranked run void, or holds it for an organizer."""

from __future__ import annotations

import math

import pytest

from judge.comparing import below_floor, disagreement, drift, findings, void_before
from judge.model import Block, Pair
from tests.judge.comparisons import QUIET, comparison, pair, pairs_at, times

FASTER = (1.049, 1.051) * 4


def before(speedups: list[float]) -> list[Pair]:
    return pairs_at(speedups, Block.BEFORE)


def test_quiet_machine_is_not_void() -> None:
    assert void_before(before(list(QUIET))) == ""


def test_baseline_that_clearly_differs_from_its_copy_is_void() -> None:
    told = void_before(before([1.029, 1.030, 1.031, 1.030]))
    assert "+3.00 % (99 % interval +2.7" in told
    assert "4 box pairs" in told


def test_difference_within_one_per_cent_is_not_void_however_sure() -> None:
    assert void_before(before([1.009, 1.0091, 1.0089, 1.009])) == ""
    assert void_before(before([1.011, 1.0111, 1.0109, 1.011])) != ""
    assert void_before(before([1 / 1.011, 1 / 1.0111, 1 / 1.0109, 1 / 1.011])) != ""


def test_difference_that_may_be_chance_is_not_void() -> None:
    assert void_before(before([1.20, 0.97, 1.01, 0.99])) == ""


def test_pairs_without_valid_times_are_void() -> None:
    assert "fewer than 2 valid" in void_before([])
    assert "fewer than 2 valid" in void_before([pair(times([0])), pair(times([0]))])


def test_baseline_as_fast_beside_the_candidate_as_alone_is_no_drift() -> None:
    assert drift(comparison(pairs_at(FASTER))) == ""


@pytest.mark.parametrize("factor", [1.02, 1 / 1.02])
def test_baseline_whose_time_changes_beside_the_candidate_voids_the_run(factor: float) -> None:
    told = drift(comparison(pairs_at(FASTER, baseline_ns=100_000 * factor)))
    assert told.count(f"{100 * (factor - 1):+.2f} %") == 2


def test_drift_within_one_per_cent_or_by_chance_is_none() -> None:
    assert drift(comparison(pairs_at(FASTER, baseline_ns=100_900))) == ""
    noisy = pairs_at([1.05] * 4, baseline_ns=90_000) + pairs_at([1.05] * 4, baseline_ns=115_000)
    assert drift(comparison(noisy)) == ""


def test_baseline_is_held_only_if_it_differs_from_before_and_from_after_alike() -> None:
    def guard(baseline_ns: float) -> list[Pair]:
        return pairs_at(QUIET, Block.GUARD, baseline_ns)

    run = pairs_at(FASTER, baseline_ns=102_000)
    assert drift(comparison(run, guard=guard(100_000))) != ""
    for after in (101_500, 104_000):
        assert drift(comparison(run, guard=guard(after))) == ""
    assert drift(comparison(run, before=pairs_at(QUIET, Block.BEFORE, 104_000))) == ""


def test_both_boxes_of_a_pair_of_the_baseline_count_as_one_value() -> None:
    """One box in each pair is 2 % slower, which the mean of both shares: 1 % remains."""
    lopsided = {
        "before": pairs_at([1.02] * 4, Block.BEFORE, 102_000),
        "guard": pairs_at([1 / 1.02] * 4, Block.GUARD, 100_000),
    }
    assert drift(comparison(pairs_at(FASTER, baseline_ns=102_200), **lopsided)) != ""
    assert drift(comparison(pairs_at(FASTER, baseline_ns=101_900), **lopsided)) == ""


def test_run_whose_guard_is_missing_or_invalid_is_held() -> None:
    """Whoever keeps the guard from being run gains nothing."""
    invalid = [pair(times([0]), block=Block.GUARD)] * 4
    other_case = [pair(times(case="b"), block=Block.GUARD)] * 4
    alike = [pair(times(case="b"), block=Block.BEFORE)] * 4
    for blocks in (
        {"guard": []},
        {"before": []},
        {"guard": invalid},
        {"guard": other_case, "before": alike},
    ):
        assert "both before and after it" in drift(comparison(pairs_at(FASTER), **blocks))


def calls(fast: int, fast_ns: int = 50_500, slow_ns: int = 100_500) -> tuple[int, ...]:
    return (fast_ns,) * fast + (slow_ns,) * (20 - fast)


@pytest.mark.parametrize("fast", [8, 12])
def test_kernel_that_is_fast_in_some_calls_only_is_held(fast: int) -> None:
    told = disagreement(comparison([pair(times(calls(fast)))] * 8))
    assert "some calls are much faster" in told


@pytest.mark.parametrize("fast", [0, 1, 19, 20])
def test_few_calls_of_another_speed_disturb_nothing(fast: int) -> None:
    assert disagreement(comparison([pair(times(calls(fast)))] * 8)) == ""


def test_noise_that_both_arms_have_is_no_disagreement() -> None:
    assert disagreement(comparison([pair(times(calls(8), calls(8)))] * 8)) == ""


def test_disagreement_of_one_pair_may_be_chance() -> None:
    pairs = [pair(times(calls(8)))] + [pair(times())] * 7
    assert disagreement(comparison(pairs)) == ""


def test_candidate_under_the_floor_of_any_case_is_held_without_naming_it() -> None:
    both = [pair(times(60_500, case="hidden-a"), times(40_500, case="hidden-b"))] * 8
    assert below_floor(comparison(both, floors_ns={"hidden-a": 59_000, "hidden-b": 39_000})) == ""
    told = below_floor(comparison(both, floors_ns={"hidden-a": 59_000, "hidden-b": 41_000}))
    assert told
    assert not any(word in told for word in ("hidden", "40", "41", "60"))


def test_floor_is_held_against_the_mean_over_pairs_not_against_one_lucky_pair() -> None:
    lucky = [pair(times(30_500))] + [pair(times(50_500))] * 7
    assert below_floor(comparison(lucky, floors_ns={"a": 40_000})) == ""
    often = [pair(times(20_500))] * 4 + [pair(times(50_500))] * 4
    assert below_floor(comparison(often, floors_ns={"a": 40_000})) != ""


def test_case_without_a_floor_cannot_be_under_it() -> None:
    assert below_floor(comparison(pairs_at([90.0] * 8))) == ""


def test_clean_run_has_no_findings_and_a_bad_one_has_all_of_them() -> None:
    assert findings(comparison(pairs_at(FASTER))) == ()
    bad = [pair(times(calls(8, 50_500, 150_500), calls(0, slow_ns=150_500)))] * 8
    run = comparison(bad, floors_ns={"a": 149_000 * math.e})
    assert findings(run) == (drift(run), disagreement(run), below_floor(run))
    assert all(findings(run))


def test_run_that_claims_nothing_has_nothing_to_hold() -> None:
    assert findings(comparison([], guard=[])) == ()
    assert findings(comparison(pairs_at(FASTER)[:7], guard=[])) == ()
