"""What a runner is told at its start, from options or the environment (prefix `JUDGE_`)."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

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
    """What the worker needs beside it. token: the runner's secret."""

    server: str
    redis_url: str
    token: str
    name: str
    evaluator: EvaluatorSettings


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
