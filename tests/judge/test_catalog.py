"""Promises of problem folders: read whole, or refused with file, fault and remedy."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.catalog import digest_of_folder, draw_secret_cases, load_catalog, load_problem
from judge.contest import parse_contest
from judge.model import Case, Limits, Problem, SecretCases, Stage, Tolerance
from judge.tables import DeclarationError

DECLARATION = """\
id = "gemm"
title = "Small matrix product"
version = 3
devices = ["cpu"]
languages = [".py", ".cpp"]
output_in_data = true

[limits]
call_s = 5
job_s = 200

[tolerances.value]
value = 1e-3
reason = "bf16 rounding"

[[cases]]
name = "n8"
stage = "test"
calls = 2
values = { n = 8, scale = 1.5, kind = "plain", flip = false }

[[cases]]
name = "n512"
stage = "timing"
calls = 20
values = { n = 512 }

[[secret]]
stage = "test"
count = 3
calls = 2
choices = { n = [8, 16, 24, 32], kind = ["plain", "wide"] }
"""
STATEMENT = """\
# Small matrix product

| not | these |
|-----|-------|
| n9  | 9     |

## Cases

| case   | n   | what for |
|--------|----:|----------|
| `n8`   |   8 | a start  |
| `n512` | 512 | speed    |

## After

| n7 | 7 |
"""
STARTER = "def custom_kernel(data):\n    return data[-1]\n"


def write(root: Path, **changed: str | None) -> Path:
    """A good folder but for the files that are given (None: left out)."""
    folder = root / "gemm"
    folder.mkdir(exist_ok=True)
    texts = {
        "problem.toml": changed.get("declaration", DECLARATION),
        "reference.py": changed.get("reference", "def generate(case, rng): ...\n"),
        "statement.md": changed.get("statement", STATEMENT),
        "starter.py": changed.get("starter", STARTER),
    }
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_text(text)
    return folder


def faults(root: Path, **changed: str | None) -> tuple[str, ...]:
    with pytest.raises(DeclarationError) as caught:
        load_problem(write(root, **changed))
    return caught.value.faults


def test_folder_is_read_as_declared(tmp_path: Path) -> None:
    folder = load_problem(write(tmp_path))
    assert folder.public_files == ("statement.md", "starter.py")
    assert folder.problem == Problem(
        id="gemm",
        title="Small matrix product",
        version=3,
        digest=digest_of_folder(folder.path),
        cases=(
            Case(
                "n8",
                Stage.TEST,
                {"n": 8, "scale": 1.5, "kind": "plain", "flip": False},
                calls=2,
            ),
            Case("n512", Stage.TIMING, {"n": 512}, calls=20),
        ),
        secret_cases=(
            SecretCases(Stage.TEST, 3, 2, {"n": (8, 16, 24, 32), "kind": ("plain", "wide")}),
        ),
        tolerances={"value": Tolerance(1e-3, "bf16 rounding")},
        limits=Limits(call_s=5.0, job_s=200.0),
        devices=("cpu",),
        languages=(".py", ".cpp"),
        output_in_data=True,
    )


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("version = 3", "version = 0", '"version" must be a positive whole number, got 0 (line 3)'),
        ("version = 3", "version = true", '"version" must be a positive whole number, got true'),
        ('id = "gemm"', 'id = "gem"', '"id" must be the name of its folder'),
        ('[".py", ".cpp"]', '[".py", ".rs"]', '"languages" holds ".rs"'),
        ("call_s = 5", "call_s = -1", '[limits]: "call_s" must be a positive number'),
        ("call_s = 5", "calls_s = 5", 'did you mean "call_s"?'),
        ("call_s = 5", "call_s = 100", "less than build_s + load_s + call_s = 250"),
        ("calls = 20", "calls = 20_000_000", "less than a millisecond each"),
        ('reason = "bf16 rounding"', "", '[tolerances] value: "reason" is missing'),
        ('name = "n512"', 'name = "n8"', '"name" is the name of an earlier case too'),
        ('name = "n512"', 'name = "../n"', '"name" may hold small letters'),
        ('name = "n512"', 'name = "secret-1"', 'must not start with "secret-"'),
        ('stage = "timing"', 'stage = "time"', '"stage" must be one of'),
        ('stage = "timing"', 'stage = "test"', "no case has stage timing"),
        ("{ n = 512 }", "{ n = [512] }", 'got [512] for "n"'),
        ("{ n = 512 }", "{ n = nan }", 'for "n"'),
        ("{ n = 512 }", "{ n = 512.0 }", '"n" is a number with a point here'),
        ("{ n = 512 }", "512", '"values" must be a table of values'),
        ("n = [8, 16, 24, 32]", "n = [8, 16, true]", '"n" is true or false here'),
        ("n = [8, 16, 24, 32]", "n = [8, 8]", 'names a value of "n" twice'),
        ("n = [8, 16, 24, 32]", "n = 8", 'must hold lists of plain values, got 8 for "n"'),
        ("count = 3", "count = 9", "the choices hold 8 different test cases, 9 are asked for"),
    ],
)
def test_fault_of_the_declaration_is_told(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in DECLARATION
    found = faults(tmp_path, declaration=DECLARATION.replace(old, new))
    assert all(
        line.startswith(f"{tmp_path}/gemm/problem.toml: ") for line in found if "problem" in line
    )
    assert any(fault in line for line in found), found
    assert all("; " in line for line in found)


def test_row_that_is_missing_doubled_or_too_much_is_told_with_its_line(tmp_path: Path) -> None:
    statement = STATEMENT.replace(
        "| `n512` | 512 | speed    |", "| n513 | 513 | x |\n| n8 | 8 | x |"
    )
    first, second, third = faults(tmp_path, statement=statement)
    assert 'statement.md:12: lists "n513", which is no public case' in first
    assert 'statement.md:13: lists "n8" twice' in second
    assert 'does not list the public case "n512"' in third


def test_cell_that_differs_from_the_declared_value_is_told(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, statement=STATEMENT.replace("| 512 |", "| 513 |"))
    assert 'statement.md:12: shows "513" for "n" of "n512", which is 512' in fault


def test_statement_without_the_table_is_told_how_to_write_it(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, statement="# Small matrix product\n")
    assert "has no table of cases" in fault
    assert "## Cases" in fault


@pytest.mark.parametrize(
    ("starter", "fault"),
    [
        ("def kernel(data): ...\n", "does not define custom_kernel"),
        ("class A:\n    def custom_kernel(self): ...\n", "does not define custom_kernel"),
        ("x = 1\ndef custom_kernel(data)\n", "starter.py:2: is not Python"),
    ],
)
def test_starter_must_define_the_kernel(tmp_path: Path, starter: str, fault: str) -> None:
    (found,) = faults(tmp_path, starter=starter)
    assert fault in found


def test_missing_file_or_folder_is_told(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, reference=None)
    assert "reference.py: there is no such file" in fault
    with pytest.raises(DeclarationError, match="no such folder"):
        load_problem(tmp_path / "nothing")


def test_digest_follows_every_file_the_judge_uses_and_no_other(tmp_path: Path) -> None:
    folder = write(tmp_path)
    before = digest_of_folder(folder)
    (folder / "submissions").mkdir()
    (folder / "submissions" / "fast.py").write_text("x = 1\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "old.py").write_text("x = 1\n")
    (folder / ".draft.py").write_text("x = 1\n")
    assert digest_of_folder(folder) == before
    for name in ("problem.toml", "reference.py", "statement.md", "starter.py"):
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(kept + b"\n")
        assert digest_of_folder(folder) != before, name
        (folder / name).write_bytes(kept)
    (folder / "shapes.py").write_text("x = 1\n")
    assert digest_of_folder(folder) != before


def test_digest_is_that_of_any_copy(tmp_path: Path) -> None:
    folder = write(tmp_path)
    copy = shutil.copytree(folder, tmp_path / "elsewhere" / "gemm")
    assert digest_of_folder(copy) == digest_of_folder(folder)


CONTEST = parse_contest(
    'title = "A"\nproblems = ["gemm"]\ndevices = ["cpu"]\n'
    "opens = 2026-01-01T00:00:00Z\ncloses = 2027-01-01T00:00:00Z\n"
)


def test_catalog_holds_the_problems_and_their_public_files(tmp_path: Path) -> None:
    write(tmp_path)
    opened = load_catalog(tmp_path, CONTEST)
    assert list(opened.problems) == ["gemm"]
    assert opened.files["gemm"] == {
        "statement.md": STATEMENT.encode(),
        "starter.py": STARTER.encode(),
    }


def test_catalog_refuses_a_missing_folder_and_a_problem_without_a_device(tmp_path: Path) -> None:
    write(tmp_path)
    contest = replace(CONTEST, problems=("gemm", "topk"), devices=("rocm",))
    with pytest.raises(DeclarationError) as caught:
        load_catalog(tmp_path, contest)
    assert len(caught.value.faults) == 2
    assert "no device of the problem (cpu)" in caught.value.faults[0]
    assert "topk: there is no such folder" in caught.value.faults[1]


GROUPS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=2
)


def drawn_from(groups: list[tuple[int, int, int]], public: tuple[Case, ...] = ()) -> Problem:
    """Each group (count, sizes of two choices) with values of its own."""
    secret = tuple(
        SecretCases(
            Stage.TEST,
            min(count, rows * cols),
            2,
            {
                "rows": tuple(1000 * number + row for row in range(rows)),
                "cols": tuple(range(cols)),
            },
        )
        for number, (count, rows, cols) in enumerate(groups)
    )
    return Problem("p", "P", 1, "", public, secret, {}, Limits(), ("cpu",), (".py",))


@given(GROUPS, st.binary(min_size=16, max_size=16))
def test_drawn_cases_are_secret_distinct_and_from_the_choices(
    groups: list[tuple[int, int, int]], key: bytes
) -> None:
    problem = drawn_from(groups)
    cases = draw_secret_cases(problem, key)
    assert len(cases) == sum(group.count for group in problem.secret_cases)
    assert len({tuple(case.values.items()) for case in cases}) == len(cases)
    assert len({case.name for case in cases}) == len(cases)
    assert all(case.secret and case.calls == 2 for case in cases)
    allowed = {
        (row, col)
        for group in problem.secret_cases
        for row in group.choices["rows"]
        for col in group.choices["cols"]
    }
    assert {(case.values["rows"], case.values["cols"]) for case in cases} <= allowed


@given(st.binary(min_size=16, max_size=16))
def test_public_case_is_drawn_only_where_nothing_else_is_left(key: bytes) -> None:
    public = (Case("p", Stage.TEST, {"rows": 0, "cols": 0}),)
    values = [dict(c.values) for c in draw_secret_cases(drawn_from([(3, 2, 2)], public), key)]
    assert {"rows": 0, "cols": 0} not in values
    assert len(draw_secret_cases(drawn_from([(4, 2, 2)], public), key)) == 4


def test_key_alone_decides_what_is_drawn() -> None:
    problem = drawn_from([(2, 4, 4)])
    draws = {draw_secret_cases(problem, bytes([n]) * 16)[0].values["rows"] for n in range(32)}
    assert draw_secret_cases(problem, b"k" * 16) == draw_secret_cases(problem, b"k" * 16)
    assert len(draws) > 1


def test_groups_of_one_stage_never_draw_the_same_case() -> None:
    group = SecretCases(Stage.TEST, 2, 1, {"rows": (1, 2, 3, 4)})
    problem = replace(drawn_from([(1, 1, 1)]), secret_cases=(group, group))
    cases = draw_secret_cases(problem, b"k" * 16)
    assert sorted(case.values["rows"] for case in cases) == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="asked for"):
        draw_secret_cases(replace(problem, secret_cases=(group,) * 3), b"k" * 16)
