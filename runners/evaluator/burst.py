"""A burst of calls of one case: contents and expected outputs made before, comparison after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from judge.model import Case, Report
from runners.endings import Ending, Failure
from runners.evaluator.arena import Bytes, Layout, Slot
from runners.evaluator.call import Burden
from runners.evaluator.inputs import Draw, stream
from runners.problem import Inputs, LoadedProblem, ProblemError, Tensors, tensor_or_scalar

MEMORY_BYTES: Final = 256 << 20
"""About what a burst may hold in private memory; a single call may take more."""

COPIES_PER_CALL: Final = 4
"""Of a call's inputs and outputs: packed, unpacked, expected in fp64, poison and result."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What one link is given and what must come of it. Both hold the constants."""

    inputs: Inputs
    expected: Tensors
    block: Bytes


@dataclass(frozen=True, slots=True)
class Source:
    """Where the contents of a case's calls come from.

    case_index: place of the case in its job. constants: drawn once for the box.
    """

    problem: LoadedProblem
    key: bytes
    case: Case
    case_index: int
    constants: Tensors

    def draw(self, draw: Draw, call: int) -> Inputs:
        """The inputs of a call, without the constants."""
        rng = stream(self.key, draw, self.case_index, call)
        inputs = self.problem.generate(self.case, rng)
        return {name: tensor_or_scalar(name, value) for name, value in inputs.items()}

    def layout(self, inputs: Inputs, chain: int) -> Layout:
        outputs = self.problem.outputs(self.case)
        in_data = self.problem.problem.output_in_data
        return Layout.of(inputs, outputs, self.constants, chain, in_data)

    def contents(self, draw: Draw, call: int, layout: Layout) -> Contents:
        inputs = self.draw(draw, call)
        if not layout.matches(inputs):
            raise ProblemError(
                f"{self.problem.problem.id}: generate gives case {self.case.name!r} other names,"
                " shapes or scalars from call to call: derive them from the case alone"
            )
        block = layout.pack(inputs)
        whole = {**inputs, **self.constants}
        return Contents(whole, self.problem.reference(whole), block)


def bursts(
    source: Source, draw: Draw, count: int, layout: Layout
) -> Iterator[tuple[int, list[list[Contents]]]]:
    """The contents of a case's calls, as many at a time as fit in private memory.

    Gives the number of a burst's first call, and for each of its calls the links of its chain.
    """
    chain = len(layout.outputs)
    step = calls_per_burst(layout)
    for first in range(0, count, step):
        yield (
            first,
            [
                [source.contents(draw, call * chain + link, layout) for link in range(chain)]
                for call in range(first, min(first + step, count))
            ],
        )


def draw_constants(problem: LoadedProblem, key: bytes, case: Case, case_index: int) -> Tensors:
    """The constants of a case for one box; empty where the problem has none."""
    if problem.constants is None:
        return {}
    drawn = problem.constants(case, stream(key, Draw.CONSTANTS, case_index, 0))
    constants = {}
    for name, value in drawn.items():
        tensor = tensor_or_scalar(name, value)
        if not isinstance(tensor, torch.Tensor):
            raise ProblemError(f"{problem.problem.id}: constant {name!r} is no tensor")
        constants[name] = tensor
    return constants


def calls_per_burst(layout: Layout) -> int:
    """How many calls' contents fit in private memory, at least 1."""
    chain = len(layout.outputs)
    per_call = COPIES_PER_CALL * (layout.input_bytes * chain + layout.output_bytes)
    return max(1, MEMORY_BYTES // per_call)


def burden(blocks: Sequence[Bytes], layout: Layout, chance: np.random.Generator) -> Burden:
    """What the box will see of a call or chain, with fresh poison."""
    words = -(-layout.output_bytes // 8)
    poison = chance.integers(1 << 64, size=words, dtype=np.uint64).view(np.uint8)
    return Burden(blocks, poison[: layout.output_bytes])


def compare(
    problem: LoadedProblem, layout: Layout, contents: Sequence[Contents], outputs: Bytes
) -> list[Report]:
    """The checker's word on every link of a call, up to the first that fails."""
    reports = []
    for link, slots in zip(contents, layout.outputs, strict=True):
        report = _compare_link(problem, slots, link, outputs)
        reports.append(report)
        if not report.passed:
            break
    return reports


def _compare_link(
    problem: LoadedProblem, slots: tuple[Slot, ...], link: Contents, outputs: Bytes
) -> Report:
    tensors = {}
    for slot in slots:
        tensor = tensor_of(slot, outputs)
        if tensor is None:
            return Report(
                False, f"Output {slot.name!r} holds bytes that are neither true nor false."
            )
        tensors[slot.name] = tensor
    return problem.check(link.inputs, link.expected, tensors)


def tensor_of(slot: Slot, outputs: Bytes) -> torch.Tensor | None:
    """The output that lies in a private copy, or None for a bool that is neither 0 nor 1."""
    flat = torch.from_numpy(outputs[slot.offset : slot.offset + slot.size_bytes])
    if slot.dtype is torch.bool:
        if flat.numel() and int(flat.max()) > 1:
            return None
        return flat.to(torch.bool).view(slot.shape)
    if not slot.size_bytes:
        return torch.empty(slot.shape, dtype=slot.dtype)
    return flat.view(slot.dtype).view(slot.shape)


def wrong(report: Report, call: int) -> Failure:
    message = report.message or "The output is wrong."
    return Failure(Ending.WRONG, message, call, report)
