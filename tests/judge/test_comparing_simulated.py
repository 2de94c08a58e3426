"""Promises of ranked runs that only many runs with a known truth can show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from judge.comparing import LOOKS
from tests.bench.simulation import (
    COPIES,
    ONE_PER_CENT,
    all_tied,
    coverage,
    held,
    normal,
    ranked_above,
    ranked_run,
    simulation_rows,
    wandering_run,
    with_outliers,
)

RUNS = 300
NOISES = {
    "0.15 %": normal(0.0015),
    "0.3 %": normal(0.003),
    "0.6 %": normal(0.006),
    "0.3 % with outliers": with_outliers(0.003),
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_interval_over_all_looks_covers_the_truth(noise) -> None:
    rng = np.random.default_rng(1)
    runs = [ranked_run(rng, ONE_PER_CENT, noise) for _ in range(RUNS)]
    assert coverage(runs, ONE_PER_CENT) >= 0.98


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_identical_kernels_share_a_band_and_one_per_cent_is_told(noise) -> None:
    rng = np.random.default_rng(2)
    kernel = [ranked_run(rng, 0.0, noise) for _ in range(RUNS)]
    copy = [ranked_run(rng, 0.0, noise) for _ in range(RUNS)]
    faster = [ranked_run(rng, ONE_PER_CENT, noise) for _ in range(RUNS)]
    assert ranked_above(kernel, copy) + ranked_above(copy, kernel) <= 0.02
    assert ranked_above(faster, kernel) >= 0.95
    assert ranked_above(kernel, faster) == 0


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_ten_copies_of_a_kernel_share_one_band(noise) -> None:
    rng = np.random.default_rng(4)
    crowds = [[ranked_run(rng, 0.0, noise) for _ in range(COPIES)] for _ in range(100)]
    assert np.mean([all_tied(crowd) for crowd in crowds]) >= 0.85


@pytest.mark.parametrize("memory", [0.0, 0.8, 0.95])
def test_an_honest_run_is_seldom_held_on_a_machine_whose_speed_wanders(memory: float) -> None:
    rng = np.random.default_rng(6)
    assert held([wandering_run(rng, 0.01, memory) for _ in range(300)]) <= 0.05


def test_a_baseline_slowed_by_three_per_cent_is_held_on_a_quiet_machine() -> None:
    rng = np.random.default_rng(7)
    slowed = math.log(1.03)
    assert held([wandering_run(rng, 0.001, 0.9, slowed) for _ in range(100)]) == 1
    assert held([wandering_run(rng, 0.001, 0.9, -slowed) for _ in range(100)]) == 1


def test_quiet_machine_needs_the_fewest_pairs_and_a_noisy_one_the_most() -> None:
    rng = np.random.default_rng(3)
    quiet = {ranked_run(rng, 0.0, normal(0.0005)).dof + 1 for _ in range(20)}
    noisy = {ranked_run(rng, 0.0, normal(0.02)).dof + 1 for _ in range(20)}
    short = {ranked_run(rng, 0.0, normal(0.02), fitting=13).dof + 1 for _ in range(20)}
    assert (quiet, noisy, short) == ({LOOKS[0]}, {LOOKS[-1]}, {12})


def test_rows_of_the_simulation_are_the_same_every_time() -> None:
    assert simulation_rows(runs=10, batches=1) == simulation_rows(runs=10, batches=1)
