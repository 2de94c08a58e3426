"""The HTTP server process: logging, open files, and an end that lets nobody hang."""

from __future__ import annotations

import gc
import logging
import resource
import socket
import sys
from typing import Final

import uvicorn

from judge.api.application import Application
from judge.protocol import BoundedHeads

GRACE_S: Final = 5
"""How long requests may take to end once the server was told to stop."""

# Longer than common proxies keep a connection, so that they, not we, close it first.
KEEP_ALIVE_S: Final = 75

# The interpreter's own default of 700 is for small programs.
GC_ALLOCATIONS: Final = 20_000

log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """Uvicorn, ending event streams and long polls first: it would wait for them."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.parts.changes.close()
        await super().shutdown(sockets)


def server(app: Application, host: str, port: int) -> Server:
    """A server for the application; `run()` serves until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=BoundedHeads,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    return Server(config, app)


def configure_logging(level: str) -> None:
    """One line per event on stderr: time, level, part, key=value."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")
    )
    # What no line shows is not looked up for every line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Every start and every migration that is not one would be a line.
    logging.getLogger("alembic").setLevel(logging.WARNING)


def settle_memory() -> None:
    """Take what was made at the start out of the garbage collector's way, and let it look less often.

    A request leaves no cycles of note; looking through every module for them costs each one.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS)


def raise_open_files() -> int:
    """Allow as many open files as the system lets us; that number.

    At the limit every new connection would be dropped without a word.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return soft
