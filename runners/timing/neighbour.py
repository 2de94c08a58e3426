"""Whether a second runner on other cores disturbs the first: box pairs with and without load there."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from judge.comparing import CONFIDENCE, VOID_RATIO
from judge.model import Pair
from judge.pairs import nets_of, pair_value
from judge.stats import Estimate
from runners.doctor import Finding, Level
from runners.ports import SandboxError
from runners.timing.machine import Cores
from runners.timing.measure import MANY_CALLS, Bench, Say

NEEDED_CORES: Final = 4
PAIRS: Final = 8
WIDER: Final = 2.0
"""How much wider the spread between pairs may be beside a neighbour."""

LOAD: Final = """
import os, sys
import numpy as np
os.sched_setaffinity(0, {int(sys.argv[1])})
buffer = np.zeros(32 << 20)
print("loaded", flush=True)
while True:
    np.add(buffer, 1, out=buffer)
"""
"""Streams through 256 MiB: no runner asks more of the caches and the memory that cores share."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Box pairs of a kernel against its copy. values: log ratios. log_ns: mean log net time of both."""

    values: tuple[float, ...]
    log_ns: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Beside:
    """The same measuring with the other cores at rest, and loaded; taken in turns."""

    others: tuple[int, ...]
    quiet: Arm
    loaded: Arm

    @property
    def slower(self) -> Estimate:
        """Log ratio of the kernel's own time, loaded over quiet."""
        return Estimate.of(self.loaded.log_ns).minus(Estimate.of(self.quiet.log_ns))

    @property
    def moved(self) -> Estimate:
        """How far the ratio of kernel and copy moved, which is what ranked runs tell."""
        return Estimate.of(self.loaded.values).minus(Estimate.of(self.quiet.values))

    @property
    def wider(self) -> float:
        """Spread between pairs, loaded over quiet; at least what cannot be told from 1 is no news."""
        quiet = Estimate.of(self.quiet.values).variance_of_mean
        loaded = Estimate.of(self.loaded.values).variance_of_mean
        return math.sqrt(loaded / quiet) if quiet else math.inf if loaded else 1.0


def why_not(cores: Cores) -> str:
    """Why a second runner cannot be tried here, or empty where it can."""
    if len(cores.usable) >= NEEDED_CORES and cores.evaluator != cores.box:
        return ""
    return (
        f"A second runner is refused on this machine: each needs two cores of its own, so"
        f" {NEEDED_CORES} in all, and this process may use {len(cores.usable)}"
        f" (evaluator on {cores.evaluator}, boxes on {cores.box}). Run one runner here."
    )


def beside(bench: Bench, others: Collection[int], say: Say) -> Beside:
    """Pairs with and without load on other cores, in the order A B B A. The duel must have started.

    Raises SandboxError where the load does not start.
    """
    say(f"loading cores {', '.join(map(str, sorted(others)))} in every other of {2 * PAIRS} pairs")
    pairs: dict[bool, list[Pair]] = {False: [], True: []}
    for turn in range(PAIRS):
        for loaded in (False, True) if turn % 2 == 0 else (True, False):
            bench.boxes.refill()
            with load(others if loaded else ()):
                pairs[loaded].append(bench.pair(MANY_CALLS)[0])
        say(f"{2 * (turn + 1)} of {2 * PAIRS} pairs")
    return Beside(tuple(sorted(others)), _arm(pairs[False]), _arm(pairs[True]))


def neighbour_finding(found: Beside) -> Finding:
    """Whether ranked numbers hold beside a second runner. Pure."""
    moved, slower = found.moved, found.slower
    cores = ", ".join(map(str, found.others))
    fact = (
        f"with cores {cores} under load a kernel takes {math.expm1(slower.mean):+.2%}, its ratio to"
        f" its copy moves {math.expm1(moved.mean):+.2%} within {moved.half_width(CONFIDENCE):.2%},"
        f" and the spread between pairs is {found.wider:.1f} times as wide"
    )
    has_moved = abs(moved.mean) > VOID_RATIO and not moved.may_be(0.0, CONFIDENCE)
    if not has_moved and found.wider <= WIDER:
        return Finding("second runner", Level.OK, fact)
    return Finding(
        "second runner",
        Level.REDUCED,
        fact,
        "run one runner on this machine, or give each cores that share no last-level cache (lscpu -e)",
    )


def neighbour_figures(found: Beside) -> Mapping[str, float]:
    """By a name that ends in its unit, per cent or none."""
    return {
        "beside_load_slower_pct": 100 * math.expm1(found.slower.mean),
        "beside_load_ratio_moves_pct": 100 * math.expm1(found.moved.mean),
        "beside_load_spread_times": found.wider,
    }


@contextmanager
def load(cores: Collection[int]) -> Iterator[None]:
    """Keep these cores and the memory busy meanwhile. Raises SandboxError if that does not start."""
    with ExitStack() as ends:
        started = []
        for core in sorted(cores):
            program = subprocess.Popen(
                [sys.executable, "-c", LOAD, str(core)], stdout=subprocess.PIPE
            )
            ends.callback(_end, program)
            started.append(program)
        for program in started:
            assert program.stdout is not None
            if program.stdout.readline() != b"loaded\n":
                raise SandboxError("a program that loads a core did not start; its words are above")
        yield


def _end(program: subprocess.Popen[bytes]) -> None:
    program.kill()
    program.communicate()


def _arm(pairs: Sequence[Pair]) -> Arm:
    values, log_ns = [], []
    for pair in pairs:
        value, nets = pair_value(pair), nets_of(pair)
        assert value is not None  # `Bench.pair` gives none without
        assert nets is not None
        values.append(value)
        log_ns.append(
            sum(math.log(net.baseline.ns) + math.log(net.candidate.ns) for net in nets)
            / (2 * len(nets))
        )
    return Arm(tuple(values), tuple(log_ns))
