"""`judge up`: the whole product on one machine, in one foreground command.

It starts server and runner as programs of their own, opens the example contest, hands in the shipped
kernels as an example contestant through the client that everybody uses, and stays until it is told
to stop. All it keeps lies in the state folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, TextIO

import typer
from pydantic import ValidationError

from judge.app import FAULTS, first_organizer_token
from judge.cli.problems import board_lines, boards_of
from judge.cli.talk import Exit, WrongUse, answer, say
from judge.examples import DEVICE, run_examples
from judge.house import House
from judge.processes import ProcessError, Program, Supervisor, log_tail
from judge.settings import ServerSettings
from judge.transport import ApiRefusal, ServerUnreachable

LOCK = "up.lock"
READY_S = 60.0


commands = typer.Typer()


@commands.command("up")
def up_command(
    once: Annotated[
        bool,
        typer.Option("--once", help="End after the board; status 0 if all went as expected."),
    ] = False,
) -> None:
    """Run the whole judge on this machine, with the example contest, until Ctrl-C."""
    raise typer.Exit(up(once))


def up(once: bool) -> Exit:
    """Run everything until a signal; with `once`, until the board is printed.

    A second call on the same state folder starts nothing: it names the running judge, and with
    `once` hands the examples in there.
    """
    try:
        settings = ServerSettings()
    except ValidationError as error:
        first = error.errors()[0]
        raise WrongUse(f"JUDGE_{str(first['loc'][0]).upper()}: {first['msg']}.") from error
    settings = settings.model_copy(update={"state_dir": settings.state_dir.resolve()})
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    with (settings.state_dir / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _already_up(settings, once)
        return _run(settings, lock, once)


def _already_up(settings: ServerSettings, once: bool) -> Exit:
    text = (settings.state_dir / LOCK).read_text()
    url = str(json.loads(text)["url"]) if text.strip() else ""
    answer(f"The judge of {settings.state_dir} is up already: {url or 'it is just starting'}")
    if not once:
        return Exit.ACCEPTED
    if not url:
        raise WrongUse("It cannot take the examples yet; try again in a moment.")
    settings = settings.model_copy(update={"port": int(url.rpartition(":")[2])})
    return _examples(House(settings), again=True, on_news=lambda: None)


def _run(settings: ServerSettings, lock: TextIO, once: bool) -> Exit:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    supervisor = Supervisor()
    try:
        settings = _with_free_port(settings)
        lock.truncate(0)
        lock.write(json.dumps({"url": House(settings).url, "pid": os.getpid()}))
        lock.flush()
        return _open(settings, supervisor, once)
    except KeyboardInterrupt:
        say("Stopping ...")
        return Exit.INTERRUPTED if once else Exit.ACCEPTED
    except (ProcessError, *FAULTS) as error:
        say(str(error), style="red")
        return Exit.JUDGE_FAILED
    finally:
        # From here on a second Ctrl-C must not leave programs behind; stopping is bounded.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        supervisor.stop()
        lock.truncate(0)
        say("Everything is stopped; the state is kept in " + str(settings.state_dir))


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _open(settings: ServerSettings, supervisor: Supervisor, once: bool) -> Exit:
    """Start the parts, then the example contest; returns at the end of `once`, else by a signal."""
    say(f"state    {settings.state_dir}")
    first = first_organizer_token(settings)
    try:
        house = House(settings)
        house.prepare()
        _start(supervisor, house, "server", _judge("serve"))
        _wait_until_ready(house, supervisor)
        _start(supervisor, house, "runner", _runner_argv(house))
        status = _examples(house, once, lambda: _keep_alive(supervisor))
        answer("")
        answer(f"page       {settings.base_url}")
        if not once:
            _say_how_to_take_part(house)
    finally:
        # Now or never: only its hash is kept.
        if first is not None:
            answer(f"organizer  {first}")
            answer("           shown this once: judge login --server URL --token TOKEN")
    if once:
        return status
    say("Ctrl-C ends it.")
    while True:
        _keep_alive(supervisor)
        time.sleep(0.5)


def _keep_alive(supervisor: Supervisor) -> None:
    for told in supervisor.check():
        say(told, style="yellow")


# --- parts


def _start(supervisor: Supervisor, house: House, name: str, argv: list[str]) -> None:
    log = house.log(name)
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    pid = supervisor.start(Program(name, argv, _environment(house.settings), log))
    say(f"{name:<9}process {pid}, log {log}")


def _judge(*words: str) -> list[str]:
    return [sys.executable, "-m", "judge.cli", *words]


def _environment(settings: ServerSettings) -> dict[str, str]:
    return {
        **os.environ,
        "JUDGE_STATE_DIR": str(settings.state_dir),
        "JUDGE_PORT": str(settings.port),
        "PYTHONUNBUFFERED": "1",
    }


def _runner_argv(house: House) -> list[str]:
    return _judge(
        "work",
        "--server",
        house.url,
        "--device",
        DEVICE,
        "--token-file",
        str(house.runner_token_file(DEVICE)),
        "--redis-url",
        house.settings.queue_url,
        # The token is this runner's for good, whatever the host is called tomorrow.
        "--name",
        f"local-{DEVICE}",
    )


def _with_free_port(settings: ServerSettings) -> ServerSettings:
    """The settings, with another port if theirs is taken by somebody else."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            say(
                f"Port {settings.port} cannot be used ({error.strerror}); taking a free one.",
                "yellow",
            )
            probe.bind((settings.host, 0))
        return settings.model_copy(update={"port": probe.getsockname()[1]})


def _wait_until_ready(house: House, supervisor: Supervisor) -> None:
    """Until the server answers. Raises ProcessError if it ends before, or takes too long."""
    end = time.monotonic() + READY_S
    log = house.log("server")
    with house.as_visitor() as client:
        while time.monotonic() < end:
            status = supervisor.ended("server")
            if status is not None:
                raise ProcessError(f"The server ended with status {status}:\n{log_tail(log)}")
            try:
                client.health()
                return
            except (ServerUnreachable, ApiRefusal):
                time.sleep(0.1)
    raise ProcessError(f"The server did not answer within {READY_S:.0f} s:\n{log_tail(log)}")


# --- the example contest


def _examples(house: House, again: bool, on_news: Callable[[], None]) -> Exit:
    """Hand in the examples, then print the boards; fine if every example went as expected."""
    with house.as_example() as client:
        contest = client.contest()
        problems = client.problems()
        answer(f"contest  {contest.title}: {', '.join(p.id for p in problems)}")
        fine = run_examples(client, house.settings.problems_dir, problems, again, on_news)
        for ref in client.boards():
            for board in boards_of(client, ref.problem, ref.device, None):
                answer("")
                board_lines(board)
    return Exit.ACCEPTED if fine else Exit.NOT_ACCEPTED


def _say_how_to_take_part(house: House) -> None:
    """Lines for a newcomer's shell, with an invite that is made for them."""
    with house.as_organizer() as client:
        invite = client.invites(1).codes[0]
        problem = client.contest().problems[0]
    judge = _own_command()
    answer(
        f"take part  {judge} login --server {house.settings.base_url} --invite {invite} --name YOUR-NAME"
    )
    answer(f"           {judge} init mine --problem {problem}")
    answer(f"           {judge} submit mine/starter.py")


def _own_command() -> str:
    """How this command line is called from the shell that reads the lines."""
    own = Path(sys.executable).with_name("judge")
    found = shutil.which("judge")
    if found is not None and Path(found).resolve() == own.resolve():
        return "judge"
    here = Path.cwd()
    return str(own.relative_to(here) if own.is_relative_to(here) else own)
