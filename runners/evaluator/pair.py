"""One box pair: a fresh box of the baseline and a fresh one of the candidate take turns on every case."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from judge.model import Block, Case, CaseTimes, Limits, Pair
from runners.endings import Ending, Failure
from runners.evaluator.arena import Bytes, Layout
from runners.evaluator.burst import Contents, Source, burden, bursts, compare, draw_constants, wrong
from runners.evaluator.call import Burden, Start, Taken
from runners.evaluator.inputs import KEY_BYTES, Draw, unpredictable
from runners.evaluator.null import NullArm
from runners.evaluator.pool import BoxPool
from runners.evaluator.program import Program
from runners.evaluator.session import Budget, Session
from runners.evaluator.trial import WARM_UP_CALLS
from runners.problem import LoadedProblem, ProblemError, Tensors

Arms = tuple["Arm", "Arm"]


@dataclass(frozen=True, slots=True)
class Side:
    """What the boxes of one side load. cache: host folder of its built extensions, if any."""

    program: Program
    cache: Path | None = None


@dataclass(frozen=True, slots=True)
class PairFailure:
    """Why a pair was not finished: the candidate's doing, or the run's ceiling.

    case: index in the job, None while it was loading or tearing down.
    """

    failure: Failure
    case: int | None


@dataclass(slots=True)
class Arm:
    """A side's box in a pair, the times of the case that is under way, and what it took in all.

    spent_s: seconds that the judge waited for this side: loading, laying out, calls, tearing down.
    """

    session: Session
    samples_ns: list[int] = field(default_factory=list)
    spent_s: float = 0.0

    def load(self, program: Program) -> Failure | None:
        """Load the side's file; the box then rests until its first case."""
        with self._waiting():
            failure = self.session.load(program)
        if failure is None:
            self.session.rest()
        return failure

    def lay_out(self, layout: Layout, constants: Tensors, start: Start) -> Failure | None:
        with self._waiting():
            return self.session.lay_out(layout, constants, start)

    def call(self, load: Burden, limit_s: float) -> Taken | Failure:
        with self._waiting():
            return self.session.line.call(load, limit_s)

    def tear_down(self) -> Failure | None:
        with self._waiting():
            return self.session.tear_down()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.spent_s += time.monotonic() - began


@dataclass(slots=True)
class Duel:
    """Runs the box pairs of one job. Whoever makes one must `end` it.

    cases: index in the job and case, of the timing cases. key: the job's; each pair has one derived
    from it, so that both of its boxes see the same contents, and no other pair does. limits: of every
    box. spent_s: seconds that the judge waited for either side in the candidate's pairs so far.
    """

    problem: LoadedProblem
    cases: Sequence[tuple[int, Case]]
    key: bytes
    boxes: BoxPool
    limits: Limits
    spent_s: list[float] = field(default_factory=lambda: [0.0, 0.0])
    chance: np.random.Generator = field(default_factory=unpredictable)
    null: NullArm = field(init=False)
    _pairs: int = 0

    def __post_init__(self) -> None:
        self.null = NullArm(self.boxes, self.limits)

    def pair(
        self, block: Block, series: int, sides: tuple[Side, Side], budget: Budget
    ) -> Pair | PairFailure:
        """Run one pair. sides: the baseline, and the candidate or the baseline's copy.

        budget: when it must be over, its own limits standing for those of a job.

        Raises ProblemError where the baseline fails, SandboxError where the judge does, and
        StoppedError.
        """
        self._pairs += 1
        key = self._pair_key()
        swapped = bool(self.chance.integers(2))
        # Which of the two is started first must be neither's advantage.
        order = (sides[1], sides[0]) if swapped else sides
        taken = self.boxes.take_all(self.limits, [side.cache for side in order])
        sessions = [Session(box, self.boxes.conditions, budget) for box in taken]
        if swapped:
            sessions.reverse()
        arms = (Arm(sessions[0]), Arm(sessions[1]))
        measured: dict[int, CaseTimes] = {}
        case: int | None = None
        at_fault = 1
        try:
            for at_fault, (arm, side) in enumerate(zip(arms, sides, strict=True)):
                failure = arm.load(side.program)
                if failure is not None:
                    return self._failed(arms, at_fault, failure, case)
            for place in self.chance.permutation(len(self.cases)):
                case, _ = self.cases[place]
                times = self._measure(place, key, arms, budget)
                if isinstance(times, tuple):
                    return self._failed(arms, *times, case)
                measured[case] = times
            for at_fault, arm in enumerate(arms):
                failure = arm.tear_down()
                if failure is not None:
                    return self._failed(arms, at_fault, failure, None)
        finally:
            for number, arm in enumerate(arms):
                arm.session.end()
                self.spent_s[number] += arm.spent_s if block is Block.CANDIDATE else 0.0
        return Pair(block, series, tuple(measured[index] for index, _ in self.cases))

    def end(self) -> None:
        self.null.end()

    def _pair_key(self) -> bytes:
        number = self._pairs.to_bytes(8, "little")
        return hashlib.blake2b(number, key=self.key, digest_size=KEY_BYTES).digest()

    def _failed(self, arms: Arms, at_fault: int, failure: Failure, case: int | None) -> PairFailure:
        settled, end = arms[at_fault].session.end(failure)
        assert settled is not None
        if at_fault == 0 and settled.ending is not Ending.JOB_TIME:
            printed = end.output.decode(errors="replace")[-500:]
            raise ProblemError(
                f"{self.problem.problem.id}: its baseline failed: {settled.message} {printed}"
            )
        return PairFailure(settled, case)

    def _measure(
        self, place: int, key: bytes, arms: Arms, budget: Budget
    ) -> CaseTimes | tuple[int, Failure]:
        """The times of one case, or which arm failed and how."""
        index, case = self.cases[place]
        source = Source(
            self.problem, key, case, index, draw_constants(self.problem, key, case, index)
        )
        layout = source.layout(source.draw(Draw.WARM_UP, 0), case.chain)
        start = Start.of(layout, case.cold)
        for number, arm in enumerate(arms):
            failure = arm.lay_out(layout, source.constants, start)
            if failure is not None:
                return number, failure
        self.null.lay_out(layout, start)
        nulls: list[int] = []
        for draw, count in ((Draw.WARM_UP, WARM_UP_CALLS), (Draw.TIMED, case.calls)):
            nulls.clear()
            for arm in arms:
                arm.samples_ns.clear()
            for first, burst in bursts(source, draw, count, layout):
                overrun = budget.overrun()
                failed = (1, overrun) if overrun else self._burst(layout, burst, first, arms, nulls)
                if failed is not None:
                    return failed
        return CaseTimes(
            case.name,
            case.chain,
            tuple(arms[0].samples_ns),
            tuple(arms[1].samples_ns),
            tuple(nulls),
        )

    def _burst(
        self,
        layout: Layout,
        burst: Sequence[Sequence[Contents]],
        first: int,
        arms: Arms,
        nulls: list[int],
    ) -> tuple[int, Failure] | None:
        """Calls in the order A B, B A, A B ... with one of the null kernel after each."""
        limit_s = self.limits.call_s
        blocks = [[link.block for link in links] for links in burst]
        loads = [[burden(links, layout, self.chance) for _ in arms] for links in blocks]
        taken: list[list[Taken]] = [[], []]
        failed: tuple[int, Failure] | None = None
        gc.disable()
        try:
            for call, load in enumerate(loads, first):
                turns = (0, 1) if call % 2 == 0 else (1, 0)
                for turn in turns:
                    result = arms[turn].call(load[turn], limit_s)
                    if isinstance(result, Failure):
                        failed = turn, replace(result, call=call)
                        break
                    taken[turn].append(result)
                    nulls.append(self.null.sample_ns())
                if failed is not None:
                    break
        finally:
            gc.enable()
        return self._check(layout, burst, first, arms, taken) or failed

    def _check(
        self,
        layout: Layout,
        burst: Sequence[Sequence[Contents]],
        first: int,
        arms: Arms,
        taken: Sequence[Sequence[Taken]],
    ) -> tuple[int, Failure] | None:
        """Compare every call of both arms. Bits that were found right once are right again."""
        for call, links in enumerate(burst, first):
            right: Bytes | None = None
            for number, arm in enumerate(arms):
                if call - first >= len(taken[number]):
                    continue
                result = taken[number][call - first]
                if right is None or not _same(layout, right, result.outputs):
                    report = compare(self.problem, layout, links, result.outputs)[-1]
                    if not report.passed:
                        return number, wrong(report, call)
                    right = result.outputs
                arm.samples_ns.append(result.ns)
        return None


def _same(layout: Layout, one: Bytes, other: Bytes) -> bool:
    """Whether every output holds the same bits; what lies between the outputs differs always."""
    return all(
        np.array_equal(one[span], other[span])
        for slots in layout.outputs
        for slot in slots
        for span in (slice(slot.offset, slot.offset + slot.size_bytes),)
    )
