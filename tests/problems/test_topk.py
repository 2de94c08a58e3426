"""Promises of the top-k router's generator, reference and checker."""

from __future__ import annotations

import math
import os
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.catalog import draw_secret_cases, load_problem
from judge.model import Case, Report, Stage, Verdict
from runners.case_gate import rehearse
from runners.gate import Label, read_label, shipped
from runners.problem import load_problem as load_code
from runners.rehearsal import Rehearsal, random_bits

FOLDER = Path(__file__).parents[2] / "problems" / "topk"
PROBLEM = load_code(FOLDER, load_problem(FOLDER).problem)
REFERENCE: Any = sys.modules[PROBLEM.reference.__module__]
CASES = PROBLEM.problem.cases
TEST_CASES = [case for case in CASES if case.stage is Stage.TEST]

Output = dict[str, torch.Tensor]


def kernels(expect: Verdict) -> list[Path]:
    labels = {path: read_label(path) for path in shipped(FOLDER)}
    return [
        path
        for path, label in labels.items()
        if isinstance(label, Label) and label.expect is expect and not label.needs
    ]


@cache
def rehearsed(case_name: str, call: int = 0) -> Rehearsal:
    return rehearse(PROBLEM, next(case for case in CASES if case.name == case_name), call)


def answer(rehearsal: Rehearsal) -> Output:
    return {
        name: rehearsal.expected[name].to(dtype)
        for name, (dtype, _) in PROBLEM.outputs(rehearsal.case).items()
    }


def check(rehearsal: Rehearsal, output: Output) -> Report:
    return PROBLEM.check(rehearsal.inputs, rehearsal.expected, output)


def judged(inputs: dict[str, Any], weights: list[list[float]], ids: list[list[int]]) -> Report:
    output = {"weights": torch.tensor(weights), "ids": torch.tensor(ids, dtype=torch.int32)}
    return PROBLEM.check(inputs, PROBLEM.reference(inputs), output)


def router(
    logits: list[list[float]], bias: list[float], k: int, groups: tuple[int, int] = (1, 1)
) -> dict[str, Any]:
    return {
        "logits": torch.tensor(logits).to(torch.bfloat16),
        "bias": torch.tensor(bias),
        "k": k,
        "n_group": groups[0],
        "topk_group": groups[1],
        "scale": 1.0,
        "renormalise": True,
    }


def run(path: Path, rehearsal: Rehearsal) -> Report:
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    handed = random_bits(PROBLEM, rehearsal.case, torch.Generator().manual_seed(3))
    returned = space["custom_kernel"]((*rehearsal.data(), *handed.values()))
    return check(rehearsal, dict(zip(handed, returned, strict=True)))


@pytest.mark.parametrize("path", kernels(Verdict.WRONG_ANSWER), ids=lambda path: path.stem)
def test_every_mutant_dies_in_some_public_case(path: Path) -> None:
    assert any(not run(path, rehearsed(case.name)).passed for case in TEST_CASES)


@cache
def rehearsed_in_secret() -> list[Rehearsal]:
    secret = draw_secret_cases(PROBLEM.problem, b"some key of a test")
    return [rehearse(PROBLEM, case, 0) for case in secret if case.stage is Stage.TEST]


@pytest.mark.parametrize("path", kernels(Verdict.ACCEPTED), ids=lambda path: path.stem)
def test_every_legal_kernel_lives_in_all_cases(path: Path) -> None:
    for rehearsal in [*(rehearsed(case.name) for case in CASES), *rehearsed_in_secret()]:
        report = run(path, rehearsal)
        assert report.passed, (rehearsal.case.name, report.message)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["-DPORTABLE_ONLY"]], ids=["as it comes", "portable"])
def test_both_paths_of_the_native_kernel_are_right(flags: list[str], tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        assert not os.environ.get("CI"), "g++ is missing"
        pytest.skip("needs g++")
    import tvm_ffi.cpp

    source = str(FOLDER / "submissions" / "topk_native.cpp")
    library = tvm_ffi.cpp.build(
        "topk_native", cpp_files=[source], extra_cflags=flags, build_directory=str(tmp_path)
    )
    kernel = tvm_ffi.load_module(library).custom_kernel
    for rehearsal in [*(rehearsed(case.name) for case in CASES), *rehearsed_in_secret()]:
        handed = random_bits(PROBLEM, rehearsal.case, torch.Generator().manual_seed(3))
        kernel(*rehearsal.data(), *handed.values())
        report = check(rehearsal, handed)
        assert report.passed, (rehearsal.case.name, report.message)


def routed_by_hand(inputs: dict[str, Any], row: int) -> dict[int, float]:
    """The statement, read aloud: plain Python floats, no torch operation."""
    logits = inputs["logits"][row].tolist()
    bias = inputs["bias"].tolist()
    experts, n_group = len(logits), inputs["n_group"]
    size = experts // n_group
    s = [0.0 if x == -math.inf else 1 / (1 + math.exp(-x)) for x in logits]
    choice = [a + b for a, b in zip(s, bias, strict=True)]
    choice = [-math.inf if math.isnan(c) else c for c in choice]
    if n_group > 1:
        score = [sum(sorted(choice[g * size : (g + 1) * size])[-2:]) for g in range(n_group)]
        kept = sorted(range(n_group), key=lambda g: -score[g])[: inputs["topk_group"]]
        choice = [c if i // size in kept else -math.inf for i, c in enumerate(choice)]
    ids = sorted(range(experts), key=lambda i: -choice[i])[: inputs["k"]]
    w = [s[i] if choice[i] > -math.inf else 0.0 for i in ids]
    total = max(sum(w), 1e-20) if inputs["renormalise"] else 1.0
    return {i: x / total * inputs["scale"] for i, x in zip(ids, w, strict=True)}


@pytest.mark.parametrize("case", TEST_CASES, ids=lambda case: case.name)
def test_a_router_written_by_hand_passes(case: Case) -> None:
    rehearsal = rehearsed(case.name)
    rows = [routed_by_hand(rehearsal.inputs, row) for row in range(case.values["tokens"])]
    output = {
        "weights": torch.tensor([list(row.values()) for row in rows]),
        "ids": torch.tensor([list(row) for row in rows], dtype=torch.int32),
    }
    report = check(rehearsal, output)
    assert report.passed, report.message


@settings(max_examples=150, deadline=None)
@given(data=st.binary(min_size=7 * 6 * 8, max_size=7 * 6 * 8))
def test_any_bits_get_a_report(data: bytes) -> None:
    rehearsal = rehearsed("t7-e64-k6-g4of8-zero-ties")
    bits = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    half = len(data) // 2
    output = {
        "weights": bits[:half].view(torch.float32).view(7, 6),
        "ids": bits[half:].view(torch.int32).view(7, 6),
    }
    report = check(rehearsal, output)
    assert not report.passed
    assert report.message
    assert 0 < len(report.differences) <= 5


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_plausible_ids_and_weights_get_a_report(data: st.DataObject) -> None:
    case_name = data.draw(st.sampled_from([case.name for case in TEST_CASES]))
    rehearsal = rehearsed(case_name)
    output = answer(rehearsal)
    rows, k = output["ids"].shape
    row = data.draw(st.integers(0, rows - 1))
    place = data.draw(st.integers(0, k - 1))
    output["ids"][row, place] = data.draw(st.integers(-2, 400) | st.integers(-(2**31), 2**31 - 1))
    output["weights"][row, place] = data.draw(st.floats(width=32))
    assert isinstance(check(rehearsal, output), Report)


@pytest.mark.parametrize("case", TEST_CASES, ids=lambda case: case.name)
def test_an_unwritten_row_fails(case: Case) -> None:
    rehearsal = rehearsed(case.name)
    for name, poison in (("weights", torch.nan), ("ids", 0x7F7F7F7F)):
        output = answer(rehearsal)
        output[name][-1] = poison
        report = check(rehearsal, output)
        assert not report.passed
        assert report.differences[0].index[0] == case.values["tokens"] - 1


def test_any_winner_of_a_tie_is_right() -> None:
    inputs = router([[0.0, 1.0, 0.0, 0.0]], [0.0] * 4, k=2)
    s = [1 / (1 + math.exp(-1)), 0.5]
    weights = [[x / sum(s) for x in s]]
    for other in (0, 2, 3):
        assert judged(inputs, weights, [[1, other]]).passed
    assert not judged(inputs, weights, [[0, 2]]).passed


def test_weights_count_by_the_id_beside_them() -> None:
    inputs = router([[0.0, 1.0, -1.0]], [0.0] * 3, k=2)
    s = [1 / (1 + math.exp(-1)), 0.5]
    w = [x / sum(s) for x in s]
    assert judged(inputs, [[w[0], w[1]]], [[1, 0]]).passed
    assert judged(inputs, [[w[1], w[0]]], [[0, 1]]).passed
    report = judged(inputs, [[w[1], w[0]]], [[1, 0]])
    assert not report.passed
    assert "weight of expert 1" in report.message


def test_an_expert_may_be_swapped_within_the_tolerance_only() -> None:
    for gap, passes in ((5e-7, True), (3e-6, False)):
        inputs = router([[0.0, 0.0, 0.0]], [gap, 0.0, -1.0], k=1)
        assert judged(inputs, [[1.0]], [[0]]).passed
        assert judged(inputs, [[1.0]], [[1]]).passed is passes


def test_any_group_of_a_tie_is_right() -> None:
    # Groups {0,1} and {2,3} both score 1.0 by different experts; {4,5} scores less.
    inputs = router([[0.0] * 6], [0.2, -0.2, 0.1, -0.1, -0.5, -0.5], k=2, groups=(3, 1))
    half = [[0.5, 0.5]]
    assert judged(inputs, half, [[0, 1]]).passed
    assert judged(inputs, half, [[3, 2]]).passed
    for mixed in ([0, 2], [1, 3], [4, 5], [0, 4]):
        assert not judged(inputs, half, [mixed]).passed


def test_closed_groups_never_win_over_negative_choices() -> None:
    logits = [math.log(s / (1 - s)) for s in (0.9, 0.8, 0.3, 0.2)]
    inputs = router([logits], [-2.0] * 4, k=2, groups=(2, 1))
    assert sorted(PROBLEM.reference(inputs)["ids"][0].tolist()) == [0, 1]
    assert not judged(inputs, [[0.6, 0.4]], [[2, 3]]).passed


def test_ids_stay_distinct_where_the_bias_closes_nearly_all_experts() -> None:
    bias = [-math.inf] * 8
    bias[2] = 0.0
    inputs = router([[0.0] * 8], bias, k=3)
    assert judged(inputs, [[1.0, 0.0, 0.0]], [[2, 0, 7]]).passed
    report = judged(inputs, [[1.0, 0.0, 0.0]], [[2, 0, 0]])
    assert "id 0 is there twice" in report.message
    # An expert that only fills up the row has no weight.
    assert not judged(inputs, [[1 / 3, 1 / 3, 1 / 3]], [[2, 0, 7]]).passed


def test_a_row_of_nan_asks_for_distinct_ids_and_zero_weights() -> None:
    inputs = router([[math.nan] * 4], [0.0] * 4, k=2)
    assert judged(inputs, [[0.0, 0.0]], [[3, 1]]).passed
    assert not judged(inputs, [[0.0, 0.0]], [[3, 3]]).passed
    assert not judged(inputs, [[0.0, 0.0]], [[3, 4]]).passed
    assert not judged(inputs, [[math.nan, 0.0]], [[3, 1]]).passed


def test_infinite_logits_score_one_and_zero() -> None:
    inputs = router([[math.inf, -math.inf, 0.0]], [0.0, 0.9, 0.0], k=2)
    assert judged(inputs, [[1.0, 0.0]], [[0, 1]]).passed


def test_a_sigmoid_taken_back_from_the_choice_fails() -> None:
    inputs = {**router([[-12.0, 0.0]], [8.0, 8.0], k=2), "renormalise": False}
    s = 1 / (1 + math.exp(12))
    assert judged(inputs, [[s, 0.5]], [[0, 1]]).passed
    lost = float(torch.tensor(s) + 8.0 - 8.0)
    assert lost == pytest.approx(5.722e-6, rel=1e-3)
    assert not judged(inputs, [[lost, 0.5]], [[0, 1]]).passed


def test_the_timed_data_has_no_ties() -> None:
    for case in CASES:
        if case.stage is Stage.TIMING:
            inputs = rehearsed(case.name).inputs
            choice = torch.sigmoid(inputs["logits"].double()) + inputs["bias"].double()
            top = choice.topk(inputs["k"] + 1, dim=1).values
            near = (top[:, -2] - top[:, -1] <= REFERENCE.CHOICE_TOLERANCE).float().mean()
            assert near < 0.01


def test_the_bytes_are_those_of_the_published_floor() -> None:
    case = Case("any", Stage.TIMING, {"tokens": 4096, "experts": 384, "k": 8})
    size, _ = PROBLEM.bytes_and_flops(case)
    assert size == 832 * 4096 + 4 * 384


def test_an_unknown_kind_of_data_is_named() -> None:
    values = {"tokens": 1, "experts": 8, "k": 2, "bias": "odd"}
    with pytest.raises(ValueError, match='bias = "odd" is none of uniform'):
        rehearse(PROBLEM, Case("any", Stage.TEST, values), 0)
