"""y = x * factor, and how many elements of y are positive."""

import torch

from judge.model import Difference, Report


def generate(case, rng):
    x = torch.from_numpy(rng.standard_normal(case.values["n"], dtype="float32"))
    return {"x": x, "factor": case.values["factor"]}


def outputs(case):
    return {"y": (torch.float32, (case.values["n"],)), "positive": (torch.int32, (1,))}


def reference(inputs):
    y = inputs["x"].double() * inputs["factor"]
    return {"y": y, "positive": (y > 0).sum().reshape(1)}


def check(inputs, expected, output):
    error = (output["y"].double() - expected["y"]).abs()
    wrong = torch.nonzero(~(error <= 1e-5)).reshape(-1)
    if len(wrong):
        first = int(wrong[0])
        difference = Difference(
            "y", (first,), str(float(output["y"][first])), str(float(expected["y"][first]))
        )
        return Report(False, f"{len(wrong)} elements of y are wrong.", differences=(difference,))
    if int(output["positive"][0]) != int(expected["positive"][0]):
        return Report(False, "positive is wrong.")
    largest = float(error.max()) if len(error) else 0.0
    return Report(True, max_abs_error=largest, max_rel_error=None)


def bytes_and_flops(case):
    return 8 * case.values["n"], case.values["n"]
