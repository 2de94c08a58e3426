"""Every sandbox of this machine, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from runners.ports import Sandbox
from runners.sandboxes.bubblewrap import BubblewrapSandbox, find_bubblewrap
from tests.contracts.sandbox.lab import Lab

SANDBOXES: dict[str, Callable[[], Sandbox]] = {"bubblewrap": BubblewrapSandbox}
MISSING = {"bubblewrap": "" if find_bubblewrap() else "bubblewrap is not installed"}


@pytest.fixture(scope="package", params=SANDBOXES)
def kind(request: pytest.FixtureRequest) -> Iterator[tuple[Callable[[], Sandbox], Sandbox]]:
    if MISSING[request.param]:
        pytest.skip(MISSING[request.param])
    make = SANDBOXES[request.param]
    sandbox = make()
    yield make, sandbox
    sandbox.close()


@pytest.fixture
def lab(kind: tuple[Callable[[], Sandbox], Sandbox]) -> Iterator[Lab]:
    made = Lab(*kind)
    yield made
    made.clean_up()


@pytest.fixture
def full_lab(lab: Lab) -> Lab:
    """For promises that reduced isolation does not give."""
    isolation = lab.sandbox.isolation()
    if isolation.level != "full":
        pytest.skip(f"reduced isolation: {'; '.join(isolation.reasons)}")
    return lab
