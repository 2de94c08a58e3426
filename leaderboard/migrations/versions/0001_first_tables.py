"""First tables: people, problems, submissions, jobs, outcomes, events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "blobs",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_blobs")),
    )
    op.create_table(
        "events",
        sa.Column("seq", Id, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
    )
    op.create_index(op.f("ix_events_kind_seq"), "events", ["kind", "seq"], unique=False)
    op.create_table(
        "problems",
        sa.Column("problem_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("secret_cases", sa.Text(), nullable=False),
        sa.Column("opened_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("problem_id", "version", name=op.f("pk_problems")),
    )
    op.create_table(
        "teams",
        sa.Column("id", Id, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_teams")),
        sa.UniqueConstraint("name_key", name=op.f("uq_teams_name_key")),
    )
    op.create_table(
        "users",
        sa.Column("id", Id, nullable=False),
        sa.Column("team_id", Id, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name=op.f("fk_users_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name_key", name=op.f("uq_users_name_key")),
    )
    op.create_index(op.f("ix_users_team_id"), "users", ["team_id"], unique=False)
    op.create_table(
        "invites",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("team_id", Id, nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("used_by", Id, nullable=True),
        sa.Column("used_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name=op.f("fk_invites_team_id")),
        sa.ForeignKeyConstraint(["used_by"], ["users.id"], name=op.f("fk_invites_used_by")),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_invites")),
    )
    op.create_table(
        "submissions",
        sa.Column("id", Id, nullable=False),
        sa.Column("team_id", Id, nullable=False),
        sa.Column("user_id", Id, nullable=False),
        sa.Column("problem_id", sa.Text(), nullable=False),
        sa.Column("problem_version", sa.Integer(), nullable=False),
        sa.Column("main", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name=op.f("fk_submissions_team_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_submissions_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submissions")),
    )
    op.create_index(
        op.f("ix_submissions_problem_id_id"), "submissions", ["problem_id", "id"], unique=False
    )
    op.create_index(
        op.f("ix_submissions_team_id_id"), "submissions", ["team_id", "id"], unique=False
    )
    op.create_index(
        op.f("ix_submissions_team_id_problem_id_id"),
        "submissions",
        ["team_id", "problem_id", "id"],
        unique=False,
    )
    op.create_table(
        "tokens",
        sa.Column("id", Id, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=True),
        sa.Column("user_id", Id, nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("last_used_us", sa.BigInteger(), nullable=True),
        sa.Column("revoked_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_index(op.f("ix_tokens_user_id"), "tokens", ["user_id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", Id, nullable=False),
        sa.Column("submission_id", Id, nullable=False),
        sa.Column("team_id", Id, nullable=False),
        sa.Column("problem_id", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("received_us", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("charged", sa.Boolean(), nullable=False),
        sa.Column("runner", sa.Text(), nullable=True),
        sa.Column("lease_us", sa.BigInteger(), nullable=True),
        sa.Column("heard_us", sa.BigInteger(), nullable=True),
        sa.Column("finished_us", sa.BigInteger(), nullable=True),
        sa.Column("stage", sa.Text(), nullable=True),
        sa.Column("stage_done", sa.Integer(), nullable=True),
        sa.Column("stage_total", sa.Integer(), nullable=True),
        sa.CheckConstraint(
            "(state = 'running') = (lease_us IS NOT NULL)", name=op.f("ck_jobs_lease_while_running")
        ),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submissions.id"], name=op.f("fk_jobs_submission_id")
        ),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name=op.f("fk_jobs_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("submission_id", name=op.f("uq_jobs_submission_id")),
    )
    op.create_index(
        "ix_jobs_done",
        "jobs",
        ["problem_id", "device", "mode", "submission_id"],
        unique=False,
        sqlite_where=sa.text("state = 'done'"),
        postgresql_where=sa.text("state = 'done'"),
    )
    op.create_index(
        "ix_jobs_quota",
        "jobs",
        ["team_id", "mode", "received_us"],
        unique=False,
        sqlite_where=sa.text("(charged OR state IN ('queued', 'running'))"),
        postgresql_where=sa.text("(charged OR state IN ('queued', 'running'))"),
    )
    op.create_index(
        "ix_jobs_unfinished",
        "jobs",
        ["device", "id"],
        unique=False,
        sqlite_where=sa.text("state IN ('queued', 'running')"),
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_index(
        "one_running_job_per_team",
        "jobs",
        ["team_id"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "outcomes",
        sa.Column("job_id", Id, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("log", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_outcomes_job_id")),
        sa.PrimaryKeyConstraint("job_id", "attempt", name=op.f("pk_outcomes")),
    )
