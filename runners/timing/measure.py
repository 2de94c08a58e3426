"""Measures this machine through real boxes: the path's own cost, starts, and a kernel against its copy."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from judge.model import Block, Pair
from judge.pairs import pair_value
from runners.evaluator import figures as path
from runners.evaluator.call import clock_ns
from runners.evaluator.pair import Duel, PairFailure
from runners.evaluator.pool import BoxPool, environment, settle_down
from runners.evaluator.session import Budget, Session, Watch
from runners.ports import Device, Sandbox, SandboxError
from runners.timing import kernel
from runners.timing.causes import BoxMemory
from runners.timing.machine import Disturbance
from runners.timing.resolution import FEW_CALLS, Pace, Series, series_after

PAIRS: Final = 12
LEAST_PAIRS: Final = 8
LATEST_S: Final = 120.0
"""Once pairs have taken so long, because others use the machine, the least number is enough."""

SHARES: Final = (1 / 20, 1 / 4, 1)
"""Of the longest measuring: 1, 5 and 20 s by default."""

MANY_CALLS: Final = 24
REST_S: Final = 0.3
SECOND_NS: Final = 1e9

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Starts:
    """Seconds until a box is ready. cold: the first one of this process. pool: one kept ready."""

    cold_s: float
    warm_s: tuple[float, ...]
    pool_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """What the judge's own path takes, and its boxes to start."""

    round_trip_ns: tuple[int, ...]
    null_call_ns: tuple[int, ...]
    starts: Starts
    memory: BoxMemory


@dataclass(slots=True)
class Bench:
    """A pool of boxes of the doctor's kernel, and what disturbs its cores. `open_bench` makes one."""

    boxes: BoxPool
    disturbance: Disturbance
    duel: Duel = field(init=False)

    def start_duel(self) -> None:
        self.duel = Duel(kernel.problem(), (), secrets.token_bytes(16), self.boxes, kernel.LIMITS)

    def pair(self, calls: int) -> tuple[Pair, float]:
        """One pair of the kernel against its copy, and its seconds without the start of its boxes.

        The pair has a value. Raises SandboxError where the judge's own kernel fails.
        """
        self.boxes.refill()
        self.duel.cases = [(0, kernel.case(calls))]
        began_ns = clock_ns()
        with self.disturbance.watch():
            budget = Budget(kernel.LIMITS, time.monotonic(), Watch())
            pair = self.duel.pair(Block.GUARD, 0, (kernel.side(), kernel.side()), budget)
        taken_s = (clock_ns() - began_ns) / SECOND_NS
        if isinstance(pair, PairFailure) or pair_value(pair) is None:
            raise SandboxError(f"the doctor's own kernel was not measured: {pair}")
        return pair, taken_s

    def close(self) -> None:
        if hasattr(self, "duel"):
            self.duel.end()
        self.boxes.close()


@contextmanager
def open_bench(sandbox: Sandbox, device: Device) -> Iterator[Bench]:
    """Pins this process to the evaluator's core; ends every box afterwards, and lets it loose again."""
    usable = os.sched_getaffinity(0)
    settle_down(device)
    cores = tuple(sorted({device.evaluator_core(), *device.box_cores()}))
    bench = Bench(BoxPool(sandbox, device, [kernel.LIMITS], ready=2), Disturbance(cores))
    try:
        yield bench
    finally:
        bench.close()
        os.sched_setaffinity(0, usable)


def measure_costs(bench: Bench, say: Say) -> Costs:
    """What everything around a kernel takes on this machine. Raises SandboxError."""
    say("starting boxes")
    starts = _starts(bench.boxes)
    memory = _memory(bench.boxes)
    say("timing the path without a kernel")
    taken = path.measure(bench.boxes)
    return Costs(tuple(taken["round_trip"]), tuple(taken["null_call"]), starts, memory)


def measure_copies(bench: Bench, longest_s: float, say: Say) -> tuple[Series, ...]:
    """The kernel against its copy, after a part and after all of the calls of the same boxes.

    longest_s: measuring of all pairs, starts not counted. Boxes must be freezable, and the duel
    started.
    """
    say(
        f"timing a kernel against its copy: {PAIRS} box pairs, {longest_s:g} s and the start of"
        f" {2 * PAIRS} boxes"
    )
    few, many = ((calls, bench.pair(calls)[1]) for calls in (FEW_CALLS, MANY_CALLS))
    pace = Pace.of(few, many)
    calls = pace.calls_in(longest_s / PAIRS)
    pairs: list[tuple[Pair, float]] = []
    latest = time.monotonic() + LATEST_S
    while len(pairs) < PAIRS and (len(pairs) < LEAST_PAIRS or time.monotonic() < latest):
        bench.disturbance.rest(REST_S)
        bench.disturbance.spin()
        pairs.append(bench.pair(calls))
        say(f"{len(pairs)} of {PAIRS} pairs")
    return tuple(series_after(pairs, longest_s * share, pace) for share in SHARES)


def watch_alone(disturbance: Disturbance) -> None:
    """Where no two arms can take turns: see what disturbs the cores all the same."""
    for _ in range(PAIRS):
        disturbance.rest(REST_S)
        with disturbance.watch():
            disturbance.spin()


def _starts(boxes: BoxPool) -> Starts:
    cold, *warm = (_start_s(boxes) for _ in range(3))
    boxes.refill()
    pool = (_start_s(boxes), _start_s(boxes))
    return Starts(cold, tuple(warm), pool)


def _start_s(boxes: BoxPool) -> float:
    """Seconds until a box is had; it is ended at once."""
    began_ns = clock_ns()
    box = boxes.take(kernel.LIMITS)
    taken_s = (clock_ns() - began_ns) / SECOND_NS
    box.kill()
    return taken_s


def _memory(boxes: BoxPool) -> BoxMemory:
    """What a box's environment is, and how it treats freed memory. Raises SandboxError."""
    budget = Budget(kernel.LIMITS, time.monotonic(), Watch())
    session = Session(boxes.take(kernel.LIMITS), boxes.conditions, budget)
    failure = session.load(kernel.probe())
    settled, end = session.end(failure)
    if settled is not None:
        printed = end.output.decode(errors="replace")[-500:]
        raise SandboxError(f"the doctor's probe failed in a box: {settled.message} {printed}")
    return kernel.memory_of(end.output, environment(len(boxes.device.box_cores())))
