"""Options that several of the runner's commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge.cli.talk import WrongUse
from runners.devices import CLASSES

ProblemsDir = Annotated[
    Path,
    typer.Option(
        "--problems", metavar="DIR", envvar="JUDGE_PROBLEMS_DIR", help="The problem folders."
    ),
]
EvaluatorCore = Annotated[
    int | None,
    typer.Option(
        "--evaluator-core",
        metavar="N",
        min=0,
        envvar="JUDGE_RUNNER_EVALUATOR_CORE",
        help="CPU that the evaluator has for itself.",
    ),
]
BoxCore = Annotated[
    int | None,
    typer.Option(
        "--box-core", metavar="N", min=0, envvar="JUDGE_RUNNER_BOX_CORE", help="CPU of the boxes."
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device", metavar="NAME", envvar="JUDGE_RUNNER_DEVICE", help="What to judge on."
    ),
]
StateDir = Annotated[
    Path, typer.Option(metavar="DIR", envvar="JUDGE_STATE_DIR", help="Tokens, cache and figures.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def known_device(device: str) -> None:
    """Raises WrongUse for a device that no runner has."""
    if device not in CLASSES:
        raise WrongUse(f"There is no device {device!r} here: use one of {', '.join(CLASSES)}.")
