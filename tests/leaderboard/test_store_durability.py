"""Promises of the embedded database under failure: what was answered is on disk."""

from __future__ import annotations

import stat
import subprocess
import sys
from concurrent.futures import wait
from datetime import UTC, datetime
from pathlib import Path

import pytest

from judge.model import Mode, SourceFile
from judge.ports import StoreError
from judge.records import Identity, JobRecord, NewSubmission
from leaderboard.store import SqlStore
from leaderboard.store.engines import open_engines

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

HAND_IN_FOR_EVER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from judge.model import Mode, SourceFile
from judge.records import NewSubmission
from leaderboard.store import SqlStore

now = datetime(2026, 11, 30, 12, tzinfo=UTC)
store = SqlStore.open(sys.argv[1])
who = store.register("ada", None, b"t" * 32, now)

def hand_in(n):
    files = (SourceFile("a.py", b"%d" % n),)
    new = NewSubmission(who.user_id, who.team_id, "topk", 1, "cpu", Mode.TEST, "a.py", "ab" * 32, files, now)
    record = store.add_submission(new, None).result()
    sys.stdout.write(f"{record.submission.id} {n}\\n")
    sys.stdout.flush()

with ThreadPoolExecutor(8) as pool:
    list(pool.map(hand_in, range(1_000_000)))
"""


def test_what_was_answered_is_there_after_the_process_is_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/judge.sqlite3"
    process = subprocess.Popen(
        [sys.executable, "-c", HAND_IN_FOR_EVER, url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(200)]
    process.kill()
    lines += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    process.wait()
    answered = [line.split() for line in lines if line.endswith("\n")]
    assert len(answered) >= 200
    store = SqlStore.open(url)
    for number, text in answered:
        record = store.record(int(number))
        assert record is not None
        assert store.files(int(number))[0].content == text.encode()
        assert store.record_of_job(record.job_id) == record
    received = store.events(["submission.received"], 0, 10**9)
    assert len(received) == len(store.history(None, None, None, 10**9))
    store.close()


def test_the_database_file_is_closed_to_other_accounts(tmp_path: Path) -> None:
    path = tmp_path / "state" / "judge.sqlite3"
    SqlStore.open(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("url", ["sqlite://", "mysql://h/x", "judge.sqlite3", "sqlite:///:memory:"])
def test_a_database_that_cannot_hold_a_contest_is_refused_with_the_remedy(url: str) -> None:
    with pytest.raises(StoreError, match="sqlite:///path/to/file"):
        SqlStore.open(url)


def test_a_password_in_a_refused_url_is_not_repeated() -> None:
    with pytest.raises(StoreError) as caught:
        SqlStore.open("mysql://judge:hunter2@host/db")
    assert "hunter2" not in str(caught.value)


def test_every_commit_waits_for_the_disk(tmp_path: Path) -> None:
    engines = open_engines(f"sqlite:///{tmp_path}/judge.sqlite3")
    with engines.writer.begin() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    engines.dispose()


def test_a_file_that_is_no_database_is_an_error_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "judge.sqlite3"
    path.write_text("this is no database" * 1000)
    with pytest.raises(StoreError):
        SqlStore.open(f"sqlite:///{path}")


def test_a_full_disk_refuses_what_it_cannot_keep_and_loses_nothing_it_took(tmp_path: Path) -> None:
    engines = open_engines(f"sqlite:///{tmp_path}/judge.sqlite3")
    store = SqlStore(engines)
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    who = store.register("ada", None, b"t" * 32, now)
    assert isinstance(who, Identity)

    def limit(pages: int) -> None:
        with engines.writer.connect() as connection:  # the pool's only one, which the writer uses
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    def hand_in(content: bytes) -> JobRecord:
        assert who.user_id is not None
        assert who.team_id is not None
        files = (SourceFile("a.py", content),)
        new = NewSubmission(
            who.user_id, who.team_id, "topk", 1, "cpu", Mode.TEST, "a.py", "ab" * 32, files, now
        )
        record = store.add_submission(new, None).result()
        assert isinstance(record, JobRecord)
        return record

    taken = [hand_in(bytes([n]) * 50_000) for n in range(3)]
    limit(1)  # never below what is there: no further page
    with pytest.raises(StoreError, match="full"):
        hand_in(b"x" * 500_000)
    limit(1_000_000)
    taken.append(hand_in(b"y" * 500_000))
    assert store.history(None, None, None, 99) == tuple(reversed(taken))
    assert len(store.events(["submission.received"], 0, 99)) == 4
    store.close()


def test_a_submission_whose_sender_is_gone_ends_no_writer(tmp_path: Path) -> None:
    store = SqlStore.open(f"sqlite:///{tmp_path}/judge.sqlite3")
    who = store.register("ada", None, b"t" * 32, NOW)
    assert isinstance(who, Identity)
    assert who.user_id is not None
    assert who.team_id is not None
    files = (SourceFile("a.py", b"pass"),)
    new = NewSubmission(
        who.user_id, who.team_id, "topk", 1, "cpu", Mode.TEST, "a.py", "ab" * 32, files, NOW
    )
    futures = [store.add_submission(new, None) for _ in range(200)]
    given_up = {n for n, future in enumerate(futures) if future.cancel()}
    done, _ = wait(futures, timeout=30)
    assert len(done) == 200
    assert len(store.history(None, None, None, 1000)) == 200 - len(given_up)
    assert isinstance(store.add_submission(new, None).result(30), JobRecord)
    store.close()
