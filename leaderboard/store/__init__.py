"""The store: everything that must survive, on SQLite or PostgreSQL."""

from leaderboard.store.sql import SqlStore

__all__ = ["SqlStore"]
