"""y = x * weight, where weight is a constant; kernels return y themselves."""

import torch

from judge.model import Report


def generate(case, rng):
    return {"x": torch.from_numpy(rng.standard_normal(case.values["n"], dtype="float32"))}


def constants(case, rng):
    return {"weight": torch.from_numpy(rng.standard_normal(case.values["n"], dtype="float32"))}


def outputs(case):
    return {"y": (torch.float32, (case.values["n"],))}


def reference(inputs):
    return {"y": inputs["x"].double() * inputs["weight"].double()}


def check(inputs, expected, output):
    good = bool(((output["y"].double() - expected["y"]).abs() <= 1e-5).all())
    return Report(good, "" if good else "y is wrong.")


def bytes_and_flops(case):
    return 8 * case.values["n"], case.values["n"]
