"""The organizer's verbs."""

from __future__ import annotations

from typing import Annotated

import typer

from judge.cli.login import Json, Server, Token, connect
from judge.cli.runners import list_runners, quarantine, reinstate
from judge.cli.talk import WrongUse, answer, json_of, print_json, say, show, table
from judge.cli.tokens import list_tokens, revoke
from judge.model import Role
from judge.text import moment
from judge.wire import SubmissionBody

commands = typer.Typer(no_args_is_help=True, help="Run the contest (needs an organizer's token).")


@commands.command()
def invites(
    count: Annotated[int, typer.Argument(metavar="N", min=1, max=10_000)],
    team: Annotated[
        str | None, typer.Option("--team", metavar="NAME", help="All join this team.")
    ] = None,
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make invite codes, one a line; each lets one person in."""
    with connect(server, token) as client:
        made = client.invites(count, team)
        if as_json:
            print_json(made)
            return
        for code in made.codes:
            answer(code)
        say(f"To use one: judge login --server {client.server} --invite CODE --name YOUR-NAME")


@commands.command()
def announce(
    text: Annotated[str, typer.Argument(metavar="TEXT")],
    server: Server = None,
    token: Token = None,
) -> None:
    """Tell everybody something."""
    with connect(server, token) as client:
        client.announce(text)
    answer("announced")


@commands.command()
def pause(
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Shown to everybody.")],
    server: Server = None,
    token: Token = None,
) -> None:
    """Take no more submissions; those taken are judged on."""
    with connect(server, token) as client:
        client.set_intake(False, reason)
    answer("intake paused")


@commands.command()
def resume(server: Server = None, token: Token = None) -> None:
    """Take submissions again."""
    with connect(server, token) as client:
        client.set_intake(True)
    answer("intake open")


@commands.command()
def hold(
    submission: Annotated[int, typer.Argument(metavar="ID", min=1)],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Shown to its author.")],
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Hold a judged submission back from its board."""
    if not reason.strip():
        raise WrongUse("--reason is empty: say what its author shall read.")
    with connect(server, token) as client:
        body = client.hold(submission, reason)
    if as_json:
        print_json(body)
        return
    answer(f"submission {submission} held")


@commands.command()
def release(
    submission: Annotated[int, typer.Argument(metavar="ID", min=1)],
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Let a held submission go back to its board, or first to the run that confirms it."""
    with connect(server, token) as client:
        body = client.release(submission)
    if as_json:
        print_json(body)
        return
    answer(release_line(body))


def release_line(body: SubmissionBody) -> str:
    """What a release came to."""
    if body.held:
        return f"submission {body.id} is still held: {body.hold}"
    if body.confirming:
        return f"submission {body.id} released: a second run must confirm it, and that alone counts"
    return f"submission {body.id} released"


@commands.command()
def backup(server: Server = None, token: Token = None, as_json: Json = False) -> None:
    """Write a consistent copy of the database, on the server."""
    with connect(server, token) as client:
        made = client.backup()
    if as_json:
        print_json(made)
        return
    answer(f"{made.path}  {made.size_bytes:,} bytes")


@commands.command("runner-token")
def runner_token(
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="What the runner judges on.")],
    label: Annotated[str, typer.Option("--label", metavar="NAME")] = "runner",
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make a token for a runner of one device; shown once."""
    with connect(server, token) as client:
        made = client.new_token(Role.RUNNER, label, device)
    if as_json:
        print_json(made)
        return
    answer(made.token)
    say(
        f"Token {made.token_id}, for {device} only. Put it alone in a file that only the runner reads."
    )


@commands.command("organizer-token")
def organizer_token(
    label: Annotated[str, typer.Argument(metavar="NAME", help="Who will hold it.")],
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make a token for another organizer; shown once."""
    with connect(server, token) as client:
        made = client.new_token(Role.ORGANIZER, label)
    if as_json:
        print_json(made)
        return
    answer(made.token)
    say(f"Token {made.token_id}.")


commands.command("tokens")(list_tokens)
commands.command("revoke")(revoke)
commands.command("runners")(list_runners)
commands.command("quarantine")(quarantine)
commands.command("reinstate")(reinstate)


@commands.command()
def events(
    after: Annotated[int, typer.Option("--after", metavar="SEQ", min=0)] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000)] = 100,
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Print the history, oldest first."""
    with connect(server, token) as client:
        found = client.events(after, limit)
    if as_json:
        print_json(found)
        return
    rows = [
        (
            str(e.seq),
            moment(e.at),
            e.kind,
            " ".join(f"{noun}={number}" for noun, number in e.subject.items()),
            json_of(e.body),
        )
        for e in found
    ]
    show(table(("seq", "at", "kind", "subject", "body"), rows, right="seq"))
    if len(found) == limit:
        say(f"Later ones: judge admin events --after {found[-1].seq}")
