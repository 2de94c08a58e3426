"""One judge on this machine, as `judge up` keeps it: addresses, logs, and the tokens it acts with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from judge.app import organizer_token
from judge.cli.talk import WrongUse
from judge.client import JudgeClient
from judge.model import Role
from judge.settings import ServerSettings
from judge.tokens import token_hash
from judge.transport import ApiRefusal
from leaderboard.store import SqlStore

EXAMPLE_NAMES = ("example", *(f"example-{n}" for n in range(2, 10)))
EVERY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class House:
    """The settings tell where everything is; `prepare` before the server starts."""

    settings: ServerSettings

    @property
    def url(self) -> str:
        """How this machine reaches the server, whatever its public address."""
        host = "127.0.0.1" if self.settings.host == EVERY_ADDRESS else self.settings.host
        return f"http://{host}:{self.settings.port}"

    def log(self, name: str) -> Path:
        return self.settings.state_dir / "logs" / f"{name}.log"

    def runner_token_file(self, device: str) -> Path:
        """Where the server keeps a token for runners on this machine."""
        return self.settings.runner_token_file(device)

    def prepare(self) -> None:
        """Have an organizer's token of its own in the state folder. Only while no server runs."""
        path = self._own_file
        store = SqlStore.open(self.settings.store_url)
        try:
            kept = path.read_text().strip() if path.exists() else ""
            known = store.identify(token_hash(kept)) if kept else None
            if known is None or known.role is not Role.ORGANIZER:
                _keep(path, organizer_token(store, "judge up"))
        finally:
            store.close()

    def as_visitor(self) -> JudgeClient:
        return JudgeClient(self.url)

    def as_organizer(self) -> JudgeClient:
        return JudgeClient(self.url, self._own_file.read_text().strip())

    def as_example(self) -> JudgeClient:
        """The example contestant, who joins on the first start, by an invite like everybody."""
        path = self.settings.secrets_dir / "example.token"
        if not self._knows(path):
            with self.as_organizer() as client:
                invite = client.invites(1).codes[0]
            _keep(path, self._register_example(invite))
        return JudgeClient(self.url, path.read_text().strip())

    @property
    def _own_file(self) -> Path:
        return self.settings.secrets_dir / "up.token"

    def _knows(self, path: Path) -> bool:
        """Whether the judge knows the token in a file."""
        if not path.exists():
            return False
        with JudgeClient(self.url, path.read_text().strip()) as client:
            try:
                client.whoami()
            except ApiRefusal as refusal:
                if refusal.status == 401:
                    return False
                raise
        return True

    def _register_example(self, invite: str) -> str:
        with self.as_visitor() as client:
            for name in EXAMPLE_NAMES:
                try:
                    return client.register(name, invite).token
                except ApiRefusal as refusal:
                    if refusal.code != "name_taken":
                        raise
        raise WrongUse(f"Nobody can join as an example: {', '.join(EXAMPLE_NAMES)} are all taken.")


def _keep(path: Path, secret: str) -> None:
    """Write a secret that only its owner may read."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(secret + "\n")
