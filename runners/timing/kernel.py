"""What the doctor times: a small router in plain torch, against its copy; and what it asks a box.

Its own, so that any machine can be examined, whatever problems lie there. 192 rows of 384 numbers:
temporaries of 288 KiB, over malloc's usual threshold, as most kernels of a contest have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import numpy as np
import torch

from judge.model import Case, Limits, Problem, Report, SourceFile, Stage
from runners.evaluator.pair import Side
from runners.evaluator.program import Program
from runners.problem import Inputs, LoadedProblem, OutputShapes, Tensors
from runners.timing.causes import BoxMemory

ROWS: Final = 192
COLUMNS: Final = 384
KEPT: Final = 8
TOLERANCE: Final = 1e-4

LIMITS: Final = Limits(load_s=30, call_s=10, job_s=3600, memory_bytes=2 << 30)
"""The doctor's own clock ends it, long before an hour."""

SOURCE: Final = f"""
import torch

def custom_kernel(data):
    x, bias, weights = data
    top = (torch.sigmoid(x) + bias).topk({KEPT}, dim=1).values
    torch.div(top, top.sum(1, keepdim=True), out=weights)
    return weights
"""

PROBE_ROUNDS: Final = 20
PROBE: Final = f"""
import json, os, resource, torch

def take_and_free():
    torch.empty(8 << 20, dtype=torch.uint8).fill_(1)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(3):
    take_and_free()
before = faults()
for _ in range({PROBE_ROUNDS}):
    take_and_free()
after = faults()
print(json.dumps({{"environment": dict(os.environ), "faults": after - before}}), flush=True)

def custom_kernel(data):
    raise AssertionError("nobody calls the probe")
"""


def side() -> Side:
    """What both arms load: the kernel, or its copy."""
    return Side(_program(SOURCE))


def probe() -> Program:
    """A program that prints, while it is loaded, what `memory_of` reads."""
    return _program(PROBE)


def memory_of(printed: bytes, expected: Mapping[str, str]) -> BoxMemory:
    """What a probe printed, against the environment that every box is meant to have.

    Raises ValueError for anything else.
    """
    told = json.loads(printed)
    seen = told["environment"]
    differing = tuple(name for name, value in sorted(expected.items()) if seen.get(name) != value)
    return BoxMemory(differing, told["faults"] / PROBE_ROUNDS)


def case(calls: int) -> Case:
    """The one case, with so many timed calls of each arm in a pair."""
    return Case(f"{ROWS}x{COLUMNS}", Stage.TIMING, {"rows": ROWS}, calls=calls)


def problem() -> LoadedProblem:
    declared = Problem(
        id="doctor",
        title="What the doctor times",
        version=1,
        digest="0" * 64,
        cases=(),
        secret_cases=(),
        tolerances={},
        limits=LIMITS,
        devices=("cpu",),
        languages=(".py",),
        output_in_data=True,
    )
    return LoadedProblem(declared, _generate, None, _outputs, _reference, _check, _bytes_and_flops)


def _program(source: str) -> Program:
    return Program("python", "kernel.py", (SourceFile("kernel.py", source.encode()),))


def _generate(case: Case, rng: np.random.Generator) -> Inputs:
    x = rng.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    bias = rng.random(COLUMNS, dtype=np.float32)
    return {"x": torch.from_numpy(x), "bias": torch.from_numpy(bias)}


def _outputs(case: Case) -> OutputShapes:
    return {"weights": (torch.float32, (ROWS, KEPT))}


def _reference(inputs: Inputs) -> Tensors:
    x, bias = inputs["x"], inputs["bias"]
    assert isinstance(x, torch.Tensor)
    assert isinstance(bias, torch.Tensor)
    top = (torch.sigmoid(x.double()) + bias.double()).topk(KEPT, dim=1).values
    return {"weights": top / top.sum(1, keepdim=True)}


def _check(inputs: Inputs, expected: Tensors, output: Tensors) -> Report:
    error = (output["weights"].double() - expected["weights"]).abs().max()
    return Report(bool(error <= TOLERANCE), f"off by {float(error):g}", float(error))


def _bytes_and_flops(case: Case) -> tuple[int, int]:
    return 4 * ROWS * (COLUMNS + KEPT), 6 * ROWS * COLUMNS
