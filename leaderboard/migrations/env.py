"""Runs the revisions on the connection that `leaderboard.store.engines.migrate` hands over."""

from alembic import context

from leaderboard.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
