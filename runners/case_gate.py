"""What can be wrong with one case of a problem: its data, its reference, its checker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from judge.model import Case, Report
from runners.evaluator.inputs import Draw, stream
from runners.problem import Inputs, LoadedProblem, Tensors
from runners.rehearsal import Rehearsal, random_bits

KEY = bytes(range(16))
FUZZ_ROUNDS = 8
CHECK_LIMIT_S = 2.0


class Fault(NamedTuple):
    """function: the one of `reference.py` that is to blame."""

    function: str
    what: str
    remedy: str


def rehearse(problem: LoadedProblem, case: Case, call: int) -> Rehearsal:
    """Inputs and expected outputs of a call, always the same for the same (case, call)."""
    constants = (
        dict(problem.constants(case, stream(KEY, Draw.CONSTANTS, 0, call)))
        if problem.constants
        else {}
    )
    inputs = {**problem.generate(case, stream(KEY, Draw.REHEARSAL, 0, call)), **constants}
    return Rehearsal(case, inputs, constants, problem.reference(inputs))


def faults_of_case(problem: LoadedProblem, case: Case) -> dict[str, Any]:
    """`faults` of the case, and the names of its tensors that are `constant` from call to call."""
    one, same, other = (rehearse(problem, case, call) for call in (0, 0, 1))
    faults = [*_faults_of_data(one, same, other), *_faults_of_reference(problem, one)]
    if not faults:
        faults = [*_faults_of_check(problem, one, other)]
    tensors = [name for name, value in one.inputs.items() if isinstance(value, torch.Tensor)]
    return {
        "faults": faults,
        "constant": [n for n in tensors if _equal(one.inputs[n], other.inputs[n])],
    }


def _faults_of_data(one: Rehearsal, same: Rehearsal, other: Rehearsal) -> Iterable[Fault]:
    for name, value in one.inputs.items():
        if not _equal(value, same.inputs.get(name)):
            what = f"input {name} differs between two draws from the same rng"
            yield Fault("generate", what, "draw from rng alone")
    if [_form(item) for item in one.inputs.items()] != [_form(i) for i in other.inputs.items()]:
        what = "names, shapes or scalars differ from call to call"
        yield Fault("generate", what, "derive them from the case alone")


def _form(item: tuple[str, Any]) -> tuple[Any, ...]:
    name, value = item
    return (name, value.dtype, value.shape) if isinstance(value, torch.Tensor) else item


def _faults_of_reference(problem: LoadedProblem, one: Rehearsal) -> Iterable[Fault]:
    given = {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in one.inputs.items()}
    problem.reference(given)
    for name, value in one.inputs.items():
        if not _equal(value, given[name]):
            yield Fault("reference", f"changes its input {name}", "work on a copy")
    if not all(isinstance(n, int) and n > 0 for n in problem.bytes_and_flops(one.case)):
        what = "gives something else than two positive whole numbers"
        yield Fault("bytes_and_flops", what, "return (bytes, flops)")
    for name, (dtype, shape) in problem.outputs(one.case).items():
        expected = one.expected.get(name)
        if expected is None or tuple(expected.shape) != tuple(shape):
            got = "nothing" if expected is None else f"shape {list(expected.shape)}"
            what = f"gives {got} for output {name}, declared as {list(shape)}"
            yield Fault("reference", what, "return every output in its declared shape")
        elif not bool(expected.isfinite().all()):
            what = f"expects NaN or an infinity in output {name}, which no tolerance can judge"
            yield Fault("reference", what, "generate data with finite outputs")
        elif not dtype.is_floating_point and not _equal(
            expected.to(dtype).to(expected.dtype), expected
        ):
            what = f"expects values in output {name} that {dtype} cannot hold"
            yield Fault("reference", what, "declare a wider type, or generate other data")


def _faults_of_check(problem: LoadedProblem, one: Rehearsal, other: Rehearsal) -> Iterable[Fault]:
    right = _answer(problem, one)
    report = _checked(problem, one, right)
    if isinstance(report, Fault):
        yield report
        return
    if not report.passed:
        what = f"refuses the reference's own answer: {report.message}"
        yield Fault("check", what, "mend either")
        return
    for label, output in _wrong_answers(problem, one, other, right):
        report = _checked(problem, one, output)
        if isinstance(report, Fault):
            yield report
        elif report.passed:
            remedy = "tighten check, or make the data tell it apart"
            yield Fault("check", f"passes {label}", remedy)
        elif not report.message:
            yield Fault("check", f"refuses {label} without a message", "say what is wrong")


def _checked(
    problem: LoadedProblem, one: Rehearsal, output: Mapping[str, torch.Tensor]
) -> Report | Fault:
    began = time.monotonic()
    report = problem.check(one.inputs, one.expected, output)
    took_s = time.monotonic() - began
    if not isinstance(report, Report):
        what = f"returns a {type(report).__name__}"
        return Fault("check", what, "return a judge.model.Report")
    if took_s > CHECK_LIMIT_S:
        what = f"takes {took_s:.1f} s for one call, over {CHECK_LIMIT_S:g} s"
        return Fault("check", what, "bound its work, whatever the output holds")
    return report


def _answer(problem: LoadedProblem, one: Rehearsal) -> dict[str, torch.Tensor]:
    return {
        name: one.expected[name].to(dtype) for name, (dtype, _) in problem.outputs(one.case).items()
    }


def _wrong_answers(
    problem: LoadedProblem, one: Rehearsal, other: Rehearsal, right: Mapping[str, torch.Tensor]
) -> Iterable[tuple[str, dict[str, torch.Tensor]]]:
    yield "all zeros", {name: torch.zeros_like(value) for name, value in right.items()}
    yield "bits that are all set", {name: _all_set(value) for name, value in right.items()}
    yield "the answer to another input", _answer(problem, other)
    for name, value in right.items():
        if value.dtype.is_floating_point:
            yield f"NaN in {name}", {**right, name: torch.full_like(value, torch.nan)}
            yield f"infinity in {name}", {**right, name: torch.full_like(value, torch.inf)}
        else:
            limits = torch.iinfo(value.dtype) if value.dtype is not torch.bool else None
            for extreme in (limits.min, limits.max) if limits else ():
                yield f"{extreme} in {name}", {**right, name: torch.full_like(value, extreme)}
        yield from _copied_inputs(name, one.inputs, right)
    generator = torch.Generator().manual_seed(7)
    for _ in range(FUZZ_ROUNDS):
        yield "random bits", random_bits(problem, one.case, generator)


def _copied_inputs(
    name: str, inputs: Inputs, right: Tensors
) -> Iterable[tuple[str, dict[str, torch.Tensor]]]:
    for source, value in inputs.items():
        if isinstance(value, torch.Tensor) and _form((name, value)) == _form((name, right[name])):
            yield f"a copy of input {source} in {name}", {**right, name: value.clone()}


def _all_set(value: torch.Tensor) -> torch.Tensor:
    if value.dtype is torch.bool:
        return torch.ones_like(value)
    bits = torch.full((value.nbytes,), 255, dtype=torch.uint8)
    return bits.view(value.dtype).view(value.shape)


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same to the bit."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other) and bool(one == other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    bits = [t.contiguous().view(-1).view(torch.uint8) for t in (one, other)]
    return torch.equal(bits[0], bits[1])
