"""The judge's empty kernel, run along the path of a candidate's calls: what the path itself costs."""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import torch

from judge.model import Limits
from runners.endings import Failure
from runners.evaluator.arena import Layout
from runners.evaluator.burst import burden
from runners.evaluator.call import Line, Start
from runners.evaluator.pool import BoxPool
from runners.evaluator.program import NULL
from runners.evaluator.session import Budget, Session, Watch
from runners.ports import SandboxError

LINE_BYTES: Final = 64
WARM_UP_CALLS: Final = 3
NO_LIMIT_S: Final = 1e9
"""It lives as long as the job it serves, whose own limit holds."""


class NullArm:
    """A box of its own that never loads a submission.

    It gets one cache line as input and the outputs of the candidate's case, so that the path's
    copies and samples stay in its time. Raises SandboxError where it fails: our fault.
    """

    def __init__(self, boxes: BoxPool, limits: Limits) -> None:
        budget = Budget(Limits(job_s=NO_LIMIT_S), time.monotonic(), Watch())
        self._session = Session(boxes.take(limits), boxes.conditions, budget)
        self._insist(self._session.load(NULL))

    def lay_out(self, layout: Layout, start: Start) -> None:
        """Take on the outputs, the chain and the clock's start of a candidate's case."""
        outputs = {slot.name: (slot.dtype, slot.shape) for slot in layout.outputs[0]}
        line = {"line": torch.zeros(LINE_BYTES, dtype=torch.uint8)}
        own = Layout.of(line, outputs, {}, chain=len(layout.outputs))
        self._insist(self._session.lay_out(own, {}, start))
        for _ in range(WARM_UP_CALLS):
            self.sample_ns()

    def sample_ns(self) -> int:
        """The time of one call or chain. Its outputs must still be as they were poisoned."""
        session, layout = self._session, self._session.line.layout
        links = range(len(layout.outputs))
        blocks = [np.frombuffer(session.chance.bytes(LINE_BYTES), dtype=np.uint8) for _ in links]
        load = burden(blocks, layout, session.chance)
        taken = session.line.call(load, session.budget.limits.call_s)
        if isinstance(taken, Failure):
            raise self._fault(taken)
        if not np.array_equal(taken.outputs, load.poison):
            raise SandboxError("the null kernel wrote to its outputs")
        return taken.ns

    @property
    def line(self) -> Line:
        """The line of the null kernel's own calls."""
        return self._session.line

    def end(self) -> None:
        self._session.end()

    def _insist(self, failed: Failure | None) -> None:
        if failed is not None:
            raise self._fault(failed)

    def _fault(self, failed: Failure) -> SandboxError:
        settled, end = self._session.end(failed)
        assert settled is not None
        printed = end.output.decode(errors="replace")[-500:]
        return SandboxError(f"the null kernel failed: {settled.message} {printed}")
