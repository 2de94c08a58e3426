"""The tables, the same on SQLite and PostgreSQL.

Times are integers: microseconds since 1970-01-01 UTC (`_us`). Free-form values are JSON text, which
keeps them equal on both engines. Rows are the fold of `events`; nothing is ever deleted.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

# SQLite numbers rows by itself only where the type is exactly INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def to_us(at: datetime) -> int:
    """The stored form of an aware time. Raises TypeError for a naive one."""
    return (at - EPOCH) // MICROSECOND


def from_us(us: int) -> datetime:
    """The time a stored number means: aware, UTC."""
    return EPOCH + us * MICROSECOND


teams = Table(
    "teams",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),  # NFKC and casefolded: what must be unique
    Column("created_us", BigInteger, nullable=False),
    UniqueConstraint("name_key"),
)

users = Table(
    "users",
    metadata,
    Column("id", Id, primary_key=True),
    Column("team_id", Id, ForeignKey("teams.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    UniqueConstraint("name_key"),
)

invites = Table(
    "invites",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("team_id", Id, ForeignKey("teams.id")),
    Column("created_us", BigInteger, nullable=False),
    Column("used_by", Id, ForeignKey("users.id")),
    Column("used_us", BigInteger),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Id, primary_key=True),
    Column("hash", LargeBinary, nullable=False),
    Column("role", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("device", Text),
    Column("user_id", Id, ForeignKey("users.id"), index=True),
    Column("created_us", BigInteger, nullable=False),
    Column("last_used_us", BigInteger),
    Column("revoked_us", BigInteger),
    UniqueConstraint("hash"),
)

# One row for each token whose runner has said hello.
runners = Table(
    "runners",
    metadata,
    Column("token_id", Id, ForeignKey("tokens.id"), primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("first_seen_us", BigInteger, nullable=False),
    Column("last_seen_us", BigInteger, nullable=False),
    Column("isolation", Text, nullable=False),
    # JSON object: reasons, environment, problems, self_test, lost_us
    Column("facts", Text, nullable=False),
    Column("doctor", Text),  # JSON object
    Column("state", Text, nullable=False),
    Column("since_us", BigInteger, nullable=False),
    Column("why", Text, nullable=False),
    Column("by_token", Id, ForeignKey("tokens.id")),
    Column("returned_us", BigInteger),
    Column("failures", Text, nullable=False),  # JSON list of submissions; 0 for a self-test
    Index(None, "name"),
)

problems = Table(
    "problems",
    metadata,
    Column("problem_id", Text),
    Column("version", Integer),
    Column("digest", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("secret_cases", Text, nullable=False),  # JSON list of CaseBody
    Column("opened_us", BigInteger, nullable=False),
    PrimaryKeyConstraint("problem_id", "version"),
)

blobs = Table(
    "blobs",
    metadata,
    Column("digest", LargeBinary, primary_key=True),  # SHA-256 of the content
    Column("content", LargeBinary, nullable=False),
)

submissions = Table(
    "submissions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("team_id", Id, ForeignKey("teams.id"), nullable=False),
    Column("user_id", Id, ForeignKey("users.id"), nullable=False),
    Column("problem_id", Text, nullable=False),
    Column("problem_version", Integer, nullable=False),
    Column("main", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("files", Text, nullable=False),  # JSON list of [name, blob digest in hex]
    Column("received_us", BigInteger, nullable=False),
    Column("sameness", Text, nullable=False, server_default=""),
    Index(None, "team_id", "problem_id", "id"),
    Index(None, "team_id", "id"),
    Index(None, "problem_id", "id"),
)

# Immutable columns of the submission are repeated here so that quotas and boards read one index.
jobs = Table(
    "jobs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("submission_id", Id, ForeignKey("submissions.id"), nullable=False),
    Column("team_id", Id, ForeignKey("teams.id"), nullable=False),
    Column("problem_id", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("received_us", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("charged", Boolean, nullable=False),
    Column("runner", Text),
    Column("lease_us", BigInteger),
    Column("heard_us", BigInteger),
    Column("finished_us", BigInteger),
    Column("stage", Text),
    Column("stage_done", Integer),
    Column("stage_total", Integer),
    Column("hold", Text, nullable=False, server_default=""),  # why it is held
    Column("confirms", Integer),  # the attempt that later ones confirm
    UniqueConstraint("submission_id"),
    CheckConstraint("(state = 'running') = (lease_us IS NOT NULL)", name="lease_while_running"),
)

# Conditions of partial indexes. Literals, not parameters: an engine uses a partial index only where
# it can prove the condition when it plans the statement.
is_running = jobs.c.state == literal_column("'running'")
is_done = jobs.c.state == literal_column("'done'")
is_unfinished = jobs.c.state.in_([literal_column("'queued'"), literal_column("'running'")])
counts_for_quota = text("(charged OR state IN ('queued', 'running'))")


def _partial(name: str, *columns: Column[object], where: object, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


_partial("one_running_job_per_team", jobs.c.team_id, where=is_running, unique=True)
_partial("ix_jobs_unfinished", jobs.c.device, jobs.c.id, where=is_unfinished)
_partial(
    "ix_jobs_done",
    jobs.c.problem_id,
    jobs.c.device,
    jobs.c.mode,
    jobs.c.submission_id,
    where=is_done,
)
_partial("ix_jobs_quota", jobs.c.team_id, jobs.c.mode, jobs.c.received_us, where=counts_for_quota)

# `log` comes last: a reader that does not select it never touches its pages.
outcomes = Table(
    "outcomes",
    metadata,
    Column("job_id", Id, ForeignKey("jobs.id")),
    Column("attempt", Integer),
    Column("verdict", Text, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False),  # JSON of OutcomeBody without its log
    Column("log", LargeBinary, nullable=False),  # UTF-8; bytes, as it may hold NULs
    PrimaryKeyConstraint("job_id", "attempt"),
)

events = Table(
    "events",
    metadata,
    Column("seq", Id, primary_key=True),
    Column("at_us", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),  # JSON object of ids by noun
    Column("body", Text, nullable=False),  # JSON object
    Index(None, "kind", "seq"),
)
