"""The hardware a runner judges on. A device joins by one line in `CLASSES`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from runners.ports import Device

CLASSES: Final[Mapping[str, str]] = {"cpu": "runners.devices.cpu:CpuDevice"}
"""Name to class; imported when one is opened, since torch comes with it."""


def open_device(
    name: str, evaluator_core: int | None = None, box_core: int | None = None
) -> Device:
    """The device of a name in `CLASSES`. Raises ValueError for a core it may not use."""
    module, _, kind = CLASSES[name].partition(":")
    device: Device = getattr(import_module(module), kind)(evaluator_core, box_core)
    return device
