"""Backups: whatever the engine, one SQLite file that `SqlStore.open` can open."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Connection, create_engine, insert, select

from judge.ports import StoreError
from leaderboard.schema import metadata
from leaderboard.store.engines import Engines, migrate

ROWS_AT_ONCE = 500


def backup(engines: Engines, path: str) -> int:
    """Write a consistent copy to a new file and give its size in bytes.

    The file appears under its name only when it is whole. Writers are not held up.
    Raises StoreError where the file exists.
    """
    target = Path(path)
    if target.exists():
        raise StoreError(f"{target} exists; name a new file for the backup.")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    if engines.reader.dialect.name == "sqlite":
        with engines.reader.connect() as connection:
            connection.exec_driver_sql("PRAGMA query_only=OFF")  # it forbids writing the copy too
            try:
                connection.exec_driver_sql("VACUUM INTO ?", (str(part),))
            finally:
                connection.exec_driver_sql("PRAGMA query_only=ON")
    else:
        snapshot = engines.reader.execution_options(isolation_level="REPEATABLE READ")
        with snapshot.begin() as connection:
            _copy(connection, part)
    descriptor = os.open(part, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    part.rename(target)
    return target.stat().st_size


def _copy(source: Connection, part: Path) -> None:
    """Copy every table; a parent comes before the rows that point to it."""
    engine = create_engine(f"sqlite:///{part}")
    try:
        migrate(engine)
        with engine.begin() as target:
            for table in metadata.sorted_tables:
                rows = source.execution_options(yield_per=ROWS_AT_ONCE).execute(select(table))
                for chunk in rows.mappings().partitions():
                    target.execute(insert(table), [dict(row) for row in chunk])
    finally:
        engine.dispose()
