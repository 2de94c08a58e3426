"""Runners: who judges, what they say of themselves, and whether they may."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "runners",
        sa.Column("token_id", Id, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("first_seen_us", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_us", sa.BigInteger(), nullable=False),
        sa.Column("isolation", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("doctor", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since_us", sa.BigInteger(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("by_token", Id, nullable=True),
        sa.Column("returned_us", sa.BigInteger(), nullable=True),
        sa.Column("failures", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_runners_token_id")),
        sa.ForeignKeyConstraint(["by_token"], ["tokens.id"], name=op.f("fk_runners_by_token")),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_runners")),
    )
    op.create_index(op.f("ix_runners_name"), "runners", ["name"], unique=False)
