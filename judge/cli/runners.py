"""Who judges: the list of runners for everybody, and the organizer's word about them."""

from __future__ import annotations

from typing import Annotated

import typer

from judge.cli.login import Json, Server, Token, connect
from judge.cli.talk import answer, json_of, print_json, say, show, table
from judge.text import moment
from judge.wire import RunnerBody

commands = typer.Typer()

RunnerName = Annotated[str, typer.Argument(metavar="NAME", help="As judge runners shows it.")]


@commands.command("runners")
def list_runners(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="All that is known of one.")
    ] = None,
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the runners, or show one: how it stands, what it runs on, its doctor's figures."""
    with connect(server, token, needs_token=False) as client:
        found = client.runners()
    if name is not None:
        found = [runner for runner in found if runner.name == name]
    if as_json:
        print_json(found)
        return
    if not found:
        named = f" named {name}" if name is not None else ""
        say(f"No runner{named} has said hello yet; one is started with judge work.")
    elif name is not None:
        for runner in found:
            _show(runner)
    else:
        rows = [
            (
                r.name,
                r.device,
                word(r),
                moment(r.last_seen),
                r.isolation,
                r.environment.get("cpu", ""),
            )
            for r in found
        ]
        show(table(("name", "device", "state", "last heard", "isolation", "cpu"), rows))


def quarantine(
    name: RunnerName,
    why: Annotated[str, typer.Argument(metavar="WHY", help="Shown to everybody.")],
    server: Server = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Give a runner no more jobs until it is reinstated; what it judges now it may end."""
    with connect(server, token) as client:
        _told(client.quarantine(name, why), as_json)


def reinstate(
    name: RunnerName, server: Server = None, token: Token = None, as_json: Json = False
) -> None:
    """Give a runner jobs again."""
    with connect(server, token) as client:
        _told(client.reinstate(name), as_json)


def word(runner: RunnerBody) -> str:
    """How a runner stands, in a word or two."""
    if runner.state != "active":
        return runner.state.value
    if not runner.alive:
        return "silent"
    return "active" if runner.self_test_passed else "self-test failed"


def _told(runner: RunnerBody, as_json: bool) -> None:
    if as_json:
        print_json(runner)
    else:
        answer(f"{runner.name}: {word(runner)}")


def _show(runner: RunnerBody) -> None:
    answer(f"{runner.name} on {runner.device}: {word(runner)}", style="bold")
    if runner.why and runner.state == "active":
        answer(f"look at it: {runner.why}")
    elif runner.why:
        answer(f"since {moment(runner.since)}: {runner.why}")
    answer(f"last heard {moment(runner.last_seen)}, first {moment(runner.first_seen)}")
    answer(f"self-test {moment(runner.self_test_at)}: {runner.self_test}")
    answer(f"isolation {runner.isolation}")
    for reason in runner.reasons:
        answer(f"  {reason}")
    for fact, value in runner.environment.items():
        answer(f"{fact}: {value}")
    for problem, digest in runner.problem_digests.items():
        answer(f"problem {problem}, digest {digest}")
    if runner.doctor is None:
        answer("doctor: its timing was never examined; judge doctor --timing does")
        return
    answer("doctor:")
    figures = runner.doctor.get("figures")
    shown = figures if isinstance(figures, dict) else runner.doctor
    for key, value in {"at": runner.doctor.get("at", "unknown"), **shown}.items():
        text = value if isinstance(value, str) else json_of({"": value})[4:-1]
        answer(f"  {key}: {text}")
