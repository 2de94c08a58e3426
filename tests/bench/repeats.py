"""Kernels that repeat one small operation, in a problem folder of their own, and the usual loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from judge.comparing import CONFIDENCE
from judge.stats import Estimate
from tests.bench.orders import FIRST

BASE: Final = 400
EXTRA_PCT: Final = (0, 1, 2, 5)

KERNEL: Final = """
import torch

def custom_kernel(data):
    x, y = data
    for _ in range({repeats}):
        torch.mul(x, 2.0, out=y)
    return y
"""

DECLARATION: Final = """
id = "repeats"
title = "Twice the input, many times over"
version = 1
devices = ["cpu"]
languages = [".py"]
output_in_data = true

[baseline]
name = "plain torch"
file = "submissions/baseline.py"

[limits]
build_s = 60
load_s = 30
call_s = 5
job_s = 3600
ranked_s = 3600

[tolerances.absolute]
value = 1e-6
reason = "Doubling is exact."

[[cases]]
name = "n64"
stage = "test"
values = { n = 64 }

[[cases]]
name = "n8192"
stage = "timing"
calls = 40
values = { n = 8192 }
"""

REFERENCE: Final = """
import torch
from judge.model import Report

def generate(case, rng):
    return {"x": torch.from_numpy(rng.standard_normal(case.values["n"], dtype="float32"))}

def outputs(case):
    return {"y": (torch.float32, (case.values["n"],))}

def reference(inputs):
    return {"y": inputs["x"].double() * 2}

def check(inputs, expected, output):
    return Report(bool((output["y"].double() == expected["y"]).all()), "not twice the input")

def bytes_and_flops(case):
    return 8 * case.values["n"], case.values["n"]
"""

STATEMENT: Final = """# Twice the input

## Cases

| case | n |
|---|---|
| n64 | 64 |
| n8192 | 8192 |
"""

LOOP: Final = """
import importlib.util, json, math, os, sys, time
import torch
os.sched_setaffinity(0, {int(sys.argv[2])})
torch.set_num_threads(1)
spec = importlib.util.spec_from_file_location("kernel", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
torch.manual_seed(1)
x = torch.randn(8192)
y = torch.empty_like(x)
module.custom_kernel((x, y))
assert torch.equal(y, 2 * x)
taken = []
for _ in range(100):
    began = time.perf_counter_ns()
    module.custom_kernel((x, y))
    taken.append(time.perf_counter_ns() - began)
    mean = sum(taken) / len(taken)
    if len(taken) > 2:
        variance = sum((t - mean) ** 2 for t in taken) / (len(taken) - 1)
        error = math.sqrt(variance / len(taken))
        if error / mean < 0.001:
            break
print(json.dumps({"mean_ns": mean, "error_ns": error, "calls": len(taken), "seconds": sum(taken) / 1e9}))
"""
"""One process, one seeded input, one warm call, the mean of up to 100 calls or until it seems steady."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One of the judged kernels. extra_pct: how much more it does than the first."""

    name: str
    extra_pct: int

    @property
    def repeats(self) -> int:
        return repeats_of(self.extra_pct)


def repeats_of(extra_pct: int) -> int:
    """A whole number: `BASE` is a multiple of 100."""
    return BASE * (100 + extra_pct) // 100


def kernels() -> tuple[Kernel, ...]:
    """The first, and one for each difference from it: 0 is its copy."""
    return (Kernel(FIRST, 0), *(Kernel(f"plus_{extra}", extra) for extra in EXTRA_PCT))


def write_folder(folder: Path) -> None:
    """A problem folder as organizers write them, with the kernels among its submissions."""
    submissions = folder / "submissions"
    submissions.mkdir(parents=True)
    (folder / "problem.toml").write_text(DECLARATION)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "statement.md").write_text(STATEMENT)
    (folder / "starter.py").write_text(KERNEL.format(repeats=1))
    sources = {"baseline": BASE, "double": 2 * BASE}
    sources |= {kernel.name: kernel.repeats for kernel in kernels()}
    for name, repeats in sources.items():
        (submissions / f"{name}.py").write_text(KERNEL.format(repeats=repeats))


def constant_of(log_ratio: float) -> float:
    """What a call takes besides its repetitions, in repetitions.

    log_ratio: of the time of `BASE` repetitions over that of twice as many, (c + n) / (c + 2n).
    """
    ratio = math.exp(-log_ratio)
    return BASE * (2 - ratio) / (ratio - 1)


def constant_from(double: Estimate) -> float:
    """The same from an estimate of that log ratio; 0 where its interval holds the ratio of 1 to 2.

    On a busy machine the estimate knows less of such a part than its being small tells.
    """
    return 0.0 if double.may_be(-math.log(2), CONFIDENCE) else constant_of(double.mean)


def truths_of(constant: float) -> Mapping[int, float]:
    """Exact log differences from the first kernel, by per cent of more repetitions."""
    return {
        extra: math.log((constant + repeats_of(extra)) / (constant + BASE)) for extra in EXTRA_PCT
    }
