"""`docker compose up` from a locally built base: a submission is judged across three containers."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose.docker_engine import Engine, missing
from tests.live import ROOT

BASE = "kernel-judge-test-base"
PROJECT = "judge-test"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    reason = missing()
    if reason is not None:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    # Short, for Unix sockets; overlay file systems do not nest in every temporary folder.
    with tempfile.TemporaryDirectory(prefix="judge-dock-", dir="/var/tmp") as folder:
        live = Engine(Path(folder))
        live.start()
        try:
            live.import_base(BASE)
            yield live
        finally:
            live.stop()


def test_a_submission_is_judged_by_the_composed_services(engine: Engine, tmp_path: Path) -> None:
    # The images are built without any network: all they need is in the base.
    override = tmp_path / "offline.yaml"
    build = "    build:\n      context: .\n      network: none\n"
    override.write_text(
        'version: "2.4"\nservices:\n'
        + "".join(f"  {service}:\n{build}" for service in ("valkey", "server", "runner"))
    )
    engine.environment["BASE"] = BASE
    compose = (
        "docker-compose",
        *("--project-directory", ROOT, "--project-name", PROJECT),
        *("--file", ROOT / "compose.yaml", "--file", override),
    )

    def judge(*words: str) -> str:
        return engine.run(*compose, "exec", "-T", "server", "judge", *words).stdout

    try:
        engine.run(*compose, "build")
        engine.run(*compose, "up", "--detach")
        printed = engine.run(*compose, "logs", "server").stdout
        organizer = next(
            line.split()[-1] for line in printed.splitlines() if "organizer token" in line
        )
        server = ("--server", "http://127.0.0.1:8000")
        code = judge("admin", "invites", "1", *server, "--token", organizer).split()[-1]
        judge("login", *server, "--invite", code, "--name", "Ada")
        verdict = judge(
            *("submit", "problems/topk/submissions/baseline_torch.py"),
            *("--problem", "topk", "--mode", "test"),
        )
        assert "accepted" in verdict, engine.run(*compose, "logs").stdout
        assert "reduced isolation" not in verdict, verdict
    finally:
        engine.run(*compose, "down", "--volumes", "--timeout", "5", check=False)
