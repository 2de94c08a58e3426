"""What one core of this machine can do at best: measured once, for floors under which no time is true."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Final

import torch

MARGIN: Final = 1.5
"""A kernel may be this much better than what is found here, before its time is held for review."""

TRIES: Final = 7
MATRIX: Final = 256
LEAST_BYTES: Final = 4_096


def floor_ns(bytes_moved: int, flops: int) -> float:
    """The time that the moving or the computing takes at this core's peak, whichever is longer."""
    seconds = max(bytes_moved / bytes_per_s(_bracket(bytes_moved)), flops / flops_per_s())
    return seconds * 1e9 / MARGIN


@cache
def flops_per_s() -> float:
    """The best rate of a matrix product, of whichever dtype the core is fastest in."""
    rates = []
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.ones(MATRIX, MATRIX, dtype=dtype)
        rates.append(2 * MATRIX**3 / _best_s(lambda a=a: a @ a))  # type: ignore[misc]
    return max(rates)


@cache
def bytes_per_s(size: int) -> float:
    """The best rate at which a buffer of this size is read, by a sum or by a copy (read and written)."""
    source = torch.ones(size // 4, dtype=torch.float32)
    target = torch.empty_like(source)
    copied = 2 * size / _best_s(lambda: target.copy_(source))
    return max(copied, size / _best_s(lambda: source.sum()))


def _bracket(size: int) -> int:
    """The largest power of two below the size: what holds it holds that too, at least as fast."""
    return max(LEAST_BYTES, 1 << max(size.bit_length() - 1, 0))


def _best_s(work: Callable[[], object]) -> float:
    """Seconds of one call, the best of some: short calls are repeated, since a call itself takes 1 us."""
    work()
    started = time.perf_counter()
    work()
    repeats = max(1, int(2e-4 / max(time.perf_counter() - started, 1e-7)))
    best = float("inf")
    for _ in range(TRIES):
        started = time.perf_counter()
        for _ in range(repeats):
            work()
        best = min(best, (time.perf_counter() - started) / repeats)
    return best
