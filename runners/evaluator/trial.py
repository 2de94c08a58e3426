"""The calls of one case in one box."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from judge.model import Report
from runners.endings import Failure
from runners.evaluator.arena import Layout
from runners.evaluator.burst import (
    Contents,
    Source,
    burden,
    bursts,
    compare,
    wrong,
)
from runners.evaluator.call import Start, Taken
from runners.evaluator.inputs import Draw
from runners.evaluator.null import NullArm
from runners.evaluator.session import Session

WARM_UP_CALLS: Final = 3


@dataclass(slots=True)
class Trial:
    """A case that is laid out in a box, and what came of its calls so far.

    samples_ns, null_samples_ns: of timed calls only, in order.
    """

    source: Source
    layout: Layout
    start: Start
    session: Session
    reports: list[Report] = field(default_factory=list)
    samples_ns: list[int] = field(default_factory=list)
    null_samples_ns: list[int] = field(default_factory=list)

    def lay_out(self) -> Failure | None:
        return self.session.lay_out(self.layout, self.source.constants, self.start)

    def test(self, draw: Draw = Draw.TEST) -> Failure | None:
        """Make the case's calls for correctness alone."""
        return self._calls(draw, self.source.case.calls, None)

    def time(self, null: NullArm | None) -> Failure | None:
        """Warm up, then take the case's timed calls, those of the null kernel in between."""
        failure = self._calls(Draw.WARM_UP, WARM_UP_CALLS, None)
        if failure is not None:
            return failure
        self.samples_ns.clear()
        if null is not None:
            null.lay_out(self.layout, self.start)
        return self._calls(Draw.TIMED, self.source.case.calls, null)

    def _calls(self, draw: Draw, count: int, null: NullArm | None) -> Failure | None:
        for first, burst in bursts(self.source, draw, count, self.layout):
            overrun = self.session.budget.overrun()
            if overrun is not None:
                return overrun
            failure = self._burst(burst, first, null)
            if failure is not None:
                return failure
        return None

    def _burst(
        self, burst: Sequence[Sequence[Contents]], first: int, null: NullArm | None
    ) -> Failure | None:
        """Make the calls of prepared contents, then compare them all."""
        chance, line = self.session.chance, self.session.line
        limit_s = self.session.budget.limits.call_s
        burdens = [burden([link.block for link in links], self.layout, chance) for links in burst]
        taken: list[Taken] = []
        failure: Failure | None = None
        gc.disable()
        try:
            for index, load in enumerate(burdens, first):
                if null is not None and index % 2:
                    self.null_samples_ns.append(null.sample_ns())
                result = line.call(load, limit_s)
                if isinstance(result, Failure):
                    failure = replace(result, call=index)
                    break
                taken.append(result)
                if null is not None and not index % 2:
                    self.null_samples_ns.append(null.sample_ns())
        finally:
            gc.enable()
        for index, (links, result) in enumerate(zip(burst, taken, strict=False), first):
            reports = compare(self.source.problem, self.layout, links, result.outputs)
            self.reports += reports
            self.samples_ns.append(result.ns)
            if not reports[-1].passed:
                return wrong(reports[-1], index)
        return failure or self.session.budget.overrun()
