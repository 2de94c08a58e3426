"""What there is to solve and who leads: problems, fresh folders, boards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judge.cli.folder import make_folder
from judge.cli.login import Json, Server, Token, connect
from judge.cli.render import board_table, ranked_table
from judge.cli.talk import WrongUse, answer, print_json, say, show, table
from judge.client import JudgeClient
from judge.model import Mode
from judge.text import moment
from judge.wire import BoardBody, ProblemBody, RankedBoardBody

STARTER = "starter."

commands = typer.Typer()
problems = typer.Typer(invoke_without_command=True, help="List the problems; `show ID` for one.")
commands.add_typer(problems, name="problems")


@problems.callback()
def list_problems(
    context: typer.Context, server: Server = None, token: Token = None, as_json: Json = False
) -> None:
    """List the problems; `show ID` for one."""
    if context.invoked_subcommand is not None:
        return
    with connect(server, token, needs_token=False) as client:
        found = client.problems()
        if as_json:
            print_json(found)
            return
        contest = client.contest()
    answer(f"{contest.title}: open until {moment(contest.closes)}", style="bold")
    if not contest.intake_open:
        answer(f"intake is paused: {contest.intake_reason}", style="yellow")
    for word in contest.announcements:
        answer(f"{moment(word.at)}  {word.text}")
    rows = [
        (p.id, p.title, str(p.version), ", ".join(p.devices), ", ".join(p.languages)) for p in found
    ]
    show(table(("id", "title", "version", "devices", "languages"), rows, right="version"))


@problems.command("show")
def show_problem(
    problem_id: Annotated[str, typer.Argument(metavar="ID")],
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show one problem: statement, public cases, tolerances and limits."""
    with connect(server, token, needs_token=False) as client:
        problem = client.problem(problem_id)
        if as_json:
            print_json(problem)
            return
        if "statement.md" in problem.files:
            statement = client.problem_file(problem_id, "statement.md").decode(errors="replace")
            answer(statement.rstrip() + "\n")
    answer(f"{problem.title} ({problem.id} v{problem.version}), digest {problem.digest}", "bold")
    rows = [
        (c.name, c.stage.value, str(c.calls), ", ".join(f"{k}={v}" for k, v in c.values.items()))
        for c in problem.cases
    ]
    show(table(("case", "stage", "calls", "values"), rows, right="calls"))
    for name, (value, reason) in problem.tolerances.items():
        answer(f"tolerance {name}: {value:g} ({reason})")
    answer("limits: " + ", ".join(f"{name} {value:g}" for name, value in problem.limits.items()))


def chosen_problem(client: JudgeClient, problem_id: str | None) -> ProblemBody:
    """The named problem, or the contest's only one."""
    if problem_id is not None:
        return client.problem(problem_id)
    found = client.problems()
    if len(found) != 1:
        ids = ", ".join(p.id for p in found) or "none yet"
        raise WrongUse(f"Which problem? Add --problem ID (there are: {ids}).")
    return found[0]


@commands.command()
def init(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The folder to make.")],
    problem: Annotated[
        str | None, typer.Option("--problem", metavar="ID", help="What to solve.")
    ] = None,
    server: Server = None,
    token: Token = None,
) -> None:
    """Make a fresh folder with a problem's starter and statement. Never overwrites."""
    if name.exists():
        raise WrongUse(f"{name} exists already and is not touched; choose another name.")
    with connect(server, token, needs_token=False) as client:
        body = chosen_problem(client, problem)
        files = {path: client.problem_file(body.id, path) for path in body.files}
    make_folder(name, body, files)
    for file in sorted(files):
        answer(str(name / file))
    starter = next((f for f in sorted(files) if f.startswith(STARTER)), None)
    if starter:
        say(f"Next: judge submit {name / starter} --problem {body.id}")


def board_lines(board: BoardBody | RankedBoardBody, with_times: bool = False) -> None:
    """Print one board."""
    frozen = ", frozen" if board.frozen else ""
    answer(
        f"{board.problem} v{board.problem_version} on {board.device}: {board.heading} "
        f"(as of {moment(board.as_of)}{frozen})",
        style="bold",
    )
    if not board.entries:
        answer("nobody yet")
    elif isinstance(board, RankedBoardBody):
        show(ranked_table(board))
    else:
        show(board_table(board, with_times))


def boards_of(
    client: JudgeClient, problem: str, device: str, mode: Mode | None
) -> list[BoardBody | RankedBoardBody]:
    """The board of a mode; without one the practice table, after the ranked board if that has entries."""
    if mode is Mode.RANKED:
        return [client.ranked_board(problem, device)]
    if mode is not None:
        return [client.board(problem, device, mode)]
    ranked = client.ranked_board(problem, device)
    return [*([ranked] if ranked.entries else []), client.board(problem, device)]


@commands.command()
def board(
    problem: Annotated[str | None, typer.Argument(metavar="[PROBLEM]")] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="NAME")] = None,
    mode: Annotated[
        Mode | None, typer.Option("--mode", help="ranked or benchmark; both without it.")
    ] = None,
    times: Annotated[
        bool, typer.Option("--times", help="Also the time of every case (benchmark).")
    ] = False,
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show the boards of a problem, or every board: the ranked one first, then practice."""
    with connect(server, token, needs_token=False) as client:
        wanted = [
            (ref.problem, ref.device)
            for ref in client.boards()
            if problem in (None, ref.problem) and device in (None, ref.device)
        ]
        if problem is not None and device is not None:
            wanted = [(problem, device)]  # the judge says what it makes of an unknown pair
        elif not wanted:
            raise WrongUse("There is no such board; judge problems lists problems and devices.")
        found = [board for pair in wanted for board in boards_of(client, *pair, mode)]
    if as_json:
        print_json(found[0] if problem is not None and len(found) == 1 else found)
        return
    for number, one in enumerate(found):
        if number:
            answer("")
        board_lines(one, times)
