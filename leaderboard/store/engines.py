"""Connections: one engine for the writer, one for readers, and the schema brought up to date.

Every write, on both databases, holds one lock from its first statement to its commit: SQLite's by
BEGIN IMMEDIATE, PostgreSQL's by an advisory lock. So writes of several servers on one database
follow one another too, and events are visible in the order of their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from judge.ports import StoreError

BUSY_TIMEOUT_MS = 10_000
POSTGRESQL_WRITER_LOCK = 0x6B65726E  # any number, the same for every server of one database
MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"


@dataclass(frozen=True, slots=True)
class Engines:
    """Two ways into one database. Connections of `reader` see each statement by itself."""

    writer: Engine
    reader: Engine

    def dispose(self) -> None:
        self.reader.dispose()
        self.writer.dispose()


def open_engines(url: str) -> Engines:
    """Engines for a database URL, its schema migrated. Raises StoreError for any other database."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(f"{_hint()} The URL given cannot be read.") from error
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return _sqlite(parsed)
    if backend == "postgresql":
        return _postgresql(parsed)
    raise StoreError(f"{_hint()} Got {parsed.render_as_string(hide_password=True)!r}.")


def migrate(engine: Engine) -> None:
    """Bring the schema to the newest revision, or leave it untouched where it is that already."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _hint() -> str:
    return "The database must be sqlite:///path/to/file or postgresql://user@host/name."


def _sqlite(url: URL) -> Engines:
    path = Path(str(url.database))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    writer = create_engine(url, pool_size=1, max_overflow=0)
    reader = create_engine(url, pool_size=8, max_overflow=64)
    event.listen(writer, "connect", _prepare_sqlite_writer)
    event.listen(reader, "connect", _prepare_sqlite_reader)
    event.listen(writer, "begin", _begin_immediate)
    migrate(writer)
    return Engines(writer, reader)


def _postgresql(url: URL) -> Engines:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    writer = create_engine(url, pool_size=1, max_overflow=0, pool_pre_ping=True)
    reader = create_engine(
        url, pool_size=8, max_overflow=24, pool_pre_ping=True, isolation_level="AUTOCOMMIT"
    )
    event.listen(writer, "begin", _take_writer_lock)
    migrate(writer)
    return Engines(writer, reader)


def _prepare_sqlite_writer(dbapi: Any, _record: object) -> None:
    dbapi.isolation_level = None  # the driver must not begin transactions by itself
    dbapi.execute("PRAGMA journal_mode=WAL")
    dbapi.execute("PRAGMA synchronous=FULL")
    dbapi.execute("PRAGMA foreign_keys=ON")
    dbapi.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")


def _prepare_sqlite_reader(dbapi: Any, _record: object) -> None:
    dbapi.isolation_level = None
    dbapi.execute("PRAGMA query_only=ON")
    dbapi.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _take_writer_lock(connection: Connection) -> None:
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({POSTGRESQL_WRITER_LOCK})")
