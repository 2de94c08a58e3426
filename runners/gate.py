"""`judge problems check`: what is wrong with a problem folder, told before a contestant finds out.

First the declaration is read; then, in a process of its own, the reference is held against itself,
the checker against outputs it must refuse, and every shipped Python kernel against its first line.
Native kernels and those that need a compiler are judged by tests through the real boxes, not here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from judge.catalog import ProblemFolder, draw_secret_cases, load_problem
from judge.model import Case, Stage, Verdict
from judge.tables import DeclarationError
from runners.case_gate import faults_of_case, rehearse
from runners.problem import LoadedProblem, ProblemError
from runners.problem import load_problem as load_code
from runners.rehearsal import Rehearsal, in_child, play_kernel

GATE_LIMIT_S = 600.0
CASE_LIMIT_S = 60.0
KERNEL_LIMIT_S = 60.0
SECRET_KEY = b"the gate's own draw of the secret cases"
SHOWN_CASES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend. line: 1-based, or None where the whole file is meant."""

    file: str
    line: int | None
    fault: str
    remedy: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.fault}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Label:
    """What the head of a shipped file says: the verdict it must get, and what it needs to run."""

    expect: Verdict
    needs: tuple[str, ...] = ()


def check_folder(path: Path, limit_s: float = GATE_LIMIT_S) -> tuple[Finding, ...]:
    """Everything found wrong with a problem folder; empty if it may be opened.

    Starts one Python process, which imports the folder's code; takes seconds.
    """
    try:
        load_problem(path)
    except DeclarationError as error:
        return tuple(_declared(fault) for fault in error.faults)
    command = [sys.executable, "-m", "runners.gate", str(path)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            answer, said = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            fault = f"the checks did not end within {limit_s:g} s"
            return (_of_reference(path, None, fault, "make import, generate and reference faster"),)
    if process.returncode:
        last = said.strip().rpartition("\n")[2]
        fault = f"the process that checks it died ({process.returncode}): {last}"
        return (_of_reference(path, _line_in(path / "reference.py", said), fault, "mend that"),)
    return tuple(Finding(**item) for item in json.loads(answer))


def render(path: Path, findings: Sequence[Finding]) -> str:
    """The findings as text, one a line, and a last line that counts them."""
    if not findings:
        return f"{path}: nothing to mend"
    count = "1 thing" if len(findings) == 1 else f"{len(findings)} things"
    return "\n".join([*map(str, findings), f"{path}: {count} to mend"])


def inspect(folder: ProblemFolder) -> tuple[Finding, ...]:
    """The checks that run the folder's code. Every step runs in a forked child of this process."""
    problem = folder.problem
    try:
        loaded = load_code(folder.path, problem)
    except ProblemError as error:
        fault = str(error).removeprefix(f"{folder.path / 'reference.py'}: ")
        return (_of_reference(folder.path, None, fault, "mend reference.py"),)
    cases = (*problem.cases, *draw_secret_cases(problem, SECRET_KEY))
    findings = _inspect_reference(folder, loaded, cases)
    if findings:
        # A kernel's verdict says nothing while the reference is wrong.
        return tuple(findings)
    return tuple(_inspect_kernels(folder, loaded, cases))


def _inspect_reference(
    folder: ProblemFolder, loaded: LoadedProblem, cases: Sequence[Case]
) -> list[Finding]:
    source = folder.path / "reference.py"
    where: dict[tuple[int | None, str, str], list[str]] = {}
    constant: set[str] | None = None
    for case in cases:
        end = in_child(partial(faults_of_case, loaded, case), CASE_LIMIT_S)
        if end.fault:
            key = (_line_in(source, end.printed), end.fault, "mend it")
            where.setdefault(key, []).append(case.name)
            continue
        for function, fault, remedy in end.result["faults"]:
            line = getattr(loaded, function).__code__.co_firstlineno
            where.setdefault((line, f"{function}: {fault}", remedy), []).append(case.name)
        still = set(end.result["constant"])
        constant = still if constant is None else constant & still
    findings = [
        _of_reference(folder.path, line, f"{fault} ({_named(names)})", remedy)
        for (line, fault, remedy), names in where.items()
    ]
    for name in sorted(constant or ()):
        fault = f"generate: input {name} is the same in every call, so a kernel could remember it"
        line = loaded.generate.__code__.co_firstlineno
        findings.append(_of_reference(folder.path, line, fault, "draw it from rng"))
    return findings


def _inspect_kernels(
    folder: ProblemFolder, loaded: LoadedProblem, cases: Sequence[Case]
) -> Iterable[Finding]:
    rehearsals = [rehearse(loaded, case, call) for case in cases for call in range(2)]
    right = 0
    wrong = 0
    for path in shipped(folder.path):
        label = read_label(path)
        if isinstance(label, Finding):
            yield label
            continue
        right += label.expect is Verdict.ACCEPTED
        wrong += label.expect is Verdict.WRONG_ANSWER
        if path.suffix == ".py" and not label.needs:
            yield from _inspect_kernel(path, label.expect, loaded, rehearsals)
    yield from _inspect_kernel(folder.path / "starter.py", Verdict.ACCEPTED, loaded, rehearsals)
    submissions = str(folder.path / "submissions")
    if not right:
        remedy = "add a kernel whose first line is `# expect: accepted`"
        yield Finding(submissions, None, "holds no kernel that must be accepted", remedy)
    if not wrong:
        remedy = "add a mutant whose first line is `# expect: wrong answer`"
        yield Finding(submissions, None, "holds no kernel that must be refused", remedy)


def _inspect_kernel(
    path: Path, expect: Verdict, loaded: LoadedProblem, rehearsals: Sequence[Rehearsal]
) -> Iterable[Finding]:
    if expect is not Verdict.ACCEPTED:
        # Public test cases alone must show it up: test mode runs no others.
        rehearsals = [r for r in rehearsals if r.case.stage is Stage.TEST and not r.case.secret]
    end = play_kernel(path, loaded, rehearsals, KERNEL_LIMIT_S)
    if end.verdict is expect:
        return
    got = f"ends as {end.verdict}" + (f" on {end.case}" if end.case else "")
    got += f" ({end.message})" if end.message else ""
    remedy = (
        "mend the kernel, or loosen check"
        if expect is Verdict.ACCEPTED
        else "tighten check, or add a case that tells it apart"
    )
    yield Finding(str(path), 1, f"must end as {expect}, but {got}", remedy)


def shipped(folder: Path) -> tuple[Path, ...]:
    """The kernels of `submissions/`, by name; what starts with a dot or an underscore is none."""
    return tuple(
        path
        for path in sorted((folder / "submissions").glob("*"))
        if path.is_file() and path.suffix and path.name[0] not in "._"
    )


def read_label(path: Path) -> Label | Finding:
    """The label in the comment lines at the head of a shipped kernel."""
    said: dict[str, str] = {}
    for line in path.read_text("utf-8").splitlines()[:5]:
        found = re.fullmatch(r"(?:#|//)\s*(expect|needs):\s*(.*?)\s*", line)
        if not found:
            break
        said[found[1]] = found[2]
    words = ", ".join(Verdict)
    if "expect" not in said:
        remedy = f"begin with `# expect: VERDICT` (// in C++), one of {words}"
        return Finding(str(path), 1, "does not say what its verdict must be", remedy)
    if said["expect"] not in list(Verdict):
        fault = f'expects "{said["expect"]}", which is no verdict'
        return Finding(str(path), 1, fault, f"write one of {words}")
    needs = tuple(word.strip() for word in said.get("needs", "").split(",") if word.strip())
    return Label(Verdict(said["expect"]), needs)


def _of_reference(folder: Path, line: int | None, fault: str, remedy: str) -> Finding:
    return Finding(str(folder / "reference.py"), line, fault, remedy)


def _named(cases: Sequence[str]) -> str:
    shown = ", ".join(cases[:SHOWN_CASES])
    more = len(cases) - SHOWN_CASES
    return f"case {shown}" + (f" and {more} more" if more > 0 else "")


def _line_in(source: Path, trace: str) -> int | None:
    """The innermost line of a file that a Python trace names."""
    lines = re.findall(rf'File "{re.escape(str(source.absolute()))}", line (\d+)', trace)
    return int(lines[-1]) if lines else None


def _declared(fault: str) -> Finding:
    """A fault of the declaration (`file[:line]: what [(line n)]; remedy`) as a finding."""
    text, _, remedy = fault.rpartition("; ")
    found = re.fullmatch(r"(.+?\.\w+)(?::(\d+))?: (.*)", text, re.DOTALL)
    if not found:
        return Finding(text or fault, None, text or fault, remedy)
    inner = re.search(r" \(line (\d+)\)$", found[3])
    line = found[2] or (inner and inner[1])
    what = found[3][: inner.start()] if inner else found[3]
    return Finding(found[1], int(line) if line else None, what, remedy)


def _main(path: Path) -> None:
    """Print the findings of `inspect` as JSON; whatever the folder's code prints goes to stderr."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    findings: list[Mapping[str, Any]] = [asdict(f) for f in inspect(load_problem(path))]
    json.dump(findings, answer)
    answer.close()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
