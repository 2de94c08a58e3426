"""What a runner is told at its start, from options or the environment (prefix `JUDGE_`)."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from judge.address import is_loopback, server_url

DEFAULT_SERVER = "http://127.0.0.1:8000"
DEFAULT_STATE_DIR = Path(".judge")
DEFAULT_PROBLEMS = Path("problems")


class SettingsError(Exception):
    """A setting cannot work; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class EvaluatorSettings:
    """What the evaluator process needs to know: no secret among it.

    evaluator_core, box_core: CPU numbers, or None to let the device choose. warm_boxes: how many
    are kept ready; a job with timing cases takes two.
    """

    problems: Path
    state_dir: Path
    device: str = "cpu"
    evaluator_core: int | None = None
    box_core: int | None = None
    warm_boxes: int = 2

    @property
    def cache(self) -> Path:
        """Where built modules are kept."""
        return self.state_dir / "cache"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What the worker needs beside it.

    redis_url: the queue; empty where rings come from the server itself. token: the runner's secret.
    ca_file: who vouches for the server, in place of those that the system trusts.
    """

    server: str
    redis_url: str
    token: str
    name: str
    evaluator: EvaluatorSettings
    ca_file: Path | None = None


def checked_server(server: str, insecure: bool = False) -> str:
    """The server's base address.

    Raises SettingsError for what is no address, and for one over which anybody on the way could read
    the token, secret cases and submissions, unless `insecure` says that nobody is.
    """
    try:
        url = server_url(server)
    except ValueError as error:
        raise SettingsError(f"--server: {error}") from error
    if url.startswith("http:") and not is_loopback(url) and not insecure:
        raise SettingsError(
            f"--server {url}: over plain http anybody on the way reads the runner's token, the secret "
            "cases and every submission; use the server's https address, or --insecure where the "
            "network between them is your own"
        )
    return url


def chosen_cores(
    cores: str | None, evaluator_core: int | None, box_core: int | None, usable: Sequence[int]
) -> tuple[int, int]:
    """The evaluator's core and the boxes': as asked for, else the first and the last usable one.

    cores: both, such as `0,1`. usable: in order. Raises SettingsError.
    """
    if cores is not None:
        if evaluator_core is not None or box_core is not None:
            raise SettingsError(
                "--cores names both cores: leave --evaluator-core and --box-core out"
            )
        first, _, second = cores.partition(",")
        if not (first.strip().isdecimal() and second.strip().isdecimal()):
            raise SettingsError(f'--cores takes two CPU numbers such as 0,1, got "{cores}"')
        evaluator_core, box_core = int(first), int(second)
    chosen = (
        usable[0] if evaluator_core is None else evaluator_core,
        usable[-1] if box_core is None else box_core,
    )
    for core in chosen:
        if core not in usable:
            offered = ", ".join(map(str, usable))
            raise SettingsError(f"Core {core} is not among those this process may use: {offered}.")
    return chosen


def default_name(device: str) -> str:
    """A runner's name when none is given: host and device."""
    return f"{socket.gethostname()}-{device}"[:64]


def read_token(path: Path) -> str:
    """The runner's token from its file.

    Raises SettingsError if it is missing, empty, or readable by others.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path}: the runner's token cannot be read ({error}); an organizer makes one with"
            " `judge admin runner-token DEVICE`, and it belongs alone in this file"
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise SettingsError(f"{path}: others may read this token; run `chmod 600 {path}`")
    if not token or len(token.split()) != 1:
        raise SettingsError(f"{path}: the file must hold one token and nothing else")
    return token
