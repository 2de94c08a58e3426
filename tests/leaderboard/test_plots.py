"""Promises of the plots: what is drawn lies where its number is, and on one scale where it is compared."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.plots import PAD, TICK_PX, WIDTH, scatters, speedup_axis

RATIOS = st.floats(1e-3, 1e4)
INTERVALS = st.lists(
    st.tuples(RATIOS, st.floats(1.0, 1.05)).map(lambda pair: (pair[0], pair[0] * pair[1])),
    min_size=1,
    max_size=8,
)


@given(INTERVALS)
def test_an_axis_holds_every_interval_in_order_and_labels_do_not_touch(
    intervals: list[tuple[float, float]],
) -> None:
    axis = speedup_axis(intervals)
    assert axis is not None
    for low, high in intervals:
        assert PAD <= axis.x(low) <= axis.x(high) <= WIDTH - PAD
    places = [x for x, _ in axis.ticks]
    assert all(b - a >= TICK_PX for a, b in pairwise(places))
    for x, label in axis.ticks:
        assert axis.x(float(label.rstrip("x"))) == x
    assert len(axis.ticks) >= 1


@pytest.mark.parametrize(
    ("interval", "labels"),
    [
        ((1.0, 15.0), ["1x", "2x", "5x", "10x"]),
        ((1.99, 2.01), ["1.98x", "2.00x", "2.02x"]),
        ((100.0, 140.0), ["100x", "120x", "140x"]),
    ],
)
def test_an_axis_is_labelled_at_round_numbers(
    interval: tuple[float, float], labels: list[str]
) -> None:
    axis = speedup_axis([interval])
    assert axis is not None
    assert [label for _, label in axis.ticks] == labels


def test_without_intervals_there_is_no_axis() -> None:
    assert speedup_axis([]) is None


def test_equal_scatter_looks_equal_around_one_and_around_a_speedup() -> None:
    quiet = [0.999, 1.001, 1.0]
    alone, beside = scatters([(quiet, 1.0), ([15 * ratio for ratio in quiet], None)])
    assert alone is not None
    assert beside is not None
    assert [x for x, _ in alone.dots] == pytest.approx([x for x, _ in beside.dots], abs=0.2)
    assert math.log(alone.high / alone.middle) == pytest.approx(math.log1p(0.01))
    assert beside.middle == pytest.approx(15, rel=1e-3)


def test_a_group_that_is_off_is_drawn_off_and_none_leaves_the_plot() -> None:
    off, empty = scatters([([0.95, 0.951], 1.0), ([], None)])
    assert empty is None
    assert off is not None
    assert min(x for x, _ in off.dots) >= PAD - 0.1
    assert max(x for x, _ in off.dots) < WIDTH / 2
    assert off.mean_x < WIDTH / 2
