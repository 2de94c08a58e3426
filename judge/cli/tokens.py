"""Tokens: one's own, for a second machine or after a loss; an organizer sees everybody's."""

from __future__ import annotations

from typing import Annotated

import typer

from judge.cli.login import Json, Server, Token, connect
from judge.cli.talk import answer, print_json, say, show, table
from judge.text import moment

commands = typer.Typer()
tokens = typer.Typer(invoke_without_command=True, help="List your tokens; `new` and `revoke`.")
commands.add_typer(tokens, name="tokens")


@tokens.callback()
def own_tokens(
    context: typer.Context, server: Server = None, token: Token = None, as_json: Json = False
) -> None:
    """List your tokens; `new` and `revoke`."""
    if context.invoked_subcommand is None:
        list_tokens(server, token, as_json)


def list_tokens(server: Server = None, token: Token = None, as_json: Json = False) -> None:
    """List tokens, without their secrets."""
    with connect(server, token) as client:
        found = client.tokens()
    if as_json:
        print_json(found)
        return
    rows = [
        (
            str(t.token_id),
            t.role.value,
            t.label,
            moment(t.created_at),
            moment(t.last_used_at) if t.last_used_at else "never",
            "revoked" if t.revoked else "valid",
        )
        for t in found
    ]
    show(table(("id", "role", "label", "made", "last used", "state"), rows, right="id"))


@tokens.command("new")
def new_token(
    label: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make another token of your own, shown once."""
    with connect(server, token) as client:
        made = client.new_token(client.whoami().role, label)
        if as_json:
            print_json(made)
            return
        answer(made.token)
        say(f"Elsewhere: judge login --server {client.server} --token TOKEN")


def revoke(
    token_id: Annotated[int, typer.Argument(metavar="TOKEN-ID", min=1)],
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make a token worthless, at once."""
    with connect(server, token) as client:
        done = client.revoke_token(token_id)
    if as_json:
        print_json(done)
        return
    answer(done.detail)


tokens.command("revoke")(revoke)
