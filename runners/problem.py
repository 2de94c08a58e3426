"""The trusted half of a problem folder: its generator, reference and checker."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from judge.model import Case, Problem, Report, SourceFile

Scalar = int | float | bool | str
Inputs = Mapping[str, torch.Tensor | Scalar]
Tensors = Mapping[str, torch.Tensor]
OutputShapes = Mapping[str, tuple[torch.dtype, tuple[int, ...]]]

REQUIRED = ("generate", "outputs", "reference", "check", "bytes_and_flops")


class ProblemError(Exception):
    """The problem folder is at fault, not the submission: ours."""


@dataclass(frozen=True, slots=True)
class LoadedProblem:
    """A problem with its code. The functions are those of `reference.py`, by the same names.

    baseline: the file that ranked runs are measured against, where the problem has one.
    """

    problem: Problem
    generate: Callable[[Case, np.random.Generator], Inputs]
    constants: Callable[[Case, np.random.Generator], Tensors] | None
    outputs: Callable[[Case], OutputShapes]
    reference: Callable[[Inputs], Tensors]
    check: Callable[[Inputs, Tensors, Tensors], Report]
    bytes_and_flops: Callable[[Case], tuple[int, int]]
    baseline: SourceFile | None = None


def load_problem(folder: Path, problem: Problem) -> LoadedProblem:
    """Import the `reference.py` of a problem folder.

    Raises ProblemError for a file that does not import, or lacks a function.
    """
    path = folder / "reference.py"
    module = _import(path, f"judge_problem_{problem.id}_{problem.digest[:12]}")
    for name in REQUIRED:
        if not callable(getattr(module, name, None)):
            raise ProblemError(f"{path}: has no function {name}: add it")
    baseline = None
    if problem.baseline is not None:
        file = folder / problem.baseline.file
        baseline = SourceFile(file.name, file.read_bytes())
    return LoadedProblem(
        problem=problem,
        generate=module.generate,
        constants=getattr(module, "constants", None),
        outputs=module.outputs,
        reference=module.reference,
        check=module.check,
        bytes_and_flops=module.bytes_and_flops,
        baseline=baseline,
    )


def _import(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except (OSError, ImportError, SyntaxError, NameError, TypeError, ValueError) as error:
        del sys.modules[name]
        raise ProblemError(f"{path}: does not import: {error}") from error
    return module


def tensor_or_scalar(name: str, value: Any) -> torch.Tensor | Scalar:
    """The value of an input, made contiguous. Raises ProblemError for anything else."""
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise ProblemError(
                f"generate: input {name!r} lies on {value.device}: make it on the CPU"
            )
        return value.contiguous()
    if isinstance(value, (bool, int, float, str)):
        return value
    raise ProblemError(
        f"generate: input {name!r} is a {type(value).__name__}: give a tensor or a plain scalar"
    )
