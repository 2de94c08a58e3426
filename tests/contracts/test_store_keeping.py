"""Promises about history, backups, restarts and failures."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select

from judge.model import Mode, Role, SourceFile, Verdict
from judge.ports import StoreError
from leaderboard.schema import metadata
from leaderboard.store import SqlStore
from leaderboard.store.engines import open_engines

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_the_migrations_make_exactly_the_tables_of_the_schema(database_url: str) -> None:
    engines = open_engines(database_url)
    with engines.reader.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engines.dispose()


def test_events_come_in_order_by_kind_and_up_to_a_time(store: SqlStore, desk: Any) -> None:
    first = store.append("intake.paused", {}, {"reason": "lunch — «ü»", "n": [1, None]}, desk.now)
    second = store.append("announcement.made", {"user": 3}, {}, desk.later(1))
    third = store.append("intake.opened", {}, {}, desk.later(1))
    assert store.events(None, 0, 10) == (first, second, third)
    assert store.events(None, 0, 2) == (first, second)
    assert store.events(None, first.seq, 10) == (second, third)
    assert store.events(["intake.paused", "intake.opened"], 0, 10) == (first, third)
    assert store.events([], 0, 10) == ()
    assert store.events(None, 0, 10, until=second.at) == (first, second)
    assert first.body["reason"] == "lunch — «ü»"
    assert first.at.tzinfo is not None


def test_everything_is_there_after_a_restart(store: SqlStore, desk: Any, database_url: str) -> None:
    token = os.urandom(32)
    store.add_token(token, Role.RUNNER, "r1", desk.now, device="cpu")
    record = desk.submit()
    desk.claim(record.job_id)
    desk.finish(record.job_id, 1, Verdict.TIME_LIMIT)
    before = (store.history(None, None, None, 9), store.events(None, 0, 99), store.tokens(None))
    again = SqlStore.open(database_url)
    after = (again.history(None, None, None, 9), again.events(None, 0, 99), again.tokens(None))
    assert after == before
    assert again.identify(token) == store.identify(token)
    again.close()


def test_a_backup_opens_as_a_store_and_holds_everything(
    store: SqlStore, desk: Any, tmp_path: Path, database_url: str
) -> None:
    records = [desk.submit(files=(SourceFile("a.py", os.urandom(99)),)) for _ in range(3)]
    desk.claim(records[0].job_id)
    desk.finish(records[0].job_id, 1)
    desk.claim(records[1].job_id)
    path = tmp_path / "backups" / "copy.sqlite3"
    assert store.backup(str(path)) == path.stat().st_size > 0

    source, copy = open_engines(database_url), open_engines(f"sqlite:///{path}")
    with source.reader.connect() as there, copy.reader.connect() as here:
        for table in metadata.sorted_tables:
            order = select(table).order_by(*table.primary_key)
            assert there.execute(order).all() == here.execute(order).all(), table.name
    source.dispose()
    copy.dispose()
    opened = SqlStore.open(f"sqlite:///{path}")
    assert opened.history(None, None, None, 9) == store.history(None, None, None, 9)
    assert opened.claim(records[2].job_id, "r", desk.now, desk.later(9)) != records[2]
    opened.close()


def test_a_backup_made_while_others_write_is_consistent(
    store: SqlStore, desk: Any, tmp_path: Path
) -> None:
    who = desk.person()

    def hand_in(n: int) -> None:
        desk.submit(who)
        if n == 20:
            store.backup(str(tmp_path / "copy.sqlite3"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hand_in, range(120)))
    copy = SqlStore.open(f"sqlite:///{tmp_path}/copy.sqlite3")
    received = copy.events(["submission.received"], 0, 999)
    kept = copy.history(None, None, None, 999)
    assert 0 < len(kept) == len(received) <= 120
    assert all(copy.files(record.submission.id) for record in kept)
    copy.close()


def test_a_backup_overwrites_nothing(store: SqlStore, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text("precious")
    with pytest.raises(StoreError, match="exists"):
        store.backup(str(path))
    assert path.read_text() == "precious"


def test_readers_wait_for_no_writer(store: SqlStore, desk: Any, database_url: str) -> None:
    record = desk.submit()
    other = open_engines(database_url)
    with other.writer.begin():
        assert store.record(record.submission.id) == record
        assert store.unfinished() == (record,)
    other.dispose()


def test_two_stores_on_one_database_take_turns_and_lose_nothing(
    store: SqlStore, desk: Any, database_url: str
) -> None:
    other = SqlStore.open(database_url)
    who = desk.person()

    def hand_in(n: int) -> object:
        return (store if n % 2 else other).add_submission(desk.new(who), (10, 3600)).result()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hand_in, range(40)))
    assert len(store.history(None, None, None, 99)) == 10
    job_id = store.unfinished()[0].job_id
    until = desk.now + timedelta(seconds=9)
    claims = [s.claim(job_id, "r", desk.now, until) for s in (store, other)]
    assert [getattr(claim, "code", "won") for claim in claims] == ["won", "job_leased"]
    other.close()


def test_a_closed_store_says_so(database_url: str, tmp_path: Path) -> None:
    store = SqlStore.open(database_url)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.add_invites([b"x"], None, None)  # type: ignore[arg-type]


def test_a_naive_time_is_refused_before_anything_is_written(store: SqlStore, desk: Any) -> None:
    with pytest.raises(TypeError):
        store.append("x", {}, {}, desk.now.replace(tzinfo=None))
    assert store.events(None, 0, 9) == ()


def test_an_empty_store_answers_everything(store: SqlStore) -> None:
    assert store.unfinished() == ()
    assert store.finished("topk", "cpu", Mode.TEST) == ()
    assert store.tokens(None) == ()


def test_a_store_whose_connections_were_cut_connects_again(postgresql_server: str) -> None:
    name = "t" + os.urandom(8).hex()
    with psycopg.connect(
        host=postgresql_server, user="judge", dbname="postgres", autocommit=True
    ) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        store = SqlStore.open(f"postgresql://judge@/{name}?host={postgresql_server}")
        store.add_token(b"a" * 32, Role.RUNNER, "r1", NOW, device="cpu")
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        store.add_token(b"b" * 32, Role.RUNNER, "r2", NOW, device="cpu")
        assert len(store.tokens(None)) == 2
        store.close()
