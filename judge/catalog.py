"""A problem folder becomes a `Problem`, or a list of what to mend in it.

Only texts are read here: `reference.py` is run by runners alone.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judge.archive import digest_of_files
from judge.declaration import SECRET_PREFIX, read_problem
from judge.model import Baseline, Case, Contest, Problem, SecretCases, SourceFile, Stage, Value
from judge.records import OpenContest
from judge.statement import faults_of_statement
from judge.tables import DeclarationError, Table, read_table

DECLARATION = "problem.toml"
REFERENCE = "reference.py"
STATEMENT = "statement.md"
STARTER = "starter.py"
NEEDED = (DECLARATION, REFERENCE, STATEMENT, STARTER)
PUBLIC = (STATEMENT, STARTER)


@dataclass(frozen=True, slots=True)
class ProblemFolder:
    """A checked problem folder. public_files: names that everybody may download."""

    problem: Problem
    path: Path
    public_files: tuple[str, ...]


def load_catalog(problems_dir: Path, contest: Contest) -> OpenContest:
    """The contest with each of its problems, read from the folders of the same names.

    Raises DeclarationError with the faults of all folders.
    """
    problems: dict[str, Problem] = {}
    files: dict[str, Mapping[str, bytes]] = {}
    faults: list[str] = []
    for name in contest.problems:
        try:
            folder = load_problem(problems_dir / name)
        except DeclarationError as error:
            faults += error.faults
            continue
        problem = folder.problem
        if not set(problem.devices) & set(contest.devices):
            faults.append(
                f"{folder.path / DECLARATION}: no device of the problem ({', '.join(problem.devices)}) is "
                f"one of the contest's ({', '.join(contest.devices)}); add one to either"
            )
        problems[name] = problem
        files[name] = {file: (folder.path / file).read_bytes() for file in folder.public_files}
    if faults:
        raise DeclarationError(faults)
    return OpenContest(contest, problems, files)


def load_problem(folder: Path) -> ProblemFolder:
    """Read and check a problem folder.

    Raises DeclarationError with every fault found, each with file, place and remedy.
    """
    texts = _texts(folder)
    top = read_table(texts[DECLARATION], str(folder / DECLARATION))
    problem = _with_digests(top, read_problem(top, folder.resolve().name), folder)
    if not top.faults:
        _check_secret(top, problem)
    top.faults += faults_of_statement(texts[STATEMENT], str(folder / STATEMENT), problem.cases)
    top.faults += _faults_of_starter(texts[STARTER], str(folder / STARTER))
    top.settle()
    return ProblemFolder(problem, folder, PUBLIC)


def _with_digests(top: Table, problem: Problem, folder: Path) -> Problem:
    """The problem with the digests of its folder and of its baselines."""
    baseline = _with_digest(top, "baseline", problem.baseline, folder)
    best = _with_digest(top, "best", problem.best, folder)
    judged_by = [kernel.file for kernel in (baseline, best) if kernel is not None and kernel.digest]
    digest = digest_of_folder(folder, judged_by)
    return replace(problem, digest=digest, baseline=baseline, best=best)


def _with_digest(top: Table, key: str, kernel: Baseline | None, folder: Path) -> Baseline | None:
    if kernel is None or top.faults:
        return kernel
    path = folder / kernel.file
    if not path.is_file():
        top.note(f"[{key}]: there is no file {kernel.file}", "add it, or name another")
        return kernel
    alone = SourceFile(path.name, path.read_bytes())
    return replace(kernel, digest=digest_of_files([alone]))


def digest_of_folder(folder: Path, baselines: Sequence[str] = ()) -> str:
    """SHA-256 (hex) over what the judge uses: the four needed files, every other Python file, baselines.

    What lies in `submissions` or `__pycache__`, or below a name that starts with a dot, is left
    out unless it is among the baselines. Hashed as a submission's files are, each by its path with /.
    """
    names = {*NEEDED, *baselines}
    for path in folder.rglob("*.py"):
        steps = path.relative_to(folder).parts
        outside = {"submissions", "__pycache__"}.intersection(steps)
        if path.is_file() and not outside and not any(step.startswith(".") for step in steps):
            names.add("/".join(steps))
    return digest_of_files([SourceFile(name, (folder / name).read_bytes()) for name in names])


def draw_secret_cases(problem: Problem, key: bytes) -> tuple[Case, ...]:
    """The secret cases of a problem version, drawn from its [[secret]] tables.

    key: random bytes; the same key gives the same cases. No two cases of a stage are equal; a
    public case is drawn again only where the choices leave nothing else. Raises ValueError where
    the choices hold fewer cases than are asked for.
    """
    source = random.Random(key)
    public = {(case.stage, _identity(case.values)) for case in problem.cases}
    drawn: dict[tuple[Stage, frozenset[tuple[str, Value]]], Case] = {}
    numbers = dict.fromkeys(Stage, 0)
    for group in problem.secret_cases:
        size = math.prod(len(values) for values in group.choices.values())
        # Enough to leave `count` new ones even if every known case is among them.
        tries = min(size, group.count + len(public) + len(drawn))
        candidates = [_combination(group, index) for index in source.sample(range(size), tries)]
        new = [c for c in candidates if (group.stage, _identity(c)) not in drawn]
        new.sort(key=lambda values: (group.stage, _identity(values)) in public)
        if len(new) < group.count:
            raise ValueError(
                f"the choices hold {len(new)} different {group.stage} cases, {group.count} are asked for"
            )
        for values in new[: group.count]:
            numbers[group.stage] += 1
            name = f"{SECRET_PREFIX}{group.stage}-{numbers[group.stage]}"
            case = Case(name, group.stage, values, True, group.calls, group.chain)
            drawn[group.stage, _identity(values)] = case
    return tuple(drawn.values())


def _check_secret(top: Table, problem: Problem) -> None:
    """Whether there are enough secret cases shows with any key."""
    try:
        draw_secret_cases(problem, bytes(16))
    except ValueError as error:
        top.note(f"[[secret]]: {error}", "add choices, or lower a count")


def _identity(values: Mapping[str, Value]) -> frozenset[tuple[str, Value]]:
    return frozenset(values.items())


def _combination(group: SecretCases, index: int) -> dict[str, Value]:
    """The index-th element of the product of the choices."""
    values: dict[str, Value] = {}
    for name, choices in group.choices.items():
        index, place = divmod(index, len(choices))
        values[name] = choices[place]
    return values


def _texts(folder: Path) -> dict[str, str]:
    """The needed files of a folder. Raises DeclarationError if one is missing or is no text."""
    if not folder.is_dir():
        raise DeclarationError([f"{folder}: there is no such folder; make it, or mend its name"])
    texts: dict[str, str] = {}
    faults: list[str] = []
    for name in NEEDED:
        try:
            texts[name] = (folder / name).read_bytes().decode("utf-8")
        except FileNotFoundError:
            faults.append(f"{folder / name}: there is no such file; a problem needs it, so add it")
        except UnicodeDecodeError as error:
            faults.append(
                f"{folder / name}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
            )
    if faults:
        raise DeclarationError(faults)
    return texts


def _faults_of_starter(text: str, file: str) -> list[str]:
    """What is wrong with the starter: it must be Python that defines custom_kernel."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        return [
            f"{file}:{line}: is not Python ({error}); mend it: contestants start from this file"
        ]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "custom_kernel":
            return []
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "custom_kernel" for target in node.targets
        ):
            return []
    return [f"{file}: does not define custom_kernel; add def custom_kernel(data): at its top level"]
