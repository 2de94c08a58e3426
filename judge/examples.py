"""The shipped kernels that `judge up` hands in, as a contestant of the example contest would.

They lie in `problems/ID/submissions/`; the first lines say what must come of each:
`expect: VERDICT`, and `needs: PROGRAM` where a program must be there to build it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judge.archive import digest_of_files
from judge.cli.render import stage_line, verdict_line
from judge.cli.submissions import follow
from judge.cli.talk import answer
from judge.client import JudgeClient, Target
from judge.model import JobState, Mode, SourceFile, Verdict
from judge.text import microseconds
from judge.transport import ApiRefusal
from judge.wire import ProblemBody, SubmissionBody

DEVICE = "cpu"  # the one that every machine has
PER_PROBLEM = 2
BASELINE = "baseline"
HEAD_LINES = 5
NO_RANKED_RUNNER = "ranked_unavailable"
"""The refusal of a ranked submission where no runner may judge it: no fault of the example's."""

_EXPECT = re.compile(r"expect:\s*(.+)")
_NEEDS = re.compile(r"needs:\s*(\S+)")


@dataclass(frozen=True, slots=True)
class Example:
    """A shipped kernel. needs: a program that must be on this machine, or empty."""

    problem: str
    path: Path
    expected: str
    needs: str
    mode: Mode = Mode.BENCHMARK

    @property
    def label(self) -> str:
        how = "" if self.mode is Mode.BENCHMARK else f", {self.mode}"
        return f"{self.problem}/{self.path.name}{how}"

    @property
    def endings(self) -> tuple[str, ...]:
        """What may come of it: what is expected, or that this machine is too noisy to rank."""
        noisy = (Verdict.UNSTABLE_TIMING,) if self.mode is Mode.RANKED else ()
        return (self.expected, *noisy)

    @property
    def missing(self) -> str:
        """The needed program that is not here, or empty."""
        return self.needs if self.needs and shutil.which(self.needs) is None else ""


def read_example(problem_id: str, path: Path) -> Example | None:
    """The example in a file, or None where its first lines expect nothing."""
    with path.open(encoding="utf-8", errors="replace") as file:
        head = [line for _, line in zip(range(HEAD_LINES), file, strict=False)]
    expects = next((m for m in map(_EXPECT.search, head) if m), None)
    needs = next((m for m in map(_NEEDS.search, head) if m), None)
    if expects is None:
        return None
    return Example(problem_id, path, expects[1].strip(), needs[1] if needs else "")


def examples_of(problems_dir: Path, problem_id: str) -> list[Example]:
    """The baseline and a native kernel of a problem, both expected to be accepted.

    Where a problem ships no such pair, the next accepted ones in alphabetical order fill it up.
    """
    found = []
    for path in sorted((problems_dir / problem_id / "submissions").iterdir()):
        example = read_example(problem_id, path) if path.is_file() else None
        if example is not None and example.expected == Verdict.ACCEPTED:
            found.append(example)
    baselines = [e for e in found if e.path.name.startswith(BASELINE)][:1]
    native = [e for e in found if e.path.suffix != ".py"][:1]
    first = baselines + native
    return (first + [e for e in found if e not in first])[:PER_PROBLEM]


def ranked_of(examples: Sequence[Example]) -> list[Example]:
    """The one of them that is handed in ranked as well: the last, which should be the fastest."""
    return [replace(example, mode=Mode.RANKED) for example in examples[-1:]]


def run_examples(
    client: JudgeClient,
    problems_dir: Path,
    problems: Sequence[ProblemBody],
    again: bool,
    on_news: Callable[[], None],
) -> bool:
    """Hand in the examples of each problem, one after the other; whether all went as expected.

    again: also those that were judged as expected before, by this judge. Those that this machine
    cannot build are skipped and do not count. on_news: called every few seconds while one is judged.
    """
    all_fine = True
    for problem in problems:
        practice = examples_of(problems_dir, problem.id)
        for example in [*practice, *(ranked_of(practice) if problem.baseline else ())]:
            if example.missing:
                answer(
                    f"  {example.label}: skipped, it needs {example.missing}, which is not installed"
                )
                continue
            files = (SourceFile(example.path.name, example.path.read_bytes()),)
            known = None if again else _judged(client, problem, example, digest_of_files(files))
            if known is not None:
                before = f"submission {known.id}, from before"
                answer(f"  {example.label}: {_summary(known)} ({before})")
                continue
            fine = _hand_in(client, problem, example, files, on_news)
            all_fine = all_fine and fine
    return all_fine


def _hand_in(
    client: JudgeClient,
    problem: ProblemBody,
    example: Example,
    files: tuple[SourceFile, ...],
    on_news: Callable[[], None],
) -> bool:
    label = f"  {example.label}"
    try:
        receipt = client.submit(Target(problem.id, DEVICE, example.mode), files)
    except ApiRefusal as refusal:
        if refusal.code == NO_RANKED_RUNNER:
            answer(f"{label}: skipped: {refusal.detail}")
            return True
        answer(f"{label}: not taken: {refusal.detail}", style="red")
        return False
    answer(f"{label}: submission {receipt.submission_id} received")
    body = follow(client, receipt.submission_id, label=label, on_news=on_news)
    fine = stage_line(body) in example.endings
    wanted = "" if fine else f", but {example.expected} was expected"
    as_asked = stage_line(body) == example.expected
    why = f" ({body.outcome.message})" if body.outcome and not as_asked else ""
    answer(f"{label}: {_summary(body)}{wanted}{why}", style="" if fine else "red")
    return fine


def _judged(
    client: JudgeClient, problem: ProblemBody, example: Example, digest: str
) -> SubmissionBody | None:
    """An earlier submission of these very files that ended as expected."""
    for body in client.submissions(problem.id, limit=50).submissions:
        same = (body.sha256, body.problem_version, body.mode) == (
            digest,
            problem.version,
            example.mode,
        )
        if same and body.state is JobState.DONE and stage_line(body) in example.endings:
            return body
    return None


def _summary(body: SubmissionBody) -> str:
    time = "" if body.geomean_ns is None else f", {microseconds(body.geomean_ns)}"
    isolation = body.outcome.isolation if body.outcome is not None else "full"
    how = "" if isolation == "full" else f", {isolation} isolation (judge doctor says why)"
    return f"{verdict_line(body)}{time}{how}"
