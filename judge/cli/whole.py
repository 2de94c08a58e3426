"""`judge up`, a command of the server's extra."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from judge.cli.talk import WrongUse

commands = typer.Typer()


@commands.command()
def up(
    once: Annotated[
        bool,
        typer.Option("--once", help="End after the board; status 0 if all went as expected."),
    ] = False,
) -> None:
    """Run the whole judge on this machine, with the example contest, until Ctrl-C."""
    # Asked here, so that the remedy is not buried in a log.
    if find_spec("uvicorn") is None or find_spec("torch") is None:
        raise WrongUse("This needs the server and a runner: pip install 'kernel-judge[all]'")
    from judge.up import up as run

    raise typer.Exit(run(once))
