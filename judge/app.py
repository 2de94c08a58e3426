"""The one place that wires the server: store, queue, catalog, API and pages; and its commands."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NoReturn

import typer
from fastapi import FastAPI
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from judge.api.application import Application, build
from judge.api.bell import Bell, Doorbells
from judge.api.changes import Changes
from judge.api.metrics import Metrics
from judge.api.parts import Parts
from judge.catalog import draw_secret_cases, load_catalog
from judge.contest import load_contest
from judge.dispatcher import Dispatcher
from judge.intake import Intake
from judge.model import Refusal, Role
from judge.notices import NoticeBoard
from judge.pace import Pace
from judge.ports import Clock, QueueError, Store, StoreError
from judge.queue import RqQueue
from judge.receipts import ReceiptKeyError, load_or_create_key
from judge.records import OpenContest
from judge.roll import ALIVE_S, Roll
from judge.server import configure_logging, raise_open_files, server, settle_memory
from judge.settings import ServerSettings, embedded_socket, unknown_variables
from judge.tables import DeclarationError
from judge.tokens import new_token, token_hash
from judge.valkey import EmbeddedValkey
from judge.views import Views
from leaderboard import pages, runners_page
from leaderboard.store import SqlStore

log = logging.getLogger(__name__)


class StartError(Exception):
    """The server cannot start as it is set up; the text says what to do."""


def utc_now() -> datetime:
    """The server's clock: the only one that counts."""
    return datetime.now(UTC)


def create_app(settings: ServerSettings, clock: Clock = utc_now) -> Application:
    """Open everything and wire it. The queue and the dispatcher run while the application does.

    Raises StartError, DeclarationError (contest or problems), StoreError, ReceiptKeyError.
    """
    prepare_state(settings)
    lock = _lock(settings.state_dir)
    opened = load_catalog(settings.problems_dir, load_contest(settings.contest_file))
    store = SqlStore.open(settings.store_url)
    open_problems(store, opened, clock())
    for device in opened.contest.devices:
        keep_runner_token(store, settings.runner_token_file(device), device)
    queue = RqQueue.open(settings.queue_url)
    changes = Changes(settings.max_streams)
    bell = Bell(changes)
    dispatcher = Dispatcher(store, Doorbells(bell, queue), clock)
    pace = Pace(ALIVE_S)
    roll = Roll(store, pace, clock, opened.problems)
    notices = NoticeBoard(store)
    key = load_or_create_key(settings.secrets_dir / "receipt-ed25519.pem")
    views = Views(store, opened, notices, pace, clock)
    parts = Parts(
        store=store,
        opened=opened,
        views=views,
        pace=pace,
        roll=roll,
        bell=bell,
        changes=changes,
        metrics=Metrics(),
        intake=Intake(opened, notices, store, key, roll.hindrance),
        notices=notices,
        clock=clock,
        lease_s=settings.lease_s,
        heartbeat_s=settings.heartbeat_s,
        backups_dir=settings.state_dir / "backups",
        depths=lambda: queue.depths(opened.contest.devices),
        trouble=lambda: dispatcher.trouble,
        rulings=views.ruling,
    )
    store.on_change(changes.publish)
    store.on_change(dispatcher.wake)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        valkey = None if settings.redis_url else _embedded(settings)
        if valkey is not None:
            valkey.start()
        changes.open()
        dispatcher.start()
        try:
            yield
        finally:
            changes.close()
            dispatcher.stop()
            queue.close()
            if valkey is not None:
                valkey.stop()
            store.close()
            lock.close()

    app = build(parts, lifespan)
    app.include_router(pages.router(parts.views))
    app.include_router(runners_page.router(parts.views, roll.bodies))
    of_api = app.exception_handlers[HTTPException]
    app.add_exception_handler(HTTPException, pages.error_pages(parts.views, of_api))
    app.mount("/static", pages.static_files())
    return app


def prepare_state(settings: ServerSettings) -> None:
    """Make the state folder, and the folder of secrets for our user alone."""
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    settings.secrets_dir.mkdir(mode=0o700, exist_ok=True)
    settings.secrets_dir.chmod(0o700)


def open_problems(store: Store, opened: OpenContest, now: datetime) -> None:
    """Open each problem of the contest, drawing its secret cases the first time. Raises StartError."""
    for problem in opened.problems.values():
        drawn = draw_secret_cases(problem, os.urandom(32))
        standing = store.open_problem(problem, drawn, now)
        if isinstance(standing, Refusal):
            raise StartError(standing.detail)
        log.info(
            "problem open problem=%s version=%s secret_cases=%s",
            *(problem.id, problem.version, len(standing)),
        )


def first_organizer_token(settings: ServerSettings) -> str | None:
    """The very first organizer's token, or None once any organizer's exists.

    Only its hash is kept: whoever calls must show it to the operator, now or never. Run it before
    the server starts.
    """
    prepare_state(settings)
    store = SqlStore.open(settings.store_url)
    try:
        if any(token.role is Role.ORGANIZER for token in store.tokens(None)):
            return None
        return organizer_token(store, "first organizer")
    finally:
        store.close()


def organizer_token(store: Store, label: str) -> str:
    """A new organizer's token; only its hash is kept."""
    token = new_token()
    store.add_token(token_hash(token), Role.ORGANIZER, label, utc_now())
    return token


def keep_runner_token(store: Store, file: Path, device: str) -> None:
    """Have a file hold a valid token for runners on this machine; made if it does not yet."""
    if file.exists():
        known = store.identify(token_hash(file.read_text().strip()))
        if known is not None and known.role is Role.RUNNER and known.device == device:
            return
        file.unlink()
    token = new_token()
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as opened:
        opened.write(token + "\n")
    store.add_token(token_hash(token), Role.RUNNER, f"local {device}", utc_now(), device=device)


def _embedded(settings: ServerSettings) -> EmbeddedValkey:
    return EmbeddedValkey(
        embedded_socket(settings.state_dir),
        settings.state_dir / "valkey",
        settings.state_dir / "logs" / "valkey.log",
    )


def _lock(state_dir: Path) -> IO[str]:
    """Hold the state folder for this server alone: two would write one database's files."""
    lock = (state_dir / "server.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StartError(
            f"{state_dir} belongs to a judge server that runs now; stop it, "
            "or choose another folder with JUDGE_STATE_DIR"
        ) from None
    return lock


# --- commands

commands = typer.Typer()
_admin = typer.Typer(help="Run the contest (needs an organizer's token).")
commands.add_typer(_admin, name="admin")

FAULTS = (StartError, DeclarationError, StoreError, QueueError, ReceiptKeyError, OSError)


@commands.command()
def serve() -> None:
    """Run the server: API, pages and queue. Settings are JUDGE_ variables, see judge/settings.py."""
    settings = _settings()
    configure_logging(settings.log_level)
    for name in unknown_variables(os.environ):
        log.warning("variable unknown name=%s remedy=see judge/settings.py", name)
    log.info("server starts open_files=%s state=%s", raise_open_files(), settings.state_dir)
    try:
        first = first_organizer_token(settings)
        app = create_app(settings)
    except FAULTS as fault:
        _fail(str(fault))
    if first is not None:
        typer.echo(f"organizer token (shown this once): {first}")
    settle_memory()
    server(app, settings.host, settings.port).run()


@_admin.command("local-token")
def local_token(label: str = typer.Argument(metavar="NAME", help="Who will hold it.")) -> None:
    """Make an organizer's token straight in the database, where none is at hand. Stop the server first."""
    settings = _settings()
    try:
        prepare_state(settings)
        store = SqlStore.open(settings.store_url)
        try:
            typer.echo(organizer_token(store, label))
        finally:
            store.close()
    except FAULTS as fault:
        _fail(str(fault))


def _settings() -> ServerSettings:
    try:
        return ServerSettings()
    except ValidationError as error:
        faults = (f"JUDGE_{str(f['loc'][0]).upper()}: {f['msg']}" for f in error.errors())
        _fail("\n".join(faults))


def _fail(text: str) -> NoReturn:
    """End with a sentence instead of a trace: what is wrong is the operator's to mend."""
    typer.echo(text, err=True)
    raise typer.Exit(2)
