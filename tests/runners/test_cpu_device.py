"""The CPU as a device: which cores it gives, and what it says of itself."""

import os

import pytest

from runners.devices.cpu import CpuDevice


def test_evaluator_and_boxes_have_cores_of_their_own_where_there_are_two() -> None:
    device = CpuDevice()
    usable = os.sched_getaffinity(0)
    assert {device.evaluator_core(), *device.box_cores()} <= usable
    assert (device.evaluator_core() in device.box_cores()) == (len(usable) == 1)


def test_a_shared_core_is_said_so() -> None:
    core = min(os.sched_getaffinity(0))
    device = CpuDevice(core, core)
    assert "not comparable" in device.describe()["shared core"]


def test_a_core_that_this_process_may_not_use_is_refused_with_those_it_may() -> None:
    with pytest.raises(ValueError, match="may use"):
        CpuDevice(evaluator_core=100_000)


def test_the_last_level_cache_has_a_size_and_every_fact_is_text() -> None:
    device = CpuDevice()
    assert device.last_level_cache_bytes() >= 256 << 10
    assert all(isinstance(fact, str) and fact for fact in device.describe().values())
