"""Promises of `judge problems check`: each fault of a folder is found, named and given a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge.catalog import load_problem
from judge.model import Verdict
from runners.gate import Finding, Label, check_folder, inspect, read_label, render

# Forking a process with torch's threads is what the children of the gate are made for.
pytestmark = pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")

DECLARATION = """
id = "double"
title = "Double"
version = 1
devices = ["cpu"]
languages = [".py"]
output_in_data = true

[[cases]]
name = "small"
stage = "test"
values = { n = 4 }

[[cases]]
name = "large"
stage = "timing"
values = { n = 64 }
"""

STATEMENT = """# Double

## Cases

| case | n |
|---|---|
| `small` | 4 |
| `large` | 64 |
"""

REFERENCE = """
import torch
from judge.model import Report


def generate(case, rng):
    x = torch.from_numpy(rng.standard_normal(case.values["n"], dtype="float32"))
    return {"x": x, "factor": 2.0}


def outputs(case):
    return {"y": (torch.float32, (case.values["n"],))}


def reference(inputs):
    return {"y": inputs["x"].double() * inputs["factor"]}


def check(inputs, expected, output):
    error = (output["y"].double() - expected["y"]).abs().max()
    passed = bool(error <= 1e-6)
    return Report(passed, "" if passed else "y differs")


def bytes_and_flops(case):
    return 8 * case.values["n"], case.values["n"]
"""

STARTER = """
def custom_kernel(data):
    x, factor, y = data
    y.copy_(x * factor)
    return y
"""

MUTANT = """# expect: wrong answer
def custom_kernel(data):
    x, factor, y = data
    y.copy_(x)
    return y
"""


def folder_of(tmp_path: Path, *, reference: str = REFERENCE, **others: str) -> Path:
    """A problem folder; others: contents by file name, with __ for / and _dot_ for the dot."""
    folder = tmp_path / "double"
    (folder / "submissions").mkdir(parents=True)
    (folder / "problem.toml").write_text(DECLARATION)
    (folder / "statement.md").write_text(STATEMENT)
    (folder / "starter.py").write_text(STARTER)
    (folder / "reference.py").write_text(reference)
    (folder / "submissions" / "fast.py").write_text("# expect: accepted" + STARTER)
    (folder / "submissions" / "mutant.py").write_text(MUTANT)
    for name, text in others.items():
        (folder / name.replace("__", "/").replace("_dot_", ".")).write_text(text)
    return folder


def found(folder: Path) -> tuple[Finding, ...]:
    return inspect(load_problem(folder))


def changed(old: str, new: str) -> str:
    assert REFERENCE.count(old) == 1
    return REFERENCE.replace(old, new)


def line_of(text: str, part: str) -> int:
    return 1 + next(i for i, line in enumerate(text.splitlines()) if part in line)


def test_a_sound_folder_has_nothing_to_mend(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    assert check_folder(folder) == ()
    assert render(folder, ()) == f"{folder}: nothing to mend"


def test_limits_that_do_not_nest_are_told_with_file_and_remedy(tmp_path: Path) -> None:
    text = DECLARATION + "[limits]\njob_s = 10\n"
    (finding,) = check_folder(folder_of(tmp_path, problem_dot_toml=text))
    assert finding.file.endswith("problem.toml")
    assert '"job_s" is 10' in finding.fault
    assert finding.remedy.startswith("write job_s = ")


def test_a_statement_that_lacks_a_case_is_told_with_its_line(tmp_path: Path) -> None:
    text = STATEMENT.replace("| `large` | 64 |\n", "")
    (finding,) = check_folder(folder_of(tmp_path, statement_dot_md=text))
    assert finding.file.endswith("statement.md")
    assert finding.line == line_of(text, "| case")
    assert "large" in finding.fault


@pytest.mark.parametrize(
    ("old", "new", "function", "fault"),
    [
        ("1e-6", "1e9", "check", "passes all zeros"),
        ("error <= 1e-6", "not error > 1e-6", "check", "passes NaN in y"),
        ("error <= 1e-6", "error < 0", "check", "refuses the reference's own answer"),
        ('"y differs"', '""', "check", "without a message"),
        (
            'inputs["x"].double() *',
            'inputs["x"].mul_(3).double() *',
            "reference",
            "changes its input x",
        ),
        (
            '.double() * inputs["factor"]}',
            ".double() / 0}",
            "reference",
            "expects NaN or an infinity",
        ),
        ('{"y": inputs', '{"z": inputs', "reference", "gives nothing for output y"),
        ("8 * case", "0 * case", "bytes_and_flops", "positive whole numbers"),
        ('"factor": 2.0', '"factor": float(rng.random())', "generate", "from call to call"),
        (
            "rng.standard_normal(case.values",
            "__import__('numpy').random.default_rng().standard_normal(case.values",
            "generate",
            "two draws from the same rng",
        ),
        (
            'torch.from_numpy(rng.standard_normal(case.values["n"], dtype="float32"))',
            'torch.arange(1.0, 1 + case.values["n"])',
            "check",
            "passes the answer to another input",
        ),
    ],
)
def test_a_fault_of_the_code_is_told_with_its_function(
    tmp_path: Path, old: str, new: str, function: str, fault: str
) -> None:
    text = changed(old, new)
    matching = [f for f in found(folder_of(tmp_path, reference=text)) if fault in f.fault]
    assert matching
    assert matching[0].file.endswith("reference.py")
    assert matching[0].line == line_of(text, f"def {function}")
    assert matching[0].fault.startswith(f"{function}: ")


def test_an_input_that_never_changes_is_named(tmp_path: Path) -> None:
    text = changed('"factor": 2.0', '"factor": 2.0, "table": torch.arange(8)')
    starter = STARTER.replace("x, factor, y", "x, factor, _, y")
    (finding,) = found(folder_of(tmp_path, reference=text, starter_dot_py=starter))
    assert "input table is the same in every call" in finding.fault


def test_a_check_that_raises_is_told_with_the_line_that_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = changed(
        "    passed = bool", "    [0][int(output['y'][0].clamp(-9, 9).round())]\n    passed = bool"
    )
    folder_of(tmp_path, reference=text)
    monkeypatch.chdir(tmp_path)
    (finding, *_) = found(Path("double"))
    assert finding.line == line_of(text, "[0][int")
    assert "Error" in finding.fault


def test_a_reference_that_does_not_import_is_told(tmp_path: Path) -> None:
    (finding,) = found(folder_of(tmp_path, reference="import no_such_module"))
    assert "no_such_module" in finding.fault


def test_a_mutant_that_passes_is_told(tmp_path: Path) -> None:
    right = "# expect: wrong answer" + STARTER
    (finding,) = found(folder_of(tmp_path, submissions__mutant_dot_py=right))
    assert finding.file.endswith("mutant.py")
    assert finding.line == 1
    assert "must end as wrong answer, but ends as accepted" in finding.fault
    assert "tighten check" in finding.remedy


def test_a_legal_kernel_that_fails_is_told_with_case_and_reason(tmp_path: Path) -> None:
    wrong = MUTANT.replace("wrong answer", "accepted")
    findings = found(folder_of(tmp_path, submissions__slow_dot_py=wrong))
    assert "ends as wrong answer on small (y differs)" in findings[0].fault


def test_a_starter_that_fails_is_told(tmp_path: Path) -> None:
    starter = STARTER.replace("x * factor", "x")
    (finding,) = found(folder_of(tmp_path, starter_dot_py=starter))
    assert finding.file.endswith("starter.py")


def test_a_kernel_that_raises_ends_as_runtime_error(tmp_path: Path) -> None:
    raising = "# expect: runtime error\ndef custom_kernel(data):\n    raise ValueError('no')\n"
    assert found(folder_of(tmp_path, submissions__raising_dot_py=raising)) == ()


def test_a_kernel_without_its_verdict_is_told(tmp_path: Path) -> None:
    (finding,) = found(folder_of(tmp_path, submissions__new_dot_py=STARTER))
    assert "does not say what its verdict must be" in finding.fault


def test_a_folder_without_a_mutant_is_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "submissions" / "mutant.py").unlink()
    (finding,) = found(folder)
    assert "no kernel that must be refused" in finding.fault


def test_a_folder_that_hangs_is_told_within_the_limit(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, reference="while True:\n    pass\n")
    (finding,) = check_folder(folder, limit_s=4)
    assert "did not end within 4 s" in finding.fault


def test_the_label_is_read_from_comments_of_either_language(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cpp"
    path.write_text("// expect: compile error\n// needs: g++, ninja\nint x;\n")
    assert read_label(path) == Label(Verdict.COMPILE_ERROR, ("g++", "ninja"))
    path.write_text("# expect: perfect\n")
    finding = read_label(path)
    assert isinstance(finding, Finding)
    assert '"perfect"' in finding.fault


def test_findings_are_rendered_one_a_line(tmp_path: Path) -> None:
    findings = (
        Finding("a.py", 3, "is wrong", "mend it"),
        Finding("b.md", None, "is bare", "fill it"),
    )
    assert render(Path("p"), findings).splitlines() == [
        "a.py:3: is wrong; mend it",
        "b.md: is bare; fill it",
        "p: 2 things to mend",
    ]
