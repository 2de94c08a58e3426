"""Settings of the server, read once from environment variables with the prefix `JUDGE_`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "JUDGE_"

# The kernel's limit on a Unix socket's path is 108 bytes with the closing NUL.
MAX_SOCKET_PATH_BYTES = 107

ROLE_PREFIXES = ("JUDGE_RUNNER_", "JUDGE_CLIENT_")
"""Variables of the other roles start so; the server neither reads nor questions them."""

OTHER_ROLES = frozenset({"JUDGE_SERVER_URL", "JUDGE_TOKEN"})
"""Variables of the command line that share the server's prefix."""


class ServerSettings(BaseSettings):
    """Everything an operator may set, with defaults for one machine.

    database_url: a SQLAlchemy URL of SQLite or PostgreSQL; empty means SQLite in the state folder.
    redis_url: any Redis or Valkey URL; empty means an embedded Valkey in the state folder.
    public_url: where people reach the server, for links; empty means http://HOST:PORT.
    runner_tokens_dir: where tokens of runners on this machine are written; empty means the folder of
        secrets. A folder of its own can be handed to a runner that must not see the rest.
    lease_s: how long a claimed job is its runner's without a heartbeat.
    max_streams: open event streams and long polls together; more are answered 503.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    state_dir: Path = Path(".judge")
    database_url: str = ""
    redis_url: str = ""
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65_535)
    public_url: str = ""
    contest_file: Path = Path("contest.toml")
    problems_dir: Path = Path("problems")
    runner_tokens_dir: Path | None = None
    lease_s: float = Field(default=15.0, gt=0, le=3_600)
    heartbeat_s: float = Field(default=3.0, gt=0, le=600)
    max_streams: int = Field(default=2_000, ge=1)
    log_level: str = "INFO"

    @property
    def base_url(self) -> str:
        """The address people use, without a closing slash."""
        return self.public_url.rstrip("/") or f"http://{self.host}:{self.port}"

    @property
    def store_url(self) -> str:
        """The database's SQLAlchemy URL."""
        return self.database_url or f"sqlite:///{self.state_dir.resolve() / 'judge.sqlite3'}"

    @property
    def secrets_dir(self) -> Path:
        return self.state_dir / "secrets"

    def runner_token_file(self, device: str) -> Path:
        """Where the token of this machine's runners of a device is kept."""
        return (self.runner_tokens_dir or self.secrets_dir) / f"runner-{device}.token"

    @property
    def queue_url(self) -> str:
        """Where the queue is reached, by the server and by runners on this machine."""
        return self.redis_url or embedded_queue_url(self.state_dir)


def embedded_queue_url(state_dir: Path) -> str:
    """The URL of the embedded Valkey that belongs to a state folder."""
    return f"unix://{quote(str(embedded_socket(state_dir)))}"


def embedded_socket(state_dir: Path) -> Path:
    """The embedded Valkey's socket: in the state folder, or elsewhere if that path is too long.

    Depends on the state folder alone, so that a runner finds the socket without asking.
    """
    here = state_dir.resolve() / "valkey" / "valkey.sock"
    if len(os.fsencode(here)) <= MAX_SOCKET_PATH_BYTES:
        return here
    name = hashlib.sha256(os.fsencode(here)).hexdigest()[:16]
    # Not TMPDIR or XDG_RUNTIME_DIR: server and runner may be started with different ones.
    return Path("/tmp") / f"kernel-judge-{os.getuid()}-{name}" / "valkey.sock"


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Variables with our prefix that no part reads: most likely a typing error."""
    known = {PREFIX + name.upper() for name in ServerSettings.model_fields} | OTHER_ROLES
    return tuple(
        sorted(
            name
            for name in environ
            if name.startswith(PREFIX) and name not in known and not name.startswith(ROLE_PREFIXES)
        )
    )
