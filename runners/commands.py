"""The runner's commands: `work`, `check`, `doctor`, `problems check`. They join the one `judge` CLI.

This process imports no torch: only the evaluator's does, and the gate's when it is asked for.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import platformdirs
import typer

from judge.archive import unpack
from judge.catalog import ProblemFolder, load_problem
from judge.cli.folder import note_for, read_submission
from judge.cli.talk import Exit, WrongUse, answer, say
from judge.model import Mode, Refusal
from judge.tables import DeclarationError
from runners import doctor as machine
from runners.check import LocalSubmission
from runners.check import check as check_here
from runners.options import (
    AsJson,
    BoxCore,
    Device,
    EvaluatorCore,
    ProblemsDir,
    StateDir,
    known_device,
)
from runners.ports import SandboxError
from runners.settings import (
    DEFAULT_PROBLEMS,
    DEFAULT_STATE_DIR,
    EvaluatorSettings,
)
from runners.timing import LONGEST_S, Examination
from runners.work import work

log = logging.getLogger(__name__)

commands = typer.Typer()
_problems = typer.Typer(help="Problems of the contest.", no_args_is_help=False)
commands.add_typer(_problems, name="problems")

commands.command()(work)


@commands.command()
def check(
    path: Annotated[Path, typer.Argument(metavar="FILE|FOLDER|ZIP", help="What to try.")],
    problem: Annotated[
        str | None, typer.Option("--problem", metavar="ID", help="What it solves.")
    ] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="What to run it for.")] = Mode.BENCHMARK,
    device: Device = "cpu",
    problems: ProblemsDir = DEFAULT_PROBLEMS,
    evaluator_core: EvaluatorCore = None,
    box_core: BoxCore = None,
    as_json: AsJson = False,
) -> None:
    """Judge a kernel on this machine by the judge's own evaluator; the verdict is unofficial."""
    known_device(device)
    if mode is Mode.RANKED:
        raise WrongUse("A ranked verdict comes from the judge alone; check with --mode benchmark.")
    note = note_for(path)
    folder = _folder(problems, problem or (note.problem if note else None))
    uploads = [(file.name, file.content) for file in read_submission(path, note)]
    files = unpack(uploads, folder.problem.languages)
    if isinstance(files, Refusal):
        raise WrongUse(files.detail)
    cache = platformdirs.user_cache_path("kernel-judge")
    boxes = 1 if mode is Mode.TEST else 2
    settings = EvaluatorSettings(problems, cache, device, evaluator_core, box_core, boxes)
    try:
        ended = check_here(LocalSubmission(folder, files, mode, device), settings, as_json)
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
    raise typer.Exit(ended)


@commands.command()
def doctor(
    as_json: AsJson = False,
    timing: Annotated[
        bool,
        typer.Option("--timing", help="Measure how well this machine tells two kernels apart."),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=0.1,
            max=600,
            help="With --timing: seconds of the longest measuring, starts of boxes not counted. [20]",
        ),
    ] = None,
    neighbour: Annotated[
        bool,
        typer.Option(
            "--neighbour", help="With --timing: try a second runner beside; needs 4 cores."
        ),
    ] = False,
    device: Device = "cpu",
    state_dir: StateDir = DEFAULT_STATE_DIR,
    evaluator_core: EvaluatorCore = None,
    box_core: BoxCore = None,
) -> None:
    """Say what this machine lacks for judging, or with --timing what disturbs its clock; and the remedy."""
    if not timing and (neighbour or seconds is not None):
        raise WrongUse("--seconds and --neighbour need --timing.")
    known_device(device)
    found = machine.diagnose()
    ended = machine.exit_of(found)
    if timing and ended is Exit.ACCEPTED:
        raise typer.Exit(
            _examine(
                Examination(
                    longest_s=LONGEST_S if seconds is None else seconds,
                    device=device,
                    evaluator_core=evaluator_core,
                    box_core=box_core,
                    state_dir=state_dir,
                    neighbour=neighbour,
                    as_json=as_json,
                )
            )
        )
    if as_json:
        answer(json.dumps([asdict(finding) for finding in found]))
    else:
        for finding in found:
            answer(machine.line_of(finding))
    if ended is not Exit.ACCEPTED:
        raise typer.Exit(ended)


@_problems.command("check")
def problems_check(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[ID|PATH]...", help="Which; all by default.")
    ] = None,
    problems: ProblemsDir = DEFAULT_PROBLEMS,
) -> None:
    """Say what is wrong with problem folders: file, line, fault and remedy."""
    from runners.gate import check_folder, render  # imports torch, which takes a second

    if what:
        folders = [Path(word) if Path(word).is_dir() else problems / word for word in what]
        for word, folder in zip(what, folders, strict=True):
            if not folder.is_dir():
                raise WrongUse(f"There is no problem folder {word} here, nor {folder}.")
    else:
        folders = sorted(path.parent for path in problems.glob("*/problem.toml"))
        if not folders:
            raise WrongUse(f"{problems} holds no problem folder; give a path, or --problems DIR.")
    faulty = 0
    for folder in folders:
        findings = check_folder(folder)
        faulty += bool(findings)
        answer(render(folder, findings))
    if faulty:
        raise typer.Exit(Exit.NOT_ACCEPTED)


def _examine(wish: Examination) -> Exit:
    from runners.timing.examine import examine  # imports torch, which takes a second

    try:
        return examine(wish)
    except KeyboardInterrupt:
        say("interrupted: no figure was kept")
        return Exit.INTERRUPTED
    except SandboxError as error:
        say(f"A box failed: {error}")
        return Exit.JUDGE_FAILED


def _folder(problems: Path, name: str | None) -> ProblemFolder:
    known = sorted(path.parent.name for path in problems.glob("*/problem.toml"))
    if name is None and len(known) == 1:
        name = known[0]
    if name is None or name not in known:
        if not known:
            raise WrongUse(
                f"{problems.absolute()} holds no problem folder. A check needs the judge's own: "
                "run it in the repository, or name its folder with --problems DIR."
            )
        said = "Which problem? Add" if name is None else f"There is no problem {name!r} here; try"
        raise WrongUse(f"{said} --problem ID ({problems.absolute()} holds: {', '.join(known)}).")
    try:
        return load_problem(problems / name)
    except DeclarationError as error:
        raise WrongUse(str(error)) from error
