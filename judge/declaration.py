"""`problem.toml` becomes a `Problem`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from judge.model import Baseline, Case, Limits, Problem, SecretCases, Stage, Tolerance, Value
from judge.paths import fault_of_name
from judge.tables import Table

LANGUAGES = (".py", ".cpp", ".cu", ".hip")
SECRET_PREFIX = "secret-"
MOST_COMBINATIONS = 1_000_000
LEAST_S_PER_CALL = 0.001
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def read_problem(top: Table, folder_name: str) -> Problem:
    """The declared problem, with stand-ins wherever a fault was noted in `top`, and without digests.

    folder_name: what its id must be.
    """
    name = top.text("id", folder_name)
    if name and (name != folder_name or not _NAME.fullmatch(name)):
        top.fault(
            "id",
            f'must be the name of its folder, "{folder_name}", in small letters, digits, . _ and -',
            "rename either",
        )
    title = top.text("title", "Top-K router")
    version = top.whole("version")
    devices = top.texts("devices", "cpu")
    languages = top.texts("languages", ".py")
    for language in languages:
        if language not in LANGUAGES:
            what = f'holds "{language}", which no runner can load'
            top.fault("languages", what, f"use {', '.join(LANGUAGES)}")
    problem = Problem(
        id=name,
        title=title,
        version=version,
        digest="",
        cases=_cases(top),
        secret_cases=tuple(_secret(table) for table in top.tables("secret")),
        tolerances=_tolerances(top.table("tolerances")),
        limits=_limits(top.table("limits")),
        devices=devices,
        languages=languages,
        output_in_data=top.flag("output_in_data", default=False),
        baseline=_baseline(top, "baseline", (".py",)),
        best=_baseline(top, "best", LANGUAGES),
    )
    top.refuse_unknown()
    _check_types(top, problem)
    if not top.faults:
        _check_load(top, problem)
    return problem


def _cases(top: Table) -> tuple[Case, ...]:
    cases: list[Case] = []
    for table in top.tables("cases"):
        name = table.text("name", "t4096-e384")
        table.place = f'[[cases]] "{name}"' if name else table.place
        if name and (not _NAME.fullmatch(name) or fault_of_name(name)):
            table.fault("name", "may hold small letters, digits, . _ and - only", "rename it")
        if name.startswith(SECRET_PREFIX):
            table.fault("name", f'must not start with "{SECRET_PREFIX}"', "rename it")
        if any(case.name == name for case in cases):
            table.fault("name", "is the name of an earlier case too", "rename one of them")
        stage = Stage(table.choice("stage", list(Stage)))
        chain = _chain(table, stage)
        cases.append(
            Case(
                name=name,
                stage=stage,
                values=table.scalars("values"),
                calls=table.whole("calls", default=1),
                chain=chain,
                cold=table.flag("cold", default=False),
            )
        )
        table.refuse_unknown()
    for stage in Stage:
        if not any(case.stage is stage for case in cases):
            top.note(f"no case has stage {stage}", f'add a [[cases]] with stage = "{stage}"')
    return tuple(cases)


def _chain(table: Table, stage: Stage) -> int:
    chain = table.whole("chain", default=1)
    if chain > 1 and stage is not Stage.TIMING:
        table.fault("chain", "is for timing cases only", "remove it")
    return chain


def _secret(table: Table) -> SecretCases:
    stage = Stage(table.choice("stage", list(Stage)))
    secret = SecretCases(
        stage=stage,
        count=table.whole("count", example=4),
        calls=table.whole("calls", default=1),
        choices=table.choices("choices"),
        chain=_chain(table, stage),
    )
    size = math.prod(len(values) for values in secret.choices.values())
    if size > MOST_COMBINATIONS:
        what = f"allows {size:,} combinations, over {MOST_COMBINATIONS:,}"
        table.fault("choices", what, "leave some out")
    table.refuse_unknown()
    return secret


def _tolerances(table: Table) -> dict[str, Tolerance]:
    found: dict[str, Tolerance] = {}
    for name in table.values:
        tolerance = table.table(name)
        value = tolerance.positive("value", example=1e-6)
        found[name] = Tolerance(value, tolerance.text("reason", "fp32 rounding of the sum"))
        tolerance.refuse_unknown()
    return found


def _limits(table: Table) -> Limits:
    values: dict[str, int | float] = {}
    for limit in fields(Limits):
        default = limit.default
        if isinstance(default, int):
            values[limit.name] = table.whole(limit.name, default=default, example=default)
        elif isinstance(default, float):
            values[limit.name] = table.positive(limit.name, default=default, example=default)
    table.refuse_unknown()
    limits = Limits(**values)  # type: ignore[arg-type]
    stages_s = limits.build_s + limits.load_s + limits.call_s
    if stages_s > limits.job_s:
        table.fault(
            "job_s",
            f"is {limits.job_s:g}, less than build_s + load_s + call_s = {stages_s:g}, so a stage could "
            "never use its limit",
            f"write job_s = {math.ceil(stages_s)} or more, or lower a stage",
        )
    return limits


def _baseline(top: Table, key: str, endings: Sequence[str]) -> Baseline | None:
    """A shipped kernel that is named in the declaration. endings: those its file may have."""
    if not top.has(key):
        return None
    table = top.table(key)
    name, file = table.text("name", "plain torch"), table.text("file", "submissions/baseline.py")
    if file and (fault_of_name(file) or not file.endswith(tuple(endings))):
        what = f"must be a path in the problem's folder that ends in {' or '.join(endings)}"
        table.fault("file", what, "name another file")
    table.refuse_unknown()
    return Baseline(name, file, "")


def _check_types(top: Table, problem: Problem) -> None:
    """A value's name has one type everywhere: 1 here and 1.0 there is a slip of the pen."""
    types: dict[str, type] = {}
    for place, values in _named_values(problem):
        for name, value in values:
            expected = types.setdefault(name, type(value))
            if type(value) is not expected:
                top.note(
                    f'{place}: "{name}" is {_TYPE_WORDS[type(value)]} here and '
                    f"{_TYPE_WORDS[expected]} in an earlier case",
                    "write it in one way (a number with a point is not a whole number)",
                )


_TYPE_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a point",
    str: "a text",
}


def _named_values(problem: Problem) -> Iterable[tuple[str, Sequence[tuple[str, Value]]]]:
    for case in problem.cases:
        yield f'[[cases]] "{case.name}"', list(case.values.items())
    for number, group in enumerate(problem.secret_cases, start=1):
        pairs = [(name, value) for name, values in group.choices.items() for value in values]
        yield f"[[secret]] {number}", pairs


def _check_load(top: Table, problem: Problem) -> None:
    """The calls of a whole job must be possible in the time that building and loading leave."""
    calls = sum(case.calls * case.chain for case in problem.cases)
    calls += sum(group.calls * group.chain * group.count for group in problem.secret_cases)
    limits = problem.limits
    left_s = limits.job_s - limits.build_s - limits.load_s
    if left_s < calls * LEAST_S_PER_CALL:
        top.note(
            f"[limits]: a job makes {calls:,} calls, for which job_s leaves {left_s:g} s after build_s "
            "and load_s, less than a millisecond each",
            f"write job_s = {math.ceil(limits.job_s - left_s + calls * LEAST_S_PER_CALL)} or more, or "
            "fewer calls",
        )
