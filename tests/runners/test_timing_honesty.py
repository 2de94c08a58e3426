"""What the honesty bench makes of numbers whose truth is known."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from judge.catalog import load_problem
from judge.stats import Estimate
from tests.bench.orders import Judged, Looped, Round, Row, rows_of, table
from tests.bench.repeats import BASE, constant_from, constant_of, kernels, truths_of, write_folder

WIGGLE = (0.001, -0.001) * 4
TRUE = math.log(1.02)


def judged(speedup_log: float, noise: float = 1.0) -> Judged:
    return Judged(tuple(speedup_log + noise * w for w in WIGGLE), 10.0)


def rounds(slow: Judged, mean_ns: float) -> list[Round]:
    """A first kernel as fast as the baseline, and `plus_2` as told."""
    looped = {"first": Looped(1000.0, 1.0, 0.1), "plus_2": Looped(mean_ns, 1.0, 0.1)}
    return [Round({"first": judged(0.0), "plus_2": slow}, looped)]


def by_path(some: list[Round], extra: int = 2, true: float = TRUE) -> dict[str, Row]:
    renamed = [
        Round(
            {name.replace("plus_2", f"plus_{extra}"): j for name, j in one.judged.items()},
            {name.replace("plus_2", f"plus_{extra}"): found for name, found in one.looped.items()},
        )
        for one in some
    ]
    return {row.path: row for row in rows_of(renamed, {extra: true})}


def test_what_is_told_rightly_is_in_order_and_held_by_its_interval() -> None:
    rows = by_path(rounds(judged(-TRUE), 1020.0))
    for row in rows.values():
        assert (row.wrong, row.apart, row.covered) == (0.0, 1.0, 1.0)
        assert row.bias == pytest.approx(0, abs=1e-12)
    assert rows["box pairs, bands"].seconds == 20.0
    assert rows["loop, mean alone"].seconds == pytest.approx(0.2)


def test_a_slower_kernel_put_above_is_a_wrong_order() -> None:
    rows = by_path(rounds(judged(+TRUE), 980.0))
    assert all(row.wrong == 1.0 and row.covered == 0.0 for row in rows.values())
    assert rows["box pairs, bands"].bias == pytest.approx(-2 * TRUE)


def test_a_shared_band_is_no_order_but_a_mean_alone_always_is_one() -> None:
    rows = by_path(rounds(judged(+0.0001), 999.9))
    assert (rows["box pairs, bands"].wrong, rows["box pairs, bands"].apart) == (0.0, 0.0)
    assert (rows["loop, its own error"].wrong, rows["loop, its own error"].apart) == (0.0, 0.0)
    assert (rows["loop, mean alone"].wrong, rows["loop, mean alone"].apart) == (1.0, 1.0)


def test_no_order_of_equal_kernels_is_wrong_and_any_puts_them_apart() -> None:
    rows = by_path(rounds(judged(0.0), 1001.0), extra=0, true=0.0)
    assert all(row.wrong is None for row in rows.values())
    assert rows["box pairs, bands"].apart == 0.0
    assert rows["loop, mean alone"].apart == 1.0


def test_what_is_too_unstable_for_a_rank_is_put_in_no_order() -> None:
    row = by_path(rounds(judged(-10 * TRUE, noise=30), 1020.0))["box pairs, bands"]
    assert (row.unranked, row.apart) == (1.0, 0.0)


def test_the_table_has_a_line_for_every_path_at_every_difference() -> None:
    rows = tuple(by_path(rounds(judged(-TRUE), 1020.0)).values())
    lines = table(rows).splitlines()
    assert len(lines) == 1 + len(rows)
    assert "loop, mean alone" in lines[2]


def test_nothing_is_told_of_no_rounds() -> None:
    assert rows_of([], {0: 0.0}) == ()


def test_what_a_call_takes_besides_its_repetitions_is_found_and_lessens_the_truth() -> None:
    besides = 20.0
    measured = math.log((besides + BASE) / (besides + 2 * BASE))
    assert constant_of(measured) == pytest.approx(besides)
    truths = truths_of(besides)
    assert truths[0] == 0
    assert truths[1] == pytest.approx(math.log((BASE * 1.01 + besides) / (BASE + besides)))
    assert truths[1] < math.log(1.01)


def test_a_part_that_is_within_its_own_noise_is_taken_as_none() -> None:
    log_ratio = math.log((20 + BASE) / (20 + 2 * BASE))
    assert constant_from(Estimate(log_ratio, 1e-8, 7)) == pytest.approx(20)
    assert constant_from(Estimate(log_ratio, 1e-2, 7)) == 0


def test_repetitions_are_whole_and_exactly_as_many_per_cent_more() -> None:
    assert [100 * kernel.repeats for kernel in kernels()] == [
        BASE * (100 + kernel.extra_pct) for kernel in kernels()
    ]


def test_the_benchs_folder_is_one_that_organizers_could_open(tmp_path: Path) -> None:
    write_folder(tmp_path / "repeats")
    found = load_problem(tmp_path / "repeats")
    assert found.problem.baseline is not None
    for kernel in kernels():
        source = (tmp_path / "repeats" / "submissions" / f"{kernel.name}.py").read_text()
        assert f"range({kernel.repeats})" in source
