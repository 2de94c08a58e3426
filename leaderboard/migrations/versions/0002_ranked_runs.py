"""What ranked runs need: sameness of sources, why a job is held, which attempt is confirmed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    sameness = sa.Column("sameness", sa.Text(), nullable=False, server_default="")
    op.add_column("submissions", sameness)
    op.add_column("jobs", sa.Column("hold", sa.Text(), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("confirms", sa.Integer(), nullable=True))
