"""Biased sigmoid top-k routing: inputs, fp64 reference and a checker that no tie can fool.

Per token: s = sigmoid(logit), choice = s + bias; the k largest choices win, and their weights are
their s (not their choice), renormalised and scaled. In the grouped form only experts of the
`topk_group` best groups may win, a group's score being the sum of its two largest choices.
A choice that is NaN counts as -inf, and an expert with choice -inf has s = 0.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from judge.model import Case, Difference, Report

Inputs = Mapping[str, Any]
Tensors = Mapping[str, torch.Tensor]

DEFAULTS: Mapping[str, Any] = {
    "n_group": 1,
    "topk_group": 1,
    "scale": 2.827,
    "renormalise": True,
    "bias": "uniform",
    "logits": "normal",
}
"""What a case means where it does not say: Kimi K2.5's router on ordinary data."""

_DECLARED = tomllib.loads(Path(__file__).with_name("problem.toml").read_text("utf-8"))
_TOLERANCES = _DECLARED["tolerances"]
CHOICE_TOLERANCE = float(_TOLERANCES["choice"]["value"])
GROUP_TOLERANCE = float(_TOLERANCES["group"]["value"])
WEIGHT_TOLERANCE = float(_TOLERANCES["weight"]["value"])
WEIGHT_FLOOR = float(_TOLERANCES["weight_floor"]["value"])

SHOWN_DIFFERENCES = 5
_INFINITY = float("inf")


def generate(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    """The inputs of one call: logits bf16 [tokens, experts], bias fp32 [experts], then scalars."""
    values = {**DEFAULTS, **case.values}
    tokens, experts, k = values["tokens"], values["experts"], values["k"]
    return {
        "logits": _logits(values["logits"], tokens, experts, rng),
        "bias": _bias(values["bias"], experts, k, rng),
        "k": k,
        "n_group": values["n_group"],
        "topk_group": values["topk_group"],
        "scale": float(values["scale"]),
        "renormalise": bool(values["renormalise"]),
    }


def _logits(kind: str, tokens: int, experts: int, rng: np.random.Generator) -> torch.Tensor:
    shape = (tokens, experts)
    drawn: np.ndarray[Any, Any]
    if kind == "wide":
        drawn = rng.uniform(-14.0, 6.0, shape)
    elif kind == "coarse":
        drawn = rng.integers(-4, 5, shape) / 2
    elif kind in ("normal", "nonfinite"):
        drawn = rng.standard_normal(shape, dtype=np.float32)
        drawn *= 2
    else:
        raise ValueError(f'logits = "{kind}" is none of normal, wide, coarse, nonfinite')
    if kind == "nonfinite":
        _spoil(drawn, rng)
    return torch.from_numpy(drawn).bfloat16()


def _spoil(logits: np.ndarray[Any, Any], rng: np.random.Generator) -> None:
    """Put NaN and infinities in: single elements everywhere, whole rows here and there."""
    hit = rng.random(logits.shape) < 0.03
    logits[hit] = rng.choice([np.nan, np.inf, -np.inf], int(hit.sum()))
    kinds = rng.integers(0, 8, logits.shape[0])
    logits[kinds == 0] = np.nan
    logits[kinds == 1] = -np.inf
    logits[kinds == 2] = np.inf
    mostly_nan = (kinds == 3)[:, None] & (rng.random(logits.shape) < 0.99)
    logits[mostly_nan] = np.nan


def _bias(kind: str, experts: int, k: int, rng: np.random.Generator) -> torch.Tensor:
    drawn = rng.uniform(-0.1, 0.1, experts)
    if kind == "zero":
        drawn[:] = 0.0
    elif kind == "positive":
        drawn = rng.uniform(2.02, 8.0, experts)
    elif kind == "negative":
        drawn -= 3.0
    elif kind == "huge":
        drawn[rng.integers(experts)] = 1e30
    elif kind == "masked":
        # Fewer experts than are asked for: the rest of a row's ids are fill with weight 0.
        drawn[rng.permutation(experts)[k // 2 :]] = -np.inf
    elif kind != "uniform":
        known = "uniform, zero, positive, negative, huge, masked"
        raise ValueError(f'bias = "{kind}" is none of {known}')
    return torch.from_numpy(drawn.astype(np.float32))


def outputs(case: Case) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """weights fp32 and ids int32, both [tokens, k]; the order within a row is free."""
    shape = (int(case.values["tokens"]), int(case.values["k"]))
    return {"weights": (torch.float32, shape), "ids": (torch.int32, shape)}


def bytes_and_flops(case: Case) -> tuple[int, int]:
    """Everything moved once; 6 operations a logit: scale, exp2, add, invert, add bias, compare."""
    tokens, experts, k = (int(case.values[name]) for name in ("tokens", "experts", "k"))
    return tokens * experts * 2 + experts * 4 + tokens * k * 8, 6 * tokens * experts


@dataclass(frozen=True, slots=True)
class _Routing:
    """The fp64 view of some rows.

    choice: [rows, experts], NaN already -inf. group_score: [rows, n_group]. sure and open groups:
    bool [rows, n_group]: those above the last kept group's score by more than the tolerance, and
    those within it. Ungrouped rows have one group, which is sure.
    """

    choice: torch.Tensor
    group_score: torch.Tensor
    sure: torch.Tensor
    open: torch.Tensor


def _route(inputs: Inputs) -> _Routing:
    choice = torch.sigmoid(inputs["logits"].double()).add_(inputs["bias"].double())
    choice.masked_fill_(choice.isnan(), -_INFINITY)
    n_group, keep = inputs["n_group"], inputs["topk_group"]
    if n_group == 1:
        one = torch.ones(choice.shape[0], 1, dtype=torch.bool)
        return _Routing(choice, torch.zeros(one.shape, dtype=torch.float64), one, ~one)
    grouped = choice.view(choice.shape[0], n_group, -1)
    score = grouped.topk(min(2, grouped.shape[2]), dim=2).values.sum(2)
    last = score.topk(keep, dim=1).values[:, -1:]
    slack = _slack(last, GROUP_TOLERANCE)
    sure = score > last + slack
    return _Routing(choice, score, sure, (score >= last - slack) & ~sure)


def _slack(threshold: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Absolute tolerance around a threshold; 0 around an infinite one, where it would be NaN."""
    return torch.where(
        threshold.isfinite(), threshold.abs().clamp(min=1.0).mul(tolerance), torch.zeros(())
    )


def _mask(choice: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """choice with -inf in every expert of a group that is not kept."""
    if kept.shape[1] == 1:
        return choice
    per_expert = kept.repeat_interleave(choice.shape[1] // kept.shape[1], dim=1)
    return choice.masked_fill(~per_expert, -_INFINITY)


def _thresholds(masked: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ids of the k largest, the k-th largest choice [rows, 1], and how many must be chosen [rows].

    Must be chosen: every expert above the k-th largest by more than the tolerance.
    """
    top, ids = masked.topk(k, dim=1)
    last = top[:, -1:]
    above = (top > last + _slack(last, CHOICE_TOLERANCE)).sum(1)
    return ids, last, above


def _weights(inputs: Inputs, ids: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
    """fp64 weights of the given experts, in the order of ids; choice: theirs, masked."""
    s = torch.sigmoid(inputs["logits"].gather(1, ids).double())
    s.masked_fill_(choice == -_INFINITY, 0.0)
    if inputs["renormalise"]:
        s /= s.sum(1, keepdim=True).clamp(min=1e-20)
    return s.mul_(inputs["scale"])


def reference(inputs: Inputs) -> dict[str, torch.Tensor]:
    """weights and ids in fp64 and int64, and what `check` needs to judge any other right answer.

    kept: bool [tokens, n_group]. last: the k-th largest choice [tokens, 1]. above: how many
    experts must be chosen [tokens]. ambiguous: bool [tokens], another set of groups is right too.
    """
    routing = _route(inputs)
    kept = routing.sure | routing.open
    ambiguous = kept.sum(1) > inputs["topk_group"]
    if bool(ambiguous.any()):
        best = routing.group_score.topk(inputs["topk_group"], dim=1).indices
        kept = torch.zeros_like(kept).scatter_(1, best, True)
    masked = _mask(routing.choice, kept)
    ids, last, above = _thresholds(masked, inputs["k"])
    return {
        "weights": _weights(inputs, ids, masked.gather(1, ids)),
        "ids": ids,
        "kept": kept,
        "last": last,
        "above": above,
        "ambiguous": ambiguous,
    }


@dataclass(frozen=True, slots=True)
class _Judged:
    """Rows held against a set of groups: bool [rows] twice, fp64 [rows, k] three times.

    choice and weights: those of the ids handed in. error: absolute, of the weights handed in.
    """

    selected: torch.Tensor
    weighed: torch.Tensor
    choice: torch.Tensor
    weights: torch.Tensor
    error: torch.Tensor

    def passed(self) -> torch.Tensor:
        return self.selected & self.weighed


def _judge(inputs: Inputs, expected: Tensors, ids: torch.Tensor, got: torch.Tensor) -> _Judged:
    """Hold ids (in range and distinct) and weights against the groups and thresholds expected."""
    s = torch.sigmoid(inputs["logits"].gather(1, ids).double())
    choice = s + inputs["bias"].double()[ids]
    kept = expected["kept"].gather(1, ids // (inputs["logits"].shape[1] // inputs["n_group"]))
    choice.masked_fill_(choice.isnan() | ~kept, -_INFINITY)
    last = expected["last"]
    slack = _slack(last, CHOICE_TOLERANCE)
    selected = (choice >= last - slack).all(1)
    selected &= (choice > last + slack).sum(1) == expected["above"]
    weights = _weights(inputs, ids, choice)
    error = (got - weights).abs()
    # Written so that a NaN fails.
    weighed = (error <= WEIGHT_TOLERANCE * weights + WEIGHT_FLOOR).all(1)
    return _Judged(selected, weighed, choice, weights, error)


@dataclass(frozen=True, slots=True)
class _Answer:
    """An output on trial. raw: ids as handed in; ids: clamped into range, safe to index with."""

    inputs: Inputs
    expected: Tensors
    raw: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor
    distinct: torch.Tensor


def check(inputs: Inputs, expected: Tensors, output: Tensors) -> Report:
    """Whether every row holds k right experts, each with its own right weight, in any order."""
    experts = inputs["logits"].shape[1]
    raw = output["ids"].long()
    ids = raw.clamp(0, experts - 1)
    ordered = ids.sort(1).values
    distinct = (ordered[:, 1:] != ordered[:, :-1]).all(1)
    answer = _Answer(inputs, expected, raw, ids, output["weights"].double(), distinct)
    judged = _judge(inputs, expected, ids, answer.weights)
    sound = (raw == ids).all(1) & distinct
    passed = sound & judged.passed()
    for row in (sound & ~passed & expected["ambiguous"]).nonzero().flatten().tolist():
        _try_other_groups(answer, row, judged)
    passed = sound & judged.passed()
    faults = (~passed).nonzero().flatten().tolist()
    counted = sound[:, None] & (judged.weights > WEIGHT_FLOOR / WEIGHT_TOLERANCE)
    differences: list[Difference] = []
    message = ""
    for row in faults[:SHOWN_DIFFERENCES]:
        sentence, found = _explain(answer, judged, row)
        message = message or f"{len(faults)} of {len(raw)} rows are wrong; row {row}: {sentence}"
        differences += found
    return Report(
        passed=not faults,
        message=message,
        max_abs_error=_largest(judged.error[sound]),
        max_rel_error=_largest((judged.error / judged.weights)[counted]),
        differences=tuple(differences[:SHOWN_DIFFERENCES]),
    )


def _try_other_groups(answer: _Answer, row: int, judged: _Judged) -> None:
    """Where groups tie, hold one row against every legal set of them; a pass is put in judged.

    At most n_group choose topk_group sets (70 for the usual 8 choose 4), all at once.
    """
    inputs, keep = answer.inputs, answer.inputs["topk_group"]
    routing = _route({**inputs, "logits": inputs["logits"][row : row + 1]})
    free = routing.open[0].nonzero().flatten().tolist()
    sets = list(combinations(free, keep - int(routing.sure.sum())))
    kept = routing.sure.repeat(len(sets), 1).scatter_(1, torch.tensor(sets), True)
    _, last, above = _thresholds(_mask(routing.choice.expand(len(sets), -1), kept), inputs["k"])
    one = torch.full((len(sets),), row)
    other = _judge(
        {**inputs, "logits": inputs["logits"][one]},
        {"kept": kept, "last": last, "above": above},
        answer.ids[one],
        answer.weights[one],
    )
    for winner in other.passed().nonzero().flatten()[:1]:
        for field in fields(judged):
            getattr(judged, field.name)[row] = getattr(other, field.name)[winner]


def _explain(answer: _Answer, judged: _Judged, row: int) -> tuple[str, list[Difference]]:
    """What is wrong with a row, as a sentence and as its differing elements."""
    raw = answer.raw[row].tolist()
    experts = answer.inputs["logits"].shape[1]
    outside = [at for at, expert in enumerate(raw) if not 0 <= expert < experts]
    if outside:
        found = [Difference("ids", (row, at), str(raw[at]), f"0..{experts - 1}") for at in outside]
        return f"id {raw[outside[0]]} is outside 0..{experts - 1}", found
    if not answer.distinct[row]:
        twice = [at for at, expert in enumerate(raw) if expert in raw[:at]]
        found = [Difference("ids", (row, at), str(raw[at]), "an id not used yet") for at in twice]
        return f"id {raw[twice[0]]} is there twice", found
    if not judged.selected[row]:
        return _explain_selection(answer, judged, row)
    allowed = WEIGHT_TOLERANCE * judged.weights[row] + WEIGHT_FLOOR
    wrong = (~(judged.error[row] <= allowed)).nonzero().flatten().tolist()
    got, right = (
        [f"{w:.9g}" for w in tensor[row].tolist()] for tensor in (answer.weights, judged.weights)
    )
    found = [Difference("weights", (row, at), got[at], right[at]) for at in wrong]
    at = wrong[0]
    return f"the weight of expert {raw[at]} is {got[at]}, not {right[at]}", found


def _explain_selection(answer: _Answer, judged: _Judged, row: int) -> tuple[str, list[Difference]]:
    at = int(judged.choice[row].argmin())
    one = {**answer.inputs, "logits": answer.inputs["logits"][row : row + 1]}
    masked = _mask(_route(one).choice, answer.expected["kept"][row : row + 1])[0]
    masked[answer.ids[row]] = -_INFINITY
    left_out = int(masked.argmax())
    got = f"{answer.raw[row, at]} (choice {judged.choice[row, at]:.9g})"
    better = f"{left_out} (choice {masked[left_out]:.9g})"
    sentence = f"expert {got} was chosen and expert {better} was left out"
    return sentence, [Difference("ids", (row, at), got, better)]


def _largest(errors: torch.Tensor) -> float | None:
    """The largest finite error; None where there is none."""
    finite = errors[errors.isfinite()]
    return float(finite.max()) if finite.numel() else None
