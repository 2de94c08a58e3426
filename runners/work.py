"""`judge work`: one runner, from its options to the end of its day."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from judge.cli.talk import Exit, WrongUse, say
from judge.tables import DeclarationError
from runners.conversation import ConversationEndedError
from runners.cores import HeldCores, usable_cores
from runners.duty import Duty
from runners.enrolment import Enrolment, EnrolmentRefusedError
from runners.http_rings import HttpRings
from runners.options import BoxCore, Device, EvaluatorCore, ProblemsDir, StateDir, known_device
from runners.problems import problem_folders
from runners.rings import QueueRings, Rings
from runners.server_link import ServerLink
from runners.settings import (
    DEFAULT_PROBLEMS,
    DEFAULT_SERVER,
    DEFAULT_STATE_DIR,
    EvaluatorSettings,
    SettingsError,
    WorkerSettings,
    checked_server,
    chosen_cores,
    default_name,
    read_token,
)
from runners.stop import Stop
from runners.worker import Worker

log = logging.getLogger(__name__)


def work(
    server: Annotated[
        str,
        typer.Option(metavar="URL", envvar="JUDGE_RUNNER_SERVER", help="The judge's address."),
    ] = DEFAULT_SERVER,
    device: Device = "cpu",
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="JUDGE_RUNNER_TOKEN_FILE",
            help="The runner's token. [STATE_DIR/secrets/runner-DEVICE.token]",
        ),
    ] = None,
    redis_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="JUDGE_REDIS_URL",
            help="The queue, where it can be reached. [the server is asked instead]",
        ),
    ] = "",
    ca_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="JUDGE_RUNNER_CA_FILE",
            help="Who vouches for an https server, in PEM. [those that the system trusts]",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            envvar="JUDGE_RUNNER_INSECURE",
            help="Take plain http to another machine: the network between is your own.",
        ),
    ] = False,
    problems: ProblemsDir = DEFAULT_PROBLEMS,
    state_dir: StateDir = DEFAULT_STATE_DIR,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", envvar="JUDGE_RUNNER_NAME", help="How it is called. [HOST-DEVICE]"
        ),
    ] = None,
    cores: Annotated[
        str | None,
        typer.Option(
            "--cores",
            metavar="A,B",
            envvar="JUDGE_RUNNER_CORES",
            help="CPU of the evaluator and CPU of the boxes. [the first and the last there are]",
        ),
    ] = None,
    evaluator_core: EvaluatorCore = None,
    box_core: BoxCore = None,
) -> None:
    """Judge jobs of one device until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    known_device(device)
    try:
        own = chosen_cores(cores, evaluator_core, box_core, usable_cores())
        settings = WorkerSettings(
            server=checked_server(server, insecure),
            redis_url=redis_url,
            token=read_token(token_file or state_dir / "secrets" / f"runner-{device}.token"),
            name=name or default_name(device),
            evaluator=EvaluatorSettings(problems, state_dir, device, *own),
            ca_file=ca_file,
        )
        with HeldCores.hold(own, settings.name):
            _run(settings)
    except (SettingsError, DeclarationError, EnrolmentRefusedError) as error:
        raise WrongUse(str(error)) from error
    except ConversationEndedError as error:
        say(f"The evaluator does not start: {error}. Its words are above; try judge doctor.")
        raise typer.Exit(Exit.JUDGE_FAILED) from error


def _run(settings: WorkerSettings) -> None:
    """Wire a runner and run it until it is told to stop."""
    evaluator = settings.evaluator
    stop = Stop()
    server = ServerLink(settings.server, settings.token, ca_file=settings.ca_file)
    enrolment = Enrolment(server, settings.name, stop, busy=lambda: worker.busy)
    worker = Worker(
        settings,
        lambda: problem_folders(evaluator.problems),
        server,
        stop.event,
        enrolment.hinder,
    )
    rings: Rings
    if settings.redis_url:
        rings = QueueRings(settings.redis_url, evaluator.device, settings.name, stop)
    else:
        rings = HttpRings(server, settings.name, stop)
    log.info(
        "runner starts name=%s device=%s cores=%s,%s server=%s (importing torch takes some seconds)",
        *(settings.name, evaluator.device, evaluator.evaluator_core, evaluator.box_core),
        settings.server,
    )
    try:
        worker.start()
        Duty(settings, worker, enrolment, rings, stop).run()
    finally:
        worker.close()
        enrolment.close()
        server.close()
