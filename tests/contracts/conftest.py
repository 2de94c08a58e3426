"""Real databases for the contracts: SQLite files, and a PostgreSQL server of this test run's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from judge.model import Mode, Outcome, Progress, Refusal, Ruling, SourceFile, Verdict
from judge.records import HeartbeatReply, Identity, JobRecord, NewSubmission
from leaderboard.store import SqlStore

START_S = 30
NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
LEASE = timedelta(seconds=15)


@dataclass
class Desk:
    """Hands things in and plays the runner, with its own clock that only `later` moves."""

    store: SqlStore
    now: datetime = NOW

    def later(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def person(self) -> Identity:
        name = "p" + os.urandom(6).hex()
        made = self.store.register(name, None, os.urandom(32), self.now)
        assert isinstance(made, Identity)
        return made

    def new(self, who: Identity, **changes: Any) -> NewSubmission:
        assert who.user_id is not None
        assert who.team_id is not None
        plain = NewSubmission(
            user_id=who.user_id,
            team_id=who.team_id,
            problem_id="topk",
            problem_version=1,
            device="cpu",
            mode=Mode.TEST,
            main="kernel.py",
            digest="ab" * 32,
            files=(SourceFile("kernel.py", b"def custom_kernel(data): ..."),),
            received_at=self.now,
        )
        return replace(plain, **changes)

    def submit(self, who: Identity | None = None, **changes: Any) -> JobRecord:
        record = self.store.add_submission(self.new(who or self.person(), **changes), None).result()
        assert isinstance(record, JobRecord)
        return record

    def claim(self, job_id: int, runner: str = "r1") -> JobRecord | Refusal:
        return self.store.claim(job_id, runner, self.now, self.now + LEASE)

    def beat(
        self, job_id: int, attempt: int, *, loaded: bool = False, stage: str = "test"
    ) -> HeartbeatReply:
        return self.store.heartbeat(
            job_id, attempt, Progress(stage, 1, 2), loaded, self.now, self.now + LEASE
        )

    def finish(
        self,
        job_id: int,
        attempt: int,
        verdict: Verdict = Verdict.ACCEPTED,
        ruling: Ruling = Ruling(),  # noqa: B008  (immutable)
        **further: Any,
    ) -> JobRecord | Refusal:
        message = f"attempt {attempt}: {verdict}"
        outcome = Outcome(job_id, attempt, verdict, message, **further)
        return self.store.finish(job_id, attempt, outcome, self.now, ruling)

    def record(self, submission_id: int) -> JobRecord:
        record = self.store.record(submission_id)
        assert record is not None
        return record

    def kinds(self, record: JobRecord) -> list[str]:
        """The kinds of the record's events, in order."""
        return [
            event.kind
            for event in self.store.events(None, 0, 10_000)
            if event.subject.get("job") == record.job_id
        ]


def _postgresql_bin() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    return Path(on_path).parent if on_path else None


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The folder of the server's socket. Without PostgreSQL a skip, but a failure in CI."""
    programs = _postgresql_bin()
    if programs is None:
        reason = "PostgreSQL is not installed (Debian's package: postgresql)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    # Not tmp_path: its parents are closed to the server's user, and socket paths must be short.
    home = Path(tempfile.mkdtemp(prefix="pg"))
    account = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(home, "postgres", "postgres")
        account = {"user": "postgres", "group": "postgres", "extra_groups": []}
    data = home / "data"
    subprocess.run(
        [programs / "initdb", "-N", "-A", "trust", "-U", "judge", "-E", "UTF8", "-D", data],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=home,
        **account,
    )
    settings = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "synchronous_commit=off"]
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", home, *settings],
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=home,
            **account,
        )
    try:
        _wait_until_it_answers(server, home)
        yield str(home)
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: the data is thrown away
        server.wait(START_S)
        shutil.rmtree(home)


def _wait_until_it_answers(server: subprocess.Popen[bytes], home: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(host=str(home), user="judge", dbname="postgres").close()
        except psycopg.OperationalError:
            assert server.poll() is None, (home / "server.log").read_text()
            assert time.monotonic() < deadline, (home / "server.log").read_text()
            time.sleep(0.02)
        else:
            return


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of the test's own."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/judge.sqlite3"
    host = request.getfixturevalue("postgresql_server")
    name = "t" + os.urandom(8).hex()
    with psycopg.connect(host=host, user="judge", dbname="postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return f"postgresql://judge@/{name}?host={host}"


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    opened = SqlStore.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def desk(store: SqlStore) -> Desk:
    return Desk(store)
