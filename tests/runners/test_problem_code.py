"""A problem's reference.py is loaded by path, or refused with file, fault and remedy."""

from pathlib import Path

import pytest
import torch

from runners.problem import ProblemError, load_problem, tensor_or_scalar
from tests.runners.conftest import FOLDER, tiny_problem

PROBLEM = tiny_problem("scale").problem


def test_the_functions_of_a_folder_are_there_and_constants_only_where_defined() -> None:
    assert tiny_problem("scale").constants is None
    assert tiny_problem("weighted").constants is not None


def test_two_folders_do_not_share_a_module() -> None:
    assert tiny_problem("scale").generate is not tiny_problem("weighted").generate


@pytest.mark.parametrize("fault", ["def generate(case, rng:", "import not_there", "1 + 'a'"])
def test_a_reference_that_does_not_import_is_refused_with_its_path(
    tmp_path: Path, fault: str
) -> None:
    (tmp_path / "reference.py").write_text(fault)
    with pytest.raises(ProblemError, match=r"reference\.py: does not import"):
        load_problem(tmp_path, PROBLEM)


def test_a_missing_function_is_named(tmp_path: Path) -> None:
    text = (FOLDER / "scale" / "reference.py").read_text().replace("def check", "def chek")
    (tmp_path / "reference.py").write_text(text)
    with pytest.raises(ProblemError, match="no function check"):
        load_problem(tmp_path, PROBLEM)


def test_an_input_is_a_contiguous_tensor_or_a_plain_scalar() -> None:
    assert tensor_or_scalar("x", torch.zeros(2, 3).T).is_contiguous()  # type: ignore[union-attr]
    assert tensor_or_scalar("k", 3) == 3
    with pytest.raises(ProblemError, match="'z' is a list"):
        tensor_or_scalar("z", [1])
