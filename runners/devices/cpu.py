"""The CPU as a device: one core for the evaluator, another for the boxes."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

import torch

from runners.devices import peaks

CACHES = Path("/sys/devices/system/cpu")

FALLBACK_CACHE_BYTES = 32 << 20
"""Where the kernel tells no cache size; as large as is common, so that cold stays cold."""


class CpuDevice:
    """Implements `runners.ports.Device`.

    evaluator_core, box_core: CPU numbers; by default the first and last this process may use.
    Raises ValueError for a core that this process may not use.
    """

    name = "cpu"

    def __init__(self, evaluator_core: int | None = None, box_core: int | None = None) -> None:
        usable = sorted(os.sched_getaffinity(0))
        self._evaluator_core = usable[0] if evaluator_core is None else evaluator_core
        self._box_core = usable[-1] if box_core is None else box_core
        for core in (self._evaluator_core, self._box_core):
            if core not in usable:
                raise ValueError(
                    f"core {core} is not among those this process may use ({usable}): choose others"
                )

    def evaluator_core(self) -> int:
        return self._evaluator_core

    def box_cores(self) -> tuple[int, ...]:
        return (self._box_core,)

    def last_level_cache_bytes(self) -> int:
        levels: dict[int, int] = {}
        for index in (CACHES / f"cpu{self._box_core}" / "cache").glob("index*"):
            levels[int((index / "level").read_text())] = _size_bytes((index / "size").read_text())
        return levels[max(levels)] if levels else FALLBACK_CACHE_BYTES

    def floor_ns(self, bytes_moved: int, flops: int) -> float:
        return peaks.floor_ns(bytes_moved, flops)

    def describe(self) -> Mapping[str, str]:
        facts = {
            "device": self.name,
            "cpu": _cpu_model(),
            "cores": str(os.cpu_count()),
            "evaluator core": str(self._evaluator_core),
            "box core": str(self._box_core),
            "last-level cache": f"{self.last_level_cache_bytes() >> 10} KiB",
            "kernel": platform.release(),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
        }
        if self._evaluator_core == self._box_core:
            facts["shared core"] = "evaluator and boxes share one core: times are not comparable"
        return facts


def _size_bytes(text: str) -> int:
    """Bytes of a size as sysfs writes it, such as `307200K`."""
    text = text.strip()
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * factor


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
