"""The one command line, `judge`.

The client's commands live here; those of server and runner join by the entry-point group
`judge.commands` when their extra is installed. They are loaded only when one is asked for, so that
`judge status` does not pay for a web framework.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

import typer

from judge.cli import admin, login, problems, receipts, submissions, tokens
from judge.cli.talk import WrongUse, exit_of_error, print_json, say
from judge.client import ApiRefusal, ServerUnreachable
from judge.wire import ErrorBody

GROUP = "judge.commands"


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
    for part in (login, problems, submissions, receipts, tokens):
        join(root, part.commands)
    root.add_typer(admin.commands, name="admin")
    return root


def join(root: typer.Typer, part: typer.Typer) -> None:
    """Add the commands of `part`; groups of one name become one group, the first's help stands."""
    root.registered_commands.extend(part.registered_commands)
    mine = {_name(group): group for group in root.registered_groups}
    for group in part.registered_groups:
        known = mine.get(_name(group))
        if known is None or not _name(group):
            root.registered_groups.append(group)
        elif known.typer_instance is not None and group.typer_instance is not None:
            join(known.typer_instance, group.typer_instance)


def _name(group: typer.models.TyperInfo) -> str:
    return group.name if isinstance(group.name, str) else ""


def knows(app: typer.Typer, words: Sequence[str]) -> bool:
    """Whether `app` itself has the command that the words name."""
    named = [word for word in words if not word.startswith("-")]
    if not named:
        return False
    for command in app.registered_commands:
        function = command.callback.__name__ if command.callback else ""
        if named[0] == (command.name or function.replace("_", "-")):
            return True
    for group in app.registered_groups:
        if named[0] == _name(group) and group.typer_instance is not None:
            rest = list(words)[list(words).index(named[0]) + 1 :]
            whole_group = {"-h", "--help"} & set(rest)
            inner = group.typer_instance
            return not whole_group and (
                not [w for w in rest if not w.startswith("-")] or knows(inner, rest)
            )
    return False


def full_commands(words: Sequence[str]) -> typer.Typer:
    """The command line for these words, with the other roles' commands where they are needed."""
    root = own_commands()
    if knows(root, words):
        return root
    missing = []
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        try:
            join(root, point.load())
        except ModuleNotFoundError as error:
            missing.append(
                f"Without the commands of the {point.name}, since {error.name} is not installed: "
                "pip install 'kernel-judge[all]'"
            )
    if not knows(root, words):
        for line in missing:
            say(line)
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
