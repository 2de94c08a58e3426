"""One box in use: loading a submission into it, laying out its memory, ending it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from judge.model import Limits, Progress
from runners.endings import Ending, Failure, settle
from runners.evaluator import frames
from runners.evaluator.arena import Arena, Layout, pack, sealed_file
from runners.evaluator.call import Conditions, Line, Start, failure_of
from runners.evaluator.inputs import unpredictable
from runners.evaluator.program import Program
from runners.ports import Box, BoxEnd
from runners.problem import ProblemError, Tensors

SETUP_KEEPS: Final = 1.25
SETUP_SPARE_BYTES: Final = 64 << 20

GONE: Final = (ConnectionError, TimeoutError)
"""What sending to a box raises that has ended, or whose submission keeps it from reading."""

META: Final = {"rank": 0, "world": 1, "group": None}


class StoppedError(Exception):
    """The job was taken away while it ran; there is no outcome."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Those who wait for a job.

    progress: told how far it is, and whether a box was given the submission. should_stop: asked
    several times a second; true ends the evaluation by StoppedError.
    """

    progress: Callable[[Progress, bool], None] = lambda progress, loaded: None
    should_stop: Callable[[], bool] = lambda: False

    def check(self) -> None:
        if self.should_stop():
            raise StoppedError


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a running job. started: `time.monotonic` at its start."""

    limits: Limits
    started: float
    watch: Watch

    def deadline(self, limit_s: float) -> float:
        """When a step of this limit must be over; the job's own limit may come first."""
        return min(time.monotonic() + limit_s, self.started + self.limits.job_s)

    def overrun(self) -> Failure | None:
        """The failure of a job that took too long; also asks whether to stop."""
        self.watch.check()
        if time.monotonic() > self.started + self.limits.job_s:
            return Failure(Ending.JOB_TIME, f"{self.limits.job_s:g} s")
        return None


@dataclass(slots=True)
class Session:
    """A box that is used for one job. Whoever makes one must `end` it.

    A Failure that one of its methods returns is as first seen: `end` tells what it really was.
    """

    box: Box
    conditions: Conditions
    budget: Budget
    chance: np.random.Generator = field(default_factory=unpredictable)
    _arena: Arena | None = None
    _line: Line | None = None
    _loaded: frames.Loaded | None = None
    _is_set_up: bool = False
    _end: BoxEnd | None = None

    def load(self, program: Program) -> Failure | None:
        """Hand the program over and wait until it is loaded."""
        fd = sealed_file("submission", program.pack())
        try:
            self.box.send_memory(program.frame(), [fd])
        except GONE:
            return Failure(Ending.DIED)
        finally:
            os.close(fd)
        heard = self._hear()
        if isinstance(heard, frames.Loaded):
            self._loaded = heard
            return None
        return self._unwelcome(heard)

    def rest(self) -> None:
        """Stop a loaded box until its first case is laid out, while another one works."""
        if self.conditions.freezer:
            self.box.freeze()

    def lay_out(self, layout: Layout, constants: Tensors, start: Start) -> Failure | None:
        """Give the box the memory of a case, and have it run `setup` where that is due.

        Afterwards the box is frozen, and `line` makes its calls. `setup` runs before the first
        case, and where a problem has constants before each case.
        """
        if self._line is not None:
            self._line.dismiss()
        elif self.conditions.freezer:
            self.box.thaw()
        fds: tuple[int, ...] = ()
        if self._arena is None or not self._arena.fits(layout):
            self._close_arena()
            self._arena = Arena(layout.constant_bytes + layout.input_bytes, layout.output_bytes)
            fds = self._arena.fds
        arena = self._arena
        arena.inputs[: layout.constant_bytes] = pack(
            layout.constants, constants, layout.constant_bytes
        )
        is_due = bool(layout.constants) or not self._is_set_up
        sets_up = is_due and self._loaded is not None and self._loaded.has_setup
        before = self.box.memory_now_bytes() if sets_up else None
        frame = {"kind": "lay_out", "layout": layout.spec(), "set_up": sets_up, "meta": META}
        heard = self._ask(frame, fds)
        if not isinstance(heard, frames.LaidOut):
            return self._unwelcome(heard)
        if self.conditions.freezer:
            self.box.freeze()
        overrun = self.budget.overrun
        self._line = Line(self.box, arena, layout, start, self.conditions, self.chance, overrun)
        if sets_up:
            self._is_set_up = True
            return self._setup_growth(before, layout.constant_bytes)
        return None

    @property
    def line(self) -> Line:
        """The line to call on, once a layout is in place."""
        assert self._line is not None
        return self._line

    def tear_down(self) -> Failure | None:
        """After the last call, have the box run `teardown` if the submission has one."""
        if self._loaded is None or not self._loaded.has_teardown or self._line is None:
            return None
        self._line.dismiss()
        heard = self._ask({"kind": "tear_down"}, ())
        return None if isinstance(heard, frames.TornDown) else self._unwelcome(heard)

    def output_so_far(self) -> bytes:
        """What the box has printed until now. It is frozen, or waits for its first layout."""
        return self.box.output_so_far()

    def end(self, failure: Failure | None = None) -> tuple[Failure | None, BoxEnd]:
        """Kill the box; what the failure really was, and how the box ended."""
        if self._end is None:
            if failure is not None and failure.ending is Ending.DIED:
                self.box.wait(FAREWELL_S)
            self._end = self.box.kill()
            self._close_arena()
        return (None if failure is None else settle(failure, self._end)), self._end

    def _ask(self, frame: Mapping[str, Any], fds: Sequence[int]) -> frames.Heard:
        text = json.dumps(frame).encode()
        if len(text) > frames.MAX_FRAME_BYTES:
            raise ProblemError(
                f"the layout of a case takes {len(text)} bytes, over {frames.MAX_FRAME_BYTES}:"
                " give it fewer tensors or a shorter chain"
            )
        try:
            self.box.send_memory(text, fds)
        except GONE:
            return frames.Gone()
        return self._hear()

    def _hear(self) -> frames.Heard:
        deadline = self.budget.deadline(self.budget.limits.load_s)
        return frames.hear(self.box, deadline, self.budget.watch.check)

    def _unwelcome(self, heard: frames.Heard) -> Failure:
        if isinstance(heard, frames.TimedOut):
            overrun = self.budget.overrun()
            return overrun or Failure(Ending.LOAD_TIME, f"{self.budget.limits.load_s:g} s")
        return failure_of(heard, "a message out of turn")

    def _setup_growth(self, before: int | None, constant_bytes: int) -> Failure | None:
        now = self.box.memory_now_bytes()
        if before is None or now is None:
            return None
        grown = now - before
        if grown <= SETUP_KEEPS * constant_bytes + SETUP_SPARE_BYTES:
            return None
        return Failure(Ending.SETUP_MEMORY, f"{grown >> 20} MiB for {constant_bytes >> 20} MiB")

    def _close_arena(self) -> None:
        if self._arena is not None:
            self._arena.close()
            self._arena = None
            self._line = None


FAREWELL_S: Final = 2.0
"""How long a box whose channel is closed may take to be gone by itself, before it is killed."""
