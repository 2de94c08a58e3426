"""One call, or one chain of calls, of a kernel in a box: the order of steps is the whole point."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from runners.endings import Ending, Failure
from runners.evaluator import frames
from runners.evaluator.arena import DONE_WORD, GO_WORD, STATUS_WORD, Arena, Bytes, Layout, Slot
from runners.ports import Box

SMALL_BYTES: Final = 64 << 10
"""Up to this size a copy is quick enough to reveal the input inside the clock."""

SAMPLES: Final = 64
LATE_CHECK_EVERY: Final = 20
LATE_CHECK_NS: Final = 1_000_000
WAIT_NS: Final = (300_000, 600_000)
SPINS: Final = 1_000
LOOK_EVERY_NS: Final = 2_000_000
"""How often a waiting evaluator looks whether the box still lives: rarely, since a look takes 3 us."""

CHECK_EVERY_NS: Final = 100_000_000
FAULT_WAIT_S: Final = 1.0

clock_ns = time.perf_counter_ns


@dataclass(frozen=True, slots=True)
class Burden:
    """What one call is given, made beforehand in private memory.

    blocks: the packed inputs of every link of the chain. poison: fresh random bits for the whole
    output region, guards included.
    """

    blocks: Sequence[Bytes]
    poison: Bytes


@dataclass(frozen=True, slots=True)
class Taken:
    """ns: from the clock's start to the last sample. outputs: private copy of the output region."""

    ns: int
    outputs: Bytes


@dataclass(frozen=True, slots=True)
class Conditions:
    """How the boxes of a job are run.

    freezer: boxes can be frozen. shared_core: evaluator and box spin on one core and must yield.
    evict_bytes: what an eviction writes, on `box_core`.
    """

    freezer: bool
    shared_core: bool
    box_core: int
    evict_bytes: int


@dataclass(frozen=True, slots=True)
class Start:
    """How the clock of a case's calls starts; the same for the null kernel's.

    frozen: input and go are written while the box is frozen, and it is thawed once the clock runs.
    Else the input is copied within the clock. cold: caches are evicted before.
    """

    frozen: bool
    cold: bool

    @classmethod
    def of(cls, layout: Layout, cold: bool) -> Start:
        return cls(frozen=cold or layout.input_bytes > SMALL_BYTES, cold=cold)


@dataclass(slots=True)
class Line:
    """A box that watches the go word of an arena. Frozen between calls where that can be.

    chance: unpredictable to the box, seeded by the OS. overrun: asked ten times a second in a long
    call for the failure of a job that took too long; it may raise to end the call.
    """

    box: Box
    arena: Arena
    layout: Layout
    start: Start
    conditions: Conditions
    chance: np.random.Generator
    overrun: Callable[[], Failure | None]
    _fence: threading.Lock = field(default_factory=threading.Lock)
    _samplers: list[list[_Sampler]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._samplers = [
            [_Sampler(slot, self.arena.outputs) for slot in slots] for slots in self.layout.outputs
        ]

    def call(self, burden: Burden, limit_s: float) -> Taken | Failure:
        """Run one call or chain and take its time and its outputs. The box is left frozen.

        limit_s: for every link. A Failure's box is not usable any more.
        """
        arena, layout, box = self.arena, self.layout, self.box
        freezer = self.conditions.freezer
        region = arena.outputs[: layout.output_bytes]
        shared_input = arena.inputs[layout.constant_bytes :][: layout.input_bytes]
        nonces = [self._nonce() for _ in burden.blocks]
        for position in self._samplers:
            for sampler in position:
                sampler.choose(self.chance)
        checks_late = int(self.chance.integers(LATE_CHECK_EVERY)) == 0
        wait_ns = int(self.chance.integers(*WAIT_NS))
        starts_frozen = freezer and self.start.frozen

        region[:] = burden.poison
        arena.words[STATUS_WORD] = 0
        go, words, fence = arena.go, arena.words, self._fence
        if starts_frozen:
            shared_input[:] = burden.blocks[0]
        if self.start.cold:
            evict(self.conditions)
        if starts_frozen:
            go[GO_WORD] = nonces[0]
            t0 = clock_ns()
            box.thaw()
        else:
            if freezer:
                box.thaw()
            spin_until(clock_ns() + wait_ns)
            t0 = clock_ns()
            shared_input[:] = burden.blocks[0]
            go[GO_WORD] = nonces[0]

        for link, nonce in enumerate(nonces):
            if link:
                shared_input[:] = burden.blocks[link]
                go[GO_WORD] = nonce
            if words[DONE_WORD] != nonce:
                failure = self._wait_for(nonce, limit_s)
                if failure is not None:
                    return failure
            fence.acquire()  # keeps the samples from being read before the done word
            for sampler in self._samplers[link]:
                sampler.take()
            fence.release()
        t1 = clock_ns()

        if freezer:
            box.freeze()
        outputs = region.copy()
        if words[STATUS_WORD]:
            return self._told_failure(FAULT_WAIT_S)
        if not all(sampler.agrees(outputs) for position in self._samplers for sampler in position):
            return Failure(Ending.EARLY_DONE)
        if not all(
            np.array_equal(outputs[guard], burden.poison[guard]) for guard in layout.guards()
        ):
            return Failure(Ending.OUT_OF_BOUNDS)
        if checks_late:
            if freezer:
                box.thaw()
            spin_until(clock_ns() + LATE_CHECK_NS)
            if freezer:
                box.freeze()
            if not np.array_equal(region, outputs):
                return Failure(Ending.LATE_WRITE)
        return Taken(t1 - t0, outputs)

    def dismiss(self) -> None:
        """Have the box read its channel again; it is left running."""
        if self.conditions.freezer:
            self.box.thaw()
        self.arena.go[GO_WORD] = self._nonce() & ~1

    def _nonce(self) -> int:
        """An odd word that is neither the last go nor what the done word holds."""
        while True:
            nonce = int(self.chance.integers(1 << 63)) << 1 | 1
            held = (self.arena.go[GO_WORD] | 1, self.arena.words[DONE_WORD] | 1)
            if nonce not in held and nonce > 1:
                return nonce

    def _wait_for(self, nonce: int, limit_s: float) -> Failure | None:
        words = self.arena.words
        before = words[DONE_WORD]
        now = clock_ns()
        deadline = now + int(limit_s * 1e9)
        next_look = now + LOOK_EVERY_NS
        next_check = now + CHECK_EVERY_NS
        shared_core = self.conditions.shared_core
        while True:
            for _ in range(SPINS):
                if words[DONE_WORD] == nonce:
                    return None
                if shared_core:
                    os.sched_yield()
            now = clock_ns()
            if now < next_look:
                continue
            next_look = now + LOOK_EVERY_NS
            if words[DONE_WORD] not in (before, nonce):
                return Failure(Ending.PROTOCOL, "the done word holds no word of the judge's")
            if frames.is_waiting(self.box.channel):
                return self._told_failure(0.0)
            if frames.has_ended(self.box):
                return Failure(Ending.DIED)
            if now >= next_check:
                next_check = now + CHECK_EVERY_NS
                overrun = self.overrun()
                if overrun is not None:
                    return overrun
            if now > deadline:
                return Failure(Ending.CALL_TIME, f"{limit_s:g} s")

    def _told_failure(self, wait_s: float) -> Failure:
        heard = frames.hear(self.box, time.monotonic() + wait_s, lambda: None)
        return failure_of(heard, "a message out of turn")


def failure_of(heard: frames.Heard, otherwise: str) -> Failure:
    """The failure that a message means which is not the one that was waited for."""
    match heard:
        case frames.Fault(ending, text):
            return Failure(ending, text)
        case frames.Gone():
            return Failure(Ending.DIED)
        case frames.Violation(what):
            return Failure(Ending.PROTOCOL, what)
        case frames.AsksForBuild(name):
            return Failure(
                Ending.UNBUILT, f"the extension {name!r} is compiled before it is judged"
            )
        case _:
            return Failure(Ending.PROTOCOL, otherwise)


class _Sampler:
    """Unpredictable elements of one output, read before the clock stops.

    Elements are compared as bits: a float that is NaN must keep its payload.
    """

    def __init__(self, slot: Slot, region: Bytes) -> None:
        width = slot.dtype.itemsize
        self._bits = np.dtype(f"u{width}") if width in (1, 2, 4, 8) else np.dtype(f"V{width}")
        self._span = slice(slot.offset, slot.offset + slot.size_bytes)
        self._elements = region[self._span].view(self._bits)
        count = min(SAMPLES, len(self._elements))
        self._chosen: npt.NDArray[np.intp] = np.arange(count)
        self._seen = np.empty(count, dtype=self._bits)

    def choose(self, chance: np.random.Generator) -> None:
        if len(self._elements) > SAMPLES:
            self._chosen = chance.integers(len(self._elements), size=SAMPLES)

    def take(self) -> None:
        if len(self._seen):
            # This runs inside the clock. "clip" checks no index again and needs no buffer; the method
            # takes a quarter of the time of numpy's function of that name.
            self._elements.take(self._chosen, out=self._seen, mode="clip")

    def agrees(self, outputs: Bytes) -> bool:
        kept = outputs[self._span].view(self._bits)[self._chosen]
        return kept.tobytes() == self._seen.tobytes()


def spin_until(deadline_ns: int) -> None:
    while clock_ns() < deadline_ns:
        pass


def evict(conditions: Conditions) -> None:
    """Push everything else out of the box core's caches, from a thread on that core."""

    def write() -> None:
        os.sched_setaffinity(0, {conditions.box_core})
        buffer = _eviction_buffer(conditions.evict_bytes)
        np.add(buffer, 1, out=buffer)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()


_buffers: dict[int, npt.NDArray[np.uint64]] = {}


def _eviction_buffer(size: int) -> npt.NDArray[np.uint64]:
    """Kept for the life of the process: touching new pages would take longer than the eviction."""
    if size not in _buffers:
        _buffers[size] = np.zeros(size // 8, dtype=np.uint64)
    return _buffers[size]
