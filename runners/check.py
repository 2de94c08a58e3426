"""`judge check`: the runner's own evaluator on one's own machine. Its word is unofficial."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.status import Status
from rich.text import Text

from judge.archive import Unpacked, digest_of_files
from judge.catalog import ProblemFolder, draw_secret_cases
from judge.cli.render import case_table, closing_lines, fault_lines, styled
from judge.cli.talk import Exit, answer, console, exit_of, print_json, say, show
from judge.model import Job, JobState, Mode, Outcome, Progress
from judge.rules import cases_of_mode
from judge.scoring import score
from judge.text import plain
from judge.wire import OutcomeBody, SubmissionBody
from runners.evaluator_link import EvaluatorLink
from runners.settings import EvaluatorSettings
from runners.worker import ceiling_s

KEY_BYTES = 16
HARNESS = Path(__file__).parent / "harness"


@dataclass(frozen=True, slots=True)
class LocalSubmission:
    """What is checked: files, for which problem, as if handed in for `mode` on `device`."""

    folder: ProblemFolder
    files: Unpacked
    mode: Mode
    device: str


def check(submission: LocalSubmission, settings: EvaluatorSettings, as_json: bool) -> Exit:
    """Judge it here and print what came of it: a table, or one JSON object."""
    job = local_job(submission)
    link = EvaluatorLink(settings)
    try:
        outcome = _evaluate(link, job, ceiling_s(submission.folder.problem.limits, job.mode))
    finally:
        link.kill()
    body = as_body(submission, job, outcome)
    if as_json:
        print_json(_json(submission, body))
    else:
        _report(submission, body)
    return exit_of(body)


def local_job(submission: LocalSubmission) -> Job:
    """A job like the server's, with a fresh key and secret cases drawn afresh from their ranges."""
    problem = submission.folder.problem
    secret = draw_secret_cases(problem, os.urandom(KEY_BYTES))
    return Job(
        id=1,
        submission_id=1,
        problem_id=problem.id,
        problem_digest=problem.digest,
        device=submission.device,
        mode=submission.mode,
        attempt=1,
        key=os.urandom(KEY_BYTES),
        main=submission.files.main,
        files=submission.files.files,
        cases=cases_of_mode(problem, secret, submission.mode),
    )


def as_body(submission: LocalSubmission, job: Job, outcome: Outcome) -> SubmissionBody:
    """The outcome in the form in which the server would tell it, so that it is shown alike."""
    now = datetime.now(UTC)
    found = score(outcome.measurements, [m.case for m in outcome.measurements])
    return SubmissionBody(
        id=job.submission_id,
        job_id=job.id,
        version=1,
        team="",
        author="",
        problem=job.problem_id,
        problem_version=submission.folder.problem.version,
        device=job.device,
        mode=job.mode,
        main=job.main,
        files=[file.name for file in job.files],
        sha256=digest_of_files(job.files),
        received_at=now,
        state=JobState.DONE,
        attempt=job.attempt,
        held=False,
        progress=None,
        place=None,
        eta_s=None,
        runner=None,
        last_heard_at=None,
        finished_at=now,
        verdict=outcome.verdict,
        outcome=OutcomeBody.of(outcome),
        geomean_ns=found.geomean_ns if found else None,
        medians_ns={case: time.ns for case, time in found.times.items()} if found else {},
    )


def harness_digest(folder: Path = HARNESS) -> str:
    """SHA-256 (hex) over what lies in the box: each file's name and content, behind its length."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        for part in (path.name.encode(), path.read_bytes()):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


def _evaluate(link: EvaluatorLink, job: Job, ceiling: float) -> Outcome:
    out = console(to_stderr=True)
    words = "starting the evaluator"
    with Status(words, console=out) if out.is_terminal else nullcontext() as line:
        if line is None:
            say(words)
        outcome = link.evaluate(job, ceiling, _teller(line), lambda: False)
    assert outcome is not None
    return outcome


def _teller(line: Status | None) -> Callable[[Progress, bool], None]:
    """Tells progress: in one line that changes on a terminal, else each stage once."""
    told = ""

    def tell(progress: Progress, _loaded: bool) -> None:
        nonlocal told
        steps = f" {progress.done}/{progress.total}" if progress.total else ""
        if line is not None:
            line.update(Text(plain(progress.stage + steps)))
        elif progress.stage != told:
            say(progress.stage + steps)
            told = progress.stage

    return tell


def _report(submission: LocalSubmission, body: SubmissionBody) -> None:
    outcome = body.outcome
    assert outcome is not None
    answer(f"{outcome.verdict.value} (unofficial)", style=f"bold {styled(outcome.verdict).style}")
    answer(outcome.message)
    table = case_table(body)
    if table is not None:
        show(table)
    lines = [line for result in outcome.results for line in fault_lines(result)]
    lines += closing_lines(body)
    if body.verdict != "accepted" and outcome.log.strip():
        lines += ["log:", *(f"  {line}" for line in outcome.log.rstrip().splitlines())]
    problem = submission.folder.problem
    lines += [
        f"problem {problem.id} v{problem.version}, digest {problem.digest}",
        f"harness digest {harness_digest()}",
        "Unofficial: secret cases were drawn for this check alone; only the judge's verdict counts.",
    ]
    for line in lines:
        answer(line)


def _json(submission: LocalSubmission, body: SubmissionBody) -> dict[str, Any]:
    return {
        "unofficial": True,
        "problem_digest": submission.folder.problem.digest,
        "harness_digest": harness_digest(),
        **body.model_dump(mode="json"),
    }
