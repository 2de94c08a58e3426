"""Runs an organizer's own files outside a box: a step in a child process, a kernel over some cases.

Only for files of a problem folder, which the judge trusts. What a contestant sends is never run here.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from judge.model import Case, Verdict
from runners.harness import loading
from runners.problem import Inputs, LoadedProblem, Tensors

SPARE_BYTES = 8 << 30
PRINTED_CHARS = 4_000
META: Mapping[str, int | None] = {"rank": 0, "world": 1, "group": None}


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a step ended: `result` (what it returned), or `fault`, a sentence, and what it printed."""

    result: Any = None
    fault: str = ""
    printed: str = ""


def in_child(step: Callable[[], Any], limit_s: float) -> ChildEnd:
    """Run a step in a forked child, so that it can neither hang nor break the caller.

    What the step returns must be plain JSON. It may take `limit_s` seconds, and 8 GiB of address
    space beyond what the caller has.
    """
    with tempfile.TemporaryDirectory(prefix="judge-gate-") as scratch:
        result, printed = Path(scratch) / "result", Path(scratch) / "printed"
        child = multiprocessing.get_context("fork").Process(
            target=_run, args=(step, result, printed)
        )
        child.start()
        child.join(limit_s)
        if child.is_alive():
            child.kill()
            child.join()
            return ChildEnd(fault=f"did not end within {limit_s:g} s")
        said = printed.read_text("utf-8", "replace")[-PRINTED_CHARS:]
        if child.exitcode:
            last = said.strip().rpartition("\n")[2]
            return ChildEnd(fault=last or f"died with exit code {child.exitcode}", printed=said)
        return ChildEnd(result=json.loads(result.read_text()), printed=said)


def _run(step: Callable[[], Any], result: Path, printed: Path) -> None:
    fd = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    sys.stdout = sys.stderr = os.fdopen(fd, "w", buffering=1)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    # A forked child has none of its parent's threads, which a pool of more than one would wait for.
    torch.set_num_threads(1)
    result.write_text(json.dumps(step()))


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """One call prepared: inputs (constants merged in), the names handed over, what must come of it."""

    case: Case
    inputs: Inputs
    constants: Tensors
    expected: Tensors

    def data(self) -> tuple[Any, ...]:
        """Fresh copies of the inputs in order, without the constants."""
        return tuple(
            value.clone() if isinstance(value, torch.Tensor) else value
            for name, value in self.inputs.items()
            if name not in self.constants
        )


def random_bits(
    problem: LoadedProblem, case: Case, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Outputs of a case filled with random bits of any kind: NaN, infinities, huge numbers."""
    filled = {}
    for name, (dtype, shape) in problem.outputs(case).items():
        size = torch.empty(shape, dtype=dtype).nbytes
        bits = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)
        if dtype is torch.bool:
            bits &= 1
        filled[name] = bits.view(dtype).view(shape)
    return filled


@dataclass(frozen=True, slots=True)
class KernelEnd:
    """How a kernel fared: the first verdict that is not accepted, with its case and the sentence."""

    verdict: Verdict
    case: str = ""
    message: str = ""


def play_kernel(
    path: Path, problem: LoadedProblem, rehearsals: Sequence[Rehearsal], limit_s: float
) -> KernelEnd:
    """Call a Python kernel on every rehearsal, in a child, until one is not accepted."""

    def step() -> dict[str, str]:
        return _play(path, problem, rehearsals)

    end = in_child(step, limit_s)
    if end.fault:
        late = end.fault.startswith("did not end")
        return KernelEnd(Verdict.TIME_LIMIT if late else Verdict.RUNTIME_ERROR, "", end.fault)
    verdict, case, message = (end.result[name] for name in ("verdict", "case", "message"))
    return KernelEnd(Verdict(verdict), case, message)


def _play(path: Path, problem: LoadedProblem, rehearsals: Sequence[Rehearsal]) -> dict[str, str]:
    program = loading.load_python(str(path))
    generator = torch.Generator().manual_seed(1)
    for rehearsal in rehearsals:
        if program.setup is not None:
            program.setup(dict(rehearsal.constants), dict(META))
        handed = random_bits(problem, rehearsal.case, generator)
        data = rehearsal.data()
        if problem.problem.output_in_data:
            data += tuple(handed.values())
        fault = _settle(program.kernel(data), handed)
        if not fault:
            report = problem.check(rehearsal.inputs, rehearsal.expected, handed)
            fault = "" if report.passed else report.message
        if fault:
            return {
                "verdict": Verdict.WRONG_ANSWER,
                "case": rehearsal.case.name,
                "message": fault,
            }
    return {"verdict": Verdict.ACCEPTED, "case": "", "message": ""}


def _settle(returned: Any, handed: Mapping[str, torch.Tensor]) -> str:
    """Bring what the kernel returned to the handed tensors; a sentence if it does not fit them."""
    tensors = (returned,) if isinstance(returned, torch.Tensor) else returned
    if not isinstance(tensors, tuple | list) or len(tensors) != len(handed):
        return f"custom_kernel must return {len(handed)} tensors: {', '.join(handed)}"
    for (name, output), tensor in zip(handed.items(), tensors, strict=True):
        if not isinstance(tensor, torch.Tensor):
            return f"custom_kernel returned a {type(tensor).__name__} for {name}"
        if tensor.shape != output.shape or tensor.dtype != output.dtype:
            return (
                f"custom_kernel returned {tensor.dtype}{list(tensor.shape)} for {name}, "
                f"expected {output.dtype}{list(output.shape)}"
            )
        output.copy_(tensor.detach())
    return ""
