"""The figures of boxes."""

from __future__ import annotations

import pytest

from runners.sandboxes.bubblewrap import BubblewrapSandbox, find_bubblewrap
from runners.sandboxes.figures import Figure, measure, table


@pytest.mark.box
@pytest.mark.skipif(find_bubblewrap() is None, reason="bubblewrap is not installed")
def test_every_step_that_this_machine_offers_is_timed() -> None:
    sandbox = BubblewrapSandbox()
    figures = {figure.name: figure for figure in measure(sandbox, rounds=2)}
    isolation = sandbox.isolation()
    sandbox.close()
    assert {"launch", "kill"} <= figures.keys()
    assert ("freeze" in figures) == isolation.freezer
    assert all(sample > 0 for figure in figures.values() for sample in figure.samples_ns)


def test_the_table_says_how_many_and_how_far_apart() -> None:
    text = table([Figure("freeze", (1_000, 2_000, 3_000, 4_000, 5_000))])
    assert text.splitlines()[1].split() == ["freeze", "5", "3", "2", "-", "4"]
