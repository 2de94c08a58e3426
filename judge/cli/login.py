"""Which judge is spoken to, and as whom: flag before environment before the login file.

The login file holds tokens, so only its owner may read it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import platformdirs
import typer

from judge.address import is_loopback, server_url
from judge.cli.talk import WrongUse, answer, print_json, say
from judge.client import JudgeClient
from judge.transport import ApiRefusal
from judge.wire import WhoamiBody

SERVER_VARIABLE = "JUDGE_SERVER_URL"
TOKEN_VARIABLE = "JUDGE_TOKEN"

Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help=f"The judge. [{SERVER_VARIABLE}, else login]"),
]
Token = Annotated[
    str | None,
    typer.Option("--token", metavar="TOKEN", help=f"Your token. [{TOKEN_VARIABLE}, else login]"),
]
Json = Annotated[bool, typer.Option("--json", help="Print the API's body as JSON.")]

commands = typer.Typer()


@dataclass(frozen=True, slots=True)
class Logins:
    """The login file: the judge last logged in to, and one token per judge."""

    server: str | None
    tokens: dict[str, str]


def login_file() -> Path:
    return platformdirs.user_config_path("kernel-judge") / "login.json"


def read_logins() -> Logins:
    """What is stored; nothing where there is no file. WrongUse for a broken file."""
    path = login_file()
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        return Logins(None, {})
    except (OSError, ValueError) as error:
        raise WrongUse(f"{path} cannot be read ({error}); remove it and log in again.") from error
    if not isinstance(stored, dict) or not isinstance(stored.get("tokens"), dict):
        raise WrongUse(f"{path} is no login file; remove it and log in again.")
    tokens = {str(url): str(token) for url, token in stored["tokens"].items()}
    server = stored.get("server")
    return Logins(str(server) if server else None, tokens)


def write_logins(logins: Logins) -> None:
    """Replace the file in one step, readable by its owner only."""
    path = login_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump({"server": logins.server, "tokens": logins.tokens}, file, indent=1)
    fresh.replace(path)


def whole_url(text: str) -> str:
    try:
        return server_url(text)
    except ValueError as error:
        raise WrongUse(f"{error}.") from error


def connect(server: str | None, token: str | None, needs_token: bool = True) -> JudgeClient:
    """A client for what flags, environment and login file say, in this order.

    A stored token is only ever sent to the judge that gave it.
    """
    given = server or os.environ.get(SERVER_VARIABLE)
    logins = read_logins() if not (given and (token or os.environ.get(TOKEN_VARIABLE))) else None
    url = given or (logins.server if logins else None)
    if not url:
        raise WrongUse(
            "No judge is known yet: judge login --server URL --invite CODE --name YOUR-NAME "
            f"(or --server, or {SERVER_VARIABLE})."
        )
    url = whole_url(url)
    key = token or os.environ.get(TOKEN_VARIABLE) or (logins.tokens.get(url) if logins else None)
    if needs_token and not key:
        raise WrongUse(
            f"You are not logged in at {url}: "
            f"judge login --server {url} --invite CODE --name YOUR-NAME"
        )
    return JudgeClient(url, key)


def described(who: WhoamiBody) -> str:
    team = f", team {who.team}" if who.team and who.team != who.name else ""
    return f"{who.name} ({who.role.value}{team})"


@commands.command()
def login(
    server: Server = None,
    token: Annotated[
        str | None,
        typer.Option("--token", metavar="TOKEN", help="A token you have already."),
    ] = None,
    invite: Annotated[
        str | None, typer.Option("--invite", metavar="CODE", help="The code you were given.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="YOU", help="How boards shall call you.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take part with an invite code and a name, or log in with a token."""
    if token and (invite or name):
        raise WrongUse("Give either --token, or --invite and --name: they contradict each other.")
    if invite and not name:
        raise WrongUse("An invite needs the name that boards shall show: add --name YOUR-NAME.")
    logins = read_logins()
    url = server or os.environ.get(SERVER_VARIABLE) or logins.server
    if not url:
        raise WrongUse("Which judge? Add --server URL.")
    url = whole_url(url)
    if not url.startswith("https://") and not is_loopback(url):
        say(f"Careful: {url} is not encrypted; everybody on the way can read your token.", "yellow")
    key = "" if name else token or os.environ.get(TOKEN_VARIABLE) or ""
    _keep_who_is_logged_in(url, logins, key)
    if name:
        with JudgeClient(url) as client:
            key = client.register(name, invite).token
    if not key:
        raise WrongUse("Give --invite CODE --name YOUR-NAME, or --token TOKEN.")
    # Stored first: a fresh token that only a cut connection saw would be lost for good.
    if name:
        write_logins(Logins(url, {**logins.tokens, url: key}))
    with JudgeClient(url, key) as client:
        who = client.whoami()
    if not name:
        write_logins(Logins(url, {**logins.tokens, url: key}))
    say(f"Token kept in {login_file()}.")
    if as_json:
        print_json(who)
        return
    answer(f"Logged in at {url} as {described(who)}.")


def _keep_who_is_logged_in(url: str, logins: Logins, key: str) -> None:
    """Refuse to replace another working token of that judge: its only copy may lie here."""
    kept = logins.tokens.get(url)
    if kept is None or kept == key:
        return
    try:
        with JudgeClient(url, kept) as client:
            who = client.whoami()
    except ApiRefusal:
        return  # revoked, or of a judge that was set up anew
    raise WrongUse(
        f"You are logged in at {url} as {described(who)}, and this machine may hold the only copy of "
        "that token. Note it (judge whoami --show-token), then judge logout; or leave it and use "
        f"another token once with --token or {TOKEN_VARIABLE}."
    )


@commands.command()
def logout() -> None:
    """Forget the token of the judge last logged in to, on this machine."""
    logins = read_logins()
    if logins.server is None or logins.server not in logins.tokens:
        say("Nobody is logged in here.")
        return
    left = {url: key for url, key in logins.tokens.items() if url != logins.server}
    write_logins(Logins(next(reversed(left), None), left))
    answer(f"Logged out at {logins.server}.")
    if left:
        say(f"Now talking to {next(reversed(left))}.")


@commands.command()
def whoami(
    server: Server = None,
    token: Token = None,
    show_token: Annotated[
        bool,
        typer.Option("--show-token", help="Print your token, for the page's sign-in, instead."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Say who you are to the judge."""
    if show_token and as_json:
        raise WrongUse("Give either --show-token or --json: they contradict each other.")
    with connect(server, token) as client:
        who = client.whoami()
    if as_json:
        print_json(who)
        return
    words = f"{described(who)} at {client.server}"
    if not show_token:
        answer(words)
        return
    say(f"The token of {words}; whoever has it speaks for you:")
    answer(client.token or "")
