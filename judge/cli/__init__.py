"""The one command line, `judge`.

The client's commands live here; those of server and runner join by the entry-point group
`judge.commands`, each under its own name (`work`, `problems.check`). Only what is asked for is loaded:
`judge status` pays for no web framework, and `judge serve` for no torch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import copy
from importlib.metadata import entry_points

import typer

from judge.cli import admin, login, problems, receipts, runners, submissions, tokens
from judge.cli.talk import WrongUse, exit_of_error, print_json, say
from judge.transport import ApiRefusal, ServerUnreachable
from judge.wire import ErrorBody

GROUP = "judge.commands"
VALUE_OPTIONS = ("--server", "--token")  # those a group takes before its command


def own_commands() -> typer.Typer:
    """The client's commands: what a plain installation has."""
    root = typer.Typer(
        name="judge",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Hand in kernels, see verdicts and boards, run the contest.",
    )
    for part in (login, problems, submissions, receipts, runners, tokens):
        join(root, part.commands)
    whole = typer.Typer()
    whole.add_typer(admin.commands, name="admin")
    join(root, whole)
    return root


def join(root: typer.Typer, part: typer.Typer) -> None:
    """Add the commands of `part`, which stays as it is; groups of one name become one group."""
    root.registered_commands.extend(part.registered_commands)
    for group in part.registered_groups:
        known = next((g for g in root.registered_groups if _name(g) == _name(group)), None)
        if known is None:
            root.registered_groups.append(_own_copy(group))
        elif known.typer_instance is not None and group.typer_instance is not None:
            join(known.typer_instance, group.typer_instance)


def _own_copy(group: typer.models.TyperInfo) -> typer.models.TyperInfo:
    """The same group with lists of its own, so that what joins it does not grow the original."""
    made = copy(group)
    if group.typer_instance is not None:
        inner = copy(group.typer_instance)
        inner.registered_commands = list(inner.registered_commands)
        inner.registered_groups = [_own_copy(each) for each in inner.registered_groups]
        made.typer_instance = inner
    return made


def _name(group: typer.models.TyperInfo) -> str:
    return group.name if isinstance(group.name, str) else ""


def path_of(words: Sequence[str]) -> list[str]:
    """The words that name a command, without options before them."""
    path: list[str] = []
    left = iter(words)
    for word in left:
        if word in VALUE_OPTIONS:
            next(left, None)
        elif not word.startswith("-"):
            path.append(word)
    return path


def knows(app: typer.Typer, path: Sequence[str], with_help: bool = False) -> bool:
    """Whether `app` can run the command at the path, without commands of other roles.

    A group that is asked for its help, or does nothing by itself, wants all its commands.
    """
    if not path:
        return False
    for command in app.registered_commands:
        function = command.callback.__name__ if command.callback else ""
        if path[0] == (command.name or function.replace("_", "-")):
            return True
    for group in app.registered_groups:
        inner = group.typer_instance
        if path[0] == _name(group) and inner is not None:
            if len(path) > 1:
                return knows(inner, path[1:], with_help)
            return inner.info.invoke_without_command is True and not with_help
    return False


def full_commands(words: Sequence[str]) -> typer.Typer:
    """The command line for these words, with the other roles' commands where they are needed."""
    root = own_commands()
    path = path_of(words)
    if knows(root, path, bool({"-h", "--help"} & set(words))):
        return root
    points = {point.name: point for point in entry_points(group=GROUP)}
    named = points.get(".".join(path[:2])) or points.get(".".join(path[:1]))
    needed = [named] if named else {p.value: p for p in points.values()}.values()
    for point in needed:
        try:
            join(root, point.load())
        except ModuleNotFoundError as error:
            if named:
                raise WrongUse(
                    f"judge {' '.join(path[:2])} needs more than the client ({error.name} is not "
                    "installed): pip install 'kernel-judge[all]'"
                ) from error
    return root


def main() -> None:
    """Run one command; every ending has its exit code (see `judge.cli.talk.Exit`)."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a `?`, not a traceback.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    words = sys.argv[1:]
    try:
        full_commands(words)()
    except (ApiRefusal, ServerUnreachable, WrongUse) as error:
        if isinstance(error, ApiRefusal) and "--json" in words:
            print_json(ErrorBody(detail=error.detail, code=error.code))
        say(str(error), style="red")
        sys.exit(exit_of_error(error))
