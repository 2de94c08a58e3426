"""Twice the input, element by element."""

import torch

from judge.model import Difference, Report


def generate(case, rng):
    return {"x": torch.from_numpy(rng.standard_normal(case.values["n"], dtype="float32"))}


def outputs(case):
    return {"y": (torch.float32, (case.values["n"],))}


def reference(inputs):
    return {"y": inputs["x"].double() * 2}


def check(inputs, expected, output):
    wrong = torch.nonzero(output["y"].double() != expected["y"])
    if not len(wrong):
        return Report(True, max_abs_error=0.0, max_rel_error=0.0)
    i = int(wrong[0])
    got, want = str(float(output["y"][i])), str(float(expected["y"][i]))
    return Report(
        False,
        f"{len(wrong)} of {len(output['y'])} elements are wrong",
        differences=(Difference("y", (i,), got, want),),
    )


def bytes_and_flops(case):
    return 8 * case.values["n"], case.values["n"]
